"""Puts v1_cpu's attention into vLLM's V1 engine: the `vllm.general_plugins` entry point `v1_cpu`.

vLLM calls `register` in every process it starts. Without `V1_CPU_BACKEND` nothing happens and nothing is imported.
`V1_CPU_BACKEND=1` asks for the backend, `strict` fails where 1 would fall back to vLLM's own, `0` is the way back.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import re

ENV = "V1_CPU_BACKEND"
ADAPTERS = {"0.32": "v1_cpu.vllm_plugin.backend_0_32"}
"""The adapter of each release of vLLM that has one."""
_MODES = {"": "off", "0": "off", "1": "on", "strict": "strict"}


def mode() -> str:
    """ "off", "on" or "strict", from `V1_CPU_BACKEND`; ValueError for anything else."""
    value = os.environ.get(ENV, "").strip().lower()
    if value not in _MODES:
        raise ValueError(f"{ENV}={value}: must be 1 (serve), strict (serve or fail) or 0 (vLLM's own backend)")
    return _MODES[value]


def adapter(version: str) -> str | None:
    """The module that serves this release of vLLM, or None."""
    release = re.match(r"\d+\.\d+", version)
    return ADAPTERS.get(release[0]) if release else None


def register() -> None:
    """Override vLLM's CPU_ATTN if `V1_CPU_BACKEND` asks for it; a second call changes nothing.

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
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    module = adapter(vllm.__version__)
    if module is None:
        from v1_cpu.vllm_plugin.choice import decline

        known = ", ".join(f"{release}.*" for release in ADAPTERS)
        decline(f"there is no adapter for vLLM {vllm.__version__} (known: {known})")
        return
    register_backend(AttentionBackendEnum.CPU_ATTN, f"{module}.CPUAttentionBackend")
