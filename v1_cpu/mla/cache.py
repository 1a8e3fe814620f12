"""The latent cache: allocate, write, read. `v1_cpu.copy_blocks` and `v1_cpu.swap_blocks` move its blocks.

A latent cache is a `row` cache (`v1_cpu.layouts`) with one KV head whose key is the latent and whose value is the rope
key, without the head dimension: what writes and reads that one serves this one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu import ops
from v1_cpu import validate as check
from v1_cpu.cache import ask_for_huge_pages, read_kv_cache, write_kv_cache
from v1_cpu.kernels import ROW_LAYOUT
from v1_cpu.layouts import resolve_cache_dtype
from v1_cpu.mla import checks
from v1_cpu.mla.kernels import serving_mla


def allocate_latent_cache(
    num_blocks: int,
    block_size: int,
    kv_lora_rank: int,
    rope_head_dim: int,
    dtype: torch.dtype,
    *,
    kv_cache_dtype: str | torch.dtype = "auto",
) -> Tensor:
    """One zeroed tensor ``[num_blocks, block_size, R + P]``: of a token first the latent, then the rope key.

    Parameters
    ----------
    num_blocks, block_size, kv_lora_rank, rope_head_dim
        Blocks, tokens of a block, R, P.
    dtype
        The model's: float32, bfloat16 or float16.
    kv_cache_dtype
        "auto" (the model's dtype), "fp8" or "fp8_e4m3" (float8_e4m3fn), "fp8_e5m2".
    """
    check.count("num_blocks", num_blocks, "a size", least=0)
    cache_dtype = _sizes(block_size, kv_lora_rank, rope_head_dim, dtype, kv_cache_dtype)
    kv_cache = torch.empty((num_blocks, block_size, kv_lora_rank + rope_head_dim), dtype=cache_dtype)
    ask_for_huge_pages(kv_cache)
    return kv_cache.zero_()


def latent_block_bytes(
    block_size: int,
    kv_lora_rank: int,
    rope_head_dim: int,
    dtype: torch.dtype,
    *,
    kv_cache_dtype: str | torch.dtype = "auto",
) -> int:
    """Bytes of one block of one layer: ``block_size * (R + P) * itemsize``. Keys and values are one: no factor 2."""
    cache_dtype = _sizes(block_size, kv_lora_rank, rope_head_dim, dtype, kv_cache_dtype)
    return block_size * (kv_lora_rank + rope_head_dim) * cache_dtype.itemsize


def write_latent_cache(
    latent: Tensor,
    rope_key: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    *,
    kv_scale: float = 1.0,
    kernel: str | None = None,
    validate: bool = True,
) -> None:
    """Store the latents and rope keys of tokens in their slots.

    Parameters
    ----------
    latent, rope_key
        ``[T, R]`` (normalised, as the up-projection reads it) and ``[T, P]`` (rotated), one dtype, that of the cache
        unless it is float8.
    kv_cache
        ``[num_blocks, block_size, R + P]``, changed in place.
    slot_mapping
        int64 ``[T]``: slot = block * block_size + offset; -1 skips the token, any other slot outside the cache is
        refused.
    kv_scale
        A float8 cache stores x / kv_scale, rounded to nearest even, saturated.
    """
    if ops.traced(latent):
        torch.ops.v1_cpu.write_latent_cache(latent, rope_key, kv_cache, slot_mapping, kv_scale, kernel, validate)
        return
    if validate:
        checks.write(latent, rope_key, kv_cache, slot_mapping, kv_scale)
    chosen = serving_mla(kernel, latent.dtype, kv_cache.dtype, 1, latent.shape[1], rope_key.shape[1], kv_cache.shape[1])
    write_kv_cache(
        latent[:, None],
        rope_key[:, None],
        kv_cache[:, None],
        slot_mapping,
        k_scale=kv_scale,
        v_scale=kv_scale,
        kernel=chosen,
        validate=False,
    )


def read_latent_cache(
    kv_cache: Tensor, block_table_row: Tensor, seq_len: int, *, kv_lora_rank: int, kv_scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Dense copies of the first `seq_len` latents ``[seq_len, R]`` and rope keys ``[seq_len, P]`` of a request.

    Parameters
    ----------
    block_table_row
        int32 ``[n]``: the request's blocks, ``n * block_size >= seq_len``.
    kv_scale
        Multiplies what a float8 cache holds; the copies are float32 then, else of the cache's dtype.
    """
    checks.cache(kv_cache)
    checks.rank(kv_lora_rank, kv_cache)
    checks.scale(kv_scale, kv_cache.dtype)
    scaled: dict[str, Any] = {"k_scale": kv_scale, "v_scale": kv_scale, "layout": ROW_LAYOUT}
    latent, rope_key = read_kv_cache(kv_cache[:, None], block_table_row, seq_len, head_size=kv_lora_rank, **scaled)
    return latent[:, 0], rope_key[:, 0]


def _sizes(
    block_size: int, kv_lora_rank: int, rope_head_dim: int, dtype: torch.dtype, kv_cache_dtype: str | torch.dtype
) -> torch.dtype:
    """The cache's dtype; refuses what is no size or no dtype."""
    for name, value in (("block_size", block_size), ("kv_lora_rank", kv_lora_rank), ("rope_head_dim", rope_head_dim)):
        check.count(name, value, "a size")
    if dtype not in check.DTYPES:
        raise TypeError(f"dtype: {dtype}; must be float32, bfloat16 or float16, the model's")
    return resolve_cache_dtype(kv_cache_dtype, dtype)
