"""Measure v1_cpu's attention against its peers and the machine's limits: `python tests/benchmarks/attention [--quick]`.

All peers of a cell run interleaved in one process, in an order that changes each round; a cell's figure is the median.
A cache is rotated over 256 MB, so that keys and values come from memory. Absent peers are named. Use an otherwise quiet
machine.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[3])]

import torch
from cases import Case, all_cases, build
from limits import Read, fastest, multiply_add_rate
from peers import Peer, Unsupported, available
from report import print_table, summary

from v1_cpu import select


def measure(case: Case, peers: list[Peer], budget: float, kind: str) -> dict[str, Any]:
    """Median, smallest and largest seconds of each peer on one case, and the peak rate `kind` in the same rounds."""
    data = build(case)
    runs, refused = {}, {}
    for peer in peers:
        try:
            runs[peer.name] = peer.prepare(case, data)
        except Unsupported as reason:
            refused[peer.name] = str(reason)
        except (RuntimeError, NotImplementedError) as error:
            refused[peer.name] = str(error).splitlines()[0][:120]
    times: dict[str, list[float]] = {name: [] for name in runs}
    names, turn, end = list(runs), 0, time.perf_counter() + budget
    rates = []
    while turn < 7 or (turn < 41 and time.perf_counter() < end):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            for call in range(case.calls):
                runs[name](turn + call)
            times[name].append((time.perf_counter() - start) / case.calls)
        rates.append(multiply_add_rate(kind, 0.5))
        turn += 1
        if time.perf_counter() > end + 4 * budget and turn >= 3:
            break
    stats = {
        name: {"median": statistics.median(t[1:]), "min": min(t[1:]), "max": max(t[1:]), "rounds": len(t) - 1}
        for name, t in times.items()
    }
    return {
        "table": case.table,
        "title": case.title,
        "dtype": str(case.dtype)[6:],
        "kv_bytes": case.kv_bytes,
        "flops": case.flops,
        "plain_flops": case.plain.flops,
        "times": stats,
        "peak": {"kind": kind, "rate": statistics.median(rates)},
        "refused": refused,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cells of each table")
    parser.add_argument(
        "--only", default="", help="cells whose table and title have these words; alternatives with commas"
    )
    parser.add_argument("--peers", default="", help="parts of peers' names, with commas; default: all that are here")
    parser.add_argument(
        "--flex", action="store_true", help="measure flex_attention, too (compiled: 10 s and more a cell)"
    )
    parser.add_argument(
        "--isa", help="instruction set of v1_cpu (V1_CPU_ISA); any but amx keeps the peers from AMX, too"
    )
    parser.add_argument("--budget", type=float, default=1.0, help="seconds per cell (at least 7 rounds are run)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--append", action="store_true", help="add to the figures that are there")
    options = parser.parse_args()
    if options.isa:
        os.environ["V1_CPU_ISA"] = options.isa
    tiles = options.isa in (None, "amx")
    if not tiles:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"  # torch and sgl multiply by it
    if reason := select.unavailable("native"):
        parser.error(f"there is nothing to measure: the native kernel is not here ({reason})")
    peers, missing = available(tiles, options.flex)
    peers = [Read(), *peers]
    if options.peers:
        peers = [p for p in peers if any(part in p.name for part in options.peers.split(","))]
    wanted = [part for part in options.only.split(",") if part]
    kinds = {dtype: fastest(dtype, tiles) for dtype in (torch.bfloat16, torch.float32)}
    isa = select.get_kernel("native").isa
    machine = {"threads": torch.get_num_threads(), "torch": torch.__version__, "isa": isa}
    print(f"threads {machine['threads']}, isa {isa}")
    for name in missing:
        print(f"absent: {name}")
    results = json.loads(options.json.read_text())["cells"] if options.append and options.json.exists() else []
    for case in all_cases(options.quick):
        if wanted and not any(all(part in f"{case.table}: {case.title}" for part in p.split()) for p in wanted):
            continue
        results.append(measure(case, peers, options.budget, kinds[case.dtype]))
        print_table(results[-1])
        if options.json:
            options.json.write_text(json.dumps({"machine": machine, "missing": missing, "cells": results}, indent=1))
    summary(results)


if __name__ == "__main__":
    main()
