"""A CPU plugin's worker and runner as they were written for vLLM 0.9."""

from __future__ import annotations

from typing import Any

from vllm.worker.cpu_model_runner import CPUModelRunner
from vllm.worker.cpu_worker import CPUWorker


class LakeRunner(CPUModelRunner):
    def load_model(self) -> None:
        super().load_model()
        print(f"lake: loaded {type(self.model).__name__}")


class LakeWorker(CPUWorker):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault(
            "model_runner_cls",
            lambda base: LakeRunner(
                vllm_config=base.vllm_config,
                kv_cache_dtype=base.kv_cache_dtype,
                is_driver_worker=base.is_driver_worker,
            ),
        )
        super().__init__(*args, **kwargs)
