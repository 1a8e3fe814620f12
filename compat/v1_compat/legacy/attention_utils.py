"""`vllm.attention.backends.utils`: slots, encoder-decoder queries and the state class of V0's CPU backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeVar

from torch import Tensor

from v1_compat.legacy.abstract import AttentionMetadata, AttentionMetadataBuilder, AttentionState, AttentionType
from v1_cpu.specs import attention_type

__all__ = [
    "PAD_SLOT_ID",
    "STR_NOT_IMPL_ENC_DEC_ROCM_HIP",
    "CommonAttentionState",
    "CommonMetadataBuilder",
    "MLADims",
    "TAttentionMetadata",
    "compute_slot_mapping",
    "compute_slot_mapping_start_idx",
    "get_mla_dims",
    "get_num_prefill_decode_query_kv_tokens",
    "get_seq_len_block_table_args",
    "is_all_cross_attn_metadata_set",
    "is_all_encoder_attn_metadata_set",
    "is_block_tables_empty",
]

PAD_SLOT_ID = -1
STR_NOT_IMPL_ENC_DEC_ROCM_HIP = "Encoder/decoder models did not run on ROCm in V0."
TAttentionMetadata = TypeVar("TAttentionMetadata", bound=AttentionMetadata)


def is_block_tables_empty(block_tables: dict[int, list[int] | None] | None) -> bool:
    """Whether there are no blocks yet, as in a profiling run: None, or a dict of nothing but None."""
    if block_tables is None:
        return True
    return isinstance(block_tables, dict) and all(blocks is None for blocks in block_tables.values())


def compute_slot_mapping_start_idx(
    is_prompt: bool, query_len: int, context_len: int, sliding_window: int | None
) -> int:
    """The first token of a prompt whose key is kept: those before the window are not."""
    return max(0, query_len - sliding_window) if is_prompt and sliding_window is not None else 0


def compute_slot_mapping(
    is_profile_run: bool,
    slot_mapping: list[int],
    seq_id: int,
    seq_len: int,
    context_len: int,
    start_idx: int,
    block_size: int,
    block_tables: dict[int, list[int]],
) -> None:
    """Append the slots of tokens `context_len` to `seq_len` to `slot_mapping`; -1 for those before `start_idx`."""
    if is_profile_run:
        slot_mapping.extend([PAD_SLOT_ID] * seq_len)
        return
    slot_mapping.extend([PAD_SLOT_ID] * max(0, start_idx - context_len))
    blocks = block_tables[seq_id]
    slot_mapping.extend(
        blocks[i // block_size] * block_size + i % block_size for i in range(max(start_idx, context_len), seq_len)
    )


def is_all_encoder_attn_metadata_set(attn_metadata: Any) -> bool:
    """Everything that encoder attention reads is there."""
    wanted = (attn_metadata.encoder_seq_lens, attn_metadata.encoder_seq_lens_tensor, attn_metadata.max_encoder_seq_len)
    return all(each is not None for each in wanted)


def is_all_cross_attn_metadata_set(attn_metadata: Any) -> bool:
    """Everything that cross-attention reads is there."""
    return (
        bool(attn_metadata.is_all_encoder_attn_metadata_set)
        and attn_metadata.cross_slot_mapping is not None
        and attn_metadata.cross_block_tables is not None
    )


def get_seq_len_block_table_args(
    attn_metadata: Any, is_prompt: bool, attn_type: str
) -> tuple[Tensor | None, int | None, Tensor | None]:
    """(lengths, longest, block tables) of the keys that this kind of attention reads."""
    kind = _kind(attn_type)
    if kind == AttentionType.DECODER:
        longest = attn_metadata.max_prefill_seq_len if is_prompt else attn_metadata.max_decode_seq_len
        return attn_metadata.seq_lens_tensor, longest, attn_metadata.block_tables
    if kind == AttentionType.ENCODER_ONLY:
        raise AttributeError(f"Invalid attention type {attn_type}")
    tables = attn_metadata.cross_block_tables if kind == AttentionType.ENCODER_DECODER else None
    return attn_metadata.encoder_seq_lens_tensor, attn_metadata.max_encoder_seq_len, tables


def get_num_prefill_decode_query_kv_tokens(attn_metadata: Any, attn_type: str) -> tuple[int, int, int]:
    """(prefill query tokens, prefill key tokens, decode query tokens) for this kind of attention."""
    kind = _kind(attn_type)
    prefills, decodes = attn_metadata.num_prefill_tokens, attn_metadata.num_decode_tokens
    if kind in (AttentionType.DECODER, AttentionType.ENCODER_ONLY):
        return prefills, prefills, decodes
    encoder = attn_metadata.num_encoder_tokens
    assert encoder is not None, "num_encoder_tokens: None; encoder and cross-attention need it"
    return (encoder, encoder, 0) if kind == AttentionType.ENCODER else (prefills, encoder, decodes)


class CommonAttentionState(AttentionState[AttentionMetadata]):
    """What `get_state_cls` named. There are no graphs to capture on a CPU; V1 has no such class."""

    def __init__(self, runner: Any) -> None:
        self.runner = runner

    @contextmanager
    def graph_capture(self, max_batch_size: int) -> Iterator[None]:
        _no_graphs("graph_capture")
        yield

    def graph_clone(self, batch_size: int) -> CommonAttentionState:
        _no_graphs("graph_clone")

    def graph_capture_get_metadata_for_batch(
        self, batch_size: int, is_encoder_decoder_model: bool = False
    ) -> AttentionMetadata:
        _no_graphs("graph_capture_get_metadata_for_batch")

    def get_graph_input_buffers(
        self, attn_metadata: AttentionMetadata, is_encoder_decoder_model: bool = False
    ) -> dict[str, Any]:
        _no_graphs("get_graph_input_buffers")

    def prepare_graph_input_buffers(
        self, input_buffers: dict[str, Any], attn_metadata: AttentionMetadata, is_encoder_decoder_model: bool = False
    ) -> None:
        _no_graphs("prepare_graph_input_buffers")

    def begin_forward(self, model_input: Any) -> None:
        """Nothing to prepare."""


class CommonMetadataBuilder(AttentionMetadataBuilder[TAttentionMetadata], Generic[TAttentionMetadata]):
    """The GPU backends' builder; may be subclassed, cannot be made."""

    _metadata_cls: type[TAttentionMetadata]

    def __init__(self, input_builder: Any) -> None:
        raise NotImplementedError(
            "CommonMetadataBuilder: V0's GPU runner, whose input it took, is gone; build metadata from V1's "
            "CommonAttentionMetadata in a subclass of AttentionMetadataBuilder (vllm.v1.attention.backend), or of "
            "v1_cpu.TorchSDPAMetadataBuilderV1"
        )

    def prepare(self) -> None: ...

    def build(
        self, seq_lens: list[int], query_lens: list[int], cuda_graph_pad_size: int, batch_size: int
    ) -> TAttentionMetadata:
        raise NotImplementedError("CommonMetadataBuilder.build: see CommonMetadataBuilder")


@dataclass
class MLADims:
    """Sizes of multi-head latent attention."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


def get_mla_dims(model_config: Any) -> MLADims:
    """The sizes that a model's configuration says."""
    config = model_config.hf_text_config
    return MLADims(
        q_lora_rank=getattr(config, "q_lora_rank", None),
        kv_lora_rank=config.kv_lora_rank,
        qk_nope_head_dim=config.qk_nope_head_dim,
        qk_rope_head_dim=config.qk_rope_head_dim,
        v_head_dim=config.v_head_dim,
    )


def _no_graphs(name: str) -> NoReturn:
    raise NotImplementedError(
        f"CommonAttentionState.{name}: there are no CUDA graphs on a CPU, and V1 has no attention state; "
        "remove the call, and get_state_cls with it"
    )


def _kind(attn_type: str) -> str:
    try:
        return attention_type(attn_type)
    except NotImplementedError as error:
        raise AttributeError(f"Invalid attention type {attn_type!s}") from error
