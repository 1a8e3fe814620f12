"""`vllm.attention.ops.ipex_attn`: what V0's CPU backend called to write and read its paged cache.

Despite its name it was the CPU's module with and without Intel Extension for PyTorch (IPEX). Where IPEX is installed,
V0 laid the cache out differently; that choice is kept, so that caches filled by other code are understood, and V1's
kernels compute in both cases.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy.layouts import chunk, halves

try:
    import intel_extension_for_pytorch.llm.modules  # type: ignore[import-not-found] # noqa: F401

    _use_ipex = True
except (ImportError, AttributeError, OSError):  # IPEX raises each of them where it meets another torch
    _use_ipex = False

__all__ = ["PagedAttention", "_IPEXPagedAttention", "_PagedAttention", "_use_ipex"]


class _PagedAttention:
    """A V0 cache ``[2, NB, BS * KH * D]`` with x-packed keys."""

    @staticmethod
    def get_supported_head_sizes() -> list[int]:
        """The sizes V0 had kernels for; V1 serves every multiple of x."""
        return [32, 64, 80, 96, 112, 128, 192, 256]

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, *args: Any
    ) -> tuple[int, ...]:
        """``(2, NB, BS * KH * D)``."""
        return 2, num_blocks, block_size * num_kv_heads * head_size

    @staticmethod
    def split_kv_cache(kv_cache: Tensor, num_kv_heads: int, head_size: int, *args: Any) -> tuple[Tensor, Tensor]:
        """Views: keys ``[NB, KH, D // x, BS, x]`` with x = 16 bytes, values ``[NB, KH, D, BS]``."""
        keys, values = halves("kv_cache", kv_cache, num_kv_heads, head_size)
        x = chunk(kv_cache, head_size)
        key_cache = keys.view(keys.shape[0], num_kv_heads, head_size // x, -1, x)
        return key_cache, values.view(keys.shape[0], num_kv_heads, head_size, -1)

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
        *args: Any,
    ) -> None:
        """`reshape_and_cache`."""
        slots = slot_mapping.flatten()
        ops.reshape_and_cache(key, value, key_cache, value_cache, slots, kv_cache_dtype, k_scale, v_scale)

    @staticmethod
    def forward_decode(
        output: Tensor,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        context_lens: Tensor,
        max_context_len: int,
        kv_cache_dtype: str,
        num_kv_heads: int,
        scale: float,
        alibi_slopes: Tensor | None,
        k_scale: Tensor,
        v_scale: Tensor,
        *args: Any,
    ) -> None:
        """`paged_attention_v1`, into `output`."""
        ops.paged_attention_v1(
            output,
            query,
            key_cache,
            value_cache,
            num_kv_heads,
            scale,
            block_tables,
            context_lens,
            value_cache.shape[3] if key_cache.dim() == 5 else value_cache.shape[2],
            max_context_len,
            alibi_slopes,
            kv_cache_dtype,
            k_scale,
            v_scale,
        )

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor, *args: Any) -> None:
        """Copy whole blocks inside each layer's cache: int64 ``[n, 2]`` of (source, destination)."""
        pairs = [halves(f"kv_caches[{i}]", cache) for i, cache in enumerate(kv_caches)]
        ops.copy_blocks([keys for keys, _ in pairs], [values for _, values in pairs], src_to_dists)


class _IPEXPagedAttention(_PagedAttention):
    """The same cache as IPEX laid it out: keys and values ``[NB, KH, BS, D]``."""

    @staticmethod
    def split_kv_cache(kv_cache: Tensor, num_kv_heads: int, head_size: int, *args: Any) -> tuple[Tensor, Tensor]:
        """Views ``[NB, KH, BS, D]``."""
        keys, values = halves("kv_cache", kv_cache, num_kv_heads, head_size)
        shape = (keys.shape[0], num_kv_heads, -1, head_size)
        return keys.view(shape), values.view(shape)


PagedAttention: type[_PagedAttention] = _IPEXPagedAttention if _use_ipex else _PagedAttention
