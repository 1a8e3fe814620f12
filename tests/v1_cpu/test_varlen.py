"""Attention over dense keys: encoders and cross-attention, and merging of two attention states."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from batches import BOUNDS, check, lse_error, make_batch, worst_error
from reference import Rules, attend
from test_grid import FEATURES, rules_for

import v1_cpu

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
MIXES = {
    "encoder": [(5, 5), (70, 70), (1, 1), (33, 33)],
    "cross": [(1, 40), (7, 3), (20, 151)],
    "nothing to see": [(4, 0), (0, 9), (3, 5), (0, 0)],
    "nobody": [],
}
SHAPES = [(4, 4, 16, 16), (8, 2, 64, 64), (6, 1, 80, 48), (2, 1, 576, 512)]
PLAIN = {name: f for name, f in FEATURES.items() if not {"attention_chunk_size", "tree_mask"} & set(f)}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("mix", "shape", "feature"), list(itertools.product(MIXES, SHAPES, PLAIN)), ids=str)
def test_agrees_with_the_formula(
    mix: str, shape: tuple[int, int, int, int], feature: str, dtype: torch.dtype, kernel: str
) -> None:
    lens, (heads, kv_heads, size, size_v) = MIXES[mix], shape
    gen = torch.Generator().manual_seed(7)
    query = torch.randn(sum(q for q, _ in lens) + 2, heads, size, generator=gen).to(dtype)
    key = torch.randn(sum(s for _, s in lens) + 1, kv_heads, size, generator=gen).to(dtype)
    value = torch.randn(key.shape[0], kv_heads, size_v, generator=gen).to(dtype)
    starts = torch.tensor([0] + [q for q, _ in lens]).cumsum(0).int()
    kv_starts = torch.tensor([0] + [s for _, s in lens]).cumsum(0).int()
    rules = rules_for(PLAIN[feature], lens, heads, size, seed=2)
    out, lse = v1_cpu.varlen_attention(
        query,
        key,
        value,
        query_start_loc=starts,
        kv_start_loc=kv_starts,
        scale=rules.scale,
        causal=rules.causal,
        sliding_window=rules.sliding_window,
        alibi_slopes=rules.alibi_slopes,
        logits_soft_cap=rules.logits_soft_cap,
        sinks=rules.sinks,
        return_lse=True,
        kernel=kernel,
    )
    assert out.shape == (query.shape[0], heads, size_v)
    tokens = int(starts[-1])
    assert not out[tokens:].any()
    for b in range(len(lens)):
        rows, keys = slice(int(starts[b]), int(starts[b + 1])), slice(int(kv_starts[b]), int(kv_starts[b + 1]))
        wanted, wanted_lse = attend(query[rows], key[keys], value[keys], rules, b)
        assert worst_error(out[rows], wanted) <= BOUNDS[dtype]
        assert lse_error(lse[:, rows], wanted_lse) <= (1e-4 if dtype is torch.float32 else 1e-3)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("sink_in", ["neither", "first"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_two_halves_merge_to_the_whole(causal: bool, sink_in: str, dtype: torch.dtype, kernel: str) -> None:
    """Split use: the first keys without causality, the rest with the request's own."""
    heads, kv_heads, size, queries, first, rest = 4, 2, 32, 5, 11, 9
    gen = torch.Generator().manual_seed(3)
    query = torch.randn(queries, heads, size, generator=gen).to(dtype)
    key, value = (torch.randn(first + rest, kv_heads, size, generator=gen).to(dtype) for _ in range(2))
    sinks = torch.randn(heads, generator=gen) if sink_in == "first" else None
    starts = torch.tensor([0, queries], dtype=torch.int32)

    def part(rows: slice, causal: bool, sinks: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        count = len(range(*rows.indices(first + rest)))
        return v1_cpu.varlen_attention(
            query, key[rows], value[rows], query_start_loc=starts,
            kv_start_loc=torch.tensor([0, count], dtype=torch.int32),
            scale=0.2, causal=causal, sinks=sinks, return_lse=True, kernel=kernel,
        )  # fmt: skip

    merged, lse = v1_cpu.merge_attention_states(
        *part(slice(0, first), False, sinks), *part(slice(first, None), causal, None)
    )
    wanted, wanted_lse = attend(query, key, value, Rules(scale=0.2, causal=causal, sinks=sinks), 0)
    assert worst_error(merged, wanted) <= BOUNDS[dtype]
    assert merged.dtype is dtype
    assert lse_error(lse, wanted_lse) <= 1e-4


def test_merging_with_a_part_that_saw_nothing() -> None:
    out = torch.randn(3, 2, 4)
    lse = torch.randn(2, 3)
    nothing, never = torch.zeros(3, 2, 4), torch.full((2, 3), -torch.inf)
    for merged, merged_lse in (
        v1_cpu.merge_attention_states(out, lse, nothing, never),
        v1_cpu.merge_attention_states(nothing, never, out, lse),
    ):
        assert torch.allclose(merged, out)
        assert torch.equal(merged_lse, lse)
    merged, merged_lse = v1_cpu.merge_attention_states(nothing, never, nothing, never)
    assert not merged.any()
    assert torch.equal(merged_lse, never)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"out_b": torch.zeros(3, 2, 5)}, "out_b: shape", id="shape"),
        pytest.param({"lse_b": torch.zeros(3, 2)}, "lse_b: shape", id="lse the wrong way round"),
        pytest.param({"out_b": torch.zeros(3, 2, 4).half()}, "out_b: dtype", id="dtype"),
        pytest.param({"lse_a": torch.zeros(2, 3).double()}, "lse_a: dtype", id="lse dtype"),
    ],
)
def test_merge_refuses(change: dict[str, Any], words: str) -> None:
    given = {
        "out_a": torch.zeros(3, 2, 4),
        "lse_a": torch.zeros(2, 3),
        "out_b": torch.zeros(3, 2, 4),
        "lse_b": torch.zeros(2, 3),
    }
    with pytest.raises((TypeError, ValueError), match=words):
        v1_cpu.merge_attention_states(**{**given, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            {"key": torch.zeros(4, 3, 8), "value": torch.zeros(4, 3, 8)}, "key: shape", id="heads do not divide"
        ),
        pytest.param({"key": torch.zeros(4, 2, 9)}, "head size 8", id="another head size"),
        pytest.param({"value": torch.zeros(5, 2, 8)}, "value: shape", id="more values than keys"),
        pytest.param(
            {"key": torch.zeros(4, 2, 8).half(), "value": torch.zeros(4, 2, 8).half()}, "key: dtype", id="dtype"
        ),
        pytest.param(
            {"kv_start_loc": torch.tensor([0, 5], dtype=torch.int32)}, r"kv_start_loc\[-1\] = 5", id="past the keys"
        ),
        pytest.param(
            {"kv_start_loc": torch.tensor([0, 2, 4], dtype=torch.int32)}, "kv_start_loc: shape", id="other requests"
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([1, 4], dtype=torch.int32)}, r"query_start_loc\[0\] = 1", id="not from 0"
        ),
        pytest.param({"causal": 1}, "causal: int 1", id="causal is no bool"),
        pytest.param({"sliding_window": 0}, "sliding_window: 0", id="empty window"),
    ],
)
def test_varlen_refuses(change: dict[str, Any], words: str) -> None:
    starts = torch.tensor([0, 4], dtype=torch.int32)
    given = {
        "query": torch.zeros(4, 4, 8), "key": torch.zeros(4, 2, 8), "value": torch.zeros(4, 2, 8),
        "query_start_loc": starts, "kv_start_loc": starts, "scale": 1.0, "causal": True, **change,
    }  # fmt: skip
    tensors = [given.pop(name) for name in ("query", "key", "value")]
    with pytest.raises((TypeError, ValueError), match=words):
        v1_cpu.varlen_attention(*tensors, **given)


@pytest.mark.parametrize(
    "lens",
    [
        pytest.param([], id="no request"),
        pytest.param([(0, 0)], id="a request of nothing"),
        pytest.param([(0, 20), (0, 3)], id="contexts without queries"),
        pytest.param([(3, 0), (1, 8)], id="a request with no key"),
        pytest.param([(9, 4), (2, 1)], id="more queries than keys"),
    ],
)
@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(Rules(0.3), id="causal"),
        pytest.param(Rules(0.3, causal=False), id="not causal"),
        pytest.param(Rules(0.3, sinks=torch.tensor([1.0, -1.0, 0.0, 3.0])), id="sinks"),
        pytest.param(Rules(0.3, sliding_window=2), id="window"),
        pytest.param(Rules(0.3, attention_chunk_size=3), id="chunks"),
    ],
)
def test_paged_edges(lens: list[tuple[int, int]], rules: Rules, kernel: str) -> None:
    check(make_batch(lens, padding=3), rules, kernel)
