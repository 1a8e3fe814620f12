"""The tables: one line per cell, and the geometric mean of the ratio to each peer."""

from __future__ import annotations

import math
from typing import Any

OURS = "v1_cpu native"


def print_table(cell: dict[str, Any]) -> None:
    """One cell: our time and rates, then how many times faster than each peer."""
    times = {name: t["median"] for name, t in cell["times"].items()}
    ours = times.get(OURS)
    if ours is None:
        print(f"{cell['table']:12} {cell['title']:55} not run: {cell['refused'].get(OURS)}")
        return
    spread = cell["times"][OURS]["max"] / cell["times"][OURS]["min"]
    bytes_rate, flops_rate = cell["kv_bytes"] / ours / 1e9, cell["flops"] / ours
    peak = cell["peak"]
    rates = f"{ours * 1e6:9.0f} us (max/min {spread:.2f}) {bytes_rate:6.1f} GB/s {flops_rate / 1e9:7.1f} GF/s"
    ratios = [f"{name} {t / ours:.2f}x" for name, t in times.items() if name not in (OURS, "read")]
    if "read" in times:
        ratios.append(f"time/read {ours / times['read']:.2f}")
    ratios += [f"{name}: {why}" for name, why in cell["refused"].items()]
    print(
        f"{cell['table']:12} {cell['title']:55} {rates} {flops_rate / peak['rate']:5.2f} of {peak['kind']} peak | {', '.join(ratios)}",
        flush=True,
    )


def summary(cells: list[dict[str, Any]]) -> None:
    """Per table and dtype: geometric mean and worst cell against each peer."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for cell in cells:
        ours = cell["times"].get(OURS)
        for name, t in cell["times"].items():
            if ours and name != OURS:
                groups.setdefault((cell["table"], cell["dtype"], name), []).append(t["median"] / ours["median"])
    for (table, dtype, name), ratios in groups.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        how = f"geometric mean {mean:.2f}x, worst {min(ratios):.2f}x, {len(ratios)} cells"
        print(f"{table:12} {dtype:9} over {name:20} {how}")
