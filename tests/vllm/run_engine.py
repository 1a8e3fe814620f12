"""One engine, one answer: `python run_engine.py JOB.json OUT.json`, in a process of its own.

A job is `{"llm": arguments of LLM, "prompts": token ids, "max_tokens": n}`, or has `"task": "embed"`. `"rounds"` sends
the prompts again, so that later rounds hit the prefix cache.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def run(job: dict[str, Any]) -> dict[str, Any]:
    from vllm import LLM, SamplingParams

    llm = LLM(skip_tokenizer_init=True, enforce_eager=job.get("eager", True), **job["llm"])
    prompts = [{"prompt_token_ids": ids} for ids in job["prompts"]]
    if job.get("task") == "embed":
        return {"embeddings": [out.outputs.embedding for out in llm.embed(prompts, use_tqdm=False)]}
    params = SamplingParams(
        temperature=0.0, max_tokens=job["max_tokens"], ignore_eos=True, detokenize=False, logprobs=2
    )
    rounds = []
    for _ in range(job.get("rounds", 1)):
        outs = [out.outputs[0] for out in llm.generate(prompts, params, use_tqdm=False)]
        rounds.append(
            [
                {
                    "tokens": list(out.token_ids),
                    "logprobs": [sorted((p.logprob for p in step.values()), reverse=True)[:2] for step in out.logprobs],
                }
                for out in outs
            ]
        )
    backends = {type(layer.impl).__module__ for layer in _layers(llm)}
    return {"rounds": rounds, "impl": sorted(backends)}


def _layers(llm: Any) -> list[Any]:
    """The attention layers, where the engine lives in this process."""
    try:
        config = llm.llm_engine.vllm_config.compilation_config
        return [layer for layer in config.static_forward_context.values() if hasattr(layer, "impl")]
    except AttributeError:
        return []


if __name__ == "__main__":
    result = run(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(result))
