"""`vllm.platforms.interface._Backend`: the names of V0's attention backends."""

from __future__ import annotations

import enum

__all__ = ["_Backend"]


class _Backend(enum.Enum):
    """Every member of 0.8.5 to 0.9.2. On a CPU, V1 has one: `v1_cpu`'s, under the name CPU_ATTN."""

    FLASH_ATTN = enum.auto()
    FLASH_ATTN_VLLM_V1 = enum.auto()
    TRITON_ATTN_VLLM_V1 = enum.auto()
    XFORMERS = enum.auto()
    ROCM_FLASH = enum.auto()
    ROCM_AITER_MLA = enum.auto()
    ROCM_AITER_MLA_VLLM_V1 = enum.auto()
    TORCH_SDPA = enum.auto()
    FLASHINFER = enum.auto()
    FLASHINFER_VLLM_V1 = enum.auto()
    TRITON_MLA = enum.auto()
    TRITON_MLA_VLLM_V1 = enum.auto()
    FLASHMLA_VLLM_V1 = enum.auto()
    FLASHMLA = enum.auto()
    CUTLASS_MLA_VLLM_V1 = enum.auto()
    HPU_ATTN = enum.auto()
    PALLAS = enum.auto()
    PALLAS_VLLM_V1 = enum.auto()
    IPEX = enum.auto()
    BLOCK_SPARSE_FLASH_ATTN = enum.auto()
    DUAL_CHUNK_FLASH_ATTN = enum.auto()
    NO_ATTENTION = enum.auto()
    FLEX_ATTENTION = enum.auto()
