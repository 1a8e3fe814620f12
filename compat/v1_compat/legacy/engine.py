"""V0's attention backends inside vLLM's V1 engine: V1's contract outside, V0's calls inside.

A platform class of V0's time names a backend of V0's contract. Where that is V0's own, unchanged, vLLM's CPU backend
stands for it; where a plugin derived from it, or put a class of its own in `PagedAttention`'s place, the plugin's code
computes, over a cache that is laid out as V0's was.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch
from torch import Tensor

from v1_compat.legacy import torch_sdpa
from v1_compat.legacy.convert import prefills_first
from v1_compat.legacy.notice import say
from v1_compat.legacy.torch_sdpa import TorchSDPABackend
from v1_cpu import backend as v1
from v1_cpu.specs import AttentionType
from v1_cpu.vllm_plugin import adapter

PLAIN = ("vllm.attention.backends.torch_sdpa.TorchSDPABackend", "vllm.attention.backends.cpu_mla.CPUMLABackend")
_V0_ARGUMENTS = ("num_heads", "head_size", "scale", "num_kv_heads", "alibi_slopes", "sliding_window", "kv_cache_dtype")


def engine_path(dotted: str) -> str:
    """The path of a class that serves V1's engine for the backend at a path.

    The path itself where that backend is of V1's contract; "" where vLLM's own CPU backend stands for it.

    Raises
    ------
    NotImplementedError
        This vLLM's contract is not known: it has no adapter in `v1_cpu`.
    """
    module, _, name = dotted.rpartition(".")
    backend = getattr(importlib.import_module(module), name)
    if dotted == PLAIN[1]:
        return ""
    if TorchSDPABackend not in getattr(backend, "__mro__", ()):
        return dotted
    if backend is TorchSDPABackend and torch_sdpa.paged_attention_is_ours():
        return ""
    made = engine_backend(backend)
    globals()[made.__name__] = made
    return f"{__name__}.{made.__name__}"


@functools.cache
def engine_backend(backend: type[TorchSDPABackend]) -> type:
    """A backend of V1's contract that computes with a backend of V0's."""
    version = importlib.import_module("vllm").__version__
    home = adapter(version)
    if home is None:
        raise NotImplementedError(
            f"{backend.__module__}.{backend.__qualname__} has V0's contract, which v1_compat cannot serve in the "
            f"engine of vLLM {version}: there is no adapter for it; return the path of a backend of V1's"
        )
    builder = backend.get_builder_cls()
    if builder is not TorchSDPABackend.get_builder_cls():
        say(
            "V1M003",
            f"{builder.__qualname__} is not called: V1 builds the metadata, which is V0's for {backend.__name__}",
        )
    contract = importlib.import_module(home)
    name = f"{backend.__module__}.{backend.__qualname__}".replace(".", "_")
    impl = type(f"{name}_Impl", (_Impl, contract.V1CPUImpl), {"backend": backend, "__module__": __name__})
    space = {
        "get_impl_cls": staticmethod(lambda: impl),
        "forward_includes_kv_cache_update": True,
        "__module__": __name__,
        "__doc__": f"{backend.__module__}.{backend.__qualname__} in V1's engine.",
    }
    return type(name, (contract.V1CPUBackend,), space)


class _Impl:
    """One layer. Decoders are the V0 backend's; encoders and cross-attention are `v1_cpu`'s."""

    backend: type[TorchSDPABackend]
    forward_includes_kv_cache_update = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = inspect.signature(v1.TorchSDPABackendImpl).bind(*args, **kwargs)
        given.apply_defaults()
        values = given.arguments
        if values["sinks"] is not None:
            raise NotImplementedError(f"sinks: {self.backend.__qualname__} has V0's contract, which knows none")
        rest: list[Any] = [None, values["logits_soft_cap"], values["attn_type"]]
        if values["kv_sharing_target_layer_name"] is not None:
            rest.append(values["kv_sharing_target_layer_name"])
        self.legacy = self.backend.get_impl_cls()(*(values[name] for name in _V0_ARGUMENTS), *rest)

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        kv_cache: Tensor,
        attn_metadata: Any,
        output: Tensor | None = None,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """As V1 calls it: ``[T, H, D]``, T padded; `output` is filled."""
        decoder = self.legacy.attn_type == AttentionType.DECODER
        if attn_metadata is None or not decoder or kv_cache is None or not kv_cache.numel():
            scales = (output_scale, output_block_scale)
            found: Tensor = super().forward(layer, query, key, value, kv_cache, attn_metadata, output, *scales)  # type: ignore[misc]
            return found
        if output_scale is not None or output_block_scale is not None:
            raise NotImplementedError(
                "output_scale: a backend of V0's contract does not quantise its output; pass None"
            )
        metadata, order = prefills_first(attn_metadata)
        tokens = metadata.num_actual_tokens
        rows = slice(tokens) if order is None else order
        states = (x if x is None else x[rows].reshape(tokens, -1) for x in (query, key, value))
        call: Any = self.legacy.forward
        result = call(layer, *states, self._v0_cache(kv_cache), metadata)
        if output is None:
            output = torch.zeros_like(query)
        output.view(output.shape[0], -1)[rows] = result.view(tokens, -1)
        return output

    def _v0_cache(self, kv_cache: Tensor) -> Tensor:
        """``[NB, KH, BS, 2 * D]`` as the V0 backend's shape: the same memory, laid out by that backend."""
        blocks, heads, size, _ = kv_cache.shape
        shape = self.backend.get_kv_cache_shape(blocks, size, heads, self.legacy.head_size)
        if not kv_cache.is_contiguous():
            raise NotImplementedError(
                f"kv_cache: strides {kv_cache.stride()}; a cache of V0's layout needs a layer's blocks one after the "
                "other: leave out what lays them out otherwise (a KV connector, kv_cache_layout)"
            )
        return kv_cache.view(-1).view(shape)
