"""End-to-end throughput with v1_cpu and with vLLM's own backend, in turn: `python throughput.py OUT.json [MODE] [ROUNDS]`.

The model is a random-weight Llama whose attention dominates: 4 layers, hidden 512, 32 query and 8 KV heads of 128. Both
engines live at once, each in a process of its own, and one rests while the other answers: each round runs every workload
on both, one right after the other, and the next round the other way round. A figure is the median over the rounds of the
ratio of two such neighbours. Modes:

amx         bfloat16, both sides with what the machine has
avx512      bfloat16, neither side with AMX: v1_cpu, vLLM's attention and oneDNN are told that there is none
float32     float32

Run it alone on the machine, and with all its threads bound (VLLM_CPU_OMP_THREADS_BIND).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKLOADS = {
    "prefill 4 x 3500": (4, 3500, 1),
    "prefill 1 x 3500": (1, 3500, 1),
    "prefill 16 x 512": (16, 512, 1),
    "decode 1 x 3500 + 32": (1, 3500, 33),
    "decode 4 x 3500 + 32": (4, 3500, 33),
    "decode 1 x 3500 + 128": (1, 3500, 129),
    "decode 4 x 3500 + 128": (4, 3500, 129),
    "decode 16 x 512 + 32": (16, 512, 33),
    "decode 16 x 16 + 64": (16, 16, 65),
}
"""Requests, tokens of each prompt, tokens of each answer."""
SIDES = {"v1_cpu": {"V1_CPU_BACKEND": "strict", "THP_MEM_ALLOC_ENABLE": "1"}, "vllm": {"V1_CPU_BACKEND": "0"}}
"""The environment of each side's process: what the plugin sets for the engine processes that vLLM starts, included."""
MODES: dict[str, dict[str, str]] = {
    "amx": {},
    "avx512": {"V1_CPU_ISA": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "WITHOUT_AMX": "1"},
    "float32": {"DTYPE": "float32"},
}
"""The environment of both sides' processes."""


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


def serve(model: str) -> None:
    """One engine: reads workloads from standard input, a line each, and answers each with its seconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine prints goes elsewhere
    import torch

    if os.environ.get("WITHOUT_AMX"):
        torch.cpu._is_amx_tile_supported = lambda: False  # vLLM asks this function
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=model,
        dtype=os.environ.get("DTYPE", "bfloat16"),
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
    layers = llm.llm_engine.vllm_config.compilation_config.static_forward_context
    layer = next(iter(layers.values()))
    print(json.dumps({"impl": type(layer.impl).__module__, "isa": layer_isa(layer)}), file=answers, flush=True)
    for name in sys.stdin:
        print(seconds(*WORKLOADS[name.strip()]), file=answers, flush=True)


def layer_isa(layer: Any) -> str:
    """The instruction set of vLLM's own attention, or of v1_cpu's."""
    if hasattr(layer, "isa"):
        return str(layer.isa)
    import v1_cpu

    return v1_cpu.which().isa


class Side:
    """An engine in a process of its own."""

    def __init__(self, name: str, model: str, mode: str) -> None:
        env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1"}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", model],
            env={**env, **SIDES[name], **os.environ, **MODES[mode], "V1_CPU_BACKEND": SIDES[name]["V1_CPU_BACKEND"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the engine of {self.name} ended: {self.process.wait()}"
        return json.loads(line)

    def seconds(self, workload: str) -> float:
        assert self.process.stdin is not None
        print(workload, file=self.process.stdin, flush=True)
        return float(self.answer())


@contextlib.contextmanager
def both(model: str, mode: str) -> Iterator[list[Side]]:
    """The two engines, started one after the other."""
    sides: list[Side] = []
    try:
        for name in SIDES:
            sides.append(Side(name, model, mode))
            served = sides[-1].answer()
            print(name, served, flush=True)
            assert served["impl"].startswith("v1_cpu." if name == "v1_cpu" else "vllm."), served
        yield sides
    finally:
        for side in sides:
            assert side.process.stdin is not None
            side.process.stdin.close()
        for side in sides:
            side.process.wait(60)


def figures(runs: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """The ratio of vLLM's time and v1_cpu's, for the whole and, in a decode, beyond the prefill of the same shape."""
    table = {}
    for name in WORKLOADS:
        prefill = name.replace("decode", "prefill").partition(" +")[0]
        pairs = [run[name] for run in runs]
        row: dict[str, Any] = {
            side: [round(f(pair[side] for pair in pairs), 3) for f in (min, statistics.median)] for side in SIDES
        }
        ratios = [pair["vllm"] / pair["v1_cpu"] for pair in pairs]
        row["ratios"] = [round(ratio, 2) for ratio in ratios]
        row["median"] = round(statistics.median(ratios), 2)
        if name != prefill and prefill in WORKLOADS:
            rest = [{side: run[name][side] - run[prefill][side] for side in SIDES} for run in runs]
            row["decode alone"] = round(statistics.median(pair["vllm"] / pair["v1_cpu"] for pair in rest), 2)
        table[name] = row
    return table


def main() -> None:
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
        return
    out, mode = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "amx"
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    runs: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        with both(folder, mode) as sides:
            for number in range(rounds):
                runs.append({})
                for name in WORKLOADS:
                    order = sides if number % 2 == 0 else sides[::-1]
                    runs[-1][name] = {side.name: side.seconds(name) for side in order}
                    print(name, {k: round(v, 3) for k, v in runs[-1][name].items()}, flush=True)
                table = figures(runs)
                out.write_text(json.dumps({"mode": mode, "figures": table, "runs": runs}, indent=2) + "\n")
    for name, row in table.items():
        print(f"{name:<24}", row)


if __name__ == "__main__":
    main()
