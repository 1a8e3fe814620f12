"""Plugins that put their own paged attention in V0's place, as AMD's zentorch does, go on working."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from v1_compat.legacy import ipex_attn, selector, torch_ops, torch_sdpa
from v1_compat.legacy.platform_backend import _Backend
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import V0Driver, run
from v1_compat.suite.reference import Layer, assert_close

CALLS: list[str] = []


class PluginPagedAttention:
    """A plugin's operations over a layout of its own: a token's key and value ``[NB, BS, KH, D]``."""

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, *args: Any
    ) -> tuple[int, ...]:
        return 2, num_blocks, block_size * num_kv_heads * head_size

    @staticmethod
    def split_kv_cache(kv_cache: Tensor, num_kv_heads: int, head_size: int, *args: Any) -> tuple[Tensor, Tensor]:
        shape = (kv_cache.shape[1], -1, num_kv_heads, head_size)
        return kv_cache[0].view(shape), kv_cache[1].view(shape)

    @staticmethod
    def write_to_paged_cache(
        key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *rest: Any
    ) -> None:
        CALLS.append("write")
        key_cache.flatten(0, 1)[slot_mapping] = key
        value_cache.flatten(0, 1)[slot_mapping] = value

    @staticmethod
    def forward_decode(
        output: Tensor,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        context_lens: Tensor,
        max_context_len: int,
        kv_cache_dtype: str,
        num_kv_heads: int,
        scale: float,
        *rest: Any,
    ) -> None:
        CALLS.append("decode")
        for row, (blocks, length) in enumerate(zip(block_tables.long(), context_lens.tolist(), strict=True)):
            group = query.shape[1] // num_kv_heads
            keys = key_cache[blocks].flatten(0, 1)[:length].repeat_interleave(group, 1)
            values = value_cache[blocks].flatten(0, 1)[:length].repeat_interleave(group, 1)
            weights = torch.einsum("hd,shd->hs", query[row], keys).mul(scale).softmax(-1)
            output[row] = torch.einsum("hs,shd->hd", weights, values)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], src_to_dists: Tensor, *args: Any) -> None:
        torch.ops._C_cache_ops.copy_blocks([c[0] for c in kv_caches], [c[1] for c in kv_caches], src_to_dists)


@pytest.fixture
def replaced(legacy_names: None) -> Iterator[None]:
    """Replace the class in its module and in every module that holds a reference, whatever its name there."""
    CALLS.clear()
    original = sys.modules["vllm.attention.ops.ipex_attn"].PagedAttention
    changed = [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(vars(module).items())
        if module.__name__.startswith("v1_compat.legacy") and value is original
    ]
    assert len(changed) >= 3
    for module, name in changed:
        setattr(module, name, PluginPagedAttention)
    yield
    for module, name in changed:
        setattr(module, name, original)


@pytest.mark.skipif(ipex_attn._use_ipex, reason="the layout is that of IPEX")
@pytest.mark.usefixtures("replaced")
def test_the_plugins_operations_are_called_and_the_batch_is_right() -> None:
    layer = Layer()
    batch = Batch.of(layer, (0, 6), (20, 1), (33, 1))
    out = run(V0Driver(torch_sdpa.TorchSDPABackend), layer, batch)
    assert_close(out, batch.expected(layer), layer.dtype)
    assert CALLS == ["write", "write", "decode"]


@pytest.mark.usefixtures("replaced")
def test_a_chunk_over_a_layout_that_v1_does_not_know_is_refused() -> None:
    layer = Layer(head_size=24)
    batch = Batch.of(layer, (16, 4))
    backend = V0Driver(torch_sdpa.TorchSDPABackend)
    cache = backend.new_cache(layer, batch.num_blocks)
    backend.step(layer, cache, batch.earlier())
    with pytest.raises(ValueError, match=r"(key_cache, value_cache|query: head size|block)"):
        backend.step(layer, cache, batch, chunked=True)


def test_a_plugin_that_waits_for_v0s_import_is_served() -> None:
    code = """
import builtins, sys
from types import ModuleType
from v1_compat.legacy import ipex_attn

for name in ("vllm", "vllm.attention", "vllm.attention.ops"):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = []
sys.modules["vllm.attention.ops.ipex_attn"] = ipex_attn
original, original_class = builtins.__import__, ipex_attn.PagedAttention

class Plugin(original_class):
    pass

def hook(name, *rest):
    module = original(name, *rest)
    if name == "vllm.attention.ops.ipex_attn":
        for each in list(sys.modules.values()):
            if getattr(each, "PagedAttention", None) is original_class:
                each.PagedAttention = Plugin
    return module

builtins.__import__ = hook
from v1_compat.legacy import torch_sdpa
print(torch_sdpa.PagedAttention is Plugin)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_v0s_operators_are_there_for_code_that_calls_them_by_name() -> None:
    torch_ops.register()
    cache = torch.randn(2, 6, 32)
    before = cache.clone()
    torch.ops._C_cache_ops.copy_blocks([cache[0]], [cache[1]], torch.tensor([[1, 4]]))
    assert torch.equal(cache[:, 4], before[:, 1])
    layer = Layer()
    batch, one = Batch.of(layer, (18, 1)), torch.ones(())
    r = batch.requests[0]
    keys, values = ipex_attn._PagedAttention.split_kv_cache(torch.zeros(2, batch.num_blocks, 1024), 2, 32)
    torch.ops._C_cache_ops.reshape_and_cache(r.key, r.value, keys, values, r.slots(16, 0, 19), "auto", one, one)
    out = torch.empty_like(r.query)
    lens, table = torch.tensor([19], dtype=torch.int32), r.blocks[None].int()
    rest = (2, layer.scale, table, lens, 16, 19, None, "auto", one, one, 0, 0, 0, 64, 0)
    torch.ops._C.paged_attention_v1(out, r.query, keys, values, *rest)
    assert_close(out, batch.expected(layer), layer.dtype)
    assert torch_ops.register() == [], "a second call adds nothing"


def test_operators_that_are_taken_back_are_gone_and_calls_are_told() -> None:
    torch_ops.unregister()
    said: list[str] = []
    added = torch_ops.register(said.append)
    assert len(added) == 7 and "_C_cpu.mla_decode_kvcache" in added
    cache = torch.zeros(2, 16, 40)
    ones = torch.ones(1, 32), torch.ones(1, 8)
    torch.ops._C_cache_ops.concat_and_cache_mla(*ones, cache, torch.tensor([17]), "auto", torch.ones(()))
    assert cache[1, 1].all() and cache.sum() == 40 and said == ["concat_and_cache_mla"]
    torch_ops.unregister()
    assert not hasattr(torch.ops._C_cache_ops, "concat_and_cache_mla")


@pytest.mark.usefixtures("legacy_names")
def test_a_platforms_string_leads_to_the_backend() -> None:
    path = "vllm.attention.backends.torch_sdpa.TorchSDPABackend"
    backend = selector.resolve_obj_by_qualname(path)
    assert backend is torch_sdpa.TorchSDPABackend
    assert selector.supports_head_size(path, 36) and selector.supports_head_size(path, 128)
    assert not selector.supports_head_size("no.such.Backend", 128)


@pytest.mark.parametrize("dtype", [None, "auto", torch.float16], ids=["None", "a string", "a dtype, as old tests had"])
def test_the_selector_answers_positional_calls_of_v0(dtype: Any) -> None:
    backend = selector.get_attn_backend(64, torch.float16, dtype, 16, False)
    assert backend is torch_sdpa.TorchSDPABackend and backend.get_name() == "TORCH_SDPA"
    latent = selector.get_attn_backend(576, torch.bfloat16, dtype, 16, False, False, True)
    assert latent.get_name() == "CPU_MLA"
    selector._cached_get_attn_backend.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((False, True), "is_blocksparse: block-sparse"), ((True,), "is_attention_free: V1 asks for no backend")],
    ids=["block-sparse", "attention free"],
)
def test_the_selector_refuses_what_v1_has_not(arguments: tuple[bool, ...], words: str) -> None:
    with pytest.raises(NotImplementedError, match=words):
        selector.get_attn_backend(64, torch.float16, "auto", 16, *arguments)


def test_a_forced_backend_is_remembered_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(selector.STR_BACKEND_ENV_VAR, "TORCH_SDPA")
    assert selector.get_env_variable_attn_backend() is _Backend.TORCH_SDPA
    assert selector.backend_name_to_enum("NOT_A_BACKEND") is None
    with selector.global_force_attn_backend_context_manager(_Backend.FLASH_ATTN):
        assert selector.get_global_forced_attn_backend() is _Backend.FLASH_ATTN
        assert selector.get_attn_backend(64, torch.float16, None, 16, False) is torch_sdpa.TorchSDPABackend
    assert selector.get_global_forced_attn_backend() is None


def test_the_modules_import_without_vllm() -> None:
    code = (
        "import sys, importlib; sys.modules['vllm'] = None\n"
        "from v1_compat.legacy import ADAPTERS\n"
        "modules = [importlib.import_module(path) for path in ADAPTERS.values()]\n"
        "print(sum(hasattr(m, n) for m in modules for n in m.__all__) - sum(len(m.__all__) for m in modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 0
