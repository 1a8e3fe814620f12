"""V0's worker and model runner on V1's: their constructors, and the runner class that V0's worker was handed.

Each is a mixin that stands before vLLM's own class in a face. Where an argument of V0 has no place on V1, it is
dropped if it says what V1 does anyway, and refused otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .notices import LegacyContractError

_AUTO = (None, "auto")


class WorkerArguments:
    """V0: four of V1's arguments, then kv_cache_dtype (the CPU worker's), is_driver_worker, model_runner_cls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = ["vllm_config", "local_rank", "rank", "distributed_init_method"]
        rest = list(args[4:])
        if rest and not isinstance(rest[0], bool):
            names.append("kv_cache_dtype")
        named = dict(zip([*names, "is_driver_worker", "model_runner_cls"], args, strict=False)) | kwargs
        self._make_runner: Callable[[Any], Any] | None = named.pop("model_runner_cls", None)
        dtype = named.pop("kv_cache_dtype", None)
        configured = getattr(getattr(named.get("vllm_config"), "cache_config", None), "cache_dtype", dtype)
        if dtype not in _AUTO and dtype != configured:
            raise LegacyContractError(
                f"kv_cache_dtype={dtype!r} is given to a worker whose vllm_config.cache_config.cache_dtype is "
                f"{configured!r}; on V1 the configuration alone decides: set it there"
            )
        super().__init__(**named)

    def init_device(self) -> None:
        """V1 makes the model runner here; V0 handed it to `model_runner_cls`, which made another of it."""
        super().init_device()  # type: ignore[misc]
        if self._make_runner is not None:
            runner = self.model_runner  # type: ignore[has-type]
            runner.is_driver_worker = getattr(self, "is_driver_worker", True)
            self.model_runner = self._make_runner(runner)


class RunnerArguments:
    """V0: (vllm_config, kv_cache_dtype="auto", is_driver_worker=False, ...). V1: (vllm_config, device)."""

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        if "device" in kwargs or (args and args[0] is not None and not isinstance(args[0], str | bool)):
            super().__init__(vllm_config, *args, **kwargs)  # type: ignore[call-arg]
            return
        named = dict(zip(("kv_cache_dtype", "is_driver_worker", "return_hidden_states"), args, strict=False)) | kwargs
        driver = named.pop("is_driver_worker", False)
        named.pop("kv_cache_dtype", None)  # V1 reads vllm_config.cache_config, which V0's worker read it from
        refused = {name: value for name, value in named.items() if value not in (None, False)}
        if refused:
            raise LegacyContractError(
                f"{type(self).__qualname__}: V1's model runner takes no {', '.join(refused)}; it is made from "
                "(vllm_config, device)"
            )
        import torch

        super().__init__(vllm_config, torch.device("cpu"))  # type: ignore[call-arg]
        self.is_driver_worker = driver


MIXINS: dict[str, type] = {
    "vllm.worker.cpu_worker.CPUWorker": WorkerArguments,
    "vllm.worker.worker.Worker": WorkerArguments,
    "vllm.worker.cpu_model_runner.CPUModelRunner": RunnerArguments,
    "vllm.worker.cpu_model_runner.CPUModelRunnerBase": RunnerArguments,
    "vllm.worker.cpu_enc_dec_model_runner.CPUEncoderDecoderModelRunner": RunnerArguments,
    "vllm.worker.cpu_pooling_model_runner.CPUPoolingModelRunner": RunnerArguments,
}
