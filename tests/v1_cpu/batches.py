"""Batches for the tests: requests with keys and values of their own, laid into a shuffled paged cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from reference import Rules, attend
from torch import Tensor

import v1_cpu

BOUNDS = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
FP8 = {"fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}


@dataclass
class Batch:
    """One batch, ready for `paged_attention`."""

    query: Tensor
    kv_cache: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    keys: list[Tensor]  # per request [S, KH, D], what the cache holds, read as float64 by the reference
    values: list[Tensor]
    k_scale: float
    v_scale: float

    @property
    def tensors(self) -> dict[str, Any]:
        return {
            "query_start_loc": self.query_start_loc,
            "seq_lens": self.seq_lens,
            "block_table": self.block_table,
            "k_scale": self.k_scale,
            "v_scale": self.v_scale,
        }


def make_batch(
    lens: list[tuple[int, int]],
    *,
    heads: int = 4,
    kv_heads: int = 2,
    head_size: int = 32,
    head_size_v: int | None = None,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    kv_cache_dtype: str = "auto",
    padding: int = 0,
    seed: int = 0,
    kernel: str | None = None,
    poison: bool = True,
    k_scale: float = 0.05,
    v_scale: float = 0.03,
) -> Batch:
    """`lens`: (query_len, seq_len) of each request. Unused slots hold NaN, unused table entries nonsense."""
    gen = torch.Generator().manual_seed(seed)
    head_size_v = head_size if head_size_v is None else head_size_v
    fp8 = kv_cache_dtype in FP8
    k_scale, v_scale = (k_scale, v_scale) if fp8 else (1.0, 1.0)
    needed = [-(-s // block_size) for _, s in lens]
    num_blocks = sum(needed) + 3
    order = torch.randperm(num_blocks, generator=gen)
    cache = v1_cpu.allocate_kv_cache(
        num_blocks, block_size, kv_heads, head_size, dtype, head_size_v=head_size_v, kv_cache_dtype=kv_cache_dtype
    )
    if poison:
        cache.view(torch.uint8 if fp8 else dtype).fill_(0x7F if fp8 else torch.nan)
    table = torch.full((len(lens), max(needed, default=0) + 1), -7, dtype=torch.int32)
    keys, values, used = [], [], 0
    for row, (_, seq_len) in enumerate(lens):
        blocks = order[used : used + needed[row]]
        used += needed[row]
        table[row, : len(blocks)] = blocks.int()
        key = torch.randn(seq_len, kv_heads, head_size, generator=gen).to(dtype)
        value = torch.randn(seq_len, kv_heads, head_size_v, generator=gen).to(dtype)
        positions = torch.arange(seq_len)
        slots = blocks[positions // block_size] * block_size + positions % block_size if seq_len else positions
        v1_cpu.write_kv_cache(key, value, cache, slots, k_scale=k_scale, v_scale=v_scale, kernel=kernel)
        if fp8:
            key, value = (
                quantised(x, s, FP8[kv_cache_dtype]).double() * s for x, s in ((key, k_scale), (value, v_scale))
            )
        keys.append(key)
        values.append(value)
    starts = torch.tensor([0] + [q for q, _ in lens]).cumsum(0).int()
    query = torch.randn(int(starts[-1]) + padding, heads, head_size, generator=gen).to(dtype)
    if padding:
        query[int(starts[-1]) :] = torch.nan
    lengths = torch.tensor([s for _, s in lens], dtype=torch.int32)
    return Batch(query, cache, starts, lengths, table, keys, values, k_scale, v_scale)


def quantised(x: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """The nearest float8 number to x / scale, ties to even, saturated: by search through all of them."""
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    even = torch.arange(256) % 2 == 0
    finite = torch.isfinite(numbers)
    numbers, order = numbers[finite].sort(stable=True)
    even = even[finite][order]
    target = (x.float() / scale).clamp(numbers[0], numbers[-1]).flatten()
    right = torch.searchsorted(numbers, target).clamp(1, len(numbers) - 1)
    low, high = numbers[right - 1].double(), numbers[right].double()
    middle = (low + high) / 2
    up = (target.double() > middle) | ((target.double() == middle) & even[right])
    return torch.where(up, high, low).float().to(dtype).view(x.shape)


def expected(batch: Batch, rules: Rules) -> tuple[Tensor, Tensor]:
    """float64 out [T, H, Dv] and lse [H, T] of the batch, padding excluded."""
    starts = batch.query_start_loc.tolist()
    rules.first_rows = starts
    parts = [
        attend(batch.query[starts[b] : starts[b + 1]], batch.keys[b], batch.values[b], rules, b)
        for b in range(len(batch.keys))
    ]
    if not parts:
        return torch.zeros(0), torch.zeros(0)
    return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts], dim=1)


def worst_error(out: Tensor, wanted: Tensor) -> float:
    """The largest error of any token and head, as a part of that output vector's rms; 0-vectors must be exact."""
    assert not bool(out.isnan().any()), "NaN in the output"
    if out.numel() == 0:
        return 0.0
    error = (out.double() - wanted).abs().amax(-1)
    rms = wanted.pow(2).mean(-1).sqrt()
    zero = rms == 0
    assert float(error[zero].max() if bool(zero.any()) else 0.0) == 0.0, "a query that sees nothing must give zeros"
    return float((error / rms.clamp_min(1e-300))[~zero].max()) if bool((~zero).any()) else 0.0


def lse_error(lse: Tensor, wanted: Tensor) -> float:
    """The largest error of the log-sum-exp; infinities must agree."""
    if lse.numel() == 0:
        return 0.0
    infinite = wanted.isinf()
    assert torch.equal(lse[infinite].double(), wanted[infinite]), "lse must be -inf where nothing is seen"
    return float((lse.double() - wanted)[~infinite].abs().max()) if bool((~infinite).any()) else 0.0


def check(batch: Batch, rules: Rules, kernel: str | None, bound: float | None = None) -> float:
    """Run the batch with `rules` and hold it to the reference; returns the largest error."""
    out, lse = v1_cpu.paged_attention(
        batch.query,
        batch.kv_cache,
        **batch.tensors,
        scale=rules.scale,
        causal=rules.causal,
        sliding_window=rules.sliding_window,
        attention_chunk_size=rules.attention_chunk_size,
        alibi_slopes=rules.alibi_slopes,
        logits_soft_cap=rules.logits_soft_cap,
        sinks=rules.sinks,
        tree_mask=rules.tree_mask,
        return_lse=True,
        kernel=kernel,
    )
    wanted, wanted_lse = expected(batch, rules)
    tokens = int(batch.query_start_loc[-1])
    assert out.shape == (batch.query.shape[0], batch.query.shape[1], out.shape[2])
    assert out.dtype is batch.query.dtype
    assert not bool(out[tokens:].any()), "padding rows must be zero"
    bound = BOUNDS[batch.query.dtype] if bound is None else bound
    error = worst_error(out[:tokens], wanted)
    assert error <= bound, f"error {error:.2e} of the output's rms, allowed {bound:.0e}"
    error_lse = lse_error(lse[:, :tokens], wanted_lse)
    assert error_lse <= (1e-4 if batch.query.dtype is torch.float32 else 1e-3), f"lse error {error_lse:.2e}"
    return error
