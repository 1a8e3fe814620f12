"""A CPU plugin as they were written for vLLM 0.9: a platform, a patched `PagedAttention`, operations of its own.

Run as a script under the shim, it goes through its own steps and prints what came of each as JSON. `platform` is its
entry point, with which vLLM's engine runs on it.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import json
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import vllm.platforms
from torch import Tensor
from vllm.platforms import Platform, PlatformEnum

CALLS: list[str] = []


class LakePagedAttention:
    """Keys and values ``[NB, KH, BS, D]``."""

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int, block_size: int, num_kv_heads: int, head_size: int, *args: Any
    ) -> tuple[int, ...]:
        return 2, num_blocks, block_size * num_kv_heads * head_size

    @staticmethod
    def split_kv_cache(kv_cache: Tensor, num_kv_heads: int, head_size: int, *args: Any) -> tuple[Tensor, Tensor]:
        shape = (kv_cache.shape[1], num_kv_heads, -1, head_size)
        return kv_cache[0].view(shape), kv_cache[1].view(shape)

    @staticmethod
    def write_to_paged_cache(
        key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, *rest: Any
    ) -> None:
        CALLS.append("write")
        blocks, places = slot_mapping // key_cache.shape[2], slot_mapping % key_cache.shape[2]
        key_cache[blocks, :, places], value_cache[blocks, :, places] = key, value

    @staticmethod
    def forward_decode(
        output: Tensor,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        context_lens: Tensor,
        longest: int,
        kv_cache_dtype: str,
        num_kv_heads: int,
        scale: float,
        *rest: Any,
    ) -> None:
        CALLS.append("decode")
        group = query.shape[1] // num_kv_heads
        for row, (blocks, length) in enumerate(zip(block_tables.long(), context_lens.tolist(), strict=True)):
            keys, values = (
                cache[blocks].transpose(0, 1).flatten(1, 2)[:, :length].repeat_interleave(group, 0)
                for cache in (key_cache, value_cache)
            )
            weights = torch.einsum("hd,hsd->hs", query[row], keys).mul(scale).softmax(-1)
            output[row] = torch.einsum("hs,hsd->hd", weights, values)

    @staticmethod
    def copy_blocks(kv_caches: list[Tensor], pairs: Tensor, *args: Any) -> None:
        torch.ops._C_cache_ops.copy_blocks([c[0] for c in kv_caches], [c[1] for c in kv_caches], pairs)


class LakePlatform(Platform):
    _enum = PlatformEnum.CPU
    device_name = "lake"
    device_type = "cpu"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        from vllm.config import CompilationLevel

        vllm_config.compilation_config.level = CompilationLevel.NO_COMPILATION
        vllm_config.parallel_config.worker_cls = "lakeworker.LakeWorker"
        cls.check_cache(vllm_config.cache_config)

    @classmethod
    def check_cache(cls, cache_config: Any) -> None:
        import vllm.envs as envs
        from vllm.utils import GiB_bytes

        if getattr(cache_config, "cpu_kvcache_space_bytes", None) is None:
            cache_config.cpu_kvcache_space_bytes = (envs.VLLM_CPU_KVCACHE_SPACE or 4) * GiB_bytes

    @classmethod
    def is_async_output_supported(cls, enforce_eager: bool | None) -> bool:
        return False

    @classmethod
    def is_pin_memory_available(cls) -> bool:
        return False

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: Any,
        head_size: int,
        dtype: Any,
        kv_cache_dtype: Any,
        block_size: int,
        use_v1: bool,
        use_mla: bool,
    ) -> str:
        if use_v1 or use_mla:
            raise NotImplementedError("lake knows V0's attention only")
        return "vllm.attention.backends.torch_sdpa.TorchSDPABackend"


def register() -> None:
    """Put our class in place of V0's wherever its module is imported, now and later."""
    plain = builtins.__import__

    def watching(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        module = plain(name, globals, locals, fromlist, level)
        if name == "vllm.attention.ops.ipex_attn" and isinstance(module, ModuleType):
            replace(module)
        return module

    builtins.__import__ = watching


def platform() -> str:
    """vLLM's entry point."""
    register()
    return "lakeplugin.LakePlatform"


def replace(module: ModuleType) -> None:
    original = getattr(module, "PagedAttention", LakePagedAttention)
    if original is LakePagedAttention:
        return
    module.PagedAttention = LakePagedAttention  # type: ignore[attr-defined]
    for other in list(sys.modules.values()):
        for name in dir(other):
            with contextlib.suppress(Exception):
                if getattr(other, name) is original:
                    setattr(other, name, LakePagedAttention)


def attend() -> list[str]:
    from v1_compat.suite.batches import Batch
    from v1_compat.suite.driver import V0Driver, run
    from v1_compat.suite.reference import Layer, assert_close

    path = LakePlatform.get_attn_backend_cls(None, 32, torch.float32, "auto", 16, False, False)
    module, _, name = path.rpartition(".")
    backend = getattr(importlib.import_module(module), name)
    layer = Layer()
    batch = Batch.of(layer, (0, 6), (20, 1), (33, 1))
    assert_close(run(V0Driver(backend), layer, batch), batch.expected(layer), layer.dtype)
    return CALLS


def cache_bytes() -> int:
    config = SimpleNamespace()
    LakePlatform.check_cache(config)
    found: int = config.cpu_kvcache_space_bytes
    return found


def config() -> list[Any]:
    """What vLLM's configuration says after the platform has had its say."""
    from vllm.config import VllmConfig

    vllm.platforms._current_platform = LakePlatform()
    found = VllmConfig()
    cache = found.cache_config.kv_cache_memory_bytes
    return [found.compilation_config.mode.name, found.parallel_config.worker_cls, cache]


def select() -> list[str]:
    """vLLM's own selector asks the platform."""
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.v1.attention.selector import get_attn_backend

    vllm.platforms._current_platform = LakePlatform()
    with set_current_vllm_config(VllmConfig()):
        return [base.__name__ for base in get_attn_backend(64, torch.float32, "auto").__mro__]


def copy() -> list[float]:
    """By the operator's name, which this vLLM's library has not."""
    import vllm._custom_ops  # noqa: F401  vLLM's engine imports it

    cache = torch.arange(4.0)[None, :, None].expand(2, 4, 32).contiguous()
    LakePagedAttention.copy_blocks([cache], torch.tensor([[0, 3]]))
    return cache[:, 3, 0].tolist()


def operations() -> int:
    """By vLLM's own functions, which call operators that its library has not."""
    import vllm._custom_ops as ops

    one, slots = torch.ones(()), torch.tensor([0, 5, 17])
    keys, values = torch.zeros(2, 2, 8, 16, 4), torch.zeros(2, 2, 32, 16)
    states = torch.ones(3, 2, 32)
    ops.reshape_and_cache(states, states, keys, values, slots, "auto", one, one)
    latents = torch.zeros(2, 16, 40)
    ops.concat_and_cache_mla(torch.ones(3, 32), torch.ones(3, 8), latents, slots, "auto", one)
    return int(values.sum() + latents.sum())


def main() -> None:
    steps: dict[str, Callable[[], Any]] = {
        "register": register,
        "attend": attend,
        "cache_bytes": cache_bytes,
        "config": config,
        "select": select,
        "copy": copy,
        "operations": operations,
    }
    found = {}
    for name, step in steps.items():
        try:
            found[name] = step()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
