"""Puts v1_cpu's MLA into vLLM 0.32's engine: `register`, called by `v1_cpu.vllm_plugin.register` after CPU_ATTN.

Both of vLLM's CPU MLA backends are overridden (AMX_MLA is chosen where there is AMX, else CPU_MLA), and what the
platform switches off for CPU_MLA, chunked prefill and prefix caching, stays as the user has it.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import functools
from typing import Any

BACKENDS = ("CPU_MLA", "AMX_MLA")
CLASS = "v1_cpu.vllm_plugin.mla_0_32.MLABackend"


def register(registry: Any) -> None:
    """Override the MLA backends that this release has; a second call changes nothing.

    `registry` is vLLM's module of backends. A release without CPU MLA is left alone.
    """
    members = registry.AttentionBackendEnum.__members__
    for name in BACKENDS:
        if name in members:
            registry.register_backend(members[name], class_path=CLASS)
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
