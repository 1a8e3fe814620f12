"""Engines, one after the other: `python run_engine.py JOBS.json OUT.json`, in a process of its own.

A job is `{"llm": arguments of LLM, "batches": lists of prompts, "max_tokens": n}`, or has `"task": "embed"`. A prompt is
a list of token ids. Each batch is sent when the one before has been answered. With `"sounds": true` every prompt comes
with a sound of its own. With `"prompt_logprobs": true` an answer has the log probability of each prompt token, too. `"broken": {argument: value}` breaks v1_cpu on purpose: its kernels are called with that
argument instead. A job that fails is `{"error": text}`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def run(job: dict[str, Any]) -> dict[str, Any]:
    """What the engine answers, and the class that attends where the engine lives in this process."""
    from vllm import LLM

    with broken(job.get("broken", {})):
        llm = LLM(**{"enforce_eager": True, **job["llm"]})
        try:
            return {**ask(llm, job), "impl": attention_classes(llm)}
        finally:
            close(llm)


@contextlib.contextmanager
def broken(changes: dict[str, Any]) -> Iterator[None]:
    """v1_cpu's layers, each made with other arguments than the model's."""
    if not changes:
        yield
        return
    from v1_cpu.backend import TorchSDPABackendImpl

    kept = TorchSDPABackendImpl.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        kept(self, *args, **kwargs)
        for name, value in changes.items():
            assert getattr(self, name, None) != value or name == "sliding_window", name
            setattr(self, name, value)

    TorchSDPABackendImpl.__init__ = init  # type: ignore[method-assign]
    try:
        yield
    finally:
        TorchSDPABackendImpl.__init__ = kept  # type: ignore[method-assign]


def ask(llm: Any, job: dict[str, Any]) -> dict[str, Any]:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest

    batches = [[as_prompt(ids, job.get("sounds", False)) for ids in batch] for batch in job["batches"]]
    if job.get("task") == "embed":
        return {
            "embeddings": [out.outputs.embedding for batch in batches for out in llm.embed(batch, use_tqdm=False)],
        }
    params = SamplingParams(
        temperature=0.0,
        max_tokens=job["max_tokens"],
        ignore_eos=True,
        detokenize=False,
        logprobs=2,
        prompt_logprobs=0 if job.get("prompt_logprobs") else None,
    )
    lora = LoRARequest("lora", 1, job["lora"]) if "lora" in job else None
    answers = []
    for batch in batches:
        for out in llm.generate(batch, params, use_tqdm=False, lora_request=lora):
            best = [sorted((p.logprob for p in step.values()), reverse=True)[:2] for step in out.outputs[0].logprobs]
            told = [token.logprob for step in out.prompt_logprobs or [] if step for token in step.values()]
            tokens = list(out.outputs[0].token_ids)
            answers.append({"tokens": tokens, "logprobs": best, "cached": out.num_cached_tokens, "prompt": told})
    return {"answers": answers}


def as_prompt(ids: list[int], sounds: bool) -> Any:
    """Tokens, or tokens that follow a sound which depends on them."""
    if not sounds:
        return {"prompt_token_ids": ids}
    import numpy as np

    sound = np.random.default_rng(ids[0] + len(ids)).standard_normal(16000).cumsum().astype(np.float32) / 100
    return {
        "encoder_prompt": {"prompt": "", "multi_modal_data": {"audio": (sound, 16000)}},
        "decoder_prompt": {"prompt_token_ids": ids},
    }


def attention_classes(llm: Any) -> list[str]:
    """Class names of the layers' implementations and their modules; empty for an engine in other processes."""
    config = llm.llm_engine.vllm_config.compilation_config
    layers = [layer for layer in config.static_forward_context.values() if hasattr(layer, "impl")]
    return sorted({f"{base.__module__}.{base.__name__}" for layer in layers for base in type(layer.impl).__mro__})


def close(llm: Any) -> None:
    """End an engine, so that the next one finds nothing of it."""
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()
    cleanup_dist_env_and_memory()


def main() -> None:
    results = []
    for job in json.loads(Path(sys.argv[1]).read_text()):
        try:
            results.append(run(job))
        except Exception:
            results.append({"error": traceback.format_exc()})
        gc.collect()
    Path(sys.argv[2]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
