"""One way that V0 code starts an engine: `python legacy_engine.py MODEL FORM`, which prints the tokens as JSON.

The forms: plain (V1's own way), engine, async, keywords (that V0 took), worker (V0's class path), subclass (a worker
and a runner derived from V0's, as a CPU plugin for 0.9 has them), plugin (a whole one, which vLLM finds by its entry
point).
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
from typing import Any

if sys.argv[2] != "plain":
    os.environ["VLLM_USE_V1"] = "0"

PROMPTS = [[5, 9, 14, 33], list(range(3, 80)), [200]]
ARGUMENTS: dict[str, Any] = {
    "model": sys.argv[1],
    "dtype": "float32",
    "max_model_len": 256,
    "max_num_seqs": 4,
    "block_size": 32,
    "enforce_eager": True,
}


def sampling() -> Any:
    from vllm import SamplingParams

    return SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True, detokenize=False)


def through_ids(**more: Any) -> list[list[int]]:
    """By keywords that V0 took."""
    from vllm import LLM, SamplingParams

    params = SamplingParams(temperature=0.0, max_tokens=12, ignore_eos=True, detokenize=False, best_of=1)
    llm = LLM(**ARGUMENTS, **more)
    outputs = llm.generate(prompt_token_ids=PROMPTS[:2], sampling_params=params, use_tqdm=False)
    outputs += llm.generate([{"prompt_token_ids": PROMPTS[2]}], params, None, False)
    return [list(out.outputs[0].token_ids) for out in outputs]


def through_llm(**more: Any) -> list[list[int]]:
    from vllm import LLM

    outputs = LLM(**ARGUMENTS, **more).generate([{"prompt_token_ids": p} for p in PROMPTS], sampling(), use_tqdm=False)
    return [list(out.outputs[0].token_ids) for out in outputs]


def through_engine() -> list[list[int]]:
    import vllm.envs as envs
    from vllm.engine.arg_utils import EngineArgs
    from vllm.engine.llm_engine import LLMEngine

    if not envs.VLLM_USE_V1:
        raise SystemExit("told that V0 runs")
    engine = LLMEngine.from_engine_args(EngineArgs(**ARGUMENTS, swap_space=4, disable_async_output_proc=True))
    length = engine.get_model_config().max_model_len
    if length != ARGUMENTS["max_model_len"] or hasattr(engine, "get_model_config"):
        raise SystemExit(f"the engine's configuration is of {length} tokens")
    for i, prompt in enumerate(PROMPTS):
        engine.add_request(str(i), {"prompt_token_ids": prompt}, sampling())
    done: dict[str, list[int]] = {}
    while engine.has_unfinished_requests():
        for out in engine.step():
            if out.finished:
                done[out.request_id.split("-")[0]] = list(out.outputs[0].token_ids)
    return [done[str(i)] for i in range(len(PROMPTS))]


async def through_async() -> list[list[int]]:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.engine.async_llm_engine import AsyncLLMEngine

    engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**ARGUMENTS, disable_log_requests=True))
    found = []
    try:
        if (await engine.get_model_config()).max_model_len != ARGUMENTS["max_model_len"]:
            raise SystemExit("the engine's configuration is another")
        if await engine.get_tokenizer(None) is not engine.get_tokenizer():
            raise SystemExit("the engine's tokenizer is another")
        for i, prompt in enumerate(PROMPTS):
            stream = engine.generate({"prompt_token_ids": prompt}, sampling(), str(i), None)
            if i == 0:
                stream = await engine.add_request(str(i), {"prompt_token_ids": prompt}, sampling())
            async for out in stream:
                last = list(out.outputs[0].token_ids)
            found.append(last)
    finally:
        engine.shutdown()
    return found


def main() -> None:
    form = sys.argv[2]
    if form == "plain":
        tokens = through_llm()
    elif form == "engine":
        tokens = through_engine()
    elif form == "async":
        tokens = asyncio.run(through_async())
    elif form == "plugin":
        tokens = through_llm()
        print("lake's attention:", sorted(set(importlib.import_module("lakeplugin").CALLS)))
    elif form == "keywords":
        tokens = through_ids(swap_space=4, use_v2_block_manager=True, task="generate")
    else:
        path = {"worker": "vllm.worker.cpu_worker.CPUWorker", "subclass": "lakeworker.LakeWorker"}[form]
        tokens = through_llm(worker_cls=path)
    print(json.dumps(tokens))


if __name__ == "__main__":
    main()
