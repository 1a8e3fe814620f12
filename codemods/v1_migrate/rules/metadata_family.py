"""Data about the attention metadata classes: which they are, what became of their fields, and how to compute them.

The formulas are those of the inventory's sections 2.2 and 2.3: B requests, P of them prefills (first in V0's order),
D decodes; T query tokens. "common" is the CommonAttentionMetadata that V1's runner hands to the builder.
"""

from __future__ import annotations

from typing import Literal

Family = Literal["cpu", "common", "abstract"]

_CPU = frozenset({"TorchSDPAMetadata", "CPUAttentionMetadata"})
_ABSTRACT = frozenset({
    "vllm.attention.AttentionMetadata",
    "vllm.attention.backends.abstract.AttentionMetadata",
    "vllm.v1.attention.backend.AttentionMetadata",
})  # fmt: skip

# Fields of v1_cpu.TorchSDPAMetadata, all optional (tests hold this against the class itself).
V1_CPU_FIELDS = (
    "num_prefills", "num_prefill_tokens", "num_decode_tokens", "slot_mapping", "seq_lens_tensor", "max_decode_seq_len",
    "block_tables", "chunked_prefill", "seq_lens", "max_query_len", "max_kv_len", "prefill_query_start_loc",
    "kv_start_loc", "prefill_block_tables", "query_start_loc", "encoder_seq_lens", "encoder_seq_lens_tensor",
    "max_encoder_seq_len", "num_encoder_tokens", "cross_slot_mapping", "cross_block_tables",
    "multi_modal_placeholder_index_maps", "enable_kv_scales_calculation", "kv_lens", "block_table", "causal",
    "tree_mask", "is_prefilling",
)  # fmt: skip
V1_CPU_METADATA = "v1_cpu.TorchSDPAMetadata"

# Keywords that are not in any release of the index: older ones, and those of main between 0.11.0 and 0.11.1.
OTHER_SPELLINGS: dict[str, str] = {
    "context_lens": "seq_lens_tensor",
    "decode_block_tables": "block_tables",
    "decode_max_seq_len": "max_decode_seq_len",
    "decode_seq_lens_tensor": "seq_lens_tensor",
    "max_context_len": "max_decode_seq_len",
    "max_seq_len": "max_decode_seq_len",
    "prefill_max_seq_len": "max_kv_len",
    "prefill_seq_start_loc": "kv_start_loc",
    "prompt_lens": "seq_lens",
}
# Keywords of older releases that any value of may go, because other fields say the same.
REDUNDANT = frozenset({"is_prompt", "use_cuda_graph", "kv_cache_dtype"})

# Required by 0.8.5 to 0.10.x, of no use on a CPU: what to add where the target wants it.
CONSTANTS: dict[str, str] = {
    "chunked_prefill": "False",
    "enable_kv_scales_calculation": "False",
    "multi_modal_placeholder_index_maps": "None",
}

# CommonAttentionMetadata: keyword -> the keyword with the same meaning, first one that the target has.
COMMON_SPELLINGS: dict[str, tuple[str, ...]] = {
    "_num_computed_tokens_cpu": ("num_computed_tokens_cpu",),
    "_seq_lens_cpu": ("seq_lens_cpu", "seq_lens_cpu_upper_bound"),
    "dcp_local_seq_lens_cpu": ("dcp_local_seq_lens_cpu_upper_bound",),
    "num_computed_tokens_cpu": ("_num_computed_tokens_cpu",),
    "seq_lens_cpu": ("_seq_lens_cpu", "seq_lens_cpu_upper_bound"),
}
COMMON_RECOMPUTED = frozenset({"num_computed_tokens_cpu", "_num_computed_tokens_cpu"})  # V1 derives them itself

# CommonAttentionMetadata: required field -> (fields it is computed from, expression).
COMMON_DERIVED: dict[str, tuple[tuple[str, ...], str]] = {
    "max_query_len": (("query_start_loc",), "int({query_start_loc}.diff().max())"),
    "max_seq_len": (("seq_lens",), "int({seq_lens}.max())"),
    "num_actual_tokens": (("query_start_loc",), "int({query_start_loc}[-1])"),
    "num_computed_tokens_cpu": (("seq_lens", "query_start_loc"), "({seq_lens} - {query_start_loc}.diff()).cpu()"),
    "num_reqs": (("seq_lens",), "{seq_lens}.shape[0]"),
    "query_start_loc_cpu": (("query_start_loc",), "{query_start_loc}.cpu()"),
    "seq_lens_cpu": (("seq_lens",), "{seq_lens}.cpu()"),
}
COMMON_FORMULAS: dict[str, str] = {
    "block_table_tensor": "the rows of the requests in the block table, int32 [B, max_blocks]",
    "slot_mapping": "block * block_size + offset of every query token, int64 [T], -1 pads",
}

# V0 field -> how to get it from CPUAttentionMetadata (0.11.1 on), where all requests stand in one description.
FORMULAS: dict[str, str] = {
    "attn_bias": "masks are made in the implementation (sdpa_attn_masks until 0.16.0) or inside the kernel",
    "block_tables": "the decodes' rows of `block_table`, which holds all requests, int32 [B, max_blocks]",
    "chunked_prefill": "always true in effect; ask vllm_config.scheduler_config.enable_chunked_prefill if you need it",
    "cross_attn_bias": "gone with the encoder fields",
    "cross_block_tables": "`block_table` of the KV cache group of the cross attention layers",
    "cross_slot_mapping": "`slot_mapping` of the KV cache group of the cross attention layers",
    "decode_metadata": "the object itself: it describes all requests; test for decodes with "
        "(query_start_loc.diff() == 1).any() where you need to",
    "enable_kv_scales_calculation": "gone; it was False on CPUs",
    "encoder_attn_bias": "gone with the encoder fields",
    "encoder_seq_lens": "CommonAttentionMetadata.encoder_seq_lens_cpu",
    "encoder_seq_lens_tensor": "CommonAttentionMetadata.encoder_seq_lens",
    "get_attn_bias": "masks are made in the implementation (until 0.16.0) or inside the kernel",
    "get_seq_len_block_table_args": "read `seq_lens`, `max_seq_len`, `block_table`",
    "get_seq_lens": "query lengths are query_start_loc.diff(), key lengths `seq_lens`",
    "is_all_cross_attn_metadata_set": "the runner calls cross attention layers with their metadata only",
    "is_all_encoder_attn_metadata_set": "the runner calls encoder layers with their metadata only",
    "kv_start_loc": "torch.nn.functional.pad(seq_lens.cumsum(0), (1, 0)), over all requests",
    "max_decode_seq_len": "`max_seq_len`, over all requests, is an upper bound",
    "max_encoder_seq_len": "`max_seq_len` of the KV cache group of the cross attention layers",
    "max_kv_len": "`max_seq_len`, over all requests",
    "multi_modal_placeholder_index_maps": "gone; the runner merges the embeddings before the model is called",
    "num_decode_tokens": "sum of the query lengths of the decodes; "
        "vllm.v1.attention.backends.utils.split_decodes_and_prefills(common) counts them where decodes come first",
    "num_encoder_tokens": "encoder layers have metadata of their own: its `num_actual_tokens`",
    "num_prefill_tokens": "`num_actual_tokens` less the tokens of the decodes "
        "(vllm.v1.attention.backends.utils.split_decodes_and_prefills(common))",
    "num_prefills": "number of requests, seq_lens.shape[0], less the decodes "
        "(vllm.v1.attention.backends.utils.split_decodes_and_prefills(common))",
    "prefill_block_tables": "rows of `block_table` that belong to prefills; `block_table` holds all requests",
    "prefill_metadata": "the object itself: it describes all requests; test for prefills with "
        "`max_query_len > 1` where you need to",
    "prefill_query_start_loc": "`query_start_loc` covers all requests; where D decodes come first, the part of the "
        "prefills is query_start_loc[D:] - query_start_loc[D]",
    "seq_lens_tensor": "`seq_lens`, int32 [B], of all requests, never shortened to the sliding window",
    "set_attn_bias": "masks are made in the implementation (until 0.16.0) or inside the kernel",
}  # fmt: skip

# Fields that the new class has under the same name with another meaning.
SAME_NAME: dict[str, str] = {
    "num_decode_tokens": "it is 0 unless use_sdpa_prefill is set: " + FORMULAS["num_decode_tokens"],
    "query_start_loc": "it covers all requests, int32 [B + 1]; V0's was of the prefills in 0.8.5, None from 0.9.1 on",
    "seq_lens": "it is an int32 tensor over all requests [B] instead of a list over the prefills: "
        "seq_lens.tolist() gives the list",
}  # fmt: skip

HOW_TO_BUILD = (
    "Describe the batch and let the backend's builder make the metadata: CommonAttentionMetadata("
    "query_start_loc=int32 [0] and the running sum of the query lengths, prefills then decodes (a decode has 1); "
    "seq_lens=int32 of seq_lens followed by seq_lens_tensor (without the latter when there are no decodes: it repeats "
    "the prefills); block_table_tensor=rows of prefill_block_tables, then of block_tables, padded with 0; "
    "slot_mapping=slot_mapping; num_reqs=B; num_actual_tokens=num_prefill_tokens + num_decode_tokens; "
    "max_query_len=the largest query length; max_seq_len=the largest of seq_lens)."
)


def family_of(dotted: str) -> Family | None:
    """The kind of attention metadata class that a dotted name of vLLM means; None for everything else."""
    name = dotted.rpartition(".")[2]
    if name in _CPU:
        return "cpu"
    if name == "CommonAttentionMetadata":
        return "common"
    return "abstract" if dotted in _ABSTRACT else None
