"""What every release's adapter has in common: v1_cpu's classes as vLLM's layers use them. Imports no vLLM.

An adapter (`backend_0_32`, `backend_0_16`, `backend_0_11`) derives from these and from its release's abstract classes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu.backend import TorchSDPABackend, TorchSDPABackendImpl, TorchSDPAMetadata, TorchSDPAMetadataBuilderV1


class Backend(TorchSDPABackend):
    """Static facts. The name is a member of vLLM's enum, which `Attention` looks up."""

    @staticmethod
    def get_name() -> str:
        return "CPU_ATTN"


class Builder(TorchSDPAMetadataBuilderV1):
    """Batches in the runner's order."""

    def _split(self, metadata: TorchSDPAMetadata, common: Any, starts: list[int], lens: list[int]) -> None:
        """Every request counts as a prefill: our layers read none of the fields that tell them apart, which would cost
        more in each step than the rest of the batch does."""
        metadata.num_prefills, metadata.num_prefill_tokens = len(lens), starts[-1]


class Impl(TorchSDPABackendImpl):
    """One layer."""

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """As the base class; the values' size is the layer's, which vLLM does not pass to the constructor."""
        if value.dim() == 3:
            self.head_size_v = value.shape[-1]
        super().do_kv_cache_update(layer, key, value, kv_cache, slot_mapping)

    def _per_head(self, name: str, values: Any) -> Tensor | None:
        """Lists become float32: torch's default dtype is the model's while vLLM builds it, and would round them."""
        if isinstance(values, (list, tuple)):
            values = torch.tensor(values, dtype=torch.float32)
        return super()._per_head(name, values)
