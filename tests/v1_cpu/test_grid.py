"""The grid: every feature with every dtype, head shape, block size and mix of phases, held to the float64 formula."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from batches import check, make_batch
from reference import Rules

import v1_cpu

MIXES = {
    "decode": [(1, 1), (1, 17), (1, 48), (1, 130)],
    "prefill": [(5, 5), (64, 64), (33, 33)],
    "chunks over context": [(7, 40), (16, 64), (20, 151)],
    "any order": [(1, 33), (40, 40), (3, 90), (1, 64), (17, 50), (0, 12), (2, 2)],
}
SHAPES = {
    "MHA 3/3x16": {"heads": 3, "kv_heads": 3, "head_size": 16, "block_size": 16},
    "GQA 8/2x64 block 32": {"heads": 8, "kv_heads": 2, "head_size": 64, "block_size": 32},
    "MQA 6/1x80 block 8": {"heads": 6, "kv_heads": 1, "head_size": 80, "block_size": 8},
    "GQA 4/2x24, values 40, block 7": {"heads": 4, "kv_heads": 2, "head_size": 24, "head_size_v": 40, "block_size": 7},
}
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "not causal": {"causal": False},
    "causal per request": {"causal": "alternate"},
    "window 20": {"sliding_window": 20},
    "window 1": {"sliding_window": 1},
    "window 13 both ways": {"sliding_window": 13, "causal": False},
    "chunks of 24": {"attention_chunk_size": 24},
    "alibi": {"alibi_slopes": True},
    "soft cap": {"logits_soft_cap": 1.5},
    "sinks": {"sinks": True},
    "tree": {"tree_mask": True},
    "all at once": {"sliding_window": 30, "alibi_slopes": True, "logits_soft_cap": 4.0, "sinks": True},
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def rules_for(feature: dict[str, Any], lens: list[tuple[int, int]], heads: int, head_size: int, seed: int) -> Rules:
    """The feature with tensors for this batch."""
    gen = torch.Generator().manual_seed(seed)
    rules = Rules(scale=head_size**-0.5, **feature)
    if rules.alibi_slopes is not None:
        rules.alibi_slopes = torch.rand(heads, generator=gen) * 0.3
    if rules.sinks is not None:
        rules.sinks = torch.randn(heads, generator=gen) * 2
    if rules.causal == "alternate":
        rules.causal = torch.arange(len(lens)) % 2 == 0
    if rules.tree_mask is not None:
        tokens, widest = sum(q for q, _ in lens), max(q for q, _ in lens)
        rules.tree_mask = torch.rand(tokens, widest, generator=gen) < 0.6
    return rules


GRID = [
    pytest.param(mix, shape, feature, dtype, id=f"{mix}, {shape}, {feature}, {str(dtype).removeprefix('torch.')}")
    for mix, shape, feature, dtype in itertools.product(MIXES, SHAPES, FEATURES, DTYPES)
]
assert len(GRID) >= 570


@pytest.mark.parametrize(("mix", "shape", "feature", "dtype"), GRID)
def test_agrees_with_the_formula(mix: str, shape: str, feature: str, dtype: torch.dtype, kernel: str) -> None:
    lens, sizes = MIXES[mix], SHAPES[shape]
    batch = make_batch(lens, dtype=dtype, padding=2, seed=len(mix), kernel=kernel, **sizes)
    rules = rules_for(FEATURES[feature], lens, sizes["heads"], sizes["head_size"], seed=3)
    check(batch, rules, kernel)


FP8_GRID = [
    pytest.param(mix, shape, feature, dtype, cache, id=f"{mix}, {shape}, {feature}, {str(dtype)[6:]}, {cache}")
    for mix, shape, feature, (dtype, cache) in itertools.product(
        ["decode", "any order"],
        ["GQA 8/2x64 block 32", "GQA 4/2x24, values 40, block 7"],
        ["plain", "window 20", "all at once", "not causal"],
        [
            (torch.float32, "fp8_e4m3"),
            (torch.bfloat16, "fp8_e4m3"),
            (torch.float16, "fp8_e5m2"),
            (torch.float32, "fp8_e5m2"),
        ],
    )
]


@pytest.mark.parametrize(("mix", "shape", "feature", "dtype", "cache"), FP8_GRID)
def test_fp8_cache_agrees_with_the_formula_on_the_quantised_cache(
    mix: str, shape: str, feature: str, dtype: torch.dtype, cache: str, kernel: str
) -> None:
    lens, sizes = MIXES[mix], SHAPES[shape]
    batch = make_batch(lens, dtype=dtype, kv_cache_dtype=cache, padding=1, seed=5, kernel=kernel, **sizes)
    check(batch, rules_for(FEATURES[feature], lens, sizes["heads"], sizes["head_size"], seed=4), kernel)


HEAD_SIZES = [8, 16, 32, 40, 64, 72, 80, 96, 112, 120, 128, 160, 192, 256, 320, 512, 576]


@pytest.mark.parametrize("head_size", HEAD_SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_every_head_size(head_size: int, dtype: torch.dtype, kernel: str) -> None:
    lens = [(1, 37), (19, 19), (4, 21)]
    batch = make_batch(lens, heads=4, kv_heads=2, head_size=head_size, dtype=dtype, kernel=kernel)
    check(batch, Rules(scale=head_size**-0.5), kernel)


@pytest.mark.parametrize("sizes", [(128, 64), (64, 128), (192, 128), (576, 512), (8, 1), (1, 8)], ids=str)
def test_values_of_another_head_size(sizes: tuple[int, int], kernel: str) -> None:
    lens = [(1, 37), (19, 19), (4, 21)]
    batch = make_batch(lens, heads=4, kv_heads=1, head_size=sizes[0], head_size_v=sizes[1], kernel=kernel)
    check(batch, Rules(scale=sizes[0] ** -0.5), kernel)


@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 16, 17, 32, 64, 128, 500])
@pytest.mark.parametrize("window", [None, 9], ids=["no window", "window 9"])
def test_every_block_size(block_size: int, window: int | None, kernel: str) -> None:
    batch = make_batch([(1, 100), (30, 45), (1, 1)], block_size=block_size, kernel=kernel)
    check(batch, Rules(scale=0.2, sliding_window=window), kernel)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("feature", FEATURES)
def test_long_contexts(feature: str, dtype: torch.dtype, kernel: str) -> None:
    lens = [(1, 3000), (150, 1700), (300, 300), (1, 5)]
    batch = make_batch(lens, heads=4, kv_heads=2, head_size=64, dtype=dtype, kernel=kernel)
    check(batch, rules_for(FEATURES[feature], lens, 4, 64, seed=1), kernel)


@pytest.mark.parametrize("tokens", [1, 40])
def test_queries_without_a_key_give_zeros_whatever_the_table(tokens: int, kernel: str) -> None:
    int32 = torch.int32
    for columns in (0, 1):
        out, lse = v1_cpu.paged_attention(
            torch.randn(tokens, 4, 32),
            v1_cpu.allocate_kv_cache(3, 16, 2, 32, torch.float32),
            query_start_loc=torch.tensor([0, tokens], dtype=int32),
            seq_lens=torch.zeros(1, dtype=int32),
            block_table=torch.zeros(1, columns, dtype=int32),
            scale=0.2,
            return_lse=True,
            kernel=kernel,
        )
        assert not out.any() and (lse == -torch.inf).all()
