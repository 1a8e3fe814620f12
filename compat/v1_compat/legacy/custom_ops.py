"""`vllm._custom_ops`: the cache and attention operations that V0's CPU code called, on V0's caches.

V0's CPU operations took block size 16 and eight head sizes; any are taken here. They read neither scales nor
`kv_cache_dtype`; float8 caches, with scales, are served here.
"""

from __future__ import annotations

import torch
from torch import Tensor

import v1_cpu
from v1_compat.legacy.attend import attend_paged, scale_of
from v1_compat.legacy.layouts import SplitCache, block_pairs, typed
from v1_cpu import mla
from v1_cpu.layouts import FP8_DTYPES

__all__ = [
    "concat_and_cache_mla",
    "copy_blocks",
    "copy_blocks_mla",
    "mla_decode_kvcache_cpu",
    "paged_attention_v1",
    "paged_attention_v2",
    "reshape_and_cache",
    "swap_blocks",
]


def paged_attention_v1(
    out: Tensor,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    scale: float,
    block_tables: Tensor,
    seq_lens: Tensor,
    block_size: int,
    max_seq_len: int,
    alibi_slopes: Tensor | None,
    kv_cache_dtype: str,
    k_scale: Tensor,
    v_scale: Tensor,
    tp_rank: int = 0,
    blocksparse_local_blocks: int = 0,
    blocksparse_vert_stride: int = 0,
    blocksparse_block_size: int = 64,
    blocksparse_head_sliding_step: int = 0,
) -> None:
    """Attention of one new token for each request, over its cached keys, written into `out`.

    Parameters
    ----------
    out, query
        ``[B, H, D]``, one dtype.
    key_cache, value_cache
        ``[NB, KH, D // x, BS, x]`` with x = 16 bytes and ``[NB, KH, D, BS]``; or both ``[NB, KH, BS, D]``.
    block_tables, seq_lens
        int32 ``[B, max_blocks]`` and ``[B]``; the new token's key is in the cache and counts.
    block_size, max_seq_len
        Must be those of the cache; the longest length (not read: `seq_lens` says it).
    alibi_slopes
        float32 ``[H]`` or None.
    kv_cache_dtype, k_scale, v_scale
        Read for a float8 (or uint8) cache.
    tp_rank, blocksparse_local_blocks, blocksparse_vert_stride, blocksparse_block_size, blocksparse_head_sliding_step
        Block-sparse attention, which V0's CPU operations refused, too.

    Raises
    ------
    NotImplementedError
        `blocksparse_vert_stride` above 1.
    TypeError, ValueError
        A dtype or shape that does not fit, a block that is not in the cache.
    """
    refuse_blocksparse(blocksparse_vert_stride)
    cache = SplitCache.of(key_cache, value_cache, kv_cache_dtype, query.dtype)
    for name, told, found in (
        ("num_kv_heads", num_kv_heads, cache.num_kv_heads),
        ("block_size", block_size, cache.block_size),
    ):
        if told != found:
            raise ValueError(f"{name}: {told}; the cache has {found}")
    attend_paged(
        out,
        query,
        cache,
        query_start_loc=torch.arange(seq_lens.numel() + 1, dtype=torch.int32),
        seq_lens=seq_lens,
        block_tables=block_tables,
        scale=scale,
        alibi_slopes=alibi_slopes,
        k_scale=scale_of(k_scale),
        v_scale=scale_of(v_scale),
    )


def paged_attention_v2(
    out: Tensor,
    exp_sum: Tensor,
    max_logits: Tensor,
    tmp_out: Tensor,
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    num_kv_heads: int,
    scale: float,
    block_tables: Tensor,
    seq_lens: Tensor,
    block_size: int,
    max_seq_len: int,
    alibi_slopes: Tensor | None,
    kv_cache_dtype: str,
    k_scale: Tensor,
    v_scale: Tensor,
    tp_rank: int = 0,
    blocksparse_local_blocks: int = 0,
    blocksparse_vert_stride: int = 0,
    blocksparse_block_size: int = 64,
    blocksparse_head_sliding_step: int = 0,
) -> None:
    """`paged_attention_v1`; the scratch tensors `exp_sum`, `max_logits` and `tmp_out` are left as they are."""
    paged_attention_v1(
        out,
        query,
        key_cache,
        value_cache,
        num_kv_heads,
        scale,
        block_tables,
        seq_lens,
        block_size,
        max_seq_len,
        alibi_slopes,
        kv_cache_dtype,
        k_scale,
        v_scale,
        tp_rank,
        blocksparse_local_blocks,
        blocksparse_vert_stride,
        blocksparse_block_size,
        blocksparse_head_sliding_step,
    )


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    kv_cache_dtype: str,
    k_scale: Tensor,
    v_scale: Tensor,
) -> None:
    """Store keys and values ``[T, KH, D]`` at int64 ``[T]`` slots of a V0 cache; negative slots are skipped.

    A float8 cache stores x / scale, rounded to nearest even, saturated.
    """
    cache = SplitCache.of(key_cache, value_cache, kv_cache_dtype, key.dtype)
    cache.write(key, value, slot_mapping, scale_of(k_scale), scale_of(v_scale))


def copy_blocks(key_caches: list[Tensor], value_caches: list[Tensor], block_mapping: Tensor) -> None:
    """Copy whole blocks inside each cache: int64 ``[n, 2]`` of (source, destination)."""
    v1_cpu.copy_blocks([*key_caches, *value_caches], block_pairs(block_mapping))


def swap_blocks(src: Tensor, dst: Tensor, block_mapping: Tensor) -> None:
    """Copy whole blocks of `src` into `dst`: int64 ``[n, 2]`` of (block of src, block of dst)."""
    v1_cpu.swap_blocks(src, dst, block_pairs(block_mapping))


def copy_blocks_mla(kv_caches: list[Tensor], block_mapping: Tensor) -> None:
    """Copy whole blocks inside each latent cache ``[NB, BS, 576]``."""
    v1_cpu.copy_blocks(kv_caches, block_pairs(block_mapping))


def concat_and_cache_mla(
    kv_c: Tensor, k_pe: Tensor, kv_cache: Tensor, slot_mapping: Tensor, kv_cache_dtype: str, scale: Tensor
) -> None:
    """Store latents ``[T, R]`` and rope keys ``[T, P]`` side by side at int64 ``[T]`` slots of ``[NB, BS, R + P]``.

    Negative slots are skipped. A float8 (or uint8) cache stores x / scale, which V0's CPU operation did not.
    """
    cache = typed("kv_cache", kv_cache, kv_cache_dtype, kv_c.dtype)
    slots = slot_mapping.flatten().long().clamp(min=-1)
    kv_scale = scale_of(scale) if cache.dtype in FP8_DTYPES else 1.0  # V0 read no scale of a cache in the model's dtype
    mla.write_latent_cache(kv_c.detach(), k_pe.detach(), cache, slots, kv_scale=kv_scale)


def mla_decode_kvcache_cpu(
    out: Tensor, query: Tensor, kv_cache: Tensor, scale: float, block_tables: Tensor, seq_lens: Tensor
) -> None:
    """Attention of one absorbed query for each request over its latents, written into `out`.

    Parameters
    ----------
    out
        ``[B, H, R]``; its last dimension says which part of the cache is latent.
    query
        ``[B, H, R + P]``: W_UK^T q beside the rope part.
    kv_cache
        ``[NB, BS, R + P]``, of the query's dtype.
    block_tables, seq_lens
        int32 ``[B, max_blocks]`` and ``[B]``; the new token's latent is in the cache and counts.
    """
    if out.dtype is not query.dtype or out.dim() != 3 or out.shape[:2] != query.shape[:2]:
        raise ValueError(
            f"out: {out.dtype} {tuple(out.shape)}; must be {query.dtype} [B, H, R], as query {tuple(query.shape)}"
        )
    rows = mla.mla_paged_attention(
        query.detach().contiguous(),
        kv_cache,
        kv_lora_rank=out.shape[2],
        query_start_loc=torch.arange(seq_lens.numel() + 1, dtype=torch.int32),
        seq_lens=seq_lens.int().contiguous(),
        block_table=block_tables.int(),
        scale=float(scale),
    )
    out.copy_(rows)


def refuse_blocksparse(vert_stride: int | None) -> None:
    """Block-sparse attention went away with V0."""
    if vert_stride is not None and vert_stride > 1:
        raise NotImplementedError(
            f"blocksparse_vert_stride: {vert_stride}; block-sparse attention has no successor in V1; pass 0 for dense "
            "attention, or sliding_window to a layer for a local one"
        )
