"""What the engines are asked: tables of jobs for `run_engine`, each a model, its configuration and its prompts."""

from __future__ import annotations

import random
from typing import Any

LENGTHS = (3500, *range(1, 280, 9))  # a batch of 32; several chunks of 1,024 tokens, decodes beside prefills


def prompts(lengths: tuple[int, ...]) -> list[list[int]]:
    draw = random.Random(1)
    return [[draw.randrange(3, 255) for _ in range(length)] for length in lengths]


def job(model: str, *, lengths: tuple[int, ...] = LENGTHS, rounds: int = 1, **more: Any) -> dict[str, Any]:
    """One prompt alone, then all at once (`rounds` times), then one that begins as the longest did."""
    batch = prompts(lengths)
    again = [*batch[0][:256], 7, 8, 9]
    llm = {
        "model": model,
        "dtype": "float32",
        "max_model_len": 4096,
        "max_num_batched_tokens": 1024,
        "max_num_seqs": 32,
        "block_size": 32,
        "kv_cache_memory_bytes": 160 << 20,
        **more.pop("llm", {}),
    }
    batches = [batch[-1:], *[batch] * rounds, [again]]
    return {"llm": llm, "batches": batches, "max_tokens": 16, **more}


def short(model: str, *, lengths: tuple[int, ...] = (300, 1, 7, 40, 129, 33), **more: Any) -> dict[str, Any]:
    """Seven prompts in chunks of 128 tokens, for what costs time to start or is no matter of length."""
    llm = {"max_model_len": 512, "max_num_batched_tokens": 128, "max_num_seqs": 8, **more.pop("llm", {})}
    return job(model, lengths=lengths, llm=llm, **more)


WHISPER = {"lengths": (400, *range(1, 280, 9)), "sounds": True, "llm": {"max_model_len": 448}}
BERT = {"task": "embed", "llm": {"runner": "pooling", "max_num_batched_tokens": 8192}}
PREFIX = "grouped heads, chunked prefill, and a second round from the prefix cache"
LORA = {"enable_lora": True, "max_lora_rank": 8}
SAME = {
    PREFIX: job("llama", rounds=2),
    "a window on every layer": job("mistral"),
    "one KV head, norms on queries and keys": job("qwen3"),
    "soft cap, and windows on every other layer": job("gemma2"),
    "windows of several cache groups": job("gemma3"),
    "layers that share a cache, and two head sizes": job("gemma4"),
    "sinks, and windows on every other layer": job("gptoss"),
    "ALiBi": job("bloom"),
    "chunked local attention on every other layer": job("llama4"),
    "cross-attention": job("whisper", **WHISPER),
    "an encoder-only model's embeddings": job("bert", **BERT),
    "blocks of 128": job("llama", llm={"block_size": 128}),
    "a LoRA adapter": job("llama", lora="lora", llm=LORA),
    # Last: it loads numba, after which vLLM 0.32.0 cannot start another engine in the same process.
    "n-gram speculation": job(
        "llama", llm={"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}}
    ),
}
"""In float32: the same tokens, log probabilities within 1e-3."""
NEAR = {
    name: {**same, "llm": {**same["llm"], "model": same["llm"]["model"] + "-mild", "dtype": "bfloat16"}}
    for name, same in SAME.items()
    if name != "n-gram speculation"
}
"""The same with weights of a usual width in bfloat16: log probabilities within 3e-2."""
BROKEN = {
    "the window": ("a window on every layer", {"sliding_window": None}),
    "ALiBi": ("ALiBi", {"alibi_slopes": None}),
    "the soft cap": ("soft cap, and windows on every other layer", {"logits_soft_cap": None}),
    "the scale": ("soft cap, and windows on every other layer", {"scale": 0.25}),
    "the sinks": ("sinks, and windows on every other layer", {"sinks": None}),
}
"""What of v1_cpu's is broken on purpose, the job that must notice, and the argument its kernel is called with."""
LOSSY = {
    "float32": short("llama", prompt_logprobs=True),
    "float16": short("llama", prompt_logprobs=True, llm={"dtype": "float16"}),
    "bfloat16": short("llama", prompt_logprobs=True, llm={"dtype": "bfloat16"}),
    "LoRA, float32": job("llama-mild", lora="lora", llm=LORA),
    "LoRA, bfloat16": job("llama-mild", lora="lora", llm={**LORA, "dtype": "bfloat16"}),
    "no float8 cache": job("llama-mild", prompt_logprobs=True, llm={"dtype": "bfloat16"}),
    "e4m3": job("llama-mild", prompt_logprobs=True, llm={"kv_cache_dtype": "fp8", "dtype": "bfloat16"}),
    "e5m2": job("llama-mild", prompt_logprobs=True, llm={"kv_cache_dtype": "fp8_e5m2", "dtype": "bfloat16"}),
}
"""Where both backends lose to few bits: sharp models, an adapter, and a cache of float8, each beside what loses less."""
