"""Batches that hypothesis makes: any sizes, any mix of requests, either form."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from latents import check, make

DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


@st.composite
def requests(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(query_len, seq_len): decodes, chunks, prefills, idle ones, ones with more queries than keys."""
    lens = []
    for _ in range(draw(st.integers(0, 5))):
        query_len = draw(st.sampled_from([0, 1, 1, 1, 2, 5, 17]))
        lens.append((query_len, max(0, query_len + draw(st.sampled_from([0, 0, 1, 3, 15, 16, 31, 90, 300, -1])))))
    return lens


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "heads": draw(st.sampled_from([1, 2, 3, 7, 12, 16, 20, 33])),
        "rank": draw(st.sampled_from([6, 16, 32, 50, 64, 96])),
        "rope": draw(st.sampled_from([2, 8, 32])),
        "nope": draw(st.sampled_from([4, 16])),
        "v": draw(st.sampled_from([5, 16])),
        "block_size": draw(st.sampled_from([1, 3, 16, 32, 64])),
        "dtype": draw(DTYPES),
        "kv_cache_dtype": draw(st.sampled_from(["auto", "auto", "fp8_e4m3", "fp8_e5m2"])),
        "padding": draw(st.sampled_from([0, 2])),
        "seed": draw(st.integers(0, 1000)),
    }


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, print_blob=True)
@given(lens=requests(), shape=sizes(), form=st.sampled_from(["absorbed", "expanded", "auto"]))
def test_any_batch(lens: list[tuple[int, int]], shape: dict[str, Any], form: str, kernel: str) -> None:
    # A vector of few numbers can be small by chance, and its rms with it: the bounds are wider than the grid's.
    bound = {torch.float32: 1e-3, torch.float16: 5e-2, torch.bfloat16: 4e-1}[shape["dtype"]]
    check(make(lens, kernel=kernel, **shape), kernel, form, bound=bound)
