"""docs/ipex.md's table is the kernel's rule, and each of its rows is true."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from batches import BOUNDS, expected, make_batch, worst_error
from ipex_cases import PLAIN, ROWS, Watch, run, table
from reference import Rules

from v1_cpu.kernels.ipex_kernel import route

PAGE = Path(__file__).parents[3] / "docs/ipex.md"
CACHES = {torch.float8_e5m2: "fp8_e5m2", torch.float8_e4m3fn: "fp8_e4m3"}
PHASES = {"decode": [(1, 70), (1, 9)], "prefill": [(40, 70), (9, 9)]}


def test_the_table_is_the_rule() -> None:
    found = re.search(r"<!-- table -->\n(.*)\n<!-- end of table -->", PAGE.read_text(encoding="utf-8"), re.S)
    assert found and found[1] == table(), f"docs/ipex.md: the table must be\n{table()}"


def row_is_true(row: str, phase: str, watch: Watch) -> None:
    """A batch as the row says is computed by whom the row says, and rightly."""
    asked = replace(PLAIN, **ROWS[row], **{"decodes" if phase == "decode" else "prefills": True})
    lens = PHASES[phase] if not asked.keyless else [(3, 1), (3, 0)] if phase == "prefill" else [(1, 0), (1, 5)]
    heads = 4
    batch = make_batch(
        lens, heads=heads, head_size=asked.head_size, head_size_v=asked.head_size_v, block_size=asked.block_size,
        dtype=asked.dtype, kv_cache_dtype=CACHES.get(asked.cache_dtype, "auto"), v_scale=asked.v_scale, kernel="ipex",
    )  # fmt: skip
    rules = Rules(
        scale=0.2,
        causal=asked.causal,
        sliding_window=asked.sliding_window or None,
        attention_chunk_size=asked.attention_chunk_size or None,
        alibi_slopes=torch.linspace(0.1, 0.4, heads) if asked.alibi else None,
        logits_soft_cap=1.5 if asked.soft_cap else None,
        sinks=torch.linspace(-1, 1, heads) if asked.sinks else None,
        tree_mask=torch.ones(len(batch.query), max(q for q, _ in lens), dtype=torch.bool) if asked.tree_mask else None,
    )
    watch.calls.clear()
    out, _ = run(batch, rules, "ipex", asked.lse)
    assert set(watch.calls) == ({"ipex"} if route(asked) is None else {"own"})
    assert worst_error(out, expected(batch, rules)[0]) <= BOUNDS[asked.dtype]


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_true_of_the_standin(row: str, phase: str, standin: Watch) -> None:
    row_is_true(row, phase, standin)


@pytest.mark.ipex
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_true_of_ipex(row: str, phase: str, real: Watch) -> None:
    row_is_true(row, phase, real)
