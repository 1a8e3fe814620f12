"""What every release's adapter has in common: v1_cpu's classes as vLLM's layers use them. Imports no vLLM.

An adapter (`backend_0_32`, `backend_0_16`, `backend_0_11`) derives from these and from its release's abstract classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu.backend import TorchSDPABackend, TorchSDPABackendImpl, TorchSDPAMetadata, TorchSDPAMetadataBuilderV1
from v1_cpu.kernels.native_kernel import _NativePagedAttention
from v1_cpu.select import serving
from v1_cpu.specs import AttentionType
from v1_cpu.vllm_plugin.bound import UNSCALED, BoundLayer


class Backend(TorchSDPABackend):
    """Static facts. The name is a member of vLLM's enum, which `Attention` looks up."""

    @staticmethod
    def get_name() -> str:
        return "CPU_ATTN"


class Builder(TorchSDPAMetadataBuilderV1):
    """Batches in the runner's order."""

    def _split(self, metadata: TorchSDPAMetadata, common: Any, query_start_loc: Tensor, seq_lens: Tensor) -> None:
        """Every request counts as a prefill: our layers read none of the fields that tell them apart, which would cost
        more in each step than the rest of the batch does."""
        metadata.num_prefills, metadata.num_prefill_tokens = seq_lens.shape[0], query_start_loc.tolist()[-1]


class Impl(TorchSDPABackendImpl):
    """One layer: it goes the long way until a call has passed, and is then bound to its cache (`bound`)."""

    _bound: BoundLayer | None = None

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor,
        attn_metadata: TorchSDPAMetadata | None,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """As the base class."""
        bound = self._bound
        if bound is None or bound.cache() is not kv_cache or attn_metadata is None or output is None:
            result = super().forward(
                layer, query, key, value, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
            self._bind(kv_cache, query.dtype, attn_metadata)
            return result
        slots = attn_metadata.slot_mapping
        if self.forward_includes_kv_cache_update and key is not None and value is not None and slots is not None:
            self.do_kv_cache_update(layer, key, value, kv_cache, slots)
        sinks = None if self.sinks is None else self._per_head("sinks", self.sinks)
        scales = self._layer_scales(layer) if bound.scaled else UNSCALED
        quantised = output_scale is not None or output_block_scale is not None
        if quantised or not bound.attend(query, attn_metadata, output, sinks, scales):
            return super().forward(
                layer, query, None, None, kv_cache, attn_metadata, output, output_scale, output_block_scale
            )
        return output

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """As the base class; the values' size is the layer's, which vLLM does not pass to the constructor."""
        bound = self._bound
        if bound is not None and bound.cache() is kv_cache and self.kv_sharing_target_layer_name is None:
            scales = self._layer_scales(layer) if bound.scaled else UNSCALED
            if bound.write(key, value, slot_mapping, scales):
                return
        if value.dim() == 3:
            self.head_size_v = value.shape[-1]
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)

    def _bind(self, kv_cache: Tensor, dtype: torch.dtype, metadata: TorchSDPAMetadata | None) -> None:
        """After a call that went the long way and passed."""
        if metadata is None or kv_cache.numel() == 0:
            return
        if self.attn_type not in (AttentionType.DECODER, AttentionType.ENCODER_DECODER):
            return
        typed = self._typed(kv_cache, dtype)
        sizes = (self.num_heads, self.num_kv_heads, self.head_size, self.head_size_v, typed.shape[2])
        kernel = serving(self.kernel, dtype, typed.dtype, *sizes)
        if isinstance(kernel, _NativePagedAttention):
            self._bound = BoundLayer(self, kernel, kv_cache, typed, dtype)

    def _per_head(self, name: str, values: Any) -> Tensor | None:
        """Lists become float32: torch's default dtype is the model's while vLLM builds it, and would round them."""
        if isinstance(values, (list, tuple)):
            values = torch.tensor(values, dtype=torch.float32)
        return super()._per_head(name, values)
