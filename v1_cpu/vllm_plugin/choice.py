"""Does v1_cpu serve this engine? Asked once per process and configuration, answered in vLLM's log.

Everything that can speak against it is found before the first request: a cache or a parallelism that the backend does
not know, a kernel that cannot be loaded, a kernel whose numbers are wrong.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from v1_cpu.vllm_plugin import ENV, mode, pages

LOGGER = "vllm.v1_cpu"  # below "vllm", whose handlers vLLM configures
OWN = "vLLM's own CPU attention does"


def logger() -> Any:
    """vLLM's logger for us."""
    return importlib.import_module("vllm.logger").init_logger(LOGGER)


def serves(vllm_config: Any) -> bool:
    """Whether v1_cpu serves an engine of this configuration; says so in the log, once for each answer.

    Raises NotImplementedError instead of answering False if `V1_CPU_BACKEND=strict`.
    """
    if mode() == "off":  # switched off after registration
        return False
    reason = unsupported(vllm_config) or _kernel_fault()
    if reason is not None:
        decline(reason, _instead(vllm_config))
        return False
    _announce()
    return True


def unsupported(vllm_config: Any) -> str | None:
    """What in a configuration v1_cpu cannot serve, or None."""
    from v1_cpu.layouts import KV_CACHE_DTYPES

    parallel = vllm_config.parallel_config
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            return f"{name}={getattr(parallel, name)}: v1_cpu keeps the whole context of a request on one rank"
    cache_dtype = vllm_config.cache_config.cache_dtype if vllm_config.cache_config is not None else "auto"
    if cache_dtype not in KV_CACHE_DTYPES:
        return f"kv_cache_dtype={cache_dtype}: v1_cpu knows {', '.join(KV_CACHE_DTYPES)}"
    model = vllm_config.model_config
    if (kind := layers_of_its_own(model)) is not None:
        return f"vLLM attends to {kind} models in layers that take no other backend"
    if model is not None and getattr(model, "is_mm_prefix_lm", False):
        return "the model attends to images in both directions inside its prompt (multimodal prefix)"
    if model is not None and getattr(model, "rswa_window", None) is not None:
        return f"the model's attention is R-SWA (rswa_window={model.rswa_window})"
    return None


def layers_of_its_own(model: Any) -> str | None:
    """The type of a model whose attention layers ask for no backend, DeepSeek-V4's; None for any other.

    vLLM counts it among the models with latents (`use_mla`), and its CPU layers take a block size of 256 alone.
    """
    kind = str(getattr(getattr(model, "hf_config", None), "model_type", ""))
    return kind if kind.startswith("deepseek_v4") else None


def _instead(vllm_config: Any) -> str:
    """What attends where v1_cpu does not, and what that cannot do."""
    model = vllm_config.model_config
    if layers_of_its_own(model) is not None:
        return "the model's own layers do"
    if model is not None and getattr(model, "use_mla", False):
        return f"{importlib.import_module('v1_cpu.vllm_plugin.mla').stands_in(vllm_config)} does"
    return OWN


@functools.cache
def decline(reason: str, instead: str = OWN) -> None:
    """Leave the engine to vLLM's own backend, with one warning; NotImplementedError if `V1_CPU_BACKEND=strict`."""
    if mode() == "strict":
        raise NotImplementedError(f"{ENV}=strict: v1_cpu cannot serve: {reason}; with {ENV}=1 {instead}")
    logger().warning("v1_cpu does not serve, %s: %s", instead, reason)


@functools.cache
def _kernel_fault() -> str | None:
    """Why the chosen kernel must not serve on this machine, or None: it is loaded and put to the test."""
    from v1_cpu.select import which
    from v1_cpu.vllm_plugin.self_test import fault

    try:
        which()
    except (ValueError, NotImplementedError) as error:
        return str(error)
    return fault()


@functools.cache
def _announce() -> None:
    from v1_cpu.select import which

    kernel = which()
    logger().info(
        "v1_cpu serves CPU attention: %s kernel, instruction set %s, cache layout %s (%s); self-test passed%s",
        kernel.name,
        kernel.isa,
        kernel.layout,
        kernel.reason,
        f"; {state}" if (state := pages.state()) else "",
    )
