"""The interior of a cache block: the one place that knows where a token's key and value lie.

A cache is one tensor `[num_blocks, KH, block_size, D + Dv]`; block b owns `kv_cache[b]`. In the `row` layout, shared
by the torch and the native kernel, a token's key and value lie side by side, so that a write touches one run of
memory per token and head, and plain indexing reads both. Everything else goes through `split_kv` and `token_rows`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from v1_cpu.kernels import IPEX_LAYOUT, ROW_LAYOUT

FP8_DTYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
KV_CACHE_DTYPES: dict[str, torch.dtype | None] = {
    "auto": None,  # the model's dtype
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8": torch.float8_e4m3fn,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
"""What `kv_cache_dtype=` may say. "fp8" and "fp8_e4m3" are e4m3, never quietly e5m2."""


def split_kv(kv_cache: Tensor, head_size: int, layout: str = ROW_LAYOUT) -> tuple[Tensor, Tensor]:
    """Views of the keys `[num_blocks, KH, block_size, D]` and values `[num_blocks, KH, block_size, Dv]`."""
    if layout == ROW_LAYOUT:
        return kv_cache[..., :head_size], kv_cache[..., head_size:]
    num_blocks, num_kv_heads, block_size, width = kv_cache.shape
    blocks, first = kv_cache.view(num_blocks, -1), num_kv_heads * block_size * head_size
    shape = (num_blocks, num_kv_heads, block_size)
    return blocks[:, :first].view(*shape, head_size), blocks[:, first:].view(*shape, width - head_size)


def token_rows(
    kv_cache: Tensor, blocks: Tensor, offsets: Tensor, head_size: int, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Copies of the keys `[R, KH, N, D]` and values `[R, KH, N, Dv]` at `blocks`, `offsets`, both int64 [R, N].

    Of a `row` cache: a token's key and value are fetched together.
    """
    num_kv_heads, block_size, width = kv_cache.shape[1:]
    heads = torch.arange(num_kv_heads)[:, None]
    rows = (blocks[:, None] * num_kv_heads + heads) * block_size + offsets[:, None]  # [R, KH, N]
    flat = kv_cache.detach().view(-1, width)
    if kv_cache.dtype in FP8_DTYPES:  # index_select has no float8 kernel; the bytes are the same
        picked = flat.view(torch.uint8).index_select(0, rows.flatten()).view(kv_cache.dtype)
    else:
        picked = flat.index_select(0, rows.flatten())
    if dtype is not None:
        picked = picked.to(dtype)  # before the split: one pass over contiguous memory
    picked = picked.view(*rows.shape, width)
    return picked[..., :head_size], picked[..., head_size:]


def check_interior(layout: str) -> None:
    """A layout of this package's own caches."""
    if layout not in (ROW_LAYOUT, IPEX_LAYOUT):
        raise ValueError(
            f"layout: {layout!r}; must be {ROW_LAYOUT!r} or {IPEX_LAYOUT!r}, or None for that of v1_cpu.which(); "
            "v1_cpu.convert_kv_cache reads the layouts of older releases"
        )


def resolve_cache_dtype(kv_cache_dtype: str | torch.dtype, dtype: torch.dtype) -> torch.dtype:
    """The cache's dtype from what `kv_cache_dtype=` says and the model's dtype."""
    if isinstance(kv_cache_dtype, torch.dtype):
        if kv_cache_dtype in FP8_DTYPES or kv_cache_dtype is dtype:
            return kv_cache_dtype
        raise TypeError(f"kv_cache_dtype: {kv_cache_dtype}; must be the model's dtype ({dtype}) or float8")
    if not isinstance(kv_cache_dtype, str):
        raise TypeError(f"kv_cache_dtype: {kv_cache_dtype!r}; must be a str or a torch.dtype")
    if kv_cache_dtype not in KV_CACHE_DTYPES:
        raise ValueError(f"kv_cache_dtype: {kv_cache_dtype!r}; must be one of {', '.join(KV_CACHE_DTYPES)}")
    resolved = KV_CACHE_DTYPES[kv_cache_dtype] or dtype
    if resolved is not dtype and resolved not in FP8_DTYPES:
        raise TypeError(f"kv_cache_dtype: {kv_cache_dtype!r}; must be the model's dtype ({dtype}), 'auto' or fp8")
    return resolved
