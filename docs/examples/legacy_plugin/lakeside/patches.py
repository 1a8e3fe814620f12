"""Changes to vLLM that lakeside cannot do without, and code that serves two releases."""

import importlib

import vllm.worker.cpu_model_runner
from vllm.core.scheduler import *  # noqa: F403

try:
    from vllm.v1.worker.worker_base import WorkerBase as AnyWorker
except ImportError:
    from vllm.worker.worker_base import WorkerBase as AnyWorker

from vllm.model_executor.parallel_utils.parallel_state import get_tensor_model_parallel_rank  # before vLLM 0.6

_load_model = vllm.worker.cpu_model_runner.CPUModelRunner.load_model


def load_model(self) -> None:
    """Says on which rank a model is loaded."""
    print("loading on rank", get_tensor_model_parallel_rank(), "for", AnyWorker.__name__)
    _load_model(self)


def apply() -> None:
    vllm.worker.cpu_model_runner.CPUModelRunner.load_model = load_model
    scheduler = importlib.import_module("vllm.core.scheduler")
    scheduler.Scheduler.lakeside = True  # v1: ignore[V1M006] goes with the scheduler


def runner_class(kind: str):
    """The model runner of another device."""
    module = importlib.import_module(f"vllm.worker.{kind}_model_runner")
    return getattr(module, kind.upper() + "ModelRunner")
