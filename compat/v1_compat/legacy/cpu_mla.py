"""`vllm.attention.backends.cpu_mla`: V0's CPU backend for multi-head latent attention, computed by `v1_cpu.mla`.

T tokens, H heads, N and P the parts of a query without and with rope, R the latent's size, V the value head size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from v1_compat.legacy.abstract import AttentionBackend, MLAAttentionImpl
from v1_compat.legacy.attention_utils import CommonAttentionState
from v1_compat.legacy.custom_ops import concat_and_cache_mla, copy_blocks_mla, mla_decode_kvcache_cpu, swap_blocks
from v1_compat.legacy.sdpa_metadata import TorchSDPAMetadata, TorchSDPAMetadataBuilder
from v1_cpu import mla as v1
from v1_cpu.specs import AttentionType

__all__ = ["CPUMLABackend", "CPUMLAImpl", "CPUMLAMetadata", "CPUMLAMetadataBuilder"]

_BLOCK = 16  # tokens of a block where we make the blocks


@dataclass
class CPUMLAMetadata(TorchSDPAMetadata, v1.CPUMLAMetadata):
    """`TorchSDPAMetadata` with the positions that 0.8.5's layers needed for their rotary embedding."""

    input_positions: Tensor | None = None  # int64 [T], or [1, T] as V0's builder made it
    is_profile_run: bool = False

    def mla_plan(self, **sizes: Any) -> v1.MLAPlan:
        """A plan for this call alone, as the fields may change before the next."""
        self._mla_plans.clear()
        return super().mla_plan(**sizes)

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is CPUMLAMetadata and v1.CPUMLAMetadata in other.__mro__ else NotImplemented


class CPUMLABackend(v1.CPUMLABackend, AttentionBackend):
    """Static facts: V0's cache is `v1_cpu.mla`'s, a latent and a rope key for each token."""

    accept_output_buffer = False

    @staticmethod
    def get_metadata_cls() -> type[CPUMLAMetadata]:
        return CPUMLAMetadata

    @staticmethod
    def get_builder_cls() -> type[CPUMLAMetadataBuilder]:  # type: ignore[override]
        return CPUMLAMetadataBuilder

    @staticmethod
    def get_state_cls() -> type[CommonAttentionState]:
        return CommonAttentionState

    @staticmethod
    def get_impl_cls() -> type[CPUMLAImpl]:  # type: ignore[override]
        return CPUMLAImpl

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """``(NB, BS, R + P)``; `num_kv_heads` is not read."""
        return num_blocks, block_size, head_size

    @staticmethod
    def swap_blocks(src_kv_cache: Tensor, dst_kv_cache: Tensor, src_to_dst: Tensor) -> None:
        swap_blocks(src_kv_cache, dst_kv_cache, src_to_dst)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor) -> None:
        copy_blocks_mla(kv_caches, src_to_dists)

    @staticmethod
    def get_supported_head_sizes() -> list[int]:
        """What V0 had kernels for; every size is served."""
        return [576]

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is CPUMLABackend and v1.CPUMLABackend in other.__mro__ else NotImplemented


class CPUMLAMetadataBuilder(TorchSDPAMetadataBuilder):
    """Builds a batch's metadata from what V0's model runner gathered; chunked prefill, which V0 refused, included."""

    def build(
        self, seq_lens: list[int], query_lens: list[int], cuda_graph_pad_size: int, batch_size: int
    ) -> CPUMLAMetadata:
        """The metadata of one batch: see `TorchSDPAMetadataBuilder.build`."""
        positions = torch.tensor([self.input_data.input_positions])
        return CPUMLAMetadata(**self._fields(seq_lens, query_lens), input_positions=positions)


class CPUMLAImpl(v1.CPUMLAImpl, MLAAttentionImpl[CPUMLAMetadata]):
    """One MLA layer with V0's constructor.

    Parameters
    ----------
    num_heads, head_size, scale, num_kv_heads
        H, R + P, the factor of the logits, 1.
    alibi_slopes, sliding_window, blocksparse_params, logits_soft_cap, attn_type, kv_sharing_target_layer_name
        A plain decoder layer's: anything else is refused, as in V0.
    kv_cache_dtype
        "auto", as in V0.
    mla_args
        q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, qk_head_dim, v_head_dim, kv_b_proj. A layer of
        0.8.5 was given q_proj, rotary_emb and o_proj, too, and applied them.
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
        **mla_args: Any,
    ) -> None:
        if blocksparse_params:
            raise NotImplementedError("blocksparse_params: block-sparse attention has no successor in V1; pass None")
        if kv_cache_dtype != "auto":
            raise NotImplementedError(
                f"kv_cache_dtype: {kv_cache_dtype!r}; V0's layer takes 'auto' alone, v1_cpu.mla.CPUMLAImpl float8, too"
            )
        self._projections = {name: mla_args.pop(name, None) for name in ("q_proj", "rotary_emb", "o_proj")}
        given = [name for name, value in self._projections.items() if value is not None]
        if given and len(given) < len(self._projections):
            raise TypeError(f"{', '.join(given)}: a layer of 0.8.5 has q_proj, rotary_emb and o_proj; give all or none")
        v1.CPUMLAImpl.__init__(
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
            **mla_args,
        )
        self.qk_head_dim = self.qk_nope_head_dim + self.qk_rope_head_dim
        self.q_lora_rank: int | None = mla_args.get("q_lora_rank")

    def forward(  # type: ignore[override]
        self,
        layer: Any,
        q: Tensor,
        k_c_normed: Tensor,
        k_pe: Tensor,
        kv_cache: Tensor,
        attn_metadata: v1.CPUMLAMetadata | None,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
    ) -> Tensor:
        """MLA of one layer, the write of its new latents included.

        Parameters
        ----------
        layer
            Not read.
        q
            The queries ``[T, H, N + P]``, or flat, rope applied; with 0.8.5's projections, what `q_proj` takes.
        k_c_normed, k_pe
            The new latents ``[T, R]`` and rope keys ``[T, 1, P]`` or ``[T, P]``; 0.8.5's without rope yet.
        kv_cache
            ``[NB, BS, R + P]``; empty where there is none yet: prefills attend to their own tokens.
        attn_metadata
            V0's, or one that `v1_cpu.mla` built. None in a warm-up: zeros.
        output
            Filled if given, which V0 refused.

        Returns
        -------
        Tensor
            ``[T, H * V]``; after 0.8.5's `o_proj`, of its size.
        """
        if output_scale is not None:
            raise NotImplementedError("output_scale: CPUMLAImpl does not quantise its output; pass None")
        tokens = q.shape[0]
        if attn_metadata is None:
            return self._finish(q.new_zeros(tokens, self.num_heads * self.v_head_dim), output)
        if TorchSDPAMetadata not in type(attn_metadata).__mro__:  # V1's own, in whatever order its requests are
            return super().forward(layer, q, k_c_normed, k_pe, kv_cache, attn_metadata, output)
        rope_key = k_pe.reshape(-1, self.qk_rope_head_dim)
        query, rope_key = self._project(q, rope_key, attn_metadata)
        if kv_cache.numel():
            slots = attn_metadata.slot_mapping.flatten()  # type: ignore[union-attr]
            tokens = slots.numel()
            concat_and_cache_mla(k_c_normed[:tokens], rope_key[:tokens], kv_cache, slots, "auto", torch.ones(()))
        self.up_projection(query.dtype)
        result = query.new_zeros(query.shape[0], self.num_heads * self.v_head_dim)
        prefills = attn_metadata.num_prefill_tokens
        if prefills:
            new = (query[:prefills], k_c_normed[:prefills], rope_key[:prefills])
            result[:prefills] = self._forward_prefill(*new, kv_cache, attn_metadata)
        if attn_metadata.num_decode_tokens:
            rows = slice(prefills, attn_metadata.num_actual_tokens)
            nope, rope = query[rows].tensor_split([self.qk_nope_head_dim], dim=-1)
            absorbed = torch.bmm(nope.transpose(0, 1), self.W_UK_T).transpose(0, 1)
            result[rows] = self._forward_decode(absorbed, rope, kv_cache, attn_metadata)
        return self._finish(result, output)

    @property
    def W_UK_T(self) -> Tensor:
        """``[H, N, R]``: takes a query without rope to the latents. There after `process_weights_after_loading`."""
        return self._loaded("W_UK_T")[:, : self.qk_nope_head_dim]

    @property
    def W_UV(self) -> Tensor:
        """``[H, R, V]``: takes a latent to a head's value."""
        return self._loaded("W_UV")[:, self.qk_nope_head_dim :].transpose(1, 2)

    def _loaded(self, name: str) -> Tensor:
        if self.kv_up is None:
            raise AttributeError(f"{name}: there is none yet; call process_weights_after_loading(dtype) first")
        return self.kv_up

    def _forward_prefill(
        self, q: Tensor, kv_c_normed: Tensor, k_pe: Tensor, kv_c_and_k_pe_cache: Tensor, attn_metadata: Any
    ) -> Tensor:
        """``[T, H * V]`` of the prefills' tokens: over the cache where their blocks are told, else over themselves."""
        requests = attn_metadata.num_prefills
        starts = attn_metadata.start_locations()[: requests + 1].contiguous()
        lens = attn_metadata.key_lengths()[:requests].contiguous()
        if attn_metadata.prefill_block_tables is not None and kv_c_and_k_pe_cache.numel():
            cache, table = kv_c_and_k_pe_cache, attn_metadata.prefill_block_tables.int()
        elif not torch.equal(lens, starts.diff()):
            raise ValueError(
                f"attn_metadata: prefills of {starts.diff().tolist()} tokens with {lens.tolist()} keys; a prefill with "
                "context needs prefill_block_tables and a cache"
            )
        else:
            cache, table = _cache_of(kv_c_normed, k_pe.reshape(-1, self.qk_rope_head_dim), starts)
        out = v1.mla_attention(
            q.detach().contiguous(),
            cache,
            self.up_projection(q.dtype),
            query_start_loc=starts,
            seq_lens=lens,
            block_table=table,
            scale=self.scale,
        )
        return out.flatten(1)

    def _forward_decode(self, q_nope: Tensor, q_pe: Tensor, kv_c_and_k_pe_cache: Tensor, attn_metadata: Any) -> Tensor:
        """``[B, H * V]`` of absorbed queries ``[B, H, R]`` and ``[B, H, P]``, one of each request."""
        if not kv_c_and_k_pe_cache.numel():
            raise ValueError("kv_cache: empty; decoding needs the latents of the tokens before")
        query = torch.cat([q_nope, q_pe], dim=-1)
        out = query.new_empty(query.shape[0], self.num_heads, self.kv_lora_rank)
        tables, lens = attn_metadata.block_tables, attn_metadata.seq_lens_tensor
        mla_decode_kvcache_cpu(out, query, kv_c_and_k_pe_cache, self.scale, tables, lens)
        return self._v_up_proj(out)

    def _v_up_proj(self, x: Tensor) -> Tensor:
        """``[B, H * V]`` of ``[B, H, R]``."""
        return torch.bmm(x.transpose(0, 1), self.W_UV).transpose(0, 1).flatten(1)

    def _project(self, x: Tensor, rope_key: Tensor, attn_metadata: Any) -> tuple[Tensor, Tensor]:
        """Queries ``[T, H, N + P]`` and rope keys ``[T, P]``, with rope: as given, or made by 0.8.5's projections."""
        shape = (-1, self.num_heads, self.qk_head_dim)
        q_proj, rotary_emb = self._projections["q_proj"], self._projections["rotary_emb"]
        if q_proj is None:
            return x.view(shape), rope_key
        if attn_metadata.input_positions is None:
            raise ValueError("attn_metadata: a layer that applies rope itself, as 0.8.5's, needs input_positions")
        nope, rope = q_proj(x)[0].view(shape).split([self.qk_nope_head_dim, self.qk_rope_head_dim], dim=-1)
        positions = attn_metadata.input_positions.flatten()
        rope, rope_key = rotary_emb(positions, rope.contiguous(), rope_key[:, None].clone())
        return torch.cat([nope, rope], dim=-1), rope_key[:, 0]

    def _finish(self, result: Tensor, output: Tensor | None) -> Tensor:
        o_proj = self._projections["o_proj"]
        result = result if o_proj is None else o_proj(result)[0]
        if output is None:
            return result
        output.view(result.shape).copy_(result)
        return output

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return True if cls is CPUMLAImpl and v1.CPUMLAImpl in other.__mro__ else NotImplemented


def _cache_of(latents: Tensor, rope_keys: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
    """A latent cache of these tokens alone, and the block table of the requests that begin at `starts`."""
    lens = starts.diff().long()
    needed = -(-lens // _BLOCK)
    first = needed.cumsum(0) - needed
    table = (first[:, None] + torch.arange(int(needed.max()))).clamp(max=int(needed.sum()) - 1).int()
    position = torch.arange(int(starts[-1])) - starts[:-1].long().repeat_interleave(lens)
    slots = first.repeat_interleave(lens) * _BLOCK + position
    sizes = (latents.shape[1], rope_keys.shape[1], latents.dtype)
    cache = v1.allocate_latent_cache(int(needed.sum()), _BLOCK, *sizes)
    v1.write_latent_cache(latents.detach(), rope_keys.detach(), cache, slots)
    return cache, table
