"""The formula of MLA and batches for it: dense, unabsorbed, in float64, one request and one head at a time.

Nothing of v1_cpu computes here; `make` only writes its caches with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from batches import FP8, lse_error, quantised, worst_error
from torch import Tensor

from v1_cpu import mla

BOUNDS = {torch.float32: 1e-4, torch.float16: 8e-3, torch.bfloat16: 6e-2}
"""Of the output's rms: twice those of plain attention, as a product in the model's dtype precedes and follows it."""


@dataclass
class LatentBatch:
    """One batch, ready for `mla_attention`."""

    query: Tensor  # [T, H, N + P]
    kv_up: Tensor  # [H, N + V, R]
    kv_cache: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor
    latents: list[Tensor]  # per request [S, R], what the cache holds
    rope_keys: list[Tensor]  # [S, P]
    kv_scale: float
    scale: float

    @property
    def tensors(self) -> dict[str, Any]:
        return {
            "query_start_loc": self.query_start_loc,
            "seq_lens": self.seq_lens,
            "block_table": self.block_table,
            "kv_scale": self.kv_scale,
            "scale": self.scale,
        }

    @property
    def rank(self) -> int:
        return self.kv_up.shape[2]


def make(
    lens: list[tuple[int, int]],
    *,
    heads: int = 4,
    rank: int = 32,
    nope: int = 16,
    rope: int = 8,
    v: int = 24,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    kv_cache_dtype: str = "auto",
    padding: int = 0,
    seed: int = 0,
    kernel: str | None = None,
    kv_scale: float = 0.05,
) -> LatentBatch:
    """`lens`: (query_len, seq_len) of each request. Unused slots hold NaN, unused table entries nonsense."""
    gen = torch.Generator().manual_seed(seed)
    fp8 = kv_cache_dtype in FP8
    kv_scale = kv_scale if fp8 else 1.0
    needed = [-(-s // block_size) for _, s in lens]
    order = torch.randperm(sum(needed) + 3, generator=gen)
    cache = mla.allocate_latent_cache(len(order), block_size, rank, rope, dtype, kv_cache_dtype=kv_cache_dtype)
    cache.view(torch.uint8 if fp8 else dtype).fill_(0x7F if fp8 else torch.nan)
    table = torch.full((len(lens), max(needed, default=0) + 1), -7, dtype=torch.int32)
    latents, rope_keys, used = [], [], 0
    for row, (_, seq_len) in enumerate(lens):
        blocks = order[used : used + needed[row]]
        used += needed[row]
        table[row, : len(blocks)] = blocks.int()
        latent, rope_key = (torch.randn(seq_len, n, generator=gen).to(dtype) for n in (rank, rope))
        positions = torch.arange(seq_len)
        slots = blocks[positions // block_size] * block_size + positions % block_size if seq_len else positions
        mla.write_latent_cache(latent, rope_key, cache, slots, kv_scale=kv_scale, kernel=kernel)
        if fp8:
            latent, rope_key = (
                quantised(x, kv_scale, FP8[kv_cache_dtype]).double() * kv_scale for x in (latent, rope_key)
            )
        latents.append(latent)
        rope_keys.append(rope_key)
    starts = torch.tensor([0] + [q for q, _ in lens]).cumsum(0).int()
    query = torch.randn(int(starts[-1]) + padding, heads, nope + rope, generator=gen).to(dtype)
    query[int(starts[-1]) :] = torch.nan
    kv_up = (torch.randn(heads, nope + v, rank, generator=gen) * rank**-0.5).to(dtype)
    lengths = torch.tensor([s for _, s in lens], dtype=torch.int32)
    scale = (nope + rope) ** -0.5
    return LatentBatch(query, kv_up, cache, starts, lengths, table, latents, rope_keys, kv_scale, scale)


def dense(batch: LatentBatch, causal: bool | Tensor = True) -> tuple[Tensor, Tensor]:
    """The formula: out [T, H, V] and lse [H, T] in float64, padding excluded."""
    heads, rows, rank = batch.kv_up.shape
    nope = batch.query.shape[2] - batch.kv_cache.shape[2] + rank
    starts = batch.query_start_loc.tolist()
    out = torch.zeros(starts[-1], heads, rows - nope, dtype=torch.float64)
    lse = torch.full((heads, starts[-1]), -torch.inf, dtype=torch.float64)
    for b, (latent, rope_key) in enumerate(zip(batch.latents, batch.rope_keys, strict=True)):
        first, last, keys = starts[b], starts[b + 1], latent.shape[0]
        c, k = latent.double(), rope_key.double()
        position = torch.arange(last - first)[:, None] + keys - (last - first)
        seen = torch.ones(last - first, keys, dtype=torch.bool)
        if causal if isinstance(causal, bool) else bool(causal[b]):
            seen = torch.arange(keys)[None, :] <= position
        for h in range(heads):
            w_uk, w_uv = batch.kv_up[h, :nope].double(), batch.kv_up[h, nope:].double()
            key, value = torch.cat([c @ w_uk.T, k], dim=1), c @ w_uv.T
            logits = batch.query[first:last, h].double() @ key.T * batch.scale
            logits = logits.masked_fill(~seen, -torch.inf)
            lse[h, first:last] = torch.logsumexp(logits, dim=1)
            for i in range(last - first):
                if lse[h, first + i] > -torch.inf:
                    out[first + i, h] = torch.exp(logits[i] - lse[h, first + i]) @ value
    return out, lse


def check(
    batch: LatentBatch, kernel: str | None, form: str, causal: bool | Tensor = True, bound: float | None = None
) -> None:
    """Run the batch in one form and hold it to the formula."""
    out, lse = mla.mla_attention(
        batch.query, batch.kv_cache, batch.kv_up, **batch.tensors, causal=causal, return_lse=True, form=form,
        kernel=kernel,
    )  # fmt: skip
    compare(batch, out, lse, dense(batch, causal), bound)


def compare(
    batch: LatentBatch, out: Tensor, lse: Tensor, wanted: tuple[Tensor, Tensor], bound: float | None = None
) -> None:
    """Results against the formula's, within what the dtype's roundings allow."""
    tokens, dtype = int(batch.query_start_loc[-1]), batch.query.dtype
    assert out.dtype is dtype
    assert out.shape[0] == batch.query.shape[0]
    assert not bool(out[tokens:].any()), "padding rows must be zero"
    error = worst_error(out[:tokens], wanted[0])
    bound = BOUNDS[dtype] if bound is None else bound
    assert error <= bound, f"error {error:.2e} of the output's rms, allowed {bound:.0e}"
    error = lse_error(lse[:, :tokens], wanted[1])
    allowed = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]  # absorbed queries are rounded
    assert error <= allowed, f"lse error {error:.2e}, allowed {allowed:.0e}"
