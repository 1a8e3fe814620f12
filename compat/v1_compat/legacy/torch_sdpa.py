"""`vllm.attention.backends.torch_sdpa`: V0's CPU attention backend, computed by V1.

What differs from V0 follows V1 and is said once, when a layer is built: the sliding window at decode is exact, the
logits soft cap is applied, encoders with a window or ALiBi are not masked causally.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, ClassVar

import torch
from torch import Tensor

import v1_cpu
from v1_compat.legacy.abstract import AttentionBackend, AttentionImpl, AttentionMetadata, AttentionType
from v1_compat.legacy.attend import attend_paged, scale_of
from v1_compat.legacy.attention_utils import CommonAttentionState
from v1_compat.legacy.ipex_attn import PagedAttention, _use_ipex
from v1_compat.legacy.layouts import SplitCache, block_pairs, halves
from v1_compat.legacy.notice import say
from v1_compat.legacy.paged_attn import PagedAttentionMetadata
from v1_compat.legacy.sdpa_masks import _make_alibi_bias, _make_sliding_window_bias, attend_masked
from v1_compat.legacy.sdpa_metadata import TorchSDPAMetadata, TorchSDPAMetadataBuilder
from v1_cpu import backend as v1

__all__ = [
    "AttentionMetadata",
    "CommonAttentionState",
    "PagedAttention",
    "PagedAttentionMetadata",
    "TorchSDPABackend",
    "TorchSDPABackendImpl",
    "TorchSDPAMetadata",
    "TorchSDPAMetadataBuilder",
    "_make_alibi_bias",
    "_make_sliding_window_bias",
    "_use_ipex",
]

if "vllm" in sys.modules:  # V0 imported it here by this name, and plugins wait for that to put their own in its place
    with contextlib.suppress(ImportError):
        from vllm.attention.ops.ipex_attn import PagedAttention as _  # type: ignore[import-not-found]  # noqa: F401
    # A plugin that puts its own there looks at every module for references, and may fail over somebody else's.
    PagedAttention = vars(sys.modules.get("vllm.attention.ops.ipex_attn", sys)).get("PagedAttention", PagedAttention)
# By name: code that replaces `PagedAttention` replaces every reference to it that it finds in any module.
_PAGED_MODULE = "v1_compat.legacy.ipex_attn"


class TorchSDPABackend(v1.TorchSDPABackend, AttentionBackend):
    """Static facts about V0's backend: its cache is ``(2, NB, BS * KH * D)``."""

    accept_output_buffer: ClassVar[bool] = False

    @staticmethod
    def get_impl_cls() -> type[TorchSDPABackendImpl]:
        return TorchSDPABackendImpl

    @staticmethod
    def get_metadata_cls() -> type[TorchSDPAMetadata]:
        return TorchSDPAMetadata

    @staticmethod
    def get_state_cls() -> type[CommonAttentionState]:
        return CommonAttentionState

    @staticmethod
    def get_builder_cls() -> type[TorchSDPAMetadataBuilder]:  # type: ignore[override]
        return TorchSDPAMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """``(2, NB, BS * KH * D)``."""
        return PagedAttention.get_kv_cache_shape(num_blocks, block_size, num_kv_heads, head_size)

    @staticmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        """Copy whole blocks of one layer's cache into another's: int64 ``[n, 2]``. (V0 refused.)"""
        for src, dst in zip(halves("src_kv_cache", src_kv_cache), halves("dst_kv_cache", dst_kv_cache), strict=True):
            v1_cpu.swap_blocks(src, dst, block_pairs(src_to_dst))

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        """Copy whole blocks inside each layer's cache: int64 ``[n, 2]`` of (source, destination)."""
        PagedAttention.copy_blocks(kv_caches, src_to_dists)

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is TorchSDPABackend and v1.TorchSDPABackend in other.__mro__ else NotImplemented


class TorchSDPABackendImpl(v1.TorchSDPABackendImpl, AttentionImpl):  # type: ignore[type-arg]
    """One attention layer over a V0 cache. Also takes a V1 cache ``[NB, KH, BS, 2 * D]``, as `v1_cpu` does.

    Parameters
    ----------
    num_heads, head_size, scale, num_kv_heads, alibi_slopes, sliding_window, kv_cache_dtype, logits_soft_cap, attn_type
        As in `v1_cpu.TorchSDPABackendImpl`.
    blocksparse_params
        Must be None: block-sparse attention has no successor.
    kv_sharing_target_layer_name
        A layer that shares another's cache writes none. 0.8.5 had `use_irope` in this place; a bool is taken as that.
    use_irope
        Not served; the layer sees its whole context, as in V0.
    """

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int,
        alibi_slopes: list[float] | None,
        sliding_window: int | None,
        kv_cache_dtype: str,
        blocksparse_params: dict[str, Any] | None = None,
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        use_irope: bool = False,
    ) -> None:
        if isinstance(kv_sharing_target_layer_name, bool):
            kv_sharing_target_layer_name, use_irope = None, kv_sharing_target_layer_name
        if blocksparse_params is not None:
            raise ValueError(
                "blocksparse_params: block-sparse attention has no successor in V1 (V0's CPU backend had none, "
                "either); pass None, or sliding_window for a local layer"
            )
        v1.TorchSDPABackendImpl.__init__(
            self,
            num_heads,
            head_size,
            scale,
            num_kv_heads,
            alibi_slopes,
            sliding_window,
            kv_cache_dtype,
            logits_soft_cap,
            attn_type,
            kv_sharing_target_layer_name,
        )
        self.need_mask = self.alibi_slopes is not None or self.sliding_window is not None
        for text in _differences(self, use_irope):
            say("V1M003", text, stacklevel=2)

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor | None,
        attn_metadata: v1.TorchSDPAMetadata | None,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Attention of one layer, the write of its new keys and values included.

        Parameters
        ----------
        layer
            Carries the scales of a float8 cache (`_k_scale`, `_v_scale`); may be None.
        query, key, value
            ``[T, H * D]`` or ``[T, H, D]``, KH heads for key and value; None where the cache holds all keys.
        kv_cache
            ``[2, NB, BS * KH * D]``; empty or None where there is none yet.
        attn_metadata
            None in a warm-up: the query is returned.
        output
            Filled if given; V0 left it alone.

        Returns
        -------
        Tensor
            ``[T, H * D]``.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("output_scale: TorchSDPABackendImpl does not quantise its output; pass None")
        if attn_metadata is None:
            return query
        if kv_cache is not None and kv_cache.dim() == 4:
            return super().forward(layer, query, key, value, kv_cache, attn_metadata, output)
        self._check_complete(attn_metadata)
        query = query.view(-1, self.num_heads, self.head_size)
        if key is not None and value is not None:
            key = key.view(-1, self.num_kv_heads, self.head_size)
            value = value.view(-1, self.num_kv_heads, self.head_size)
        result = torch.zeros_like(query) if output is None else output.view_as(query)
        halves = self._write(layer, key, value, kv_cache, attn_metadata)
        self._prefill(layer, query, key, value, halves, attn_metadata, result)
        if self.attn_type != AttentionType.ENCODER and attn_metadata.num_decode_tokens:
            self._decode(layer, query, halves, attn_metadata, result)
        return result.view(-1, self.num_heads * self.head_size)

    def fused_output_quant_supported(self, *args: Any, **kwargs: Any) -> bool:
        """No, whichever release's arguments are given."""
        return False

    def _check_complete(self, metadata: v1.TorchSDPAMetadata) -> None:
        kind = self.attn_type
        if kind == AttentionType.ENCODER and not metadata.is_all_encoder_attn_metadata_set:
            raise AttributeError(
                "attn_metadata: encoder attention needs encoder_seq_lens, encoder_seq_lens_tensor, max_encoder_seq_len"
            )
        if kind == AttentionType.ENCODER_DECODER and not metadata.is_all_cross_attn_metadata_set:
            raise AttributeError(
                "attn_metadata: cross-attention needs encoder_seq_lens, encoder_seq_lens_tensor, max_encoder_seq_len, "
                "cross_slot_mapping, cross_block_tables"
            )
        if kind == AttentionType.ENCODER_ONLY and metadata.num_decode_tokens:
            raise ValueError(f"num_decode_tokens: {metadata.num_decode_tokens}; an encoder-only layer decodes nothing")

    def _write(
        self,
        layer: Any,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor | None,
        metadata: v1.TorchSDPAMetadata,
    ) -> tuple[Tensor, Tensor] | None:
        """Store the new keys and values; the two halves of the cache, or None where there is no cache."""
        if self.attn_type == AttentionType.ENCODER or kv_cache is None or not kv_cache.numel():
            return None
        halves = PagedAttention.split_kv_cache(kv_cache, self.num_kv_heads, self.head_size)
        cross = self.attn_type == AttentionType.ENCODER_DECODER
        slots = metadata.cross_slot_mapping if cross else metadata.slot_mapping
        if key is None or value is None or slots is None or self.kv_sharing_target_layer_name is not None:
            return halves
        if self.attn_type == AttentionType.ENCODER_ONLY and not slots.numel():
            return halves  # such models have no blocks
        PagedAttention.write_to_paged_cache(key, value, *halves, slots, self.kv_cache_dtype, *_scales(layer))
        return halves

    def _prefill(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        halves: tuple[Tensor, Tensor] | None,
        metadata: v1.TorchSDPAMetadata,
        result: Tensor,
    ) -> None:
        tokens = metadata.num_encoder_tokens if self.attn_type == AttentionType.ENCODER else metadata.num_prefill_tokens
        if not tokens:
            return
        if self.attn_type == AttentionType.DECODER and metadata.chunked_prefill and halves is not None:
            first = slice(0, metadata.num_prefills)
            cache = SplitCache.of(*halves, self.kv_cache_dtype, query.dtype)
            self._attend(
                layer,
                result[:tokens],
                query[:tokens],
                cache,
                metadata.start_locations()[: metadata.num_prefills + 1],
                metadata.key_lengths()[first],
                metadata.all_blocks(cache.block_size)[first],
            )
            return
        if key is None or value is None:
            raise ValueError(f"key, value: None; {self.attn_type} attention of new tokens needs them")
        self._run_sdpa_forward(result, query, key, value, metadata, self.attn_type)

    def _decode(
        self,
        layer: Any,
        query: Tensor,
        halves: tuple[Tensor, Tensor] | None,
        metadata: v1.TorchSDPAMetadata,
        result: Tensor,
    ) -> None:
        if halves is None:
            raise ValueError("kv_cache: empty; decoding needs the keys of the tokens before")
        lens, longest, tables = metadata.get_seq_len_block_table_args(self.attn_type)
        if lens is None or tables is None:
            raise ValueError("attn_metadata: decoding needs seq_lens_tensor and block_tables")
        rows = slice(metadata.num_prefill_tokens, metadata.num_actual_tokens)
        if not paged_attention_is_ours():  # the caller's own, put in this one's place
            PagedAttention.forward_decode(
                result[rows],
                query[rows],
                *halves,
                tables,
                lens,
                longest or int(lens.max()),
                self.kv_cache_dtype,
                self.num_kv_heads,
                self.scale,
                self.alibi_slopes,
                *_scales(layer),
            )
            return
        cache = SplitCache.of(*halves, self.kv_cache_dtype, query.dtype)
        each = metadata.num_decode_tokens // lens.numel()
        starts = torch.arange(0, (lens.numel() + 1) * each, each, dtype=torch.int32)
        self._attend(layer, result[rows], query[rows], cache, starts, lens, tables)

    def _attend(
        self,
        layer: Any,
        out: Tensor,
        query: Tensor,
        cache: SplitCache,
        starts: Tensor,
        lens: Tensor,
        tables: Tensor,
    ) -> None:
        attend_paged(
            out,
            query,
            cache,
            query_start_loc=starts,
            seq_lens=lens,
            block_tables=tables,
            scale=self.scale,
            alibi_slopes=self.alibi_slopes,
            causal=self.attn_type == AttentionType.DECODER,
            sliding_window=self.sliding_window,
            logits_soft_cap=self.logits_soft_cap,
            k_scale=scale_of(getattr(layer, "_k_scale", None)),
            v_scale=scale_of(getattr(layer, "_v_scale", None)),
        )

    def _run_sdpa_forward(
        self,
        output: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_metadata: v1.TorchSDPAMetadata,
        attn_type: str = AttentionType.DECODER,
    ) -> None:
        """Attention over keys and values as given, ``[T, H, D]`` and ``[S, KH, D]``, into `output`."""
        queries, keys = attn_metadata.get_seq_lens(attn_type)
        if queries is None or keys is None:
            raise ValueError("attn_metadata: attention without a cache needs seq_lens (encoders: encoder_seq_lens)")
        if attn_type == AttentionType.DECODER:  # metadata of 0.10 and 0.11 lists the decodes, too
            queries = keys = keys[: attn_metadata.num_prefills]
        masks = attn_metadata.get_attn_bias(attn_type)
        if masks is not None and any(mask is not None for mask in masks):
            attend_masked(output, query, key, value, queries, keys, masks, self.scale)
            return
        tokens, states = sum(queries), sum(keys)
        output[:tokens] = v1_cpu.varlen_attention(
            query[:tokens].detach(),
            key[:states].detach(),
            value[:states].detach(),
            query_start_loc=v1._starts(queries),
            kv_start_loc=v1._starts(keys),
            scale=self.scale,
            causal=attn_type == AttentionType.DECODER,
            sliding_window=self.sliding_window,
            alibi_slopes=self.alibi_slopes,
            logits_soft_cap=self.logits_soft_cap,
        )

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is TorchSDPABackendImpl and v1.TorchSDPABackendImpl in other.__mro__ else NotImplemented


def paged_attention_is_ours() -> bool:
    """Nobody has put a class of his own in `PagedAttention`'s place."""
    return PagedAttention.forward_decode.__module__ == _PAGED_MODULE


def _scales(layer: Any) -> tuple[Any, Any]:
    """What V0's operations were given: the layer's tensors, or 1 without a layer."""
    return getattr(layer, "_k_scale", 1.0), getattr(layer, "_v_scale", 1.0)


def _differences(layer: TorchSDPABackendImpl, use_irope: bool) -> list[str]:
    """What this layer computes otherwise than V0 did."""
    encoder = layer.attn_type in (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)
    said = []
    if layer.logits_soft_cap is not None:
        said.append("logits_soft_cap is applied; V0's CPU backend ignored it, so outputs differ from V0's")
    if layer.sliding_window is not None and not encoder:
        said.append(
            f"sliding_window={layer.sliding_window}: a decode sees exactly that many keys; V0 dropped whole blocks, "
            "and its decodes saw up to block_size - 1 keys more"
        )
    if encoder and layer.need_mask:
        said.append(
            f"{layer.attn_type} attention with a window or ALiBi sees keys on both sides; V0's masks made it causal"
        )
    if use_irope:
        said.append("use_irope is not served, as in V0: the layer sees its whole context, not its chunk")
    return said
