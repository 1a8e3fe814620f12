"""The V1 attention backend in vLLM's four-class grammar: backend, metadata, builder, implementation.

It imports no vLLM. `v1_cpu.vllm_plugin` derives from these classes what vLLM's registry wants. The functions of
`v1_cpu.attention` do the work; here batches are read, layers are configured and results put where the caller wants
them.

One structure, `TorchSDPAMetadata`, carries every kind of batch. What the kernels read (`query_start_loc`, `kv_lens`,
`block_table`) covers all requests in any order; the fields of vLLM 0.9 to 0.11 (prefills and decodes apart) are kept
beside it, and a batch that was built from those alone is understood too.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from v1_cpu.attention import paged_attention, varlen_attention
from v1_cpu.cache import copy_blocks, swap_blocks, write_kv_cache
from v1_cpu.layouts import FP8_DTYPES, KV_CACHE_DTYPES, resolve_cache_dtype
from v1_cpu.plan import Plan, make_plan
from v1_cpu.select import serving
from v1_cpu.specs import AttentionType, attention_type, spec_attn_type
from v1_cpu.validate import DTYPES


class TorchSDPABackend:
    """Static facts about the backend."""

    accept_output_buffer: ClassVar[bool] = True
    forward_includes_kv_cache_update: ClassVar[bool] = True
    supported_dtypes: ClassVar[list[torch.dtype]] = [torch.float16, torch.bfloat16, torch.float32]
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"]

    @staticmethod
    def get_name() -> str:
        return "TORCH_SDPA"

    @staticmethod
    def get_impl_cls() -> type[TorchSDPABackendImpl]:
        return TorchSDPABackendImpl

    @staticmethod
    def get_metadata_cls() -> type[TorchSDPAMetadata]:
        return TorchSDPAMetadata

    @staticmethod
    def get_builder_cls() -> type[TorchSDPAMetadataBuilderV1]:
        return TorchSDPAMetadataBuilderV1

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """``(num_blocks, KH, block_size, 2 * D)``."""
        return num_blocks, num_kv_heads, block_size, 2 * head_size

    @classmethod
    def get_supported_dtypes(cls) -> list[torch.dtype]:
        return list(cls.supported_dtypes)

    @classmethod
    def get_supported_head_sizes(cls) -> list[int]:
        """Empty: every head size."""
        return []

    @classmethod
    def validate_head_size(cls, head_size: int) -> None:
        """Refuses what is no head size; every positive int is served."""
        if isinstance(head_size, bool) or not isinstance(head_size, int) or head_size < 1:
            raise ValueError(f"head_size: {head_size!r}; must be an int of at least 1 (every size is supported)")

    @classmethod
    def supports_head_size(cls, head_size: int) -> bool:
        return head_size >= 1

    @classmethod
    def supports_dtype(cls, dtype: torch.dtype) -> bool:
        return dtype in cls.supported_dtypes

    @classmethod
    def supports_kv_cache_dtype(cls, kv_cache_dtype: str | None) -> bool:
        return kv_cache_dtype is None or kv_cache_dtype in KV_CACHE_DTYPES

    @classmethod
    def supports_block_size(cls, block_size: int | None) -> bool:
        return block_size is None or block_size >= 1

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        try:
            attention_type(attn_type)
        except NotImplementedError:
            return False
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return True

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @staticmethod
    def use_cascade_attention(*args: Any, **kwargs: Any) -> bool:
        return False

    @staticmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        """Copy blocks of one cache into another; int64 ``[n, 2]``."""
        swap_blocks(src_kv_cache, dst_kv_cache, src_to_dst)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        """Copy blocks inside each cache; int64 ``[n, 2]``."""
        copy_blocks(kv_caches, src_to_dists)


@dataclass
class TorchSDPAMetadata:
    """One batch for one group of layers. P prefill requests, D decode requests, B = P + D, T query tokens.

    The fields up to `cross_block_tables` are those of vLLM 0.11.0, in its order; the rest is what every release is
    mapped to.
    """

    num_prefills: int = 0  # P
    num_prefill_tokens: int = 0
    num_decode_tokens: int = 0
    slot_mapping: Tensor | None = None  # int64 [T]; -1 pads
    seq_lens_tensor: Tensor | None = None  # int32 [D]: lengths of the decode requests
    max_decode_seq_len: int = 0
    block_tables: Tensor | None = None  # int32 [D, max_blocks]
    chunked_prefill: bool = True
    seq_lens: list[int] | None = None  # P lengths of the prefill requests, context included

    max_query_len: int | None = None
    max_kv_len: int | None = None  # of the prefill requests
    prefill_query_start_loc: Tensor | None = None  # int32 [P + 1]
    kv_start_loc: Tensor | None = None  # int32 [P + 1]
    prefill_block_tables: Tensor | None = None  # int32 [P, max_blocks]
    query_start_loc: Tensor | None = None  # int32 [B + 1], all requests

    encoder_seq_lens: list[int] | None = None
    encoder_seq_lens_tensor: Tensor | None = None  # int32 [B]
    max_encoder_seq_len: int | None = None
    num_encoder_tokens: int | None = None
    cross_slot_mapping: Tensor | None = None  # int64 [encoder tokens]
    cross_block_tables: Tensor | None = None  # int32 [B, max_blocks]

    multi_modal_placeholder_index_maps: Any = field(default=None, kw_only=True)  # 0.10.0 and before; not used
    enable_kv_scales_calculation: bool = field(default=False, kw_only=True)  # 0.10.0 and before; not used
    kv_lens: Tensor | None = field(default=None, kw_only=True)  # int32 [B]: keys of every request
    block_table: Tensor | None = field(default=None, kw_only=True)  # int32 [B, max_blocks], all requests
    causal: bool | Tensor | None = field(default=None, kw_only=True)  # None: as the layer's type says
    tree_mask: Tensor | None = field(default=None, kw_only=True)  # bool [T, max_query_len], for speculative trees
    is_prefilling: list[bool] | None = field(default=None, kw_only=True)  # [B]: how the batch was split

    def __post_init__(self) -> None:
        self.attn_bias: list[Tensor] | None = None
        self.encoder_attn_bias: list[Tensor] | None = None
        self.cross_attn_bias: list[Tensor] | None = None
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self.bound: dict[tuple[Any, ...], Any] = {}  # of `v1_cpu.vllm_plugin.bound`

    @property
    def is_all_encoder_attn_metadata_set(self) -> bool:
        """Everything that encoder attention reads is there."""
        return None not in (self.encoder_seq_lens, self.encoder_seq_lens_tensor, self.max_encoder_seq_len)

    @property
    def is_all_cross_attn_metadata_set(self) -> bool:
        """Everything that cross-attention reads is there."""
        cross = self.cross_slot_mapping is not None and self.cross_block_tables is not None
        return self.is_all_encoder_attn_metadata_set and cross

    @property
    def prefill_metadata(self) -> TorchSDPAMetadata | None:
        """This object if the batch has prefill tokens."""
        return self if self.num_prefill_tokens else None

    @property
    def decode_metadata(self) -> TorchSDPAMetadata | None:
        """This object if the batch has decode tokens."""
        return self if self.num_decode_tokens else None

    @property
    def num_actual_tokens(self) -> int:
        """Query tokens, padding excluded."""
        return self.num_prefill_tokens + self.num_decode_tokens

    def get_seq_lens(self, attn_type: str) -> tuple[list[int] | None, list[int] | None]:
        """Lengths of the queries and of the keys of the prefill requests, or of the encoder's."""
        queries = self.encoder_seq_lens if _kind(attn_type) == AttentionType.ENCODER else self.seq_lens
        decoder = _kind(attn_type) in (AttentionType.DECODER, AttentionType.ENCODER_ONLY)
        return queries, self.seq_lens if decoder else self.encoder_seq_lens

    def get_attn_bias(self, attn_type: str) -> list[Tensor] | None:
        """The bias a caller has set for this kind of attention. The kernels read none: they make masks themselves."""
        bias: list[Tensor] | None = getattr(self, _BIAS[_kind(attn_type)])
        return bias

    def set_attn_bias(self, attn_bias: list[Tensor], attn_type: str) -> None:
        """Keep a bias for `get_attn_bias`."""
        setattr(self, _BIAS[_kind(attn_type)], attn_bias)

    def get_seq_len_block_table_args(self, attn_type: str) -> tuple[Tensor | None, int | None, Tensor | None]:
        """(lengths, longest, block tables) of the decode requests, or of what they attend to."""
        kind = _kind(attn_type)
        if kind in (AttentionType.DECODER, AttentionType.ENCODER_ONLY):
            return self.seq_lens_tensor, self.max_decode_seq_len, self.block_tables
        tables = self.cross_block_tables if kind == AttentionType.ENCODER_DECODER else None
        return self.encoder_seq_lens_tensor, self.max_encoder_seq_len, tables

    def start_locations(self) -> Tensor:
        """int32 [B + 1] of all requests, from whichever fields are there."""
        decodes = self._num_decodes()
        if self.query_start_loc is not None and self.query_start_loc.numel() == self.num_prefills + decodes + 1:
            return self.query_start_loc
        prefill = self.prefill_query_start_loc
        if prefill is None and decodes and self.query_start_loc is not None:
            prefill = self.query_start_loc  # 0.8.5 meant the prefill requests by it
        lens = prefill.diff().tolist() if prefill is not None else list(self.seq_lens or [])[: self.num_prefills]
        each = self.num_decode_tokens // decodes if decodes else 0
        starts = torch.tensor([0, *lens, *[each] * decodes]).cumsum(0).int()
        self.query_start_loc = starts
        return starts

    def key_lengths(self) -> Tensor:
        """int32 [B]: keys of every request, from whichever fields are there."""
        if self.kv_lens is None:
            known = self.seq_lens
            if known is None and self.kv_start_loc is not None:
                known = self.kv_start_loc.diff().tolist()
            lens = torch.tensor(list(known or [])[: self.num_prefills], dtype=torch.int32)
            if self._num_decodes() and self.seq_lens_tensor is not None:
                lens = torch.cat([lens, self.seq_lens_tensor.int()])
            self.kv_lens = lens
        return self.kv_lens

    def all_blocks(self, block_size: int) -> Tensor:
        """int32 [B, max_blocks]: the table of every request, from whichever fields are there."""
        if self.block_table is None:
            tables = []
            if self.num_prefills:
                tables.append(self._prefill_blocks(block_size))
            if self._num_decodes() and self.block_tables is not None:
                tables.append(self.block_tables.int())
            width = max((t.shape[1] for t in tables), default=1)
            padded = [torch.nn.functional.pad(t, (0, width - t.shape[1])) for t in tables]
            self.block_table = torch.cat(padded) if padded else torch.zeros((0, width), dtype=torch.int32)
        return self.block_table

    def plan(self, key: tuple[Any, ...], **sizes: Any) -> Plan:
        """The plan for layers of one kind: made by the first, used by all."""
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = make_plan(**sizes)
        return plan

    def _num_decodes(self) -> int:
        if not self.num_decode_tokens:
            return 0  # seq_lens_tensor and block_tables then repeat the prefills, or are empty
        return self.num_decode_tokens if self.seq_lens_tensor is None else self.seq_lens_tensor.numel()

    def _prefill_blocks(self, block_size: int) -> Tensor:
        """The prefill requests' table; without one, all their keys are new, and their slots name the blocks."""
        if self.prefill_block_tables is not None:
            return self.prefill_block_tables.int()
        if self.slot_mapping is None:
            raise ValueError("attn_metadata: has neither prefill_block_tables nor slot_mapping; give one of them")
        starts = self.start_locations().tolist()[: self.num_prefills + 1]
        rows = [
            self.slot_mapping[a:b:block_size].div(block_size, rounding_mode="floor")
            for a, b in itertools.pairwise(starts)
        ]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).int()


_BIAS = {
    AttentionType.DECODER: "attn_bias",
    AttentionType.ENCODER_ONLY: "attn_bias",
    AttentionType.ENCODER: "encoder_attn_bias",
    AttentionType.ENCODER_DECODER: "cross_attn_bias",
}


def _kind(attn_type: Any) -> str:
    """`attention_type` with the error that these queries raised in vLLM."""
    try:
        return attention_type(attn_type)
    except NotImplementedError as error:
        raise AttributeError(f"Invalid attention type {attn_type!s}") from error


class TorchSDPAMetadataBuilderV1:
    """Builds a `TorchSDPAMetadata` from a batch; keeps nothing from one batch to the next.

    Parameters
    ----------
    kv_cache_spec
        `v1_cpu.specs.AttentionSpec` or vLLM's, of any release.
    layer_names, vllm_config, device
        As vLLM 0.11 and later pass them; 0.10 leaves `layer_names` out, and that is understood. None of them is needed.
    """

    reorder_batch_threshold: int | None = None
    supports_update_block_table: bool = True

    def __init__(
        self, kv_cache_spec: Any, layer_names: Any = None, vllm_config: Any = None, device: Any = None
    ) -> None:
        if layer_names is not None and not isinstance(layer_names, (list, tuple)):
            layer_names, vllm_config, device = None, layer_names, vllm_config  # the order of 0.10
        for name in ("block_size", "num_kv_heads", "head_size"):
            if not isinstance(getattr(kv_cache_spec, name, None), int):
                raise TypeError(f"kv_cache_spec: {kv_cache_spec!r}; must have an int {name}, as an AttentionSpec has")
        self.kv_cache_spec = kv_cache_spec
        self.layer_names = list(layer_names or [])
        self.vllm_config = vllm_config
        self.device = device
        self.attn_type = spec_attn_type(kv_cache_spec)

    def reorder_batch(self, input_batch: Any, scheduler_output: Any) -> bool:
        """Put the requests that still prefill first; whether anything moved. The kernels do not need it."""
        prefilling = [
            bool(input_batch.num_computed_tokens_cpu[i] < input_batch.num_prompt_tokens[i])
            for i in range(input_batch.num_reqs)
        ]
        first, last, moved = 0, len(prefilling) - 1, False
        while True:
            while first < last and prefilling[first]:
                first += 1
            while first < last and not prefilling[last]:
                last -= 1
            if first >= last:
                return moved
            input_batch.swap_states(first, last)
            prefilling[first], prefilling[last] = True, False
            moved = True

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> TorchSDPAMetadata:
        """The metadata of one batch, for the layers of this group. Nothing of `common_attn_metadata` is changed."""
        common = common_attn_metadata
        batch = int(common.num_reqs)
        starts = _int32(_first(common.query_start_loc, batch + 1))
        lens = seq_lens = _int32(_first(common.seq_lens, batch))
        slots = common.slot_mapping
        cross = self.attn_type == AttentionType.ENCODER_DECODER
        encoder_lens = getattr(common, "encoder_seq_lens", None)
        if cross and encoder_lens is not None:
            lens = _int32(torch.as_tensor(encoder_lens)[:batch])
        causal = getattr(common, "causal", True)
        metadata = TorchSDPAMetadata(
            slot_mapping=slots if slots.dtype is torch.int64 else slots.long(),
            max_query_len=int(common.max_query_len),
            query_start_loc=starts,
            kv_lens=lens,
            block_table=_int32(_first(common.block_table_tensor, batch)),
            causal=False if cross or self.attn_type != AttentionType.DECODER else causal,
        )
        self._split(metadata, common, starts, seq_lens)
        if cross:
            metadata.encoder_seq_lens, metadata.encoder_seq_lens_tensor = lens.tolist(), lens
            metadata.max_encoder_seq_len = max(metadata.encoder_seq_lens, default=0)
        return metadata

    def build_for_cudagraph_capture(self, common_attn_metadata: Any) -> TorchSDPAMetadata:
        """A plain build: there is nothing to capture on a CPU."""
        return self.build(0, common_attn_metadata)

    def build_for_drafting(self, common_attn_metadata: Any, draft_index: int) -> TorchSDPAMetadata:
        """A plain build: a draft model's batch is a batch."""
        return self.build(0, common_attn_metadata, fast_build=True)

    def update_block_table(
        self, metadata: TorchSDPAMetadata, blk_table: Tensor, slot_mapping: Tensor
    ) -> TorchSDPAMetadata:
        """The same batch for another group of layers, whose blocks are elsewhere."""
        batch = metadata.key_lengths().shape[0]
        copied = TorchSDPAMetadata(
            slot_mapping=slot_mapping if slot_mapping.dtype is torch.int64 else slot_mapping.long(),
            max_query_len=metadata.max_query_len,
            query_start_loc=metadata.query_start_loc,
            kv_lens=metadata.kv_lens,
            block_table=_int32(blk_table[:batch]),
            causal=metadata.causal,
            tree_mask=metadata.tree_mask,
        )
        self._split(copied, metadata, metadata.start_locations(), metadata.key_lengths())
        return copied

    def use_cascade_attention(self, *args: Any, **kwargs: Any) -> bool:
        return False

    def can_run_in_cudagraph(self, common_attn_metadata: Any) -> bool:
        return False

    def _split(self, metadata: TorchSDPAMetadata, common: Any, query_start_loc: Tensor, seq_lens: Tensor) -> None:
        """Fill the fields that tell prefills from decodes, whatever their order."""
        lens = seq_lens.tolist()
        query_lens = [b - a for a, b in itertools.pairwise(query_start_loc.tolist())]
        told = getattr(common, "is_prefilling", None)
        if told is not None:
            prefilling = [bool(x) for x in torch.as_tensor(told)[: len(lens)].tolist()]
        else:  # a decode brings one token and has context
            prefilling = [q > 1 or s <= q for q, s in zip(query_lens, lens, strict=True)]
        metadata.is_prefilling = prefilling
        prefills = [i for i, p in enumerate(prefilling) if p]
        decodes = [i for i, p in enumerate(prefilling) if not p]
        table = metadata.block_table
        assert table is not None
        metadata.num_prefills = len(prefills)
        metadata.num_prefill_tokens = sum(query_lens[i] for i in prefills)
        metadata.num_decode_tokens = sum(query_lens[i] for i in decodes)
        metadata.seq_lens = [lens[i] for i in prefills]
        metadata.max_kv_len = max(metadata.seq_lens, default=0)
        metadata.prefill_query_start_loc = _starts([query_lens[i] for i in prefills])
        metadata.kv_start_loc = _starts(metadata.seq_lens)
        metadata.prefill_block_tables = _rows(table, prefills)
        decode_lens = [lens[i] for i in decodes]
        metadata.seq_lens_tensor = torch.tensor(decode_lens, dtype=torch.int32)
        metadata.max_decode_seq_len = max(decode_lens, default=0)
        metadata.block_tables = _rows(table, decodes)


def _int32(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype is torch.int32 else tensor.int()


def _first(tensor: Tensor, rows: int) -> Tensor:
    """The first rows; the tensor itself, which costs less, if it has no others."""
    return tensor if tensor.shape[0] == rows else tensor[:rows]


def _starts(lens: list[int]) -> Tensor:
    return torch.tensor([0, *lens]).cumsum(0).int()


def _rows(table: Tensor, rows: list[int]) -> Tensor:
    """The table's rows: a view where they lie together."""
    if rows and rows[-1] - rows[0] + 1 == len(rows):
        return table[rows[0] : rows[-1] + 1]
    return table[rows]


class TorchSDPABackendImpl:
    """One attention layer.

    Parameters
    ----------
    num_heads, head_size, scale, num_kv_heads
        H, D, the factor of q . k, and KH (None: H).
    alibi_slopes
        H floats, or None.
    sliding_window
        Keys a query sees, itself included; None or -1 for all.
    kv_cache_dtype
        "auto", "fp8" (e4m3), "fp8_e4m3", "fp8_e5m2", or the model's dtype by name.
    logits_soft_cap
        None or 0 for none.
    attn_type
        One of `AttentionType`.
    kv_sharing_target_layer_name
        The layer whose cache this one reads; it then writes none.
    sinks
        ``[H]``, one more logit per head.
    attention_chunk_size, head_size_v, dtype, kernel
        c of chunked-local attention; Dv (default D); the model's dtype (default torch's); which kernel (default
        `which()`).

    Raises
    ------
    ValueError, TypeError
        A size or type that is wrong everywhere.
    NotImplementedError
        What this backend does not serve: an unknown cache dtype or attention type, an option it does not know.
    """

    forward_includes_kv_cache_update: ClassVar[bool] = True

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
        *,
        attention_chunk_size: int | None = None,
        head_size_v: int | None = None,
        dtype: torch.dtype | None = None,
        kernel: str | None = None,
        **extra: Any,
    ) -> None:
        unknown = sorted(name for name, value in extra.items() if value)
        if unknown:
            raise NotImplementedError(f"TorchSDPABackendImpl does not know {', '.join(unknown)}; leave it out")
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        TorchSDPABackend.validate_head_size(head_size)
        self.head_size = head_size
        self.head_size_v = head_size if head_size_v is None else head_size_v
        if self.num_heads < 1 or self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads: {num_heads}; must be a multiple of num_kv_heads ({self.num_kv_heads})")
        self.num_queries_per_kv = self.num_heads // self.num_kv_heads
        self.scale = float(scale)
        self.alibi_slopes = self._per_head("alibi_slopes", alibi_slopes)
        self.sinks = sinks if isinstance(sinks, Tensor) else self._per_head("sinks", sinks)
        self._per_head("sinks", sinks)  # refused now; read at each call, as the weights are loaded later
        self.sliding_window = None if sliding_window in (None, -1) else sliding_window
        self.attention_chunk_size = attention_chunk_size
        self.logits_soft_cap = float(logits_soft_cap) if logits_soft_cap else None
        self.attn_type = attention_type(attn_type)
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.kernel = kernel
        if kv_cache_dtype not in KV_CACHE_DTYPES:
            raise NotImplementedError(
                f"kv_cache_dtype: {kv_cache_dtype!r}; TorchSDPABackend serves {', '.join(KV_CACHE_DTYPES)}"
            )
        self.kv_cache_dtype = kv_cache_dtype
        self._check_served(dtype)

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor,
        attn_metadata: TorchSDPAMetadata | None,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Attention of one layer, the write of its new keys and values included.

        Parameters
        ----------
        layer
            Carries the scales of a float8 cache (`_k_scale_float`, or `_k_scale`); may be None.
        query, key, value
            ``[T, H, D]`` or ``[T, H * D]``, with KH heads for key and value. Key and value are None where the cache
            already holds all keys (cross-attention after its first step).
        kv_cache
            ``[num_blocks, KH, block_size, D + Dv]``; uint8 where a float8 cache is meant; empty in a profiling run.
        attn_metadata
            None in a warm-up: nothing is read or written.
        output
            ``[T, H, Dv]`` or ``[T, H * Dv]``, filled and returned. None: allocated, ``[T, H * Dv]``.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("TorchSDPABackendImpl does not quantise its output; pass no output_scale")
        query = query.view(query.shape[0], self.num_heads, self.head_size)
        result = output
        if result is None:
            result = query.new_zeros((query.shape[0], self.num_heads * self.head_size_v))
        if attn_metadata is None:
            return result
        out = result.view(query.shape[0], self.num_heads, self.head_size_v)
        if key is not None and value is not None:
            key = key.view(key.shape[0], self.num_kv_heads, self.head_size)
            value = value.view(value.shape[0], self.num_kv_heads, self.head_size_v)
        if self.attn_type in (AttentionType.ENCODER, AttentionType.ENCODER_ONLY) or kv_cache.numel() == 0:
            self._attend_dense(query, key, value, attn_metadata, out)
            return result
        if key is not None and value is not None and self.forward_includes_kv_cache_update:
            slots = attn_metadata.slot_mapping
            if self.attn_type == AttentionType.ENCODER_DECODER and attn_metadata.cross_slot_mapping is not None:
                slots = attn_metadata.cross_slot_mapping
            if slots is not None:
                self.do_kv_cache_update(layer, key, value, kv_cache, slots)
        self._attend_paged(layer, query, kv_cache, attn_metadata, out)
        return result

    def do_kv_cache_update(
        self, layer: Any, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor
    ) -> None:
        """Store new keys and values; nothing for encoders and for a layer that shares another's cache."""
        encoder = self.attn_type in (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)
        if encoder or self.kv_sharing_target_layer_name is not None or kv_cache.numel() == 0:
            return
        tokens = min(key.shape[0], slot_mapping.shape[0])  # either may be padded
        kv_cache = self._typed(kv_cache, key.dtype)
        k_scale, v_scale = self._scales(layer, kv_cache)
        write_kv_cache(
            key[:tokens].view(tokens, self.num_kv_heads, self.head_size),
            value[:tokens].view(tokens, self.num_kv_heads, self.head_size_v),
            kv_cache,
            slot_mapping[:tokens],
            k_scale=k_scale,
            v_scale=v_scale,
            kernel=self.kernel,
        )

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Nothing to do: weights (the sinks) are read where they are."""

    def _attend_paged(
        self, layer: Any, query: Tensor, kv_cache: Tensor, metadata: TorchSDPAMetadata, out: Tensor
    ) -> None:
        kv_cache = self._typed(kv_cache, query.dtype)
        k_scale, v_scale = self._scales(layer, kv_cache)
        cross = self.attn_type == AttentionType.ENCODER_DECODER
        starts = metadata.start_locations()
        lens, table, causal = metadata.key_lengths(), None, metadata.causal
        if cross and metadata.encoder_seq_lens_tensor is not None:
            lens, table = metadata.encoder_seq_lens_tensor, metadata.cross_block_tables
        if table is None:
            table = metadata.all_blocks(kv_cache.shape[2])
        if causal is None or cross:
            causal = not cross
        plan = metadata.plan(
            (self.num_heads, query.dtype, kv_cache.shape, kv_cache.dtype, self.sliding_window, self.kernel, cross),
            query_start_loc=starts,
            seq_lens=lens,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_size=self.head_size,
            head_size_v=self.head_size_v,
            block_size=kv_cache.shape[2],
            dtype=query.dtype,
            kv_cache_dtype=kv_cache.dtype,
            causal=causal,
            sliding_window=self.sliding_window,
            block_table=table,
            num_blocks=kv_cache.shape[0],
            kernel=self.kernel,
        )
        paged_attention(
            query,
            kv_cache,
            query_start_loc=starts,
            seq_lens=lens,
            block_table=table,
            scale=self.scale,
            causal=causal,
            sliding_window=self.sliding_window,
            attention_chunk_size=self.attention_chunk_size,
            alibi_slopes=self.alibi_slopes,
            logits_soft_cap=self.logits_soft_cap,
            sinks=self._per_head("sinks", self.sinks),
            tree_mask=metadata.tree_mask,
            k_scale=k_scale,
            v_scale=v_scale,
            out=out,
            plan=plan,
        )

    def _attend_dense(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, metadata: TorchSDPAMetadata, out: Tensor
    ) -> None:
        """Keys and values as given: encoders, and decoders while there is no cache yet."""
        if key is None or value is None:
            raise ValueError(f"key, value: None; {self.attn_type} attention without a cache needs them")
        starts = kv_starts = metadata.start_locations()
        if metadata.encoder_seq_lens is not None and self.attn_type == AttentionType.ENCODER:
            starts = kv_starts = _starts(metadata.encoder_seq_lens)
        elif metadata.encoder_seq_lens is not None and self.attn_type == AttentionType.ENCODER_DECODER:
            kv_starts = _starts(metadata.encoder_seq_lens)
        causal = metadata.causal if metadata.causal is not None else self.attn_type == AttentionType.DECODER
        varlen_attention(
            query,
            key,
            value,
            query_start_loc=starts,
            kv_start_loc=kv_starts,
            scale=self.scale,
            causal=causal if self.attn_type == AttentionType.DECODER else False,
            sliding_window=self.sliding_window,
            alibi_slopes=self.alibi_slopes,
            logits_soft_cap=self.logits_soft_cap,
            sinks=self._per_head("sinks", self.sinks),
            out=out,
            kernel=self.kernel,
        )

    def _per_head(self, name: str, values: Any) -> Tensor | None:
        if values is None:
            return None
        tensor = torch.as_tensor(values, dtype=torch.float32).detach().contiguous()  # not the process's default dtype
        if tensor.shape != (self.num_heads,):
            raise ValueError(f"{name}: shape {tuple(tensor.shape)}; must be [H] with H = {self.num_heads}")
        return tensor

    def _check_served(self, dtype: torch.dtype | None) -> None:
        """Ask the kernel now, not at the first request."""
        if dtype is None:
            default = torch.get_default_dtype()
            dtype = default if default in DTYPES else torch.float32
        if dtype not in DTYPES:
            raise NotImplementedError(f"dtype: {dtype}; TorchSDPABackend serves float32, bfloat16 and float16")
        named = KV_CACHE_DTYPES[self.kv_cache_dtype]
        cache_dtype = resolve_cache_dtype(named, dtype) if named in FP8_DTYPES else dtype
        serving(
            self.kernel,
            dtype,
            cache_dtype,
            self.num_heads,
            self.num_kv_heads,
            self.head_size,
            self.head_size_v,
            0,
        )

    def _typed(self, kv_cache: Tensor, dtype: torch.dtype) -> Tensor:
        """A float8 cache that vLLM hands over as uint8 is viewed as what it holds."""
        wanted = KV_CACHE_DTYPES[self.kv_cache_dtype] or dtype
        if kv_cache.dtype is torch.uint8 and wanted in FP8_DTYPES:
            return kv_cache.view(wanted)
        if kv_cache.dtype is not wanted:
            raise TypeError(f"kv_cache: dtype {kv_cache.dtype}; kv_cache_dtype={self.kv_cache_dtype!r} means {wanted}")
        return kv_cache

    def _scales(self, layer: Any, kv_cache: Tensor) -> tuple[float, float]:
        if kv_cache.dtype not in FP8_DTYPES:
            return 1.0, 1.0
        return self._layer_scales(layer)

    def _layer_scales(self, layer: Any) -> tuple[float, float]:
        return _scale(layer, "_k_scale"), _scale(layer, "_v_scale")


def _scale(layer: Any, name: str) -> float:
    """A scale of the layer: the float of newer releases, else the tensor, else 1."""
    value = getattr(layer, f"{name}_float", None)
    return float(getattr(layer, name, 1.0) if value is None else value)
