"""`vllm.attention.backends.abstract`: the base classes of V0's attention backends.

With vLLM installed, names whose contract is V0's are vLLM's own objects (`AttentionType`, `AttentionImpl`,
`AttentionLayer`); the others derive from vLLM's, so that isinstance and issubclass agree, and add what V0 had.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor

import v1_cpu
from v1_compat.legacy.home import attention_home

if TYPE_CHECKING:
    _BackendBase = ABC
    _MetadataBase = object
else:
    _home = attention_home()
    _BackendBase = ABC if _home is None else _home.AttentionBackend
    _MetadataBase = getattr(_home, "AttentionMetadata", object)

__all__ = [
    "AttentionBackend",
    "AttentionImpl",
    "AttentionLayer",
    "AttentionMetadata",
    "AttentionMetadataBuilder",
    "AttentionState",
    "AttentionType",
    "MLAAttentionImpl",
    "T",
    "is_quantized_kv_cache",
]


class AttentionBackend(_BackendBase):
    """Static facts about a backend; subclassed, never instantiated."""

    accept_output_buffer: ClassVar[bool] = False

    @staticmethod
    @abstractmethod
    def get_name() -> str:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def get_impl_cls() -> type[Any]:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def get_metadata_cls() -> type[Any]:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def get_state_cls() -> type[Any]:
        raise NotImplementedError

    @classmethod
    def make_metadata(cls, *args: Any, **kwargs: Any) -> Any:
        """An object of `get_metadata_cls()`."""
        return cls.get_metadata_cls()(*args, **kwargs)

    @staticmethod
    @abstractmethod
    def get_builder_cls() -> type[Any]:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def get_kv_cache_shape(num_blocks: int, block_size: int, num_kv_heads: int, head_size: int) -> tuple[int, ...]:
        raise NotImplementedError

    @staticmethod
    def get_kv_cache_stride_order() -> tuple[int, ...]:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        raise NotImplementedError

    def advance_step(
        self, model_input: Any, sampled_token_ids: Tensor | None, block_size: int, num_seqs: int, num_queries: int
    ) -> None:
        raise NotImplementedError("advance_step: multi-step scheduling is gone; V1 schedules every step")

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """vLLM's own backends, and those of `v1_cpu`, are AttentionBackends, too."""
        if cls is AttentionBackend and _in_mro(other, _BackendBase, v1_cpu.TorchSDPABackend):
            return True
        return NotImplemented


@dataclasses.dataclass
class AttentionMetadata(_MetadataBase, metaclass=ABCMeta):
    """One batch of P prefill requests and D decode requests, T query tokens, prefills first."""

    num_prefills: int  # P
    num_prefill_tokens: int
    num_decode_tokens: int  # D
    slot_mapping: Tensor  # int64 [T]; -1 pads
    multi_modal_placeholder_index_maps: dict[str, Any] | None
    enable_kv_scales_calculation: bool

    @property
    def prefill_metadata(self) -> AttentionMetadata | None:
        """What prefilling reads, or None; subclasses say it."""
        return None

    @property
    def decode_metadata(self) -> AttentionMetadata | None:
        """What decoding reads, or None; subclasses say it."""
        return None

    def asdict_zerocopy(self, skip_fields: set[str] | None = None) -> dict[str, Any]:
        """The fields by name, tensors as they are, without `skip_fields`."""
        skipped = skip_fields or set()
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in skipped}

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        if cls is AttentionMetadata and _in_mro(other, _MetadataBase, v1_cpu.TorchSDPAMetadata):
            return True
        return NotImplemented


T = TypeVar("T", bound=AttentionMetadata)


class AttentionState(ABC, Generic[T]):
    """What a V0 model runner kept for CUDA graphs. V1 has none: metadata builders own their buffers."""

    @abstractmethod
    def __init__(self, runner: Any) -> None: ...

    @abstractmethod
    @contextmanager
    def graph_capture(self, max_batch_size: int) -> Iterator[None]:
        yield

    @abstractmethod
    def graph_clone(self, batch_size: int) -> AttentionState[T]: ...

    @abstractmethod
    def graph_capture_get_metadata_for_batch(self, batch_size: int, is_encoder_decoder_model: bool = False) -> T: ...

    @abstractmethod
    def get_graph_input_buffers(self, attn_metadata: T, is_encoder_decoder_model: bool = False) -> dict[str, Any]: ...

    @abstractmethod
    def prepare_graph_input_buffers(
        self, input_buffers: dict[str, Any], attn_metadata: T, is_encoder_decoder_model: bool = False
    ) -> None: ...

    @abstractmethod
    def begin_forward(self, model_input: Any) -> None: ...


class AttentionMetadataBuilder(ABC, Generic[T]):
    """V0's builder: made from the runner's input builder. V1's is another class with another constructor."""

    @abstractmethod
    def __init__(self, input_builder: Any) -> None:
        raise NotImplementedError

    @abstractmethod
    def prepare(self) -> None:
        raise NotImplementedError

    @abstractmethod
    def build(self, seq_lens: list[int], query_lens: list[int], cuda_graph_pad_size: int, batch_size: int) -> T:
        raise NotImplementedError


class _AttentionLayer(Protocol):
    """What an implementation may read of its layer."""

    _q_scale: Tensor
    _k_scale: Tensor
    _v_scale: Tensor
    _k_scale_float: float
    _v_scale_float: float
    _prob_scale: Tensor

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, kv_cache: Tensor, attn_metadata: AttentionMetadata
    ) -> Tensor: ...


class _AttentionImpl(ABC, Generic[T]):
    """One attention layer's computation."""

    @abstractmethod
    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        blocksparse_params: dict[str, Any] | None = None,
        logits_soft_cap: float | None = None,
        attn_type: str = v1_cpu.AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
    ) -> None:
        raise NotImplementedError

    @abstractmethod
    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: T,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
    ) -> Tensor:
        raise NotImplementedError

    def fused_output_quant_supported(self, dtype: torch.dtype, static: bool, group_shape: tuple[int, int]) -> bool:
        """Whether `forward` can quantise its output; not unless a subclass says so."""
        return False


if TYPE_CHECKING:
    AttentionType = v1_cpu.AttentionType
    AttentionLayer = _AttentionLayer
    AttentionImpl = _AttentionImpl
else:
    AttentionType = getattr(_home, "AttentionType", v1_cpu.AttentionType)
    AttentionLayer = getattr(_home, "AttentionLayer", _AttentionLayer)
    AttentionImpl = getattr(_home, "AttentionImpl", _AttentionImpl)
    for _own in (_AttentionLayer, _AttentionImpl):
        _own.__name__ = _own.__qualname__ = _own.__name__.lstrip("_")


class MLAAttentionImpl(AttentionImpl[T], Generic[T]):
    """V0's multi-head latent attention: one `forward` where V1 has `forward_mha` and `forward_mqa`."""

    @abstractmethod
    def forward(
        self,
        layer: Any,
        hidden_states_or_cq: Tensor,
        kv_c_normed: Tensor,
        k_pe: Tensor,
        kv_cache: Tensor,
        attn_metadata: T,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
    ) -> Tensor:
        raise NotImplementedError

    def fused_output_quant_supported(self, *args: Any, **kwargs: Any) -> bool:
        """No, whichever release's arguments are given."""
        return False


def is_quantized_kv_cache(kv_cache_dtype: str) -> bool:
    """V0's rule: everything but "auto". (V1 asks whether the name says fp8.)"""
    return kv_cache_dtype != "auto"


def _in_mro(other: type, *wanted: type) -> bool:
    return any(w in other.__mro__ for w in wanted if w not in (ABC, object))
