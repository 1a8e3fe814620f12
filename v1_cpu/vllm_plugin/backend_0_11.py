"""v1_cpu's backend as vLLM 0.11.1 to 0.13 want it: as 0.14 to 0.28, with the abstract classes where they were.

See `backend_0_32` for how the class is chosen.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from typing import Any, ClassVar

import torch
from vllm.attention.backends.abstract import AttentionBackend, AttentionImpl, MultipleOf
from vllm.config import get_current_vllm_config
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend as _VllmBackend
from vllm.v1.attention.backends.utils import AttentionMetadataBuilder

from v1_cpu.vllm_plugin.choice import serves
from v1_cpu.vllm_plugin.classes import Backend, Builder, Impl


class V1CPUBackend(Backend, AttentionBackend):
    """Static facts. `get_kv_cache_shape` is that of the class before: a block is ``[KH, block_size, 2 * D]``."""

    @staticmethod
    def get_impl_cls() -> type[V1CPUImpl]:
        return V1CPUImpl

    @staticmethod
    def get_builder_cls() -> type[V1CPUMetadataBuilder]:
        return V1CPUMetadataBuilder

    supported_kernel_block_sizes: ClassVar[list[int | MultipleOf]] = [MultipleOf(1)]  # asked for to 0.11.2

    @staticmethod
    def get_supported_kernel_block_sizes() -> list[int | MultipleOf]:
        """Every block size."""
        return [MultipleOf(1)]


class V1CPUMetadataBuilder(Builder, AttentionMetadataBuilder):
    """Encoder-only and cross-attention layers derive from it inside vLLM."""

    supports_update_block_table: bool = False

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)


class V1CPUImpl(Impl, AttentionImpl):
    """One layer. `forward` writes new keys and values itself."""


def __getattr__(name: str) -> Any:
    """`CPUAttentionBackend`: the class that serves the engine being built."""
    if name != "CPUAttentionBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return V1CPUBackend if serves(get_current_vllm_config()) else _VllmBackend
