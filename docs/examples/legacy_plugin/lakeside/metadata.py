"""Builds attention metadata by hand, for benchmarks without an engine."""

import torch
from vllm.attention import AttentionMetadata, AttentionType
from vllm.attention.backends.torch_sdpa import TorchSDPABackendImpl, TorchSDPAMetadata
from vllm.attention.ops.ipex_attn import PagedAttention


def prefill_metadata(lengths: list[int], block_size: int = 16) -> AttentionMetadata:
    """Metadata of one batch of prompts, placed one after the other in the cache."""
    tokens = sum(lengths)
    return TorchSDPAMetadata(
        num_prefills=len(lengths),
        num_prefill_tokens=tokens,
        num_decode_tokens=0,
        slot_mapping=torch.arange(tokens, dtype=torch.long),
        multi_modal_placeholder_index_maps=None,
        enable_kv_scales_calculation=False,
        seq_lens_tensor=torch.tensor(lengths, dtype=torch.int),
        max_decode_seq_len=0,
        block_tables=torch.empty(0),
        chunked_prefill=False,
        seq_lens=lengths,
    )


def cache_shape(blocks: int, heads: int, size: int) -> tuple[int, ...]:
    return PagedAttention.get_kv_cache_shape(blocks, 16, heads, size)


def implementation(heads: int, size: int) -> TorchSDPABackendImpl:
    return TorchSDPABackendImpl(
        num_heads=heads,
        head_size=size,
        scale=size**-0.5,
        num_kv_heads=heads,
        alibi_slopes=None,
        sliding_window=None,
        kv_cache_dtype="auto",
        blocksparse_params=None,
        attn_type=AttentionType.DECODER,
    )


def label(lengths: list[int]) -> str:
    """What a benchmark of such a batch is called."""
    return f"{AttentionType.DECODER}-{len(lengths)}"
