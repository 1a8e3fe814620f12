"""`vllm.attention.selector`: `get_attn_backend` in V0's signature. On a CPU it has one answer."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from v1_compat.legacy.abstract import AttentionBackend
from v1_compat.legacy.cpu_mla import CPUMLABackend
from v1_compat.legacy.platform_backend import _Backend
from v1_compat.legacy.torch_sdpa import TorchSDPABackend

__all__ = [
    "STR_BACKEND_ENV_VAR",
    "AttentionBackend",
    "_Backend",
    "_cached_get_attn_backend",
    "backend_name_to_enum",
    "forced_attn_backend",
    "get_attn_backend",
    "get_env_variable_attn_backend",
    "get_global_forced_attn_backend",
    "global_force_attn_backend",
    "global_force_attn_backend_context_manager",
    "resolve_obj_by_qualname",
    "supports_head_size",
]

STR_BACKEND_ENV_VAR = "VLLM_ATTENTION_BACKEND"
forced_attn_backend: _Backend | None = None


def backend_name_to_enum(backend_name: str) -> _Backend | None:
    """The member of that name, or None."""
    assert backend_name is not None, "backend_name: None; must be a str"
    return _Backend.__members__.get(backend_name)


def get_env_variable_attn_backend() -> _Backend | None:
    """What `VLLM_ATTENTION_BACKEND` names, or None."""
    name = os.environ.get(STR_BACKEND_ENV_VAR)
    return None if name is None else backend_name_to_enum(name)


def global_force_attn_backend(attn_backend: _Backend | None) -> None:
    """Force a backend for the process; None for the automatic choice."""
    global forced_attn_backend
    forced_attn_backend = attn_backend
    _cached_get_attn_backend.cache_clear()


def get_global_forced_attn_backend() -> _Backend | None:
    """The forced backend, or None."""
    return forced_attn_backend


@contextmanager
def global_force_attn_backend_context_manager(attn_backend: _Backend) -> Iterator[None]:
    """Force a backend inside the block."""
    before = forced_attn_backend
    global_force_attn_backend(attn_backend)
    try:
        yield
    finally:
        global_force_attn_backend(before)


def supports_head_size(attn_backend: str | type[AttentionBackend], head_size: int) -> bool:
    """Whether a backend, given as a class or as its dotted path, takes this head size."""
    if isinstance(attn_backend, str):
        try:
            attn_backend = resolve_obj_by_qualname(attn_backend)
        except ImportError:
            return False
    sizes = getattr(attn_backend, "get_supported_head_sizes", None)
    if sizes is not None:
        return not sizes() or head_size in sizes()  # V1: an empty list is every size
    validate = getattr(attn_backend, "validate_head_size", None)
    if validate is None:
        raise NotImplementedError(f"{attn_backend!r}: says nothing about head sizes; give it get_supported_head_sizes")
    try:
        validate(head_size)
    except Exception:
        return False
    return True


def get_attn_backend(
    head_size: int,
    dtype: torch.dtype,
    kv_cache_dtype: str | torch.dtype | None,
    block_size: int,
    is_attention_free: bool,
    is_blocksparse: bool = False,
    use_mla: bool = False,
) -> type[AttentionBackend]:
    """The attention backend class for a CPU, whose contract is V0's: `TorchSDPABackend`, or `CPUMLABackend`.

    A backend that is forced, or named by `VLLM_ATTENTION_BACKEND`, does not change that, as it did not in V0.

    Raises
    ------
    NotImplementedError
        Block-sparse attention; a model without attention.
    """
    return _cached_get_attn_backend(
        head_size, dtype, kv_cache_dtype, block_size, is_attention_free, is_blocksparse, False, use_mla
    )


@functools.cache
def _cached_get_attn_backend(
    head_size: int,
    dtype: torch.dtype,
    kv_cache_dtype: str | torch.dtype | None,
    block_size: int,
    is_attention_free: bool,
    is_blocksparse: bool = False,
    use_v1: bool = False,
    use_mla: bool = False,
) -> type[AttentionBackend]:
    if is_blocksparse:
        raise NotImplementedError(
            "is_blocksparse: block-sparse attention has no successor in V1; leave the argument out for dense attention"
        )
    if is_attention_free:
        raise NotImplementedError(
            "is_attention_free: V1 asks for no backend where a model has no attention layers; leave the call out"
        )
    return CPUMLABackend if use_mla else TorchSDPABackend


def resolve_obj_by_qualname(qualname: str) -> Any:
    """The object at a dotted path."""
    module, name = qualname.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)
