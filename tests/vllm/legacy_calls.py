"""Calls of V0's front end beside a real vLLM: prints what each gives, and the rules of what was said, as JSON."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from vllm import AsyncEngineArgs, EngineArgs, PoolingParams, SamplingParams
from vllm.config import CacheConfig, CompilationConfig, SchedulerConfig
from vllm.lora.request import LoRARequest
from vllm.platforms import current_platform
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import _Backend

MODEL = str(Path(__file__).parent)  # a folder is taken for a model; nothing is read of it
SELECT = (_Backend.TORCH_SDPA, 64, torch.float32, "auto", 16, True, False)


class Mine(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla):
        return super().get_attn_backend_cls(
            selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla
        )  # fmt: skip


def struct_is_vllms() -> Any:
    params = SamplingParams(n=2)
    same = pickle.loads(pickle.dumps(params)) == copy.deepcopy(params) == params.clone() == params
    return [same, type(params).__module__, isinstance(params, SamplingParams)]


def args_are_vllms() -> Any:
    args = EngineArgs(MODEL, swap_space=8)
    signature = list(inspect.signature(EngineArgs).parameters) == [f.name for f in dataclasses.fields(EngineArgs)]
    return [pickle.loads(pickle.dumps(args)) == args, dataclasses.replace(args, seed=3).seed, signature]


CALLS: dict[str, Callable[[], Any]] = {
    "best_of": lambda: SamplingParams(n=2, best_of=2).n,
    "best_of more": lambda: SamplingParams(n=1, best_of=3),
    "from_optional": lambda: SamplingParams.from_optional(best_of=1, temperature=0.5).temperature,
    "pooling": lambda: PoolingParams(additional_data=None).task,
    "lora": lambda: LoRARequest("a", 1, lora_local_path="/tmp/x").lora_path,
    "engine": lambda: EngineArgs(MODEL, swap_space=8, device="cpu", task="generate").runner,
    "async engine": lambda: AsyncEngineArgs(MODEL, disable_log_requests=True).enable_log_requests,
    "cache": lambda: CacheConfig(swap_space=4, block_size=16).block_size,
    "scheduler": lambda: (
        SchedulerConfig(max_model_len=128, is_encoder_decoder=False, num_scheduler_steps=8, max_num_seqs=7).max_num_seqs
    ),
    "compilation": lambda: CompilationConfig(level=3).mode,
    "nobody's keyword": lambda: EngineArgs(MODEL, nonsense=1),
    "a configuration's": lambda: CacheConfig(nonsense=1),
    "platform by super": lambda: Mine.get_attn_backend_cls(*SELECT),
    "current_platform": lambda: current_platform.get_attn_backend_cls(*SELECT),
    "request": lambda: current_platform.validate_request("x", SamplingParams(), "y"),
    "a lost method": lambda: current_platform.supports_v1(None),
    "seed": lambda: current_platform.seed_everything(3),
    "structures": struct_is_vllms,
    "arguments": args_are_vllms,
}


def main() -> None:
    found: dict[str, Any] = {}
    for name, call in CALLS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result: Any = call()
            except Exception as error:
                result = type(error).__name__
        rules = [w.message.rule for w in caught if hasattr(w.message, "rule") and w.filename == __file__]  # type: ignore[union-attr]
        found[name] = [result, rules]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
