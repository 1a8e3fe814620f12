"""The three kernels side by side, as a table: `.venv-ipex/bin/python tests/benchmarks/ipex.py`.

Cells and tensors are those of tests/benchmarks/attention: interleaved in one process, in an order that changes each
round, medians, keys and values from memory. Milliseconds a call.
"""

# ruff: noqa: E402

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/benchmarks/attention"), str(ROOT)]

import torch
from cases import BF16, CHUNK, F32, HEADS, MIXED, Case, build, decode
from peers import Ours

import v1_cpu
from v1_cpu import select

KERNELS = ("native", "ipex", "torch")


def cells() -> Iterator[Case]:
    """Decode and prefill where IPEX computes, and features of which it computes some."""
    for dtype in (BF16, F32):
        for heads in ("32/8x128", "12/12x64"):
            for block, batch, context in ((32, 1, 2048), (32, 8, 2048), (128, 8, 2048)):
                yield decode(dtype, heads, block, batch, context)
            yield Case("prefill", "prefill 2048", dtype, HEADS[heads], 32, ((2048, 2048),))
        yield Case("chunk", "512 over 4k", dtype, HEADS["32/8x128"], 32, CHUNK)
        yield Case("chunk", "512 over 4k + 8 decodes", dtype, HEADS["32/8x128"], 32, MIXED)
    yield decode(BF16, "32/8x128", 32, 8, 8192, sliding_window=256)
    yield decode(BF16, "32/8x128", 32, 8, 2048, sinks=torch.zeros(32))
    yield decode(BF16, "32/8x128", 32, 8, 2048, cache_dtype=torch.float8_e5m2)
    yield decode(BF16, "32/8x128", 16, 8, 2048)


def measure(case: Case, rounds: int = 9) -> dict[str, float]:
    """Median seconds of each kernel."""
    data = build(case)
    runs = {name: Ours(name).prepare(case, data) for name in KERNELS}
    times: dict[str, list[float]] = {name: [] for name in KERNELS}
    for turn in range(rounds):
        for step in range(len(KERNELS)):
            name = KERNELS[(turn + step) % len(KERNELS)]
            start = time.perf_counter()
            runs[name](turn)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def main() -> None:
    for name in KERNELS:
        if reason := select.unavailable(name):
            sys.exit(f"there is nothing to compare: no {name} kernel here ({reason}); make test-ipex builds the place")
    isa = ", ".join(f"{name} {select.get_kernel(name).isa}" for name in KERNELS)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; {isa}; {v1_cpu.which().name} is the default\n"
    )
    print("| | native | IPEX | torch | IPEX / native | torch / IPEX |\n|---|---|---|---|---|---|")
    for case in cells():
        t = measure(case)
        native, ipex, plain = (t[name] for name in KERNELS)
        row = f"{native * 1e3:.2f} | {ipex * 1e3:.2f} | {plain * 1e3:.2f} | {ipex / native:.1f} | {plain / ipex:.1f}"
        print(f"| {case.title} | {row} |", flush=True)


if __name__ == "__main__":
    main()
