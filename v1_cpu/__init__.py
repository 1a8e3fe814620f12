"""v1_cpu: a complete V1 CPU attention backend. Importing it loads no kernel; names resolve when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from v1_cpu.attention import merge_attention_states, paged_attention, varlen_attention
    from v1_cpu.backend import (
        TorchSDPABackend,
        TorchSDPABackendImpl,
        TorchSDPAMetadata,
        TorchSDPAMetadataBuilderV1,
    )
    from v1_cpu.cache import allocate_kv_cache, copy_blocks, read_kv_cache, swap_blocks, write_kv_cache
    from v1_cpu.convert import convert_kv_cache
    from v1_cpu.kernels import Kernel
    from v1_cpu.plan import Plan, make_plan
    from v1_cpu.select import KernelChoice, which
    from v1_cpu.specs import AttentionSpec, AttentionType, CommonAttentionMetadata

    PagedAttention: type[Kernel]

_HOMES = {
    "AttentionSpec": "specs",
    "AttentionType": "specs",
    "CommonAttentionMetadata": "specs",
    "KernelChoice": "select",
    "Plan": "plan",
    "TorchSDPABackend": "backend",
    "TorchSDPABackendImpl": "backend",
    "TorchSDPAMetadata": "backend",
    "TorchSDPAMetadataBuilderV1": "backend",
    "allocate_kv_cache": "cache",
    "convert_kv_cache": "convert",
    "copy_blocks": "cache",
    "make_plan": "plan",
    "merge_attention_states": "attention",
    "paged_attention": "attention",
    "read_kv_cache": "cache",
    "swap_blocks": "cache",
    "varlen_attention": "attention",
    "which": "select",
    "write_kv_cache": "cache",
}
_KERNELS = {"_IPEXPagedAttention": "ipex", "_NativePagedAttention": "native", "_PagedAttention": "torch"}
__all__ = [
    "AttentionSpec",
    "AttentionType",
    "CommonAttentionMetadata",
    "KernelChoice",
    "PagedAttention",
    "Plan",
    "TorchSDPABackend",
    "TorchSDPABackendImpl",
    "TorchSDPAMetadata",
    "TorchSDPAMetadataBuilderV1",
    "allocate_kv_cache",
    "convert_kv_cache",
    "copy_blocks",
    "make_plan",
    "merge_attention_states",
    "paged_attention",
    "read_kv_cache",
    "swap_blocks",
    "varlen_attention",
    "which",
    "write_kv_cache",
]


def __getattr__(name: str) -> Any:
    """Resolve a public name; `PagedAttention` is the class of the kernel that `which()` names."""
    if name in _HOMES:
        value = getattr(importlib.import_module(f"v1_cpu.{_HOMES[name]}"), name)
    elif name == "PagedAttention" or name in _KERNELS:
        from v1_cpu import select

        value = select.kernel_class(_KERNELS.get(name) or select.which().name)
    else:
        raise AttributeError(f"module 'v1_cpu' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
