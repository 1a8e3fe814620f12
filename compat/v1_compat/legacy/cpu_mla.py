"""`vllm.attention.backends.cpu_mla`: V0's CPU backend for multi-head latent attention; its names, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor

from v1_compat.legacy.abstract import AttentionBackend, AttentionMetadataBuilder, MLAAttentionImpl
from v1_compat.legacy.attention_utils import CommonAttentionState
from v1_compat.legacy.custom_ops import copy_blocks_mla, no_mla, swap_blocks
from v1_compat.legacy.sdpa_metadata import TorchSDPAMetadata

__all__ = ["CPUMLABackend", "CPUMLAImpl", "CPUMLAMetadata", "CPUMLAMetadataBuilder"]


@dataclass
class CPUMLAMetadata(TorchSDPAMetadata):
    """`TorchSDPAMetadata` with the positions that the layer's rotary embedding needs."""

    input_positions: Tensor | None = None  # int64 [T]
    is_profile_run: bool = False


class CPUMLABackend(AttentionBackend):
    """Static facts: one latent of 512 and a rotary key of 64 for each token."""

    @staticmethod
    def get_name() -> str:
        return "CPU_MLA"

    @staticmethod
    def get_metadata_cls() -> type[CPUMLAMetadata]:
        return CPUMLAMetadata

    @staticmethod
    def get_builder_cls() -> type[CPUMLAMetadataBuilder]:
        return CPUMLAMetadataBuilder

    @staticmethod
    def get_state_cls() -> type[CommonAttentionState]:
        return CommonAttentionState

    @staticmethod
    def get_impl_cls() -> type[CPUMLAImpl]:
        return CPUMLAImpl

    @staticmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int) -> tuple[int, ...]:
        """``(NB, BS, 576)``."""
        return num_blocks, block_size, head_size

    @staticmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        swap_blocks(src_kv_cache, dst_kv_cache, src_to_dst)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        copy_blocks_mla(kv_caches, src_to_dists)

    @staticmethod
    def get_supported_head_sizes() -> list[int]:
        return [576]


class CPUMLAMetadataBuilder(AttentionMetadataBuilder[CPUMLAMetadata]):
    """Raises: see `v1_compat.legacy.custom_ops.no_mla`."""

    def __init__(self, input_builder: Any) -> None:
        no_mla("CPUMLAMetadataBuilder")

    def prepare(self) -> None: ...

    def build(
        self, seq_lens: list[int], query_lens: list[int], cuda_graph_pad_size: int, batch_size: int
    ) -> CPUMLAMetadata:
        no_mla("CPUMLAMetadataBuilder")


class CPUMLAImpl(MLAAttentionImpl[CPUMLAMetadata]):
    """Raises: see `v1_compat.legacy.custom_ops.no_mla`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        no_mla("CPUMLAImpl")

    def forward(self, *args: Any, **kwargs: Any) -> NoReturn:
        no_mla("CPUMLAImpl")

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        no_mla("CPUMLAImpl")
