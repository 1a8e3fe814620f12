"""What a builder is given: small own versions of vLLM's structures, and how to read vLLM's own, of any release.

Nothing here imports vLLM. An object of vLLM's (`AttentionSpec`, `CommonAttentionMetadata`, `AttentionType`) is
understood by its attribute names, which differ from release to release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class AttentionType:
    """Kinds of attention layers; plain strings, equal to the members of vLLM's class or enum of every release."""

    DECODER = "decoder"
    ENCODER = "encoder"  # the encoder of an encoder-decoder model
    ENCODER_ONLY = "encoder_only"
    ENCODER_DECODER = "encoder_decoder"  # cross-attention


ATTENTION_TYPES = (
    AttentionType.DECODER,
    AttentionType.ENCODER,
    AttentionType.ENCODER_ONLY,
    AttentionType.ENCODER_DECODER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionSpec:
    """The cache of one group of layers."""

    block_size: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype
    head_size_v: int | None = None  # None: head_size
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    attn_type: str = AttentionType.DECODER


@dataclass(slots=True, kw_only=True)
class CommonAttentionMetadata:
    """One batch, for all groups of layers. Builders read it and never change it."""

    query_start_loc: Tensor  # int32 [B + 1]
    seq_lens: Tensor  # int32 [B], new tokens included
    block_table_tensor: Tensor  # int32 [B, max_blocks]
    slot_mapping: Tensor  # int64 [T]
    num_reqs: int
    num_actual_tokens: int  # padding excluded
    max_query_len: int
    max_seq_len: int
    causal: bool | Tensor = True
    encoder_seq_lens: Tensor | None = None  # int32 [B], for a cross-attention group
    is_prefilling: Tensor | None = None  # bool [B]: computed tokens < prompt tokens

    @classmethod
    def of(
        cls, query_lens: list[int], seq_lens: list[int], block_table_tensor: Tensor, slot_mapping: Tensor, **rest: Any
    ) -> CommonAttentionMetadata:
        """From Python lists: for scripts and tests."""
        starts = torch.tensor([0, *query_lens], dtype=torch.int32).cumsum(0, dtype=torch.int32)
        return cls(
            query_start_loc=starts,
            seq_lens=torch.tensor(seq_lens, dtype=torch.int32),
            block_table_tensor=block_table_tensor,
            slot_mapping=slot_mapping,
            num_reqs=len(query_lens),
            num_actual_tokens=sum(query_lens),
            max_query_len=max(query_lens, default=0),
            max_seq_len=max(seq_lens, default=0),
            **rest,
        )


def spec_attn_type(spec: Any) -> str:
    """The kind of layers a spec, ours or vLLM's, is for."""
    own = getattr(spec, "attn_type", None)
    if own is not None:
        return attention_type(own)
    names = {base.__name__ for base in type(spec).__mro__}
    if "CrossAttentionSpec" in names:
        return AttentionType.ENCODER_DECODER
    if "EncoderOnlyAttentionSpec" in names:
        return AttentionType.ENCODER_ONLY
    return AttentionType.DECODER


def attention_type(value: Any) -> str:
    """The plain string of a member of vLLM's `AttentionType`, whether that is a class of strings or an enum."""
    text = str(getattr(value, "value", value))
    if text not in ATTENTION_TYPES:
        raise NotImplementedError(f"attn_type: {value!r}; must be one of {', '.join(ATTENTION_TYPES)}")
    return text
