"""v1_cpu's backend as vLLM 0.29 to 0.32 want it: a cache laid out by name, written apart from attention.

vLLM resolves `CPUAttentionBackend` in this module when it builds a layer, inside the engine's configuration. The
module answers with `V1CPUBackend`, or with vLLM's own class where v1_cpu does not serve.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from typing import Any, ClassVar

import torch
from vllm.config import get_current_vllm_config
from vllm.v1.attention.backend import AttentionBackend, AttentionImpl, AttentionMetadataBuilder, MultipleOf
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend as _VllmBackend
from vllm.v1.kv_cache_interface import KVCacheLayout

from v1_cpu.specs import AttentionType
from v1_cpu.vllm_plugin.choice import serves
from v1_cpu.vllm_plugin.classes import Backend, Builder, Impl


class V1CPUBackend(Backend, AttentionBackend):
    """Static facts."""

    forward_includes_kv_cache_update: ClassVar[bool] = False

    @staticmethod
    def get_impl_cls() -> type[V1CPUImpl]:
        return V1CPUImpl

    @staticmethod
    def get_builder_cls() -> type[V1CPUMetadataBuilder]:
        return V1CPUMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        """Every block size: where vLLM's own backend wants multiples of 32, 16 is served, too."""
        return [MultipleOf(1)]

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        """Per layer, block, head: a block is ``[KH, block_size, D + Dv]``. vLLM would choose another if we had none."""
        return (KVCacheLayout.LBHNC,)


class V1CPUMetadataBuilder(Builder, AttentionMetadataBuilder):
    """Encoder-only and cross-attention layers derive from it inside vLLM."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        # vLLM's cross-attention works out slots in build(): another group's metadata would carry the wrong ones.
        self.supports_update_block_table = self.attn_type != AttentionType.ENCODER_DECODER


class V1CPUImpl(Impl, AttentionImpl):
    """One layer. vLLM writes the cache through `do_kv_cache_update` before it calls `forward`."""

    forward_includes_kv_cache_update: ClassVar[bool] = False


def __getattr__(name: str) -> Any:
    """`CPUAttentionBackend`: the class that serves the engine being built."""
    if name != "CPUAttentionBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return V1CPUBackend if serves(get_current_vllm_config()) else _VllmBackend
