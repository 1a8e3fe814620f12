"""Puts v1_cpu's attention into vLLM's V1 engine: the entry points `v1_cpu` of `vllm.general_plugins` and, for
releases before 0.11.1, of `vllm.platform_plugins`.

vLLM calls `register` in every process it starts. Without `V1_CPU_BACKEND` nothing happens and nothing is imported.
`V1_CPU_BACKEND=1` asks for the backend, `strict` fails where 1 would fall back to vLLM's own, `0` is the way back.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import importlib
import os
import re
from typing import Any

ENV = "V1_CPU_BACKEND"
ADAPTERS = (
    ((0, 29), (0, 33), "v1_cpu.vllm_plugin.backend_0_32"),
    ((0, 14), (0, 29), "v1_cpu.vllm_plugin.backend_0_16"),
    ((0, 11, 1), (0, 14), "v1_cpu.vllm_plugin.backend_0_11"),
)
"""The adapter of the releases from one to before another."""
PLATFORM = ((0, 10), (0, 11, 1), "v1_cpu.vllm_plugin.platform_0_10.V1CpuPlatform")
"""These releases have no registry: a platform plugin serves them."""
MLA = ((0, 32), (0, 33))
"""These releases' MLA backends are served, too."""
UNSERVED_MLA = ((0, 28), (0, 32))
"""These have MLA backends that are not: their place is taken to say so."""
REGISTRIES = ("vllm.v1.attention.backends.registry", "vllm.attention.backends.registry")
"""Where vLLM keeps its backends: from 0.14, and before."""
_MODES = {"": "off", "0": "off", "1": "on", "strict": "strict"}


def mode() -> str:
    """ "off", "on" or "strict", from `V1_CPU_BACKEND`; ValueError for anything else."""
    value = os.environ.get(ENV, "").strip().lower()
    if value not in _MODES:
        raise ValueError(f"{ENV}={value}: must be 1 (serve), strict (serve or fail) or 0 (vLLM's own backend)")
    return _MODES[value]


def adapter(version: str) -> str | None:
    """The module that serves this release of vLLM through its registry, or None."""
    return next((module for since, before, module in ADAPTERS if since <= _release(version) < before), None)


def _release(version: str) -> tuple[int, ...]:
    """(0, 11, 1) of "0.11.1.post2+cpu"; () of what is no release."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def register() -> None:
    """Override vLLM's CPU_ATTN, and its MLA backends, if `V1_CPU_BACKEND` asks for it; a second call changes nothing.

    Processes that are started from now on have huge pages under their caches (`v1_cpu.vllm_plugin.pages`).
    Only a path is registered here. Which class serves is settled when the engine builds its first layer
    (`v1_cpu.vllm_plugin.choice`), in the processes that have layers.

    Raises
    ------
    ValueError
        `V1_CPU_BACKEND` has an unknown value.
    NotImplementedError
        `V1_CPU_BACKEND=strict`, and this vLLM has no adapter.
    """
    if mode() == "off":
        return
    import vllm

    if PLATFORM[0] <= _release(vllm.__version__) < PLATFORM[1]:
        return  # `platform` has seen to it
    module = adapter(vllm.__version__)
    if module is None:
        from v1_cpu.vllm_plugin.choice import decline

        decline(f"there is no adapter for vLLM {vllm.__version__} (known: 0.10 to 0.32)")
        return
    importlib.import_module("v1_cpu.vllm_plugin.pages").ask()
    registry = _registry()
    registry.register_backend(registry.AttentionBackendEnum.CPU_ATTN, class_path=f"{module}.CPUAttentionBackend")
    release, mla = _release(vllm.__version__), "v1_cpu.vllm_plugin.mla"
    if MLA[0] <= release < MLA[1]:
        importlib.import_module(mla).register(registry)
    elif UNSERVED_MLA[0] <= release < UNSERVED_MLA[1]:
        importlib.import_module(mla).register(registry, mla)


def _registry() -> Any:
    """vLLM's module of backends, where this release has it."""
    try:
        return importlib.import_module(REGISTRIES[0])
    except ModuleNotFoundError:
        return importlib.import_module(REGISTRIES[1])


def platform() -> str | None:
    """The `vllm.platform_plugins` entry point: the platform class for vLLM 0.10.0 to 0.11.0, None anywhere else.

    vLLM calls it while it is being imported, in every process. It answers only where vLLM itself would choose its CPU.
    """
    if mode() == "off":
        return None
    version = importlib.import_module("vllm.version").__version__
    if not PLATFORM[0] <= _release(version) < PLATFORM[1]:
        return None
    return PLATFORM[2] if importlib.import_module("vllm.platforms").cpu_platform_plugin() is not None else None
