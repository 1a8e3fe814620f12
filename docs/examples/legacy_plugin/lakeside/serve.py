"""Offline generation, with weights that change between two calls."""

import os

os.environ["VLLM_USE_V1"] = "0"

import vllm.envs as envs
from vllm import LLM, SamplingParams
from vllm.engine.async_llm_engine import AsyncLLMEngine
from vllm.engine.metrics import Stats


def build(model: str) -> LLM:
    assert not envs.VLLM_USE_V1
    return LLM(model, device="cpu", worker_cls="lakeside.worker.LakesideWorker", num_lookahead_slots=0)


def update_weights(llm: LLM, weights) -> None:
    """Hands new weights to the model inside the engine."""
    model = llm.llm_engine.model_executor.driver_worker.model_runner.model
    model.load_weights(weights)


def shorter(llm: LLM, prompts: list[str]) -> list[str]:
    """Generates, and forbids token 7."""

    def forbid(token_ids, logits):
        logits[7] = float("-inf")
        return logits

    params = SamplingParams(max_tokens=16, logits_processors=[forbid])
    return [output.outputs[0].text for output in llm.generate(prompts, params)]


class LakesideEngine(AsyncLLMEngine):
    """Keeps the last statistics.

    >>> from vllm.engine.metrics_types import StatLoggerBase
    """

    last: Stats | None = None
