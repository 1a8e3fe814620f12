"""Measure cache writes: `python tests/benchmarks/attention/write.py`.

New keys and values of 1 to 8192 tokens go to a 512 MB cache, to a run of slots (bulk, as a prefill) or one to a block
(scattered, as decodes). Peers: vLLM's operator on its own layout, torch's `index_copy_` on a row-major cache (one call
for keys and values that lie side by side already, and one for each), and a plain copy as the limit.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[3])]

import torch
from peers import Vllm

import v1_cpu

CACHE_BYTES = 512 << 20
SHAPES = [(8, 128), (12, 64)]


def calls(
    dtype: torch.dtype, kh: int, d: int, block: int, tokens: int, scattered: bool, vllm: Vllm | None
) -> dict[str, Callable[[int], Any]]:
    """Each peer's write of `tokens` tokens; the argument moves the slots."""
    num_blocks = CACHE_BYTES // (kh * block * 2 * d * dtype.itemsize)
    cache = torch.zeros(num_blocks, kh, block, 2 * d, dtype=dtype)
    flat = torch.zeros(num_blocks * block, kh * 2 * d, dtype=dtype)
    both = torch.randn(tokens, 2, kh, d).to(dtype)
    key, value = both[:, 0], both[:, 1]
    slots = []
    for turn in range(8):
        blocks = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(turn))
        if scattered:
            slots.append(blocks[torch.arange(tokens) % num_blocks] * block + turn % block)
        else:
            t = torch.arange(tokens)
            slots.append(blocks[t // block] * block + t % block)
    first, second = flat.view(2, num_blocks * block, kh * d)
    keys, values = (both[:, i].reshape(tokens, -1) for i in (0, 1))
    rows, target = both.reshape(tokens, -1), torch.empty_like(both)

    def ours(i: int) -> None:
        v1_cpu.write_kv_cache(key, value, cache, slots[i % 8], kernel="native", validate=False)

    found: dict[str, Callable[[int], Any]] = {
        "v1_cpu native": ours,
        "index_copy_": lambda i: flat.index_copy_(0, slots[i % 8], rows),
        "two index_copy_": lambda i: (
            first.index_copy_(0, slots[i % 8], keys),
            second.index_copy_(0, slots[i % 8], values),
        ),
        "copy": lambda i: target.copy_(both),
    }
    if vllm is not None:
        isa = vllm.isa(dtype, block, d, "auto")
        key_cache, value_cache = cache.view(num_blocks, kh, block * 2, d).chunk(2, dim=2)
        found[vllm.name] = lambda i: vllm.ops.cpu_attn_reshape_and_cache(
            key, value, key_cache, value_cache, slots[i % 8], isa
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", help="instruction set of v1_cpu (V1_CPU_ISA); any but amx keeps vLLM from AMX, too")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], help="one of the two only")
    parser.add_argument("--json", type=Path, help="add the figures to this file")
    options = parser.parse_args()
    if options.isa:
        os.environ["V1_CPU_ISA"] = options.isa
    cells = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    try:
        vllm: Vllm | None = Vllm(tiles=options.isa in (None, "amx"))
    except Exception as error:
        vllm = None
        print(f"absent: vllm: {error}")
    for dtype in (torch.bfloat16, torch.float32):
        if options.dtype not in (None, str(dtype)[6:]):
            continue
        for kh, d in SHAPES:
            for scattered in (False, True):
                for tokens in (1, 8, 32, 128, 512, 2048, 8192):
                    run = calls(dtype, kh, d, 32, tokens, scattered, vllm)
                    times: dict[str, list[float]] = {name: [] for name in run}
                    for turn in range(60 if tokens < 1024 else 25):
                        for name, call in run.items():
                            start = time.perf_counter()
                            call(turn)
                            times[name].append(time.perf_counter() - start)
                    median = {name: statistics.median(t[3:]) for name, t in times.items()}
                    ours = median["v1_cpu native"]
                    size = tokens * kh * 2 * d * dtype.itemsize
                    ratios = ", ".join(
                        f"{name} {t / ours:.2f}x" for name, t in median.items() if name != "v1_cpu native"
                    )
                    how = "scattered" if scattered else "bulk"
                    rate = f"{ours * 1e6:8.1f} us {size / ours / 1e9:5.1f} GB/s"
                    print(f"{str(dtype)[6:]:9} {kh}x{d} {how:9} {tokens:5} tokens {rate} | {ratios}", flush=True)
                    what = {"dtype": str(dtype)[6:], "heads": f"{kh}x{d}", "slots": how, "tokens": tokens}
                    cells.append(what | {"bytes": size, "times": median})
    if options.json:
        options.json.write_text(json.dumps(cells, indent=1))


if __name__ == "__main__":
    main()
