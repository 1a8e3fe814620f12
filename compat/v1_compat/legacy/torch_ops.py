"""`torch.ops._C` and `torch.ops._C_cache_ops`: V0's compiled operations under the names that code calls directly.

vLLM's CPU libraries have them up to 0.11.0. Later ones, whose `vllm._custom_ops` still calls most of them, and
processes without vLLM get ours. The computation is imported when the first of them is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

Say = Callable[[str], None]  # told the name of each operation that is called

_DECODE = (
    "Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, float scale, Tensor block_tables, "
    "Tensor seq_lens, int block_size, int max_seq_len, Tensor? alibi_slopes, str kv_cache_dtype, Tensor k_scale, "
    "Tensor v_scale, int tp_rank, int blocksparse_local_blocks, int blocksparse_vert_stride, "
    "int blocksparse_block_size, int blocksparse_head_sliding_step) -> ()"
)
_OPERATIONS: dict[str, tuple[str, str]] = {  # -> schema, function of `v1_compat.legacy.custom_ops`
    "_C.paged_attention_v1": (f"(Tensor(a!) out, {_DECODE}", "paged_attention_v1"),
    "_C.paged_attention_v2": (
        f"(Tensor(a!) out, Tensor(b!) exp_sums, Tensor(c!) max_logits, Tensor(d!) tmp_out, {_DECODE}",
        "paged_attention_v2",
    ),
    "_C_cache_ops.reshape_and_cache": (
        "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor slot_mapping, "
        "str kv_cache_dtype, Tensor k_scale, Tensor v_scale) -> ()",
        "reshape_and_cache",
    ),
    "_C_cache_ops.copy_blocks": (
        "(Tensor(a!)[] key_caches, Tensor(b!)[] value_caches, Tensor block_mapping) -> ()",
        "copy_blocks",
    ),
    "_C_cache_ops.swap_blocks": ("(Tensor src, Tensor(a!) dst, Tensor block_mapping) -> ()", "swap_blocks"),
    "_C_cache_ops.concat_and_cache_mla": (
        "(Tensor kv_c, Tensor k_pe, Tensor(a!) kv_cache, Tensor slot_mapping, str kv_cache_dtype, Tensor scale) -> ()",
        "concat_and_cache_mla",
    ),
    "_C_cpu.mla_decode_kvcache": (
        "(Tensor(a!) out, Tensor query, Tensor kv_cache, float scale, Tensor block_tables, Tensor seq_lens) -> ()",
        "mla_decode_kvcache_cpu",
    ),
}
_libraries: list[torch.library.Library] = []  # an operator goes when its library is collected


def register(say: Say | None = None) -> list[str]:
    """Register those that are missing; their names. Never before a vLLM up to 0.11.0 has loaded its own."""
    added = []
    for path, (schema, function) in _OPERATIONS.items():
        namespace, name = path.split(".")
        if hasattr(getattr(torch.ops, namespace), name):
            continue
        library = torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
        library.define(name + schema)  # type: ignore[no-untyped-call]
        library.impl(name, _caller(function, say), "CPU")  # type: ignore[no-untyped-call]
        _libraries.append(library)
        added.append(path)
    return added


def unregister() -> None:
    """Take them away again."""
    while _libraries:
        _libraries.pop()._destroy()  # type: ignore[no-untyped-call]


def _caller(function: str, say: Say | None) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        if say is not None:
            say(function)
        return getattr(importlib.import_module("v1_compat.legacy.custom_ops"), function)(*args)

    return call
