"""Chooses the attention backend and the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import PlatformEnum, _Backend

if TYPE_CHECKING:
    from vllm.config import VllmConfig
    from vllm.executor.executor_base import ExecutorBase


class LakesidePlatform(CpuPlatform):
    """CPU, with our worker."""

    _enum = PlatformEnum.CPU
    device_name = "lakeside"

    @classmethod
    def get_attn_backend_cls(
        cls,
        selected_backend: Optional[_Backend],
        head_size: int,
        dtype: torch.dtype,
        kv_cache_dtype: Optional[str],
        block_size: int,
        use_v1: bool,
        use_mla: bool,
    ) -> str:
        if use_mla:
            return "vllm.attention.backends.cpu_mla.CPUMLABackend"
        if selected_backend not in (None, _Backend.TORCH_SDPA):
            raise ValueError(f"lakeside has no {selected_backend}")
        return "vllm.attention.backends.torch_sdpa.TorchSDPABackend"

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.worker_cls = "lakeside.worker.LakesideWorker"

    @classmethod
    def executor(cls) -> type[ExecutorBase]:
        from vllm.executor.uniproc_executor import UniProcExecutor

        return UniProcExecutor
