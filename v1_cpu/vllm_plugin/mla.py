"""Puts v1_cpu's MLA into vLLM's engine, 0.32: `register`, called by `v1_cpu.vllm_plugin.register` after CPU_ATTN.

Both of vLLM's CPU MLA backends are overridden (AMX_MLA is chosen where there is AMX, else CPU_MLA), and what the
platform switches off for CPU_MLA, chunked prefill and prefix caching, stays as the user has it. In 0.28 to 0.31, whose
MLA v1_cpu does not serve, this module stands in for them to say so, and answers with vLLM's own classes.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace
from typing import Any

MODULE = "v1_cpu.vllm_plugin.mla_0_32"
BACKENDS = {"CPU_MLA": "CPUMLABackend", "AMX_MLA": "AMXMLABackend"}
"""Members of vLLM's enum by what `MODULE` calls them; vLLM's own class answers where v1_cpu does not serve."""
LIMITS = {
    "CPU_MLA": "latents of 512 + 64 alone, blocks of 16, no chunked prefill, prefix caching or float8 cache",
    "AMX_MLA": "no float32, wrong answers in float16, blocks of multiples of 32, no float8 cache",
}
"""What vLLM's own cannot do, 0.32.0: read from its source and run."""


def register(registry: Any, module: str = MODULE) -> None:
    """Override the MLA backends that this release has with those of `module`; a second call changes nothing.

    `registry` is vLLM's module of backends. A release without CPU MLA is left alone.
    """
    members = registry.AttentionBackendEnum.__members__
    for name, stands_for in BACKENDS.items():
        if name in members:
            registry.register_backend(members[name], class_path=f"{module}.{stands_for}")
    if "CPU_MLA" in members and module == MODULE:
        from vllm.platforms.cpu import CpuPlatform

        keep_settings(CpuPlatform)


def own(name: str) -> Any:
    """vLLM's own class `CPUMLABackend` or `AMXMLABackend`; AttributeError for another name."""
    module = {"CPUMLABackend": "cpu_mla", "AMXMLABackend": "amx_mla"}.get(name)
    if module is None:
        raise AttributeError(f"v1_cpu.vllm_plugin has no MLA backend {name!r}")
    return getattr(importlib.import_module(f"vllm.v1.attention.backends.mla.{module}"), name)


def stands_in(vllm_config: Any) -> str:
    """vLLM's own MLA backend for this configuration, as its platform chooses it, and what that one cannot do."""
    from vllm.platforms import current_platform

    asked = vllm_config.attention_config.backend
    path = current_platform.get_attn_backend_cls(asked, SimpleNamespace(use_mla=True, use_sparse=False))
    name = next(member for member, class_name in BACKENDS.items() if path.endswith("." + class_name))
    return f"vLLM's own {name} ({LIMITS[name]})"


def __getattr__(name: str) -> Any:
    """`CPUMLABackend`, `AMXMLABackend` in 0.28 to 0.31: vLLM's own, and a warning, or an error with `strict`."""
    if name not in BACKENDS.values():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from v1_cpu.vllm_plugin import mode
    from v1_cpu.vllm_plugin.choice import decline

    if mode() != "off":
        member = next(member for member, class_name in BACKENDS.items() if class_name == name)
        decline("it serves latents (MLA) in vLLM 0.32 alone", f"vLLM's own {member} ({LIMITS[member]}) does")
    return own(name)


def keep_settings(platform: Any) -> None:
    """Wrap `check_and_update_config`, which forces chunked prefill, prefix caching and the block size for CPU_MLA.

    A model that v1_cpu does not serve keeps what is forced: DeepSeek-V4's layers take blocks of 256 alone.
    """
    original = platform.check_and_update_config.__func__
    if hasattr(original, "v1_cpu_wraps"):
        return

    @functools.wraps(original)
    def check(cls: Any, vllm_config: Any) -> None:
        from v1_cpu.vllm_plugin.choice import serves

        model, scheduler, cache = vllm_config.model_config, vllm_config.scheduler_config, vllm_config.cache_config
        kept = (scheduler.enable_chunked_prefill, scheduler.max_num_batched_tokens, cache.enable_prefix_caching)
        block_size = cache.block_size if cache.user_specified_block_size else None
        original(cls, vllm_config)
        if model is not None and getattr(model, "use_mla", False) and serves(vllm_config):
            scheduler.enable_chunked_prefill, scheduler.max_num_batched_tokens, cache.enable_prefix_caching = kept
            if block_size is not None:
                cache.block_size = block_size

    check.v1_cpu_wraps = original  # type: ignore[attr-defined]
    platform.check_and_update_config = classmethod(check)


def warn_of_rotary(config: Any) -> None:
    """Say so, once, where an MLA model's queries go through vLLM's rotary operator for CPUs, which turns them wrongly.

    The operator takes ``[T, H, P]`` for T rows of one head: it turns the first T of the T * H rows, each by the
    position of the token with the row's number. Called without compilation, and for ropes without scaling only.
    `config` is the model's, of transformers.
    """
    from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding

    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type", "default") == "default" and RotaryEmbedding.enabled():
        _warn_of_rotary()


@functools.cache
def _warn_of_rotary() -> None:
    from v1_cpu.vllm_plugin.choice import logger

    logger().warning(
        "This model's answers depend on what else is in the batch, with any attention backend: vLLM's rotary operator "
        "for CPUs turns the queries of MLA layers wrongly. Leave it out: "
        "compilation_config={'custom_ops': ['all', '-rotary_embedding']}"
    )
