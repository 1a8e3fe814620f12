"""Puts v1_cpu's MLA into vLLM's engine, 0.32: `register`, called by `v1_cpu.vllm_plugin.register` after CPU_ATTN.

Both of vLLM's CPU MLA backends are overridden (AMX_MLA is chosen where there is AMX, else CPU_MLA), and what the
platform switches off for CPU_MLA, chunked prefill and prefix caching, stays as the user has it.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import functools
from typing import Any

MODULE = "v1_cpu.vllm_plugin.mla_0_32"
BACKENDS = {"CPU_MLA": "CPUMLABackend", "AMX_MLA": "AMXMLABackend"}
"""Members of vLLM's enum by what `MODULE` calls them; vLLM's own class answers where v1_cpu does not serve."""


def register(registry: Any) -> None:
    """Override the MLA backends that this release has; a second call changes nothing.

    `registry` is vLLM's module of backends. A release without CPU MLA is left alone.
    """
    members = registry.AttentionBackendEnum.__members__
    for name, stands_for in BACKENDS.items():
        if name in members:
            registry.register_backend(members[name], class_path=f"{MODULE}.{stands_for}")
    if "CPU_MLA" in members:
        from vllm.platforms.cpu import CpuPlatform

        keep_settings(CpuPlatform)


def keep_settings(platform: Any) -> None:
    """Wrap `check_and_update_config`, which forces chunked prefill, prefix caching and the block size for CPU_MLA."""
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
