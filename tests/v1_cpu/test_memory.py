"""No T x T matrix: the peak of a long prefill, measured in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys, torch, v1_cpu
tokens, kernel = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(int(sys.argv[3]))
dtype = torch.bfloat16
heads, kv_heads, size, block = 32, 8, 128, 16
query = torch.randn(tokens, heads, size).to(dtype)
cache = v1_cpu.allocate_kv_cache(tokens // block, block, kv_heads, size, dtype)
cache.normal_()
table = torch.arange(tokens // block, dtype=torch.int32)[None]
def run(n):
    starts, lens = torch.tensor([0, n], dtype=torch.int32), torch.tensor([n], dtype=torch.int32)
    return v1_cpu.paged_attention(query[:n], cache, query_start_loc=starts, seq_lens=lens, block_table=table,
                                  scale=0.09, kernel=kernel)
run(64)  # thread pools and libraries
given = sum(t.numel() * t.element_size() for t in (query, cache))
with open("/proc/self/statm") as f:
    before = int(f.read().split()[1]) * resource.getpagesize()
open("/proc/self/clear_refs", "w").write("5")  # the peak starts here
run(tokens)
with open("/proc/self/status") as f:
    peak = next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))
print(given, peak - before)
"""


@pytest.mark.parametrize(
    ("tokens", "threads"),
    [
        pytest.param(2048, 1, id="2048 tokens, 1 thread"),
        pytest.param(8192, 1, id="8192 tokens, 1 thread", marks=pytest.mark.slow),
        pytest.param(8192, 2, id="8192 tokens, 2 threads", marks=pytest.mark.slow),
    ],
)
def test_prefill_takes_half_its_tensors_and_64_megabytes_at_most(tokens: int, threads: int, kernel: str) -> None:
    """The peak, tensors given included, is below 1.5 times the tensors given plus 64 MB; the output is part of it."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tokens), kernel, str(threads)],
        env=env,
        text=True,
        capture_output=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    given, grown = map(int, done.stdout.split())
    print(f"given {given / 2**20:.0f} MiB, grown by {grown / 2**20:.0f} MiB")
    assert given + grown < 1.5 * given + 64e6
