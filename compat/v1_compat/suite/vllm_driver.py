"""Calls of a backend that derives from vLLM's, with what vLLM itself gives one: its layer, configuration and metadata.

What a backend says of itself (dtypes, head and block sizes, attention types, ...) is vLLM's contract: a layer that it
does not claim to serve is never given to it, and such a test is skipped.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from v1_compat.suite.batches import Batch
from v1_compat.suite.reference import Layer

_NAME = "layer"
_BASES = ("vllm.v1.attention.backend", "vllm.attention.backends.abstract")
_LAYERS = ("vllm.model_executor.layers.attention", "vllm.attention.layer")
_COMMON = ("vllm.v1.attention.backend", "vllm.v1.attention.backends.utils")


def _found(homes: Iterable[str], name: str) -> Any:
    """The object of the first module that has it; None without vLLM, or in another one."""
    for home in homes:
        try:
            found = getattr(importlib.import_module(home), name, None)
        except ImportError:
            continue
        if found is not None:
            return found
    return None


def is_vllms(backend: type[Any]) -> bool:
    """It derives from the class that vLLM's engine asks for, by whatever import."""
    return any(base.__name__ == "AttentionBackend" and base.__module__ in _BASES for base in backend.__mro__)


@dataclass(frozen=True, slots=True)
class VllmDriver:
    """Calls through vLLM's `Attention`, whose implementation and builder are the backend's."""

    backend: type[Any]

    def fit(self, layer: Layer, *, exact: bool = False) -> Layer:
        """The layer with a block size that the backend takes; skips the test where it does not serve the rest."""
        if not self._takes(layer.block_size) and not exact:
            layer = dataclasses.replace(layer, block_size=self.backend.get_preferred_block_size(layer.block_size))
        if refused := [words for words, served in self._claims(layer) if not served]:
            pytest.skip(f"{self.backend.__name__} does not claim {' and '.join(refused)}")
        return layer

    def new_cache(self, layer: Layer, num_blocks: int) -> Tensor:
        dtype = _stored(layer)
        sizes = num_blocks, layer.block_size, layer.num_kv_heads, layer.head_size
        if hasattr(self.backend, "get_kv_cache_shape"):  # up to the releases whose layouts say it
            return torch.zeros(self.backend.get_kv_cache_shape(*sizes), dtype=dtype)
        return torch.zeros(num_blocks, layer.num_kv_heads, layer.block_size, 2 * layer.head_size, dtype=dtype)

    def step(
        self, layer: Layer, cache: Tensor, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False
    ) -> Tensor:
        slots = torch.cat([r.slots(layer.block_size, r.context, r.length) for r in batch.requests])
        lengths = [r.length for r in batch.requests]
        common = _common(batch, lengths, [r.blocks for r in batch.requests], slots, layer.attn_type == "decoder")
        return self._forward(layer, batch.query(), *batch.new_keys(), cache, common)

    def cross_step(self, layer: Layer, cache: Tensor, batch: Batch, encoder: Batch, *, first: bool) -> Tensor:
        slots = [r.slots(layer.block_size, 0, r.length) for r in encoder.requests if first]
        lengths, blocks = [r.length for r in encoder.requests], [r.blocks for r in encoder.requests]
        common = _common(batch, lengths, blocks, torch.cat([torch.zeros(0, dtype=torch.int64), *slots]), False)
        key, value = encoder.new_keys() if first else (None, None)
        return self._forward(layer, batch.query(), key, value, cache, common)

    def _forward(
        self, layer: Layer, query: Tensor, key: Tensor | None, value: Tensor | None, cache: Tensor, common: Any
    ) -> Tensor:
        config = _configuration(layer)
        with importlib.import_module("vllm.config").set_current_vllm_config(config):
            try:
                made = self._layer(layer, config)
                metadata = self._builder(layer, config).build(0, common)
            except NotImplementedError as error:  # not on this machine
                pytest.skip(f"{self.backend.__name__}: {error}")
            output = torch.empty_like(query)
            if key is not None and value is not None and not self.backend.forward_includes_kv_cache_update:
                made.impl.do_kv_cache_update(made, key, value, cache, common.slot_mapping)
            made.impl.forward(made, query, key, value, cache, metadata, output)
        return output

    def _layer(self, layer: Layer, config: Any) -> Any:
        before = torch.get_default_dtype()
        torch.set_default_dtype(layer.dtype)  # as a model is loaded
        try:
            return _found(_LAYERS, "Attention")(
                layer.num_heads,
                layer.head_size,
                layer.scale,
                layer.num_kv_heads,
                list(layer.alibi_slopes) if layer.alibi_slopes else None,
                cache_config=config.cache_config,
                logits_soft_cap=layer.logits_soft_cap,
                per_layer_sliding_window=layer.sliding_window,
                prefix=_NAME,
                attn_type=layer.attn_type,
                attn_backend=self.backend,
            )
        finally:
            torch.set_default_dtype(before)

    def _builder(self, layer: Layer, config: Any) -> Any:
        interface = importlib.import_module("vllm.v1.kv_cache_interface")
        kinds = {"decoder": "FullAttentionSpec", "encoder_decoder": "CrossAttentionSpec"}
        spec = getattr(interface, kinds.get(layer.attn_type, "EncoderOnlyAttentionSpec"))(
            block_size=layer.block_size,
            num_kv_heads=layer.num_kv_heads,
            head_size=layer.head_size,
            dtype=_stored(layer),
        )
        return self.backend.get_builder_cls()(spec, [_NAME], config, torch.device("cpu"))

    def _takes(self, block_size: int) -> bool:
        """The kernel does: vLLM cuts larger blocks for one that takes fixed sizes."""
        sizes = self.backend.get_supported_kernel_block_sizes()
        return not sizes or any(
            block_size % size.base == 0 if hasattr(size, "base") else block_size == size for size in sizes
        )

    def _claims(self, layer: Layer) -> list[tuple[str, bool]]:
        backend, windowed = self.backend, layer.sliding_window is not None
        return [
            (f"blocks of {layer.block_size}", self._takes(layer.block_size)),
            (f"heads of {layer.head_size}", backend.supports_head_size(layer.head_size)),
            (str(layer.dtype), backend.supports_dtype(layer.dtype)),
            (f"a cache of {layer.kv_cache_dtype}", backend.supports_kv_cache_dtype(layer.kv_cache_dtype)),
            (f"attention of the {layer.attn_type}", backend.supports_attn_type(layer.attn_type)),
            ("windows", not windowed or getattr(backend, "supports_sliding_window", lambda: True)()),
        ]


def _stored(layer: Layer) -> torch.dtype:
    """Of the cache, as vLLM's runner allocates it: float8 are bytes."""
    dtypes = _found(("vllm.utils.torch_utils", "vllm.utils"), "STR_DTYPE_TO_TORCH_DTYPE")
    found: torch.dtype = layer.dtype if layer.kv_cache_dtype == "auto" else dtypes[layer.kv_cache_dtype]
    return found


def _configuration(layer: Layer) -> Any:
    """vLLM's own, of a model that has nothing but this layer."""
    config = importlib.import_module("vllm.config").VllmConfig()
    model = SimpleNamespace(
        dtype=layer.dtype,
        is_mm_prefix_lm=False,
        get_num_attention_heads=lambda _: layer.num_heads,
        get_num_kv_heads=lambda _: layer.num_kv_heads,
        get_head_size=lambda: layer.head_size,
    )
    object.__setattr__(config, "model_config", model)
    object.__setattr__(config.cache_config, "block_size", layer.block_size)
    object.__setattr__(config.cache_config, "cache_dtype", layer.kv_cache_dtype)
    return config


def _common(batch: Batch, lengths: list[int], blocks: list[Tensor], slots: Tensor, causal: bool) -> Any:
    """vLLM's metadata of a batch, as far as this release has the fields."""
    new = [r.new for r in batch.requests]
    starts = torch.tensor([0, *new]).cumsum(0).int()
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    given = {
        "query_start_loc": starts,
        "query_start_loc_cpu": starts,
        "seq_lens": seq_lens,
        "seq_lens_cpu": seq_lens,
        "num_computed_tokens_cpu": torch.tensor([r.context for r in batch.requests], dtype=torch.int32),
        "num_reqs": len(new),
        "num_actual_tokens": sum(new),
        "max_query_len": max(new),
        "max_seq_len": max(lengths),
        "block_table_tensor": torch.nn.utils.rnn.pad_sequence([row.int() for row in blocks], batch_first=True),
        "slot_mapping": slots,
        "causal": causal,
        "positions": torch.cat([torch.arange(r.context, r.context + r.new) for r in batch.requests]),
        "is_prefilling": torch.tensor([not r.is_decode for r in batch.requests]),
        "seq_lens_cpu_upper_bound": seq_lens,
    }
    kind = _found(_COMMON, "CommonAttentionMetadata")
    fields = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in given.items() if name in fields})
