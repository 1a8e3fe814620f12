"""`vllm.attention.ops.paged_attn`: paged attention with the argument order of the GPU backends."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy.attend import attend_paged, scale_of
from v1_compat.legacy.ipex_attn import _PagedAttention
from v1_compat.legacy.layouts import SplitCache, halves

__all__ = ["_PARTITION_SIZE", "PagedAttention", "PagedAttentionMetadata"]

_PARTITION_SIZE = 512  # of the second GPU kernel; the CPU has no partitions


@dataclass
class PagedAttentionMetadata:
    """The part of a batch that decoding reads. D decode requests."""

    seq_lens_tensor: Tensor | None  # int32 [D]
    max_decode_seq_len: int
    block_tables: Tensor | None  # int32 [D, max_blocks]


class PagedAttention:
    """A V0 cache ``[2, NB, BS * KH * D]`` with x-packed keys."""

    @staticmethod
    def get_supported_head_sizes() -> list[int]:
        """The sizes V0 had kernels for; V1 serves every multiple of x."""
        return [32, 64, 80, 96, 112, 120, 128, 192, 256]

    @staticmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int) -> tuple[int, ...]:
        """``(2, NB, BS * KH * D)``."""
        return _PagedAttention.get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size)

    @staticmethod
    def split_kv_cache(kv_cache: Tensor, num_kv_heads: int, head_size: int) -> tuple[Tensor, Tensor]:
        """Views: keys ``[NB, KH, D // x, BS, x]`` with x = 16 bytes, values ``[NB, KH, D, BS]``."""
        return _PagedAttention.split_kv_cache(kv_cache, num_kv_heads, head_size)

    @staticmethod
    def write_to_paged_cache(
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        kv_cache_dtype: str,
        k_scale: Tensor,
        v_scale: Tensor,
    ) -> None:
        """`reshape_and_cache`."""
        slots = slot_mapping.flatten()
        ops.reshape_and_cache(key, value, key_cache, value_cache, slots, kv_cache_dtype, k_scale, v_scale)

    @staticmethod
    def forward_decode(
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        seq_lens: Tensor,
        max_seq_len: int,
        kv_cache_dtype: str,
        num_kv_heads: int,
        scale: float,
        alibi_slopes: Tensor | None,
        k_scale: Tensor,
        v_scale: Tensor,
        tp_rank: int = 0,
        blocksparse_local_blocks: int = 0,
        blocksparse_vert_stride: int = 0,
        blocksparse_block_size: int = 64,
        blocksparse_head_sliding_step: int = 0,
    ) -> Tensor:
        """Attention of one new token for each request; returns ``[B, H, D]``. See `custom_ops.paged_attention_v1`."""
        ops.refuse_blocksparse(blocksparse_vert_stride)
        output = torch.empty_like(query)
        ops.paged_attention_v1(
            output,
            query,
            key_cache,
            value_cache,
            num_kv_heads,
            scale,
            block_tables,
            seq_lens,
            value_cache.shape[3] if key_cache.dim() == 5 else value_cache.shape[2],
            max_seq_len,
            alibi_slopes,
            kv_cache_dtype,
            k_scale,
            v_scale,
        )
        return output

    @staticmethod
    def forward_prefix(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache_dtype: str,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        query_start_loc: Tensor,
        seq_lens_tensor: Tensor,
        max_query_len: int,
        alibi_slopes: Tensor | None,
        sliding_window: int | None,
        k_scale: Tensor,
        v_scale: Tensor,
    ) -> Tensor:
        """Causal attention of chunks whose context is cached; returns ``[T, H, D]``.

        Parameters
        ----------
        query, key, value
            ``[T, H, D]`` and ``[T, KH, D]``: the new tokens. Their keys and values are read from here, not the cache.
        block_tables, query_start_loc, seq_lens_tensor
            int32 ``[B, max_blocks]``, ``[B + 1]``, ``[B]``: lengths include the new tokens.
        max_query_len
            Not read: `query_start_loc` says it.
        sliding_window
            Keys a query sees, itself included; None, 0 or -1 for all.
        """
        output = torch.empty_like(query)
        attend_paged(
            output,
            query,
            SplitCache.of(key_cache, value_cache, kv_cache_dtype, query.dtype),
            query_start_loc=query_start_loc,
            seq_lens=seq_lens_tensor,
            block_tables=block_tables,
            scale=query.shape[-1] ** -0.5,
            alibi_slopes=alibi_slopes,
            sliding_window=sliding_window if sliding_window and sliding_window > 0 else None,
            k_scale=scale_of(k_scale),
            v_scale=scale_of(v_scale),
            new=(key, value),
        )
        return output

    @staticmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        """Copy whole blocks of one layer's cache into another's: int64 ``[n, 2]``."""
        for src, dst in zip(halves("src_kv_cache", src_kv_cache), halves("dst_kv_cache", dst_kv_cache), strict=True):
            ops.swap_blocks(src, dst, src_to_dst)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        """Copy whole blocks inside each layer's cache: int64 ``[n, 2]`` of (source, destination)."""
        _PagedAttention.copy_blocks(kv_caches, src_to_dists)
