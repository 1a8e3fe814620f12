"""The tables: one line per cell, and the geometric mean and the worst of each figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

OURS = "v1_cpu native"
OURSELVES = (OURS, "one thread", "plain")
"""The native kernel, and what else of it is measured beside it."""


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
    ratios = [f"{name} {t / ours:.2f}x" for name, t in times.items() if name not in (OURS, "read", "plain")]
    if "read" in times and cell["table"] != "prefill":
        ratios.append(f"time/read {ours / times['read']:.2f}")
    if "plain" in times:
        ratios.append(f"time/plain {cost_of_features(cell):.2f}")
    ratios += [f"{name}: {why}" for name, why in cell["refused"].items() if name not in OURSELVES]
    print(
        f"{cell['table']:12} {cell['title']:55} {rates} {flops_rate / peak['rate']:5.2f} of {peak['kind']} peak | {', '.join(ratios)}",
        flush=True,
    )


def cost_of_features(cell: dict[str, Any], moment: str = "median") -> float:
    """Our time per multiply-add over that of the same call without features."""
    ours, plain = (cell["times"][name][moment] for name in (OURS, "plain"))
    ratio: float = ours / cell["flops"] / (plain / cell["plain_flops"])
    return ratio


def figures(cell: dict[str, Any], moment: str) -> Iterator[tuple[str, float, bool]]:
    """What a cell says of its medians or of its best moments (`min`): a figure's name, its value, whether more is better."""
    times = {name: t[moment] for name, t in cell["times"].items()}
    ours = times[OURS]
    for name, t in times.items():
        if name not in (OURS, "read", "plain"):
            yield f"times faster than {name}", t / ours, True
    if "read" in times and cell["table"] in ("decode", "fp8"):
        yield "time over reading", ours / times["read"], False
    if "plain" in times:
        yield "time over the plain call's", cost_of_features(cell, moment), False
    if cell["table"] in ("prefill", "chunk"):
        yield f"share of the {cell['peak']['kind']} peak", cell["flops"] / ours / cell["peak"]["rate"], True


def summary(cells: list[dict[str, Any]]) -> None:
    """Per table, type and figure: geometric mean and worst cell of the medians, and the mean of the best moments."""
    groups: dict[tuple[str, str, str, bool], list[tuple[float, float]]] = {}
    for cell in cells:
        if OURS in cell["times"]:
            best = {name: value for name, value, _ in figures(cell, "min")}
            for name, value, more_is_better in figures(cell, "median"):
                key = (cell["table"], cell["dtype"], name, more_is_better)
                groups.setdefault(key, []).append((value, best[name]))
    for (table, dtype, name, more_is_better), values in groups.items():
        medians, best_moments = ([pair[i] for pair in values] for i in (0, 1))
        worst = min(medians) if more_is_better else max(medians)
        print(
            f"{table:12} {dtype:9} {name:36} geometric mean {mean(medians):5.2f} (best moments {mean(best_moments):5.2f}), "
            f"worst {worst:5.2f}, {len(values)} cells"
        )


def mean(values: list[float]) -> float:
    """Their geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))
