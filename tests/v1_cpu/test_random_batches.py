"""Batches that hypothesis makes: any sizes, any mix of requests, any features together."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from batches import check, make_batch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import Rules

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, print_blob=True)


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(query_len, seq_len): decodes, chunks, prefills, idle ones, ones with more queries than keys."""
    lens = []
    for _ in range(draw(st.integers(0, 6))):
        query_len = draw(st.sampled_from([0, 1, 1, 1, 2, 5, 16, 17, 40]))
        extra = draw(st.sampled_from([0, 0, 1, 3, 15, 16, 31, 90, -1]))
        lens.append((query_len, max(0, query_len + extra)))
    return lens


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[tuple[int, int]], dict[str, Any], dict[str, Any], int]:
    """(requests, sizes, features, seed)"""
    kv_heads = draw(st.sampled_from([1, 2, 3]))
    size = draw(st.sampled_from([8, 16, 24, 33, 64]))
    sizes = {
        "heads": kv_heads * draw(st.sampled_from([1, 2, 3, 4])),
        "kv_heads": kv_heads,
        "head_size": size,
        "head_size_v": draw(st.sampled_from([size, size, 8, 40])),
        "block_size": draw(st.sampled_from([1, 3, 4, 16, 32])),
        "dtype": draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16])),
        "kv_cache_dtype": draw(st.sampled_from(["auto", "auto", "auto", "fp8_e4m3", "fp8_e5m2"])),
        "padding": draw(st.sampled_from([0, 0, 3])),
    }
    causal: bool | str = draw(st.sampled_from([True, True, False, "each"]))
    features = {
        "causal": causal,
        "sliding_window": draw(st.sampled_from([None, None, 1, 2, 7, 16, 33])),
        "attention_chunk_size": draw(st.sampled_from([None, None, None, 1, 5, 16])),
        "alibi": draw(st.booleans()),
        "logits_soft_cap": draw(st.sampled_from([None, None, 0.7, 20.0])),
        "sinks": draw(st.booleans()),
        "tree": causal is True and draw(st.integers(0, 3)) == 0,
    }
    return draw(requests()), sizes, features, draw(st.integers(0, 2**16))


def attempt(case: tuple[list[tuple[int, int]], dict[str, Any], dict[str, Any], int], kernel: str) -> None:
    lens, sizes, features, seed = case
    gen = torch.Generator().manual_seed(seed)
    batch = make_batch(lens, seed=seed, kernel=kernel, **sizes)
    heads, causal = sizes["heads"], features["causal"]
    rules = Rules(
        scale=sizes["head_size"] ** -0.5,
        causal=torch.rand(len(lens), generator=gen) < 0.5 if causal == "each" else causal,
        sliding_window=features["sliding_window"],
        attention_chunk_size=features["attention_chunk_size"],
        alibi_slopes=torch.rand(heads, generator=gen) if features["alibi"] else None,
        logits_soft_cap=features["logits_soft_cap"],
        sinks=torch.randn(heads, generator=gen) if features["sinks"] else None,
    )
    if features["tree"]:
        tokens, widest = sum(q for q, _ in lens), max((q for q, _ in lens), default=0)
        rules.tree_mask = torch.rand(tokens, widest, generator=gen) < 0.5
    check(batch, rules, kernel)


def test_random_batches(kernel: str) -> None:
    @settings(SETTINGS, max_examples=150)
    @given(cases())
    def run(case: Any) -> None:
        attempt(case, kernel)

    run()


@pytest.mark.slow
def test_many_random_batches(kernel: str) -> None:
    @settings(SETTINGS, max_examples=3000, derandomize=False)
    @given(cases())
    def run(case: Any) -> None:
        attempt(case, kernel)

    run()
