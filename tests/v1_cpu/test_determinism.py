"""The same bits from run to run; any number of threads (vllm #32651) and narrower machines (vllm #17252)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from batches import check, make_batch
from reference import Rules

import v1_cpu

LENS = [(1, 700), (130, 400), (1, 33), (60, 60), (4, 90)]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
def test_any_number_of_threads_gives_right_and_repeatable_results(
    threads: int, dtype: torch.dtype, kernel: str
) -> None:
    torch.set_num_threads(threads)
    batch = make_batch(LENS, heads=8, kv_heads=2, head_size=64, dtype=dtype, padding=1, kernel=kernel)
    check(batch, Rules(scale=0.125), kernel)
    runs = [
        v1_cpu.paged_attention(
            batch.query, batch.kv_cache, **batch.tensors, scale=0.125, return_lse=True, kernel=kernel
        )
        for _ in range(4)
    ]
    for out, lse in runs[1:]:
        assert torch.equal(out, runs[0][0])
        assert torch.equal(lse, runs[0][1])


def test_a_request_does_not_feel_its_neighbours(kernel: str) -> None:
    """The rows of one request are right whatever else is in the batch."""
    together = make_batch(LENS, heads=4, kv_heads=2, head_size=32, kernel=kernel)
    out = v1_cpu.paged_attention(together.query, together.kv_cache, **together.tensors, scale=0.2, kernel=kernel)
    starts = together.query_start_loc.tolist()
    for b in range(len(LENS)):
        rows = slice(starts[b], starts[b + 1])
        alone = v1_cpu.paged_attention(
            together.query[rows],
            together.kv_cache,
            query_start_loc=torch.tensor([0, starts[b + 1] - starts[b]], dtype=torch.int32),
            seq_lens=together.seq_lens[b : b + 1],
            block_table=together.block_table[b : b + 1],
            scale=0.2,
            kernel=kernel,
        )
        assert torch.allclose(alone, out[rows], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("capability", ["default", "avx2"])
def test_a_machine_with_less_than_avx512(capability: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from batches import check, make_batch; from reference import Rules\n"
        "import torch\n"
        "for d in (torch.float32, torch.bfloat16, torch.float16):\n"
        "    check(make_batch([(1, 40), (9, 20)], dtype=d, kernel='torch'), Rules(0.2, sliding_window=11), 'torch')\n"
        "print(torch.backends.cpu.get_cpu_capability())"
    )
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": str(here.parents[1]), "ATEN_CPU_CAPABILITY": capability}
    done = subprocess.run(
        [sys.executable, "-c", code, str(here)], env=env, text=True, capture_output=True, timeout=180, check=False
    )
    assert done.stdout.strip().lower() in {capability, "no avx"}, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2", "32"])
def test_omp_num_threads_from_outside(threads: str) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from batches import check, make_batch; from reference import Rules\n"
        "check(make_batch([(1, 600), (90, 200)], heads=8), Rules(0.2), None); print('right')"
    )
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": str(here.parents[1]), "OMP_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", code, str(here)], env=env, text=True, capture_output=True, timeout=300, check=False
    )
    assert done.stdout.strip() == "right", done.stderr
