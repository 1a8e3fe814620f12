"""v1_cpu's backend for vLLM 0.10.0 to 0.11.0, which have no registry: a platform that is vLLM's CPU in all else.

Only checked against the released source: those wheels do not load beside today's system libraries.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from typing import Any

from vllm.attention.backends.abstract import AttentionBackend, AttentionImpl
from vllm.platforms.cpu import CpuPlatform
from vllm.v1.attention.backends.utils import AttentionMetadataBuilder

from v1_cpu.vllm_plugin.choice import serves
from v1_cpu.vllm_plugin.classes import Backend, Builder, Impl

OWN = "vllm.v1.attention.backends.cpu_attn.TorchSDPABackend"


class V1CpuPlatform(CpuPlatform):
    """vLLM's CPU platform with another backend where its own would serve."""

    @classmethod
    def get_attn_backend_cls(cls, *args: Any, **kwargs: Any) -> str:
        """vLLM refuses what it refuses; the one class it names is then replaced."""
        path: str = super().get_attn_backend_cls(*args, **kwargs)
        return f"{__name__}.CPUAttentionBackend" if path == OWN else path


class V1CPUBackend(Backend, AttentionBackend):
    """Static facts. vLLM's class still has abstract methods of V0; nobody makes an object of it."""

    @staticmethod
    def get_name() -> str:
        return "TORCH_SDPA"

    @staticmethod
    def get_impl_cls() -> type[V1CPUImpl]:
        return V1CPUImpl

    @staticmethod
    def get_builder_cls() -> type[V1CPUMetadataBuilder]:
        return V1CPUMetadataBuilder


class V1CPUMetadataBuilder(Builder, AttentionMetadataBuilder):
    """Takes the arguments of 0.10 and of 0.11."""


class V1CPUImpl(Impl, AttentionImpl):
    """One layer. `forward` writes new keys and values itself."""


def __getattr__(name: str) -> Any:
    """`CPUAttentionBackend`: the class that serves the engine being built."""
    if name != "CPUAttentionBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vllm.config import get_current_vllm_config
    from vllm.v1.attention.backends.cpu_attn import TorchSDPABackend as own

    return V1CPUBackend if serves(get_current_vllm_config()) else own
