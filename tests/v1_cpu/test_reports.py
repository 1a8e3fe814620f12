"""Public reports of CPU attention going wrong: each is a test in this folder, or a row of the table."""

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
from v1_cpu import capabilities

ROOT = Path(__file__).parents[2]


def test_a_window_with_a_short_prompt_through_every_path(kernel: str) -> None:
    """vllm #19494: a window of 4096 and a prompt of 6 tokens stopped in an assertion of the chunked path."""
    for lens in ([(6, 6)], [(3, 6)], [(6, 6), (1, 9)]):
        check(make_batch(lens, kernel=kernel), Rules(scale=0.2, sliding_window=4096), kernel)


def test_the_window_is_exact_inside_a_block(kernel: str) -> None:
    """vllm #27650: dropping whole blocks of 16 let position 40 see up to 15 tokens more than its window of 20."""
    batch = make_batch([(1, 41)], block_size=16, kernel=kernel)
    plain = {"query_start_loc": batch.query_start_loc, "seq_lens": batch.seq_lens, "block_table": batch.block_table}
    out = [
        v1_cpu.paged_attention(batch.query, cache, **plain, scale=0.2, sliding_window=20, kernel=kernel)
        for cache in (batch.kv_cache, hidden(batch.kv_cache, batch.block_table, 21))
    ]
    assert torch.equal(out[0], out[1]), "keys 0 to 20 are outside the window of position 40"
    changed = hidden(batch.kv_cache, batch.block_table, 22)
    inside = v1_cpu.paged_attention(batch.query, changed, **plain, scale=0.2, sliding_window=20, kernel=kernel)
    assert not torch.allclose(out[0], inside), "key 21 is inside"


def hidden(cache: torch.Tensor, table: torch.Tensor, tokens: int) -> torch.Tensor:
    """The cache with the first tokens of the first request replaced."""
    cache = cache.clone()
    for t in range(tokens):
        cache[table[0, t // 16], :, t % 16] = 9.0
    return cache


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=lambda d: str(d)[6:])
def test_a_dtype_stays_what_it_is(dtype: torch.dtype, kernel: str) -> None:
    """vllm #12794: float16 silently became bfloat16."""
    batch = make_batch([(2, 9)], dtype=dtype, kernel=kernel)
    out = v1_cpu.paged_attention(batch.query, batch.kv_cache, **batch.tensors, scale=0.2, kernel=kernel)
    assert out.dtype is batch.kv_cache.dtype is dtype
    other = torch.bfloat16 if dtype is not torch.bfloat16 else torch.float16
    with pytest.raises(TypeError, match="kv_cache: dtype"):
        v1_cpu.paged_attention(batch.query.to(other), batch.kv_cache, **batch.tensors, scale=0.2, kernel=kernel)


def test_the_import_asks_nothing_of_the_machine() -> None:
    """vllm #19121: the CPU worker looked into /sys, which a Mac has not."""
    code = (
        "import sys, torch\n"
        "seen = []\n"
        "sys.addaudithook(lambda e, a: seen.append((e, str(a[0])))\n"
        "    if e in ('open', 'ctypes.dlopen', 'subprocess.Popen', 'os.system') else None)\n"
        "import v1_cpu, v1_cpu.backend, v1_cpu.attention\n"
        "print([s for s in seen if s[0] != 'open' or s[1].startswith(('/sys', '/proc')) or 'numa' in s[1]])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, text=True, capture_output=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_table_says_for_every_feature_what_each_generation_does() -> None:
    rows = capabilities.table()
    assert len({r.id for r in rows}) == len(rows)
    for row in rows:
        assert all(getattr(row, column) for column in capabilities.COLUMNS), row.id


def test_the_page_is_the_table() -> None:
    written = (ROOT / "docs" / "capabilities.md").read_text(encoding="utf-8")
    assert written == capabilities.page(), "run: python -m v1_cpu.capabilities > docs/capabilities.md"


REPORTS = [
    "27034", "25630", "26096", "19494", "27650", "20412", "39065", "17225", "12794", "20014", "30062", "17494", "14741",
    "31643", "42740", "14320", "intel/ipex-llm#12960", "14701", "17252", "25166", "10556", "32651", "43240", "19121",
]  # fmt: skip


@pytest.mark.parametrize("report", REPORTS)
def test_every_report_is_a_test_or_a_row(report: str) -> None:
    in_table = any(report in row.reports for row in capabilities.table())
    in_tests = any(f"#{report}" in p.read_text(encoding="utf-8") for p in Path(__file__).parent.glob("test_*.py"))
    assert in_table or in_tests
