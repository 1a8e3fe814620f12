"""v1_cpu's MLA as vLLM 0.32's `MLAAttention` layer wants it.

The layer sends the tokens of prefills to `forward_mha` and those of decodes, already absorbed, to `forward_mqa`. Here
a batch says that all its requests are prefills: `forward_mha` gets every token in the runner's order, and
`v1_cpu.mla` chooses the form of each request itself.
"""

# mypy: disable-error-code="import-not-found, misc"

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.quantization.utils.quant_utils import get_and_maybe_dequant_weights
from vllm.v1.attention.backend import AttentionBackend, AttentionMetadataBuilder, MLAAttentionImpl, MultipleOf
from vllm.v1.kv_cache_interface import KVCacheLayout

from v1_cpu.layouts import FP8_DTYPES
from v1_cpu.mla.backend import CPUMLABackend as _Backend
from v1_cpu.mla.backend import CPUMLAImpl, CPUMLAMetadata, CPUMLAMetadataBuilder
from v1_cpu.vllm_plugin.choice import serves
from v1_cpu.vllm_plugin.mla import BACKENDS, own, warn_of_rotary


class MLABackend(_Backend, AttentionBackend):
    """Static facts. A block is ``[1, block_size, R + P]``; any rank, any block size."""

    forward_includes_kv_cache_update: ClassVar[bool] = False

    @staticmethod
    def get_impl_cls() -> type[MLAImpl]:
        return MLAImpl

    @staticmethod
    def get_builder_cls() -> type[MLAMetadataBuilder]:
        return MLAMetadataBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int | MultipleOf]:
        """Every block size."""
        return [MultipleOf(1)]

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[KVCacheLayout, ...]:
        return (KVCacheLayout.LBHNC,)


class MLAMetadata(CPUMLAMetadata):
    """A batch all of whose requests are called prefills."""

    num_decodes: ClassVar[int] = 0


class MLAMetadataBuilder(CPUMLAMetadataBuilder, AttentionMetadataBuilder):
    """Batches in the runner's order."""

    def __init__(self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)

    def build(self, common_prefix_len: int, common_attn_metadata: Any, fast_build: bool = False) -> MLAMetadata:
        return _prefills(super().build(common_prefix_len, common_attn_metadata, fast_build))

    def update_block_table(self, metadata: Any, blk_table: Tensor, slot_mapping: Tensor) -> MLAMetadata:
        return _prefills(super().update_block_table(metadata, blk_table, slot_mapping))


def _prefills(metadata: CPUMLAMetadata) -> MLAMetadata:
    """The same batch with every request among the prefills."""
    tokens = metadata.num_actual_tokens
    metadata.__class__ = MLAMetadata
    assert isinstance(metadata, MLAMetadata) and metadata.kv_lens is not None
    metadata.num_prefills, metadata.num_prefill_tokens, metadata.num_decode_tokens = len(metadata.kv_lens), tokens, 0
    return metadata


class MLAImpl(CPUMLAImpl, MLAAttentionImpl):
    """One layer. vLLM writes the cache through `do_kv_cache_update` before it calls `forward_mha`."""

    forward_includes_kv_cache_update: ClassVar[bool] = False
    q_pad_num_heads: ClassVar[int | None] = None
    supports_quant_query_input: bool = False
    uses_amx_bmm: ClassVar[bool] = True
    """The layer then makes no W_UK and W_UV of its own and lets go of the weight, which `kv_up` holds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        warn_of_rotary(get_current_vllm_config().model_config.hf_text_config)

    def forward_mha(
        self,
        q: Tensor,
        kv_c_normed: Tensor,
        k_pe: Tensor,
        kv_c_and_k_pe_cache: Tensor,
        attn_metadata: MLAMetadata,
        k_scale: Tensor,
        output: Tensor,
        output_scale: Tensor | None = None,
    ) -> None:
        """All tokens of the batch; their latents are in the cache."""
        self.attend(q, kv_c_and_k_pe_cache, attn_metadata, output, float(k_scale))

    def _typed(self, kv_cache: Tensor, dtype: torch.dtype) -> Tensor:
        """The layer views every float8 cache as e4m3 for `forward_mha`; its bytes are those of `kv_cache_dtype`."""
        return super()._typed(kv_cache.view(torch.uint8) if kv_cache.dtype in FP8_DTYPES else kv_cache, dtype)

    def process_weights_after_loading(self, act_dtype: torch.dtype) -> None:
        """``[H, N + V, R]`` from the projection, whatever its quantisation."""
        weight = get_and_maybe_dequant_weights(self.kv_b_proj, out_dtype=act_dtype)
        self.kv_up = weight.detach().reshape(self.num_heads, -1, self.kv_lora_rank)


def __getattr__(name: str) -> Any:
    """`CPUMLABackend`, `AMXMLABackend`: the class that serves the engine being built, ours or vLLM's own."""
    if name not in BACKENDS.values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MLABackend if serves(get_current_vllm_config()) else own(name)
