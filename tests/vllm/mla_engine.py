"""Tiny DeepSeek-V2 models in vLLM's engine: `python mla_engine.py FOLDER JOBS.json OUT.json`, in a process of its own.

A job is `{"rope": "yarn" or "plain", "llm": arguments of LLM, "prompts": lists of token ids, "max_tokens": n}`; with
`"rounds"` the prompts are sent again, and `"scale"` multiplies the factor of v1_cpu's logits, to break it on purpose.
A job that fails is `{"error": text}`. Models are made in FOLDER where they are missing.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from pathlib import Path
from typing import Any

YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 1024,
    "beta_fast": 32,
    "beta_slow": 1,
    "mscale": 0.707,
    "mscale_all_dim": 0.707,
}
"""As the published DeepSeek-V2 and V3 have it, smaller."""


def model(folder: Path, rope: str) -> Path:
    """A model with random weights, drawn wide so that attention decides the tokens; made once."""
    import torch
    import transformers

    place = folder / rope
    if not place.exists():
        torch.manual_seed(1)
        config = transformers.DeepseekV2Config(
            vocab_size=256, hidden_size=128, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=4, kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=32, qk_rope_head_dim=64,
            v_head_dim=32, head_dim=64, first_k_dense_replace=3, n_routed_experts=4, max_position_embeddings=4096,
            initializer_range=0.12, tie_word_embeddings=False, bos_token_id=0, eos_token_id=1, pad_token_id=2,
            rope_parameters={"rope_theta": 10000.0, **(YARN if rope == "yarn" else {"rope_type": "default"})},
        )  # fmt: skip
        transformers.DeepseekV2ForCausalLM(config).eval().save_pretrained(place)
    return place


def run(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Each prompt's tokens, the two best log-probabilities of each step and its cached tokens; who attended."""
    from vllm import LLM, SamplingParams
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    from v1_cpu.mla import backend

    kept = backend.mla_attention
    factor = job.get("scale", 1.0)
    backend.mla_attention = lambda *args, **kwargs: kept(*args, **{**kwargs, "scale": kwargs["scale"] * factor})
    llm = LLM(
        model=str(model(folder, job["rope"])), skip_tokenizer_init=True, dtype="float32", max_model_len=2304,
        max_num_seqs=8, enforce_eager=True, **job["llm"],
    )  # fmt: skip
    params = SamplingParams(
        temperature=0.0, max_tokens=job["max_tokens"], ignore_eos=True, detokenize=False, logprobs=2
    )
    prompts = [{"prompt_token_ids": ids} for ids in job["prompts"]]
    answers = []
    for _ in range(job.get("rounds", 1)):
        for out in llm.generate(prompts, params, use_tqdm=False):
            best = [sorted((p.logprob for p in step.values()), reverse=True)[:2] for step in out.outputs[0].logprobs]
            answers.append(
                {"tokens": list(out.outputs[0].token_ids), "logprobs": best, "cached": out.num_cached_tokens}
            )
    layers = llm.llm_engine.vllm_config.compilation_config.static_forward_context.values()
    classes = sorted({f"{type(x.impl).__module__}.{type(x.impl).__name__}" for x in layers if hasattr(x, "impl")})
    llm.llm_engine.engine_core.shutdown()
    backend.mla_attention = kept
    del llm, layers
    gc.collect()
    cleanup_dist_env_and_memory()
    return {"answers": answers, "impl": classes}


def main() -> None:
    results = []
    for job in json.loads(Path(sys.argv[2]).read_text()):
        try:
            results.append(run(job, Path(sys.argv[1])))
        except Exception:
            results.append({"error": traceback.format_exc()})
    Path(sys.argv[3]).write_text(json.dumps(results))


if __name__ == "__main__":
    main()
