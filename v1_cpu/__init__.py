"""v1_cpu: a complete V1 CPU attention backend. Importing it loads no kernel; names resolve when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from v1_cpu.attention import merge_attention_states, paged_attention, varlen_attention
    from v1_cpu.cache import allocate_kv_cache, copy_blocks, read_kv_cache, swap_blocks, write_kv_cache
    from v1_cpu.plan import Plan, make_plan
    from v1_cpu.select import KernelChoice, which

_HOMES = {
    "KernelChoice": "select",
    "Plan": "plan",
    "allocate_kv_cache": "cache",
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
__all__ = [
    "KernelChoice",
    "Plan",
    "allocate_kv_cache",
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
    if name in _HOMES:
        value = getattr(importlib.import_module(f"v1_cpu.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'v1_cpu' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
