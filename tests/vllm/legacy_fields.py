"""What vLLM's own configurations answer for every field that they lost: `python legacy_fields.py MODEL`, as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from typing import Any

import vllm.config
from v1_compat.fields import FIELDS
from v1_compat.makers import MAKERS
from v1_migrate.names.index import Index
from vllm.engine.arg_utils import EngineArgs


def configurations(model: str) -> dict[str, Any]:
    """Class -> one of it, as an engine has it."""
    whole = EngineArgs(model=model, enable_lora=True, max_model_len=256).create_engine_config()
    parts = [getattr(whole, field.name) for field in dataclasses.fields(whole)]
    others = ("ECTransferConfig", "EngramConfig", "KVTransferConfig", "MultiModalConfig", "PoolerConfig")
    made = [getattr(vllm.config, name)() for name in others if hasattr(vllm.config, name)]
    speculative = vllm.config.SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=3,
        target_model_config=whole.model_config,
        target_parallel_config=whole.parallel_config,
    )
    found = [whole, *parts, whole.compilation_config.pass_config, speculative, *made]
    return {type(each).__name__: each for each in found if dataclasses.is_dataclass(each)}


def read(config: Any, name: str) -> Any:
    """In a line that is not ready for the name to be missing."""
    return getattr(config, name)


def answer(config: Any, name: str) -> str:
    """How a field is answered, and of what is served whether it is said."""
    if hasattr(config, name):
        return "there"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            read(config, name)
        except Exception as error:
            return type(error).__name__
    return "served" if said else "served in silence"


def meanings(found: dict[str, Any]) -> dict[str, Any]:
    """What some of V0's lines mean now."""
    whole, compilation, model = found["VllmConfig"], found["CompilationConfig"], found["ModelConfig"]
    compilation.use_cudagraph = True
    first = compilation.cudagraph_mode.name
    compilation.full_cuda_graph = True
    then = compilation.cudagraph_mode.name
    compilation.use_cudagraph = False
    whole.parallel_config.eplb_window_size = 7
    return {
        "decoding": whole.decoding_config is whole.structured_outputs_config,
        "graphs": [first, then, compilation.cudagraph_mode.name],
        "inductor": [compilation.use_inductor, compilation.backend],
        "sizes": compilation.max_capture_size,
        "eplb": whole.parallel_config.eplb_config.window_size,
        "model": [
            model.is_cross_encoder,
            model.get_hf_config_sliding_window(),
            model.hidden_size,
            model.truncation_side,
        ],
        "drafts": found["SpeculativeConfig"].num_lookahead_slots,
        "made": vllm.config.KVTransferConfig.from_cli('{"kv_connector": "x", "kv_role": "kv_both"}').kv_role,
        "uuid": len(compilation.pass_config.uuid()) > 8,
    }


def main() -> None:
    index, found = Index.load(user=False), configurations(sys.argv[1])
    answers: dict[str, dict[str, str]] = {}
    for owner in FIELDS:
        dotted = f"vllm.config.{owner}"
        before = {name for release in index.releases for name in index.members(dotted, release)} | set(FIELDS[owner])
        now = set(index.members(dotted, index.releases[-1])) - set(FIELDS[owner])
        for name in sorted(before - now) if owner in found else ():
            made = name == MAKERS.get(owner, ("",))[0]  # of the class
            if not (name.startswith("_") or made or name in vars(vllm.config)):
                answers.setdefault(owner, {})[name] = answer(found[owner], name)
    meant = meanings(found)
    print(json.dumps({"answers": answers, "meant": meant, "without": sorted(set(FIELDS) - set(found))}))


if __name__ == "__main__":
    main()
