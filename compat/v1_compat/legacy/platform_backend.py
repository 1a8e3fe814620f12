"""`vllm.platforms.interface._Backend`: the names of V0's attention backends, level with vLLM's own enumeration."""

from __future__ import annotations

import enum
from typing import Any

__all__ = ["_Backend"]

_OF_V1 = "_VLLM_V1"  # how releases with both engines marked V1's backends
_VLLMS = frozenset({"AttentionBackendEnum", "_Backend"})  # from 0.11.1, before
_ON_CPU = {"TORCH_SDPA": "CPU_ATTN"}  # V0's name, vLLM's


class _BackendType(enum.EnumMeta):
    """Answers for vLLM's members, and says what to write for a name that is no member."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or _is_vllms(instance)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        members: dict[str, Any] = cls.__dict__.get("_member_map_", {})
        if name in members:
            return members[name]
        raise AttributeError(
            f"_Backend.{name}: vLLM had no such member up to 0.11.0; those of later releases are in "
            "AttentionBackendEnum (vllm.v1.attention.backends.registry), with which members of _Backend compare"
        )


class _Backend(enum.Enum, metaclass=_BackendType):
    """Every member of 0.8.5 to 0.11.0.

    A member is equal to the member of vLLM's enumeration that stands for the same backend, and hashes as it does:
    the one of its name, without the ending `_VLLM_V1`. TORCH_SDPA, V0's backend on CPUs, is also equal to CPU_ATTN,
    vLLM's there, but no key of the same entry: a hash is one.
    """

    FLASH_ATTN = enum.auto()
    FLASH_ATTN_VLLM_V1 = enum.auto()
    TRITON_ATTN_VLLM_V1 = enum.auto()
    XFORMERS = enum.auto()
    ROCM_FLASH = enum.auto()
    ROCM_AITER_MLA = enum.auto()
    ROCM_AITER_MLA_VLLM_V1 = enum.auto()
    TORCH_SDPA = enum.auto()
    FLASHINFER = enum.auto()
    FLASHINFER_VLLM_V1 = enum.auto()
    TRITON_MLA = enum.auto()
    TRITON_MLA_VLLM_V1 = enum.auto()
    FLASHMLA_VLLM_V1 = enum.auto()
    FLASHMLA = enum.auto()
    CUTLASS_MLA_VLLM_V1 = enum.auto()
    HPU_ATTN = enum.auto()
    PALLAS = enum.auto()
    PALLAS_VLLM_V1 = enum.auto()
    IPEX = enum.auto()
    BLOCK_SPARSE_FLASH_ATTN = enum.auto()
    DUAL_CHUNK_FLASH_ATTN = enum.auto()
    NO_ATTENTION = enum.auto()
    FLEX_ATTENTION = enum.auto()
    CUTLASS_MLA = enum.auto()  # this and below: 0.10.0 to 0.11.0
    DIFFERENTIAL_FLASH_ATTN = enum.auto()
    FLASHINFER_MLA = enum.auto()
    FLASH_ATTN_MLA = enum.auto()
    ROCM_AITER_FA = enum.auto()
    ROCM_ATTN = enum.auto()
    TREE_ATTN = enum.auto()
    TRITON_ATTN = enum.auto()
    TORCH_SDPA_VLLM_V1 = enum.auto()
    XFORMERS_VLLM_V1 = enum.auto()

    def __eq__(self, other: object) -> bool:
        if type(other) is not _Backend and _is_vllms(other):
            name: str = other.name  # type: ignore[attr-defined]
            return name.removesuffix(_OF_V1) == self._on_v1 or name == _ON_CPU.get(self._on_v1)
        return self is other

    def __hash__(self) -> int:
        return hash(self._on_v1)

    @property
    def _on_v1(self) -> str:
        return self.name.removesuffix(_OF_V1)


def _is_vllms(member: object) -> bool:
    """A member of the enumeration that the installed vLLM has in `_Backend`'s place."""
    kind = type(member)
    return isinstance(kind, enum.EnumMeta) and kind.__name__ in _VLLMS and kind.__module__.startswith("vllm.")
