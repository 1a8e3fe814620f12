"""One way of calling a backend, whichever generation it is of."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from v1_compat.suite.batches import Batch, Request
from v1_compat.suite.reference import Layer
from v1_compat.suite.vllm_driver import VllmDriver, is_vllms
from v1_cpu.layouts import resolve_cache_dtype
from v1_cpu.specs import AttentionSpec, CommonAttentionMetadata

_METHODS = ("get_kv_cache_shape", "get_impl_cls")
_VLLMS = ("get_builder_cls", "get_impl_cls")  # vLLM's own class asks for no shape since it has layouts of its own


class Driver(Protocol):
    """What the tests call."""

    @property
    def backend(self) -> type[Any]: ...

    def fit(self, layer: Layer, *, exact: bool = False) -> Layer:
        """The layer in blocks that the backend takes, `exact` in its own. Skips what it does not claim to serve."""
        ...

    def new_cache(self, layer: Layer, num_blocks: int) -> Tensor:
        """An empty cache, of the shape the backend says."""
        ...

    def step(
        self, layer: Layer, cache: Tensor, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False
    ) -> Tensor:
        """One forward of one layer. `drop_blocks`: leave out what lies before the window at decode, as V0 did."""
        ...

    def cross_step(self, layer: Layer, cache: Tensor, batch: Batch, encoder: Batch, *, first: bool) -> Tensor:
        """Cross-attention to `encoder`'s keys, which are given in the first step and cached after it."""
        ...


def run(driver: Driver, layer: Layer, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False) -> Tensor:
    """The step, after the one that stored the contexts."""
    cache = driver.new_cache(layer, batch.num_blocks)
    earlier = batch.earlier()
    if earlier.requests:
        driver.step(layer, cache, earlier, chunked=chunked)
    return driver.step(layer, cache, batch, chunked=chunked, drop_blocks=drop_blocks)


class BackendError(ValueError):
    """What --backend names cannot be tested."""


def load_backend(path: str) -> type[Any]:
    """The class that `module:Class` names. Raises BackendError, which says what to write."""
    module, _, name = path.partition(":")
    example = "write MODULE:CLASS of a backend class, as in --backend my_plugin.attention:MyBackend"
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise BackendError(f"--backend {path}: must be MODULE:CLASS; {example}")
    try:
        imported = importlib.import_module(module)
    except Exception as error:  # anything that a user's module raises
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise BackendError(
            f"--backend {path}: {module} cannot be imported ({words}); {example}, importable from here (PYTHONPATH)"
        ) from error
    found = getattr(imported, name, None)
    if found is None:
        raise BackendError(f"--backend {path}: {module} has no {name}; {example}")
    methods = _VLLMS if isinstance(found, type) and is_vllms(found) else _METHODS
    lacking = [method for method in methods if not callable(getattr(found, method, None))]
    if not isinstance(found, type) or lacking:
        what = f"lacks {', '.join(lacking)}" if isinstance(found, type) else "is no class"
        raise BackendError(f"--backend {path}: {name} {what}; {example}, which has {', '.join(methods)}")
    return found


def driver_for(backend: type[Any]) -> Driver:
    """V0's kind of backend has flat blocks: its cache has three dimensions. V1's is vLLM's, or made after v1_cpu's."""
    if hasattr(backend, "get_kv_cache_shape") and len(backend.get_kv_cache_shape(4, 16, 2, 32)) == 3:
        return V0Driver(backend)
    return VllmDriver(backend) if is_vllms(backend) else V1Driver(backend)


class Scales:
    """The layer that an implementation reads its scales from."""

    _q_scale = _k_scale = _v_scale = _prob_scale = torch.ones(())
    _k_scale_float = _v_scale_float = 1.0


def _cache(backend: type[Any], layer: Layer, num_blocks: int) -> Tensor:
    shape = backend.get_kv_cache_shape(num_blocks, layer.block_size, layer.num_kv_heads, layer.head_size)
    return torch.zeros(shape, dtype=resolve_cache_dtype(layer.kv_cache_dtype, layer.dtype))


def _table(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence([row.int() for row in rows], batch_first=True)


def _starts(lens: list[int]) -> Tensor:
    return torch.tensor([0, *lens]).cumsum(0).int()


@dataclass(frozen=True, slots=True)
class V0Driver:
    """Calls with V0 metadata, through the classes that the backend names."""

    backend: type[Any]

    def fit(self, layer: Layer, *, exact: bool = False) -> Layer:
        return layer

    def new_cache(self, layer: Layer, num_blocks: int) -> Tensor:
        return _cache(self.backend, layer, num_blocks)

    def step(
        self, layer: Layer, cache: Tensor, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False
    ) -> Tensor:
        metadata = self.metadata(layer, batch, chunked=chunked, drop_blocks=drop_blocks)
        key, value = batch.new_keys()
        return self._forward(layer, batch.query(), key, value, cache, metadata)

    def cross_step(self, layer: Layer, cache: Tensor, batch: Batch, encoder: Batch, *, first: bool) -> Tensor:
        metadata = self.metadata(layer, batch)
        for name, value in encoder_fields(layer, encoder, first=first).items():
            setattr(metadata, name, value)
        key, value = encoder.new_keys() if first else (None, None)
        return self._forward(layer, batch.query(), key, value, cache, metadata)

    def metadata(self, layer: Layer, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False) -> Any:
        """What V0's runner made of this batch."""
        prefills = [r for r in batch.requests if not r.is_decode]
        decodes = [r for r in batch.requests if r.is_decode]
        dropped = [dropped_blocks(layer, r) if drop_blocks else 0 for r in decodes]
        lens = [r.length - n * layer.block_size for r, n in zip(decodes, dropped, strict=True)]
        lengths = [r.length for r in prefills]
        slots = [r.slots(layer.block_size, r.context, r.length) for r in batch.requests]
        with_chunks = chunked and bool(prefills)
        return self.backend.make_metadata(
            num_prefills=len(prefills),
            num_prefill_tokens=sum(r.new for r in prefills),
            num_decode_tokens=len(decodes),
            slot_mapping=torch.cat(slots),
            multi_modal_placeholder_index_maps=None,
            enable_kv_scales_calculation=False,
            seq_lens_tensor=torch.tensor(lens or lengths, dtype=torch.int32),
            max_decode_seq_len=max(lens, default=0),
            block_tables=_table([r.blocks[n:] for r, n in zip(decodes, dropped, strict=True)])
            if decodes
            else torch.tensor([]),
            chunked_prefill=chunked,
            seq_lens=lengths,
            max_query_len=max(r.new for r in prefills) if with_chunks else None,
            max_kv_len=max(lengths) if with_chunks else None,
            prefill_query_start_loc=_starts([r.new for r in prefills]) if with_chunks else None,
            kv_start_loc=_starts(lengths) if with_chunks else None,
            prefill_block_tables=_table([r.blocks for r in prefills]) if with_chunks else None,
        )

    def _forward(
        self, layer: Layer, query: Tensor, key: Tensor | None, value: Tensor | None, cache: Tensor, metadata: Any
    ) -> Tensor:
        impl = self.backend.get_impl_cls()(
            layer.num_heads,
            layer.head_size,
            layer.scale,
            layer.num_kv_heads,
            list(layer.alibi_slopes) if layer.alibi_slopes else None,
            layer.sliding_window,
            layer.kv_cache_dtype,
            None,
            layer.logits_soft_cap,
            layer.attn_type,
        )
        flat = [None if x is None else x.flatten(1) for x in (query, key, value)]  # [T, H * D], as V0 passed them
        out = impl.forward(Scales(), *flat, cache, metadata)
        assert isinstance(out, Tensor), "forward must return the output"
        return out


@dataclass(frozen=True, slots=True)
class V1Driver:
    """Calls with metadata of the backend's own builder."""

    backend: type[Any]

    def fit(self, layer: Layer, *, exact: bool = False) -> Layer:
        return layer

    def new_cache(self, layer: Layer, num_blocks: int) -> Tensor:
        return _cache(self.backend, layer, num_blocks)

    def step(
        self, layer: Layer, cache: Tensor, batch: Batch, *, chunked: bool = False, drop_blocks: bool = False
    ) -> Tensor:
        slots = torch.cat([r.slots(layer.block_size, r.context, r.length) for r in batch.requests])
        common = CommonAttentionMetadata.of(
            [r.new for r in batch.requests],
            [r.length for r in batch.requests],
            _table([r.blocks for r in batch.requests]),
            slots,
            causal=layer.attn_type == "decoder",
        )
        key, value = batch.new_keys()
        return self._forward(layer, batch.query(), key, value, cache, common)

    def cross_step(self, layer: Layer, cache: Tensor, batch: Batch, encoder: Batch, *, first: bool) -> Tensor:
        fields = encoder_fields(layer, encoder, first=first)
        common = CommonAttentionMetadata.of(
            [r.new for r in batch.requests],
            [r.length for r in batch.requests],
            _table([r.blocks for r in encoder.requests]),
            fields["cross_slot_mapping"],
            causal=False,
            encoder_seq_lens=fields["encoder_seq_lens_tensor"],
        )
        key, value = encoder.new_keys() if first else (None, None)
        return self._forward(layer, batch.query(), key, value, cache, common)

    def _forward(
        self, layer: Layer, query: Tensor, key: Tensor | None, value: Tensor | None, cache: Tensor, common: Any
    ) -> Tensor:
        spec = AttentionSpec(
            block_size=layer.block_size,
            num_kv_heads=layer.num_kv_heads,
            head_size=layer.head_size,
            dtype=layer.dtype,
            sliding_window=layer.sliding_window,
            attn_type=layer.attn_type,
        )
        metadata = self.backend.get_builder_cls()(spec, ["layer"], None, torch.device("cpu")).build(0, common)
        impl = self.backend.get_impl_cls()(
            num_heads=layer.num_heads,
            head_size=layer.head_size,
            scale=layer.scale,
            num_kv_heads=layer.num_kv_heads,
            alibi_slopes=list(layer.alibi_slopes) if layer.alibi_slopes else None,
            sliding_window=layer.sliding_window,
            kv_cache_dtype=layer.kv_cache_dtype,
            logits_soft_cap=layer.logits_soft_cap,
            attn_type=layer.attn_type,
        )
        scales, output = Scales(), torch.empty_like(query)
        if key is not None and value is not None and not self.backend.forward_includes_kv_cache_update:
            impl.do_kv_cache_update(scales, key, value, cache, common.slot_mapping)
        impl.forward(scales, query, key, value, cache, metadata, output)
        return output


def encoder_fields(layer: Layer, encoder: Batch, *, first: bool) -> dict[str, Any]:
    """The metadata fields about the encoder: slots in the first step, block tables after it."""
    lens = [r.length for r in encoder.requests]
    slots = [r.slots(layer.block_size, 0, r.length) for r in encoder.requests if first]
    return {
        "num_encoder_tokens": sum(lens),
        "encoder_seq_lens": lens,
        "encoder_seq_lens_tensor": torch.tensor(lens, dtype=torch.int32),
        "max_encoder_seq_len": max(lens),
        "cross_slot_mapping": torch.cat([torch.zeros(0, dtype=torch.int64), *slots]),
        "cross_block_tables": _table([r.blocks for r in encoder.requests])
        if not first
        else torch.zeros((len(lens), 0), dtype=torch.int32),
    }


def dropped_blocks(layer: Layer, request: Request) -> int:
    """Whole blocks before the window of a decode; V0's runner took them out of table and length."""
    if layer.sliding_window is None:
        return 0
    return max(0, request.length - layer.sliding_window) // layer.block_size
