"""End-to-end throughput with v1_cpu and with vLLM's own backend, in turn: `python throughput.py OUT.json [ROUNDS]`.

The model is a random-weight Llama whose attention dominates: 4 layers, hidden 512, 32 query and 8 KV heads of 128,
bfloat16. Each round starts one engine per side, first one, then the other, and runs every workload once in it after a
warm-up; a workload's figure is the best of its rounds, so that a disturbed one does not count. Run it alone on the
machine, and with all its threads bound (VLLM_CPU_OMP_THREADS_BIND).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WORKLOADS = {
    "prefill 4 x 3500": (4, 3500, 1),
    "prefill 16 x 512": (16, 512, 1),
    "prefill 1 x 3500": (1, 3500, 1),
    "decode 1 x 3500 + 32": (1, 3500, 33),
    "decode 4 x 3500 + 32": (4, 3500, 33),
    "decode 16 x 512 + 32": (16, 512, 33),
}
"""Requests, tokens of each prompt, tokens of each answer."""
SIDES = {"v1_cpu": "strict", "vllm": "0"}


def make_model(folder: Path) -> None:
    """Save the model and a tokenizer of as many words."""
    import tokenizers
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    words = {f"w{i}": i for i in range(511)} | {"[UNK]": 511}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)


def one_side(model: str, out: Path) -> None:
    """Seconds of every workload in one engine."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=model,
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=4096,
        max_num_batched_tokens=4096,
        max_num_seqs=32,
        block_size=128,
    )
    draw = random.Random(0)

    def seconds(requests: int, length: int, tokens: int) -> float:
        prompts = [{"prompt_token_ids": [draw.randrange(3, 500) for _ in range(length)]} for _ in range(requests)]
        params = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        begun = time.perf_counter()
        llm.generate(prompts, params, use_tqdm=False)
        return time.perf_counter() - begun

    seconds(2, 600, 4)  # warm-up
    taken = {name: seconds(*shape) for name, shape in WORKLOADS.items()}
    config = llm.llm_engine.vllm_config.compilation_config
    layer = next(iter(config.static_forward_context.values()))
    out.write_text(json.dumps({"seconds": taken, "impl": type(layer.impl).__module__}))


def figures(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Tokens per second of each side, and their ratio. Decode counts the time beyond the prefill of the same shape."""
    best = {side: {name: min(run[name] for run in runs[side]) for name in WORKLOADS} for side in SIDES}
    table = {}
    for name, (requests, length, tokens) in WORKLOADS.items():
        prefill = name.replace("decode", "prefill").partition(" +")[0]
        rate = {}
        for side in SIDES:
            if name == prefill:
                rate[side] = requests * length / best[side][name]
            else:
                rate[side] = requests * (tokens - 1) / (best[side][name] - best[side][prefill])
        table[name] = {**{side: round(value, 1) for side, value in rate.items()}}
        table[name]["ratio"] = round(rate["v1_cpu"] / rate["vllm"], 2)
        table[name]["ratio_of_whole"] = round(best["vllm"][name] / best["v1_cpu"][name], 2)
    return table


def main() -> None:
    if sys.argv[1] == "--side":
        one_side(sys.argv[2], Path(sys.argv[3]))
        return
    out, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        for number in range(rounds):
            order = list(SIDES) if number % 2 == 0 else list(reversed(SIDES))
            for side in order:
                result = Path(folder) / "side.json"
                subprocess.run(
                    [sys.executable, __file__, "--side", folder, result],
                    env={**env, **os.environ, "V1_CPU_BACKEND": SIDES[side]},
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=900,
                )
                found = json.loads(result.read_text())
                assert found["impl"].startswith("v1_cpu." if side == "v1_cpu" else "vllm."), found["impl"]
                runs[side].append(found["seconds"])
                print(side, {name: round(value, 2) for name, value in found["seconds"].items()}, flush=True)
    table = figures(runs)
    out.write_text(json.dumps({"figures": table, "seconds": runs}, indent=2) + "\n")
    for name, row in table.items():
        print(f"{name:<24}", row)


if __name__ == "__main__":
    main()
