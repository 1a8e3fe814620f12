"""The MLA backend in vLLM's four-class grammar: backend, metadata, builder, implementation. It imports no vLLM.

Batches are those of `v1_cpu.backend`: one metadata for any mix of prefill, chunk and decode, prefix caching included.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from v1_cpu.backend import TorchSDPABackend, TorchSDPAMetadata, TorchSDPAMetadataBuilderV1
from v1_cpu.layouts import FP8_DTYPES, KV_CACHE_DTYPES
from v1_cpu.mla.attention import make_mla_plan, mla_attention
from v1_cpu.mla.cache import write_latent_cache
from v1_cpu.mla.kernels import serving_mla
from v1_cpu.mla.paged import mla_paged_attention
from v1_cpu.mla.plan import MLAPlan
from v1_cpu.specs import AttentionType, attention_type
from v1_cpu.validate import DTYPES


class CPUMLABackend(TorchSDPABackend):
    """Static facts. A block is ``[block_size, R + P]``, keys and values in one."""

    @staticmethod
    def get_name() -> str:
        return "CPU_MLA"

    @staticmethod
    def get_impl_cls() -> type[CPUMLAImpl]:  # type: ignore[override]
        return CPUMLAImpl

    @staticmethod
    def get_metadata_cls() -> type[CPUMLAMetadata]:
        return CPUMLAMetadata

    @staticmethod
    def get_builder_cls() -> type[CPUMLAMetadataBuilder]:
        return CPUMLAMetadataBuilder

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, cache_dtype_str: str = "auto"
    ) -> tuple[int, ...]:
        """``(num_blocks, block_size, head_size)``, head_size R + P, for the one KV head that there is."""
        if num_kv_heads != 1:
            raise ValueError(f"num_kv_heads: {num_kv_heads}; must be 1: MLA caches one latent a token for all heads")
        return num_blocks, block_size, head_size

    @classmethod
    def is_mla(cls) -> bool:
        return True

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return super().supports_attn_type(attn_type) and attention_type(attn_type) == AttentionType.DECODER

    @classmethod
    def supports_sink(cls) -> bool:
        return False

    @classmethod
    def supports_sliding_window(cls) -> bool:
        return False


@dataclass
class CPUMLAMetadata(TorchSDPAMetadata):
    """`TorchSDPAMetadata` with the two fields that vLLM 0.9's had; neither is read."""

    input_positions: Tensor | None = field(default=None, kw_only=True)  # int64 [T]
    is_profile_run: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._mla_plans: dict[tuple[Any, ...], MLAPlan] = {}

    def mla_plan(self, **sizes: Any) -> MLAPlan:
        """The plan for layers of one shape: made by the first, used by all."""
        key = tuple(sizes.values())
        plan = self._mla_plans.get(key)
        if plan is None:
            plan = self._mla_plans[key] = make_mla_plan(
                query_start_loc=self.start_locations(),
                seq_lens=self.key_lengths(),
                block_table=self.all_blocks(sizes["block_size"]),
                causal=True if self.causal is None else self.causal,
                **sizes,
            )
        return plan


class CPUMLAMetadataBuilder(TorchSDPAMetadataBuilderV1):
    """Builds a `CPUMLAMetadata` as `TorchSDPAMetadataBuilderV1` builds its own; chunked prefill is served."""

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> CPUMLAMetadata:
        """The metadata of one batch, for the layers of this group. Nothing of `common_attn_metadata` is changed."""
        built = _mla(super().build(common_prefix_len, common_attn_metadata, fast_build))
        built.input_positions = getattr(common_attn_metadata, "positions", None)
        return built

    def update_block_table(
        self, metadata: TorchSDPAMetadata, blk_table: Tensor, slot_mapping: Tensor
    ) -> CPUMLAMetadata:
        """The same batch for another group of layers, whose blocks are elsewhere."""
        return _mla(super().update_block_table(metadata, blk_table, slot_mapping))


def _mla(metadata: TorchSDPAMetadata) -> CPUMLAMetadata:
    return CPUMLAMetadata(**{f.name: getattr(metadata, f.name) for f in dataclasses.fields(TorchSDPAMetadata)})


class CPUMLAImpl:
    """One MLA layer.

    Parameters
    ----------
    num_heads, head_size, scale, num_kv_heads
        H, R + P, the factor of the logits, and 1 (None: 1).
    alibi_slopes, sliding_window, logits_soft_cap, attn_type, kv_sharing_target_layer_name
        As in `TorchSDPABackendImpl`; anything but a plain decoder layer is refused.
    kv_cache_dtype
        "auto", "fp8" (e4m3), "fp8_e4m3", "fp8_e5m2", or the model's dtype by name.
    kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        R, N, P, V.
    kv_b_proj
        The up-projection: a module whose weight is ``[H * (N + V), R]`` (or which, quantised, maps ``[n, R]`` to
        ``[n, H * (N + V)]``), or that weight.
    dtype, kernel
        The model's dtype (default torch's); which kernel (default `v1_cpu.which()`).
    rest
        What vLLM's releases pass beside (`q_lora_rank`, `qk_head_dim`, projections of the query): not read.

    Raises
    ------
    ValueError, TypeError
        A size or type that is wrong everywhere.
    NotImplementedError
        What this backend does not serve.
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
        *,
        kv_lora_rank: int,
        qk_nope_head_dim: int,
        qk_rope_head_dim: int,
        v_head_dim: int,
        kv_b_proj: Any,
        dtype: torch.dtype | None = None,
        kernel: str | None = None,
        **rest: Any,
    ) -> None:
        for name, value in (
            ("alibi_slopes", alibi_slopes),
            ("sliding_window", None if sliding_window == -1 else sliding_window),
            ("logits_soft_cap", logits_soft_cap),
            ("kv_sharing_target_layer_name", kv_sharing_target_layer_name),
            ("indexer", rest.get("indexer")),
        ):
            if value:
                raise NotImplementedError(f"{name}: {value!r}; CPUMLAImpl serves plain causal attention; leave it out")
        if attention_type(attn_type) != AttentionType.DECODER:
            raise NotImplementedError(f"attn_type: {attn_type!r}; CPUMLAImpl serves decoder layers")
        if num_kv_heads not in (None, 1):
            raise ValueError(f"num_kv_heads: {num_kv_heads}; must be 1: MLA caches one latent a token for all heads")
        if head_size != kv_lora_rank + qk_rope_head_dim:
            raise ValueError(
                f"head_size: {head_size}; must be kv_lora_rank + qk_rope_head_dim = {kv_lora_rank} + {qk_rope_head_dim}"
            )
        if kv_cache_dtype not in KV_CACHE_DTYPES:
            raise NotImplementedError(
                f"kv_cache_dtype: {kv_cache_dtype!r}; CPUMLABackend serves {', '.join(KV_CACHE_DTYPES)}"
            )
        self.num_heads, self.head_size, self.scale, self.num_kv_heads = num_heads, head_size, float(scale), 1
        self.kv_lora_rank, self.qk_rope_head_dim = kv_lora_rank, qk_rope_head_dim
        self.qk_nope_head_dim, self.v_head_dim = qk_nope_head_dim, v_head_dim
        self.kv_cache_dtype, self.kernel, self.kv_b_proj = kv_cache_dtype, kernel, kv_b_proj
        self.kv_up: Tensor | None = None  # [H, N + V, R], made at the first use
        self._check_served(dtype)

    def forward(
        self,
        layer: Any,
        q: Tensor,
        kv_c_normed: Tensor,
        k_pe: Tensor,
        kv_cache: Tensor,
        attn_metadata: CPUMLAMetadata | None,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """MLA of one layer, the write of its new latents included.

        Parameters
        ----------
        layer
            Carries the scale of a float8 cache (`_k_scale_float`, or `_k_scale`); may be None.
        q
            ``[T, H, N + P]`` or ``[T, H * (N + P)]``, rope applied.
        kv_c_normed, k_pe
            The new latents ``[T, R]``, normalised, and rope keys ``[T, P]`` or ``[T, 1, P]``, rope applied.
        kv_cache
            ``[num_blocks, block_size, R + P]``; uint8 where a float8 cache is meant; empty in a profiling run.
        attn_metadata
            None in a warm-up: nothing is read or written.
        output
            ``[T, H, V]`` or ``[T, H * V]``, filled and returned. None: allocated, ``[T, H * V]``.
        """
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError("CPUMLAImpl does not quantise its output; pass no output_scale")
        result = q.new_zeros((q.shape[0], self.num_heads * self.v_head_dim)) if output is None else output
        if attn_metadata is None or kv_cache.numel() == 0:
            return result
        if self.forward_includes_kv_cache_update and attn_metadata.slot_mapping is not None:
            self.do_kv_cache_update(kv_c_normed, k_pe, kv_cache, attn_metadata.slot_mapping, layer=layer)
        self.attend(q, kv_cache, attn_metadata, result, self._scale(layer))
        return result

    def attend(
        self, q: Tensor, kv_cache: Tensor, attn_metadata: CPUMLAMetadata, output: Tensor, kv_scale: float
    ) -> None:
        """Attention over latents that are in the cache: the queries of `forward` to its `output`, which is filled."""
        kv_cache = self._typed(kv_cache, q.dtype)
        mla_attention(
            q.view(q.shape[0], self.num_heads, self.qk_nope_head_dim + self.qk_rope_head_dim),
            kv_cache,
            self.up_projection(q.dtype),
            query_start_loc=attn_metadata.start_locations(),
            seq_lens=attn_metadata.key_lengths(),
            block_table=attn_metadata.all_blocks(kv_cache.shape[1]),
            scale=self.scale,
            causal=True if attn_metadata.causal is None else attn_metadata.causal,
            kv_scale=kv_scale if kv_cache.dtype in FP8_DTYPES else 1.0,
            out=output.view(q.shape[0], self.num_heads, self.v_head_dim),
            plan=self._plan(attn_metadata, kv_cache, q.dtype),
            kernel=self.kernel,
        )

    def forward_mqa(
        self, q: Tensor | tuple[Tensor, Tensor], kv_cache: Tensor, attn_metadata: CPUMLAMetadata, layer: Any = None
    ) -> tuple[Tensor, Tensor]:
        """The absorbed form alone, for a caller that applies W_UK and W_UV itself, over the whole batch.

        `q` is ``[T, H, R + P]``, or its two parts; returns ``[T, H, R]`` and the lse ``[H, T]``.
        """
        query = torch.cat(q, dim=-1) if isinstance(q, tuple) else q
        kv_cache = self._typed(kv_cache, query.dtype)
        return mla_paged_attention(
            query,
            kv_cache,
            kv_lora_rank=self.kv_lora_rank,
            query_start_loc=attn_metadata.start_locations(),
            seq_lens=attn_metadata.key_lengths(),
            block_table=attn_metadata.all_blocks(kv_cache.shape[1]),
            scale=self.scale,
            causal=True if attn_metadata.causal is None else attn_metadata.causal,
            kv_scale=self._scale(layer) if kv_cache.dtype in FP8_DTYPES else 1.0,
            return_lse=True,
            kernel=self.kernel,
        )

    def do_kv_cache_update(
        self,
        kv_c_normed: Tensor,
        k_pe: Tensor,
        kv_cache: Tensor,
        slot_mapping: Tensor,
        kv_cache_dtype: str | None = None,
        k_scale: Tensor | float = 1.0,
        *,
        layer: Any = None,
    ) -> None:
        """Store new latents and rope keys; the scale of a float8 cache is the layer's, or `k_scale`."""
        if kv_cache.numel() == 0:
            return
        kv_cache = self._typed(kv_cache, kv_c_normed.dtype)
        slots = slot_mapping.flatten()
        tokens = min(kv_c_normed.shape[0], slots.shape[0])  # either may be padded
        scale = self._scale(layer) if layer is not None else float(k_scale)
        write_latent_cache(
            kv_c_normed[:tokens],
            k_pe.reshape(k_pe.shape[0], self.qk_rope_head_dim)[:tokens],
            kv_cache,
            (slots if slots.dtype is torch.int64 else slots.long())[:tokens],
            kv_scale=scale if kv_cache.dtype in FP8_DTYPES else 1.0,
            kernel=self.kernel,
        )

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """Take the up-projection out of `kv_b_proj`."""
        self.kv_up = None
        self.up_projection(act_dtype)

    def up_projection(self, dtype: torch.dtype) -> Tensor:
        """``[H, N + V, R]`` in `dtype`: a view of the weight where it is of that dtype."""
        if self.kv_up is None or self.kv_up.dtype is not dtype:
            shape = (self.num_heads, self.qk_nope_head_dim + self.v_head_dim, self.kv_lora_rank)
            self.kv_up = _weight(self.kv_b_proj, shape, dtype).to(dtype).view(shape)
        return self.kv_up

    def _plan(self, metadata: CPUMLAMetadata, kv_cache: Tensor, dtype: torch.dtype) -> MLAPlan:
        return metadata.mla_plan(
            num_blocks=kv_cache.shape[0],
            block_size=kv_cache.shape[1],
            num_heads=self.num_heads,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.qk_nope_head_dim,
            qk_rope_head_dim=self.qk_rope_head_dim,
            v_head_dim=self.v_head_dim,
            dtype=dtype,
            kv_cache_dtype=kv_cache.dtype,
            kernel=self.kernel,
        )

    def _check_served(self, dtype: torch.dtype | None) -> None:
        """Ask the kernel now, not at the first request."""
        if dtype is None:
            dtype = torch.get_default_dtype() if torch.get_default_dtype() in DTYPES else torch.float32
        if dtype not in DTYPES:
            raise NotImplementedError(f"dtype: {dtype}; CPUMLABackend serves float32, bfloat16 and float16")
        named = KV_CACHE_DTYPES[self.kv_cache_dtype]
        cache_dtype = named if named in FP8_DTYPES else dtype
        serving_mla(self.kernel, dtype, cache_dtype, self.num_heads, self.kv_lora_rank, self.qk_rope_head_dim, 16)

    def _typed(self, kv_cache: Tensor, dtype: torch.dtype) -> Tensor:
        """A float8 cache that vLLM hands over as uint8 is viewed as what it holds."""
        wanted = KV_CACHE_DTYPES[self.kv_cache_dtype] or dtype
        if kv_cache.dtype is torch.uint8 and wanted in FP8_DTYPES:
            return kv_cache.view(wanted)
        if kv_cache.dtype is not wanted:
            raise TypeError(f"kv_cache: dtype {kv_cache.dtype}; kv_cache_dtype={self.kv_cache_dtype!r} means {wanted}")
        return kv_cache

    def _scale(self, layer: Any) -> float:
        """The layer's scale: the float of newer releases, else the tensor, else 1."""
        value = getattr(layer, "_k_scale_float", None)
        return float(getattr(layer, "_k_scale", 1.0) if value is None else value)


def _weight(kv_b_proj: Any, shape: tuple[int, int, int], dtype: torch.dtype) -> Tensor:
    """The up-projection's weight ``[H * (N + V), R]``: as it lies, or, where quantised or repacked, by asking it."""
    weight = kv_b_proj if isinstance(kv_b_proj, Tensor) else getattr(kv_b_proj, "weight", None)
    heads, rows, rank = shape
    if isinstance(weight, Tensor) and weight.dtype in DTYPES and weight.shape == (heads * rows, rank):
        return weight.detach()
    if isinstance(kv_b_proj, Tensor) or not callable(kv_b_proj):
        got = tuple(weight.shape) if isinstance(weight, Tensor) else type(kv_b_proj).__name__
        raise ValueError(f"kv_b_proj: {got}; must have a weight [H * (N + V), R], here {(heads * rows, rank)}")
    given = kv_b_proj(torch.eye(rank, dtype=dtype))
    columns: Tensor = given[0] if isinstance(given, tuple) else given
    return columns.T.contiguous()
