"""V0's backends behind V1's contract: any order of requests, the plugin's own code, its own cache layout.

`tests/vllm/test_compat.py` has a plugin of V0's time in vLLM's engine; here V1's side is v1_cpu's, without vLLM.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from v1_compat.legacy import engine, torch_sdpa
from v1_compat.legacy.torch_sdpa import TorchSDPABackend, TorchSDPABackendImpl
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import V1Driver, run
from v1_compat.suite.reference import Layer, assert_close

from v1_cpu import backend as v1

LAYER = Layer()
CALLS: list[tuple[int, int]] = []  # (prefill, decode) tokens of each call
BATCHES = {
    "prefills first": [(0, 6), (33, 5), (20, 1)],
    "decodes first, as vLLM has them": [(20, 1), (33, 1), (0, 6), (17, 5)],
    "a decode between": [(0, 4), (20, 1), (33, 5)],
    "decodes alone": [(20, 1), (40, 1)],
    "a prefill of one token": [(20, 1), (0, 1), (0, 3)],
    "one chunk": [(20, 7)],
}


class MyImpl(TorchSDPABackendImpl):
    """A plugin's layer: V0's signature, and its result returned, not written."""

    def forward(self, layer: Any, query: Tensor, key: Any, value: Any, kv_cache: Any, attn_metadata: Any) -> Tensor:  # type: ignore[override]
        assert type(attn_metadata) is torch_sdpa.TorchSDPAMetadata and kv_cache.dim() == 3
        assert query.shape == (attn_metadata.num_actual_tokens, self.num_heads * self.head_size)
        CALLS.append((attn_metadata.num_prefill_tokens, attn_metadata.num_decode_tokens))
        return super().forward(layer, query, key, value, kv_cache, attn_metadata)


class MyBackend(TorchSDPABackend):
    @staticmethod
    def get_impl_cls() -> type[MyImpl]:
        return MyImpl


@pytest.fixture(autouse=True)
def _contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM whose V1 classes are v1_cpu's."""
    home = ModuleType("contract")
    home.V1CPUBackend = v1.TorchSDPABackend  # type: ignore[attr-defined]
    home.V1CPUImpl = v1.TorchSDPABackendImpl  # type: ignore[attr-defined]
    vllm = ModuleType("vllm")
    vllm.__version__ = "0.32.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "contract", home)
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setattr(engine, "adapter", {"0.32.0": "contract"}.get)
    engine.engine_backend.cache_clear()
    CALLS.clear()


def in_order(lens: list[tuple[int, int]]) -> Batch:
    """The requests as given: `Batch.of` puts prefills first."""
    batch = Batch.of(LAYER, *lens)
    left = list(batch.requests)
    found = [left.pop(next(i for i, r in enumerate(left) if (r.context, r.new) == pair)) for pair in lens]
    return Batch(tuple(found), batch.num_blocks)


@pytest.mark.parametrize("lens", BATCHES.values(), ids=BATCHES.keys())
def test_the_plugins_layer_answers_in_any_order(lens: list[tuple[int, int]]) -> None:
    batch = in_order(lens)
    out = run(V1Driver(engine.engine_backend(MyBackend)), LAYER, batch)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)
    decodes = sum(context > 0 and new == 1 for context, new in lens)
    assert CALLS[-1] == (sum(new for _, new in lens) - decodes, decodes), "decodes were not decodes to the plugin"


@pytest.mark.parametrize("kind", [{"attn_type": "encoder_only"}, {"sliding_window": 7}, {"alibi_slopes": (0.1,) * 4}])
def test_layers_of_other_kinds(kind: dict[str, Any]) -> None:
    layer = Layer(**kind)
    batch = Batch.of(layer, *([(0, 6), (0, 9)] if "attn_type" in kind else [(0, 6), (30, 1)]))
    out = run(V1Driver(engine.engine_backend(MyBackend)), layer, batch)
    assert_close(out, batch.expected(layer), layer.dtype)
    assert bool(CALLS) == ("attn_type" not in kind), "encoders have no cache, and are v1_cpu's"


def test_a_class_in_paged_attentions_place_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    class Mine(torch_sdpa.PagedAttention):
        @staticmethod
        def forward_decode(*args: Any) -> None:
            used.append("decode")
            torch_sdpa_paged.forward_decode(*args)

        @staticmethod
        def write_to_paged_cache(*args: Any) -> None:
            used.append("write")
            torch_sdpa_paged.write_to_paged_cache(*args)

    torch_sdpa_paged = torch_sdpa.PagedAttention
    assert engine.engine_path(engine.PLAIN[0].replace("vllm.attention.backends", "v1_compat.legacy")) == ""
    monkeypatch.setattr(torch_sdpa, "PagedAttention", Mine)
    path = engine.engine_path("v1_compat.legacy.torch_sdpa.TorchSDPABackend")
    module, _, name = path.rpartition(".")
    assert module == engine.__name__
    batch = in_order(BATCHES["decodes first, as vLLM has them"])
    assert_close(run(V1Driver(getattr(engine, name)), LAYER, batch), batch.expected(LAYER), LAYER.dtype)
    assert used == ["write", "write", "decode"]


def test_a_builder_of_its_own_is_not_called_and_that_is_said() -> None:
    class Builder(torch_sdpa.TorchSDPAMetadataBuilder): ...

    class Mine(MyBackend):
        @staticmethod
        def get_builder_cls() -> type[Builder]:
            return Builder

    with pytest.warns(FutureWarning, match="Builder is not called: V1 builds the metadata"):
        made: Any = engine.engine_backend(Mine)
    assert made.get_builder_cls() is v1.TorchSDPABackend.get_builder_cls()


def test_a_backend_of_v1s_contract_is_left_alone() -> None:
    assert engine.engine_path("v1_cpu.backend.TorchSDPABackend") == "v1_cpu.backend.TorchSDPABackend"


def test_a_release_that_is_not_known_is_refused() -> None:
    sys.modules["vllm"].__version__ = "0.99.0"  # type: ignore[attr-defined]
    with pytest.raises(NotImplementedError, match=r"MyBackend has V0's contract.*vLLM 0\.99\.0"):
        engine.engine_backend(MyBackend)


def test_a_cache_that_is_cut_otherwise_is_refused() -> None:
    backend: Any = engine.engine_backend(MyBackend)
    layer = backend.get_impl_cls()(4, 32, 0.2, 2, None, None, "auto")
    cut = torch.zeros(8, 2, 2, 16, 64)[:, 0]
    with pytest.raises(NotImplementedError, match="a layer's blocks one after the other"):
        layer._v0_cache(cut)


def test_what_v0_does_not_know_is_refused() -> None:
    backend: Any = engine.engine_backend(MyBackend)
    with pytest.raises(NotImplementedError, match="sinks: MyBackend has V0's contract"):
        backend.get_impl_cls()(4, 32, 0.2, 2, None, None, "auto", sinks=torch.zeros(4))
    layer = backend.get_impl_cls()(4, 32, 0.2, 2)
    query = torch.ones(3, 4, 32)
    assert layer.forward(None, query, query, query, torch.zeros(0), None, torch.ones_like(query)).sum() == query.sum()
