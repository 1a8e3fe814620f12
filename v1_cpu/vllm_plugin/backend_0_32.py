"""v1_cpu's backend as vLLM 0.32 wants it: the classes of `v1_cpu.backend`, derived from vLLM's abstract ones.

vLLM resolves `CPUAttentionBackend` in this module when it builds a layer, inside the engine's configuration. The
module answers with `V1CPUBackend`, or with vLLM's own class where v1_cpu does not serve.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.config import get_current_vllm_config
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionMetadataBuilder,
    MultipleOf,
)
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend as _VllmBackend
from vllm.v1.kv_cache_interface import KVCacheLayout

from v1_cpu.backend import (
    TorchSDPABackend,
    TorchSDPABackendImpl,
    TorchSDPAMetadataBuilderV1,
)
from v1_cpu.specs import AttentionType
from v1_cpu.vllm_plugin.choice import serves


class V1CPUBackend(TorchSDPABackend, AttentionBackend):
    """Static facts. The name is a member of vLLM's enum, which `Attention` looks up."""

    forward_includes_kv_cache_update: ClassVar[bool] = False

    @staticmethod
    def get_name() -> str:
        return "CPU_ATTN"

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


class V1CPUMetadataBuilder(TorchSDPAMetadataBuilderV1, AttentionMetadataBuilder):
    """Batches in the runner's order. Encoder-only and cross-attention layers derive from it inside vLLM."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        # vLLM's cross-attention works out slots in build(): another group's metadata would carry the wrong ones.
        self.supports_update_block_table = self.attn_type != AttentionType.ENCODER_DECODER


class V1CPUImpl(TorchSDPABackendImpl, AttentionImpl):
    """One layer. vLLM writes the cache through `do_kv_cache_update` before it calls `forward`."""

    forward_includes_kv_cache_update: ClassVar[bool] = False

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """As the base class; the values' size is the layer's, which vLLM does not pass to the constructor."""
        self.head_size_v = value.shape[-1]
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)

    def _per_head(self, name: str, values: Any) -> Tensor | None:
        """Lists become float32: torch's default dtype is the model's while vLLM builds it, and would round them."""
        if isinstance(values, (list, tuple)):
            values = torch.tensor(values, dtype=torch.float32)
        return super()._per_head(name, values)


def __getattr__(name: str) -> Any:
    """`CPUAttentionBackend`: the class that serves the engine being built."""
    if name != "CPUAttentionBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return V1CPUBackend if serves(get_current_vllm_config()) else _VllmBackend
