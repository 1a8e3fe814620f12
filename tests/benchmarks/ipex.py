"""The three kernels side by side, as a table: `.venv-ipex/bin/python tests/benchmarks/ipex.py [--quick]`.

Cells and tensors are those of tests/benchmarks/attention: interleaved in one process, in an order that changes each
round, medians, keys and values from memory. Milliseconds a call.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/benchmarks/attention"), str(ROOT)]

import torch
from cases import Case, all_cases, build
from peers import Ours

import v1_cpu
from v1_cpu import select

KERNELS = ("native", "ipex", "torch")


def measure(case: Case, budget: float) -> dict[str, float]:
    """Median seconds of each kernel over 4 to 16 rounds, the first of which does not count."""
    data = build(case)
    runs = {name: Ours(name).prepare(case, data) for name in KERNELS}
    times: dict[str, list[float]] = {name: [] for name in KERNELS}
    turn, end = 0, time.perf_counter() + budget
    while turn < 4 or (turn < 16 and time.perf_counter() < end):
        for step in range(len(KERNELS)):
            name = KERNELS[(turn + step) % len(KERNELS)]
            start = time.perf_counter()
            runs[name](turn)
            times[name].append(time.perf_counter() - start)
        turn += 1
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cells of each table")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds per cell (at least 4 rounds are run)")
    options = parser.parse_args()
    for name in KERNELS:
        if reason := select.unavailable(name):
            sys.exit(f"there is nothing to compare: no {name} kernel here ({reason}); make test-ipex builds the place")
    isa = ", ".join(f"{name} {select.get_kernel(name).isa}" for name in KERNELS)
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; {isa}; {v1_cpu.which().name} is the default\n"
    )
    print("| | native | IPEX | torch | IPEX / native | torch / IPEX |\n|---|---|---|---|---|---|")
    for case in all_cases(options.quick):
        t = measure(case, options.budget)
        native, ipex, plain = (t[name] for name in KERNELS)
        row = f"{native * 1e3:.2f} | {ipex * 1e3:.2f} | {plain * 1e3:.2f} | {ipex / native:.1f} | {plain / ipex:.1f}"
        print(f"| {case.table}: {case.title} | {row} |", flush=True)


if __name__ == "__main__":
    main()
