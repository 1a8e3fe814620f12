"""A CPU platform for machines by the lake."""

from vllm.worker.worker_base import WorkerBase  # noqa: F401  (re-exported for lakeside's own plugins)

__all__ = ["WorkerBase", "register"]


def register() -> str:
    """Entry point: tells vLLM which platform class to use."""
    return "lakeside.platform.LakesidePlatform"  # v1: ignore[V1M002] our own path
