"""Draw the figures of a run: `python tests/benchmarks/attention/plot.py FIGURES.json OUT.svg` (needs matplotlib).

One panel per table and type. A dot is a cell: how many times faster than a peer (right of 1), or our time over the
reading time (*reading*, from 1 on). The bar is the geometric mean. The kind of file is that of OUT's suffix.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

from report import figures

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
except ImportError:
    sys.exit("plot.py needs matplotlib: pip install matplotlib")

PANELS = ("decode", "prefill", "chunk", "one KV head", "head sizes")


def rows(cells: list[dict[str, object]], table: str, dtype: str) -> dict[str, list[float]]:
    """Peer to its ratios over the cells of a panel."""
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        if (cell["table"], cell["dtype"]) != (table, dtype):
            continue
        for name, value, _ in figures(cell, "median"):  # type: ignore[arg-type]
            if name == "time over reading":
                found["reading"].append(value)
            elif name.startswith("times faster than") and not name.endswith("thread"):
                found[name.removeprefix("times faster than ")].append(value)
    return dict(sorted(found.items()))


def draw(cells: list[dict[str, object]], out: Path) -> None:
    dtypes = [dtype for dtype in ("bfloat16", "float32") if any(cell["dtype"] == dtype for cell in cells)]
    tables = [table for table in PANELS if any(cell["table"] == table for cell in cells)]
    figure, axes = pyplot.subplots(
        len(tables), len(dtypes), figsize=(5 * len(dtypes), 1.7 * len(tables)), squeeze=False, sharex=True
    )
    for row, table in enumerate(tables):
        for column, dtype in enumerate(dtypes):
            panel, peers = axes[row][column], rows(cells, table, dtype)
            panel.set_title(f"{table}, {dtype}", fontsize=9, loc="left")
            panel.axvline(1, color="grey", linewidth=0.8)
            for y, (peer, ratios) in enumerate(peers.items()):
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                colour = "tab:orange" if peer == "reading" else "tab:blue"
                panel.plot(ratios, [y] * len(ratios), "o", markersize=3, alpha=0.5, color=colour)
                panel.plot([mean, mean], [y - 0.3, y + 0.3], color=colour, linewidth=2)
            panel.set_yticks(range(len(peers)), list(peers), fontsize=8)
            panel.set_ylim(-0.6, len(peers) - 0.4)
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    for panel in axes[-1]:
        panel.set_xlabel("times as fast as the peer; reading: times as long", fontsize=8)
    figure.tight_layout()
    figure.savefig(out)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cells = [cell for cell in json.loads(Path(sys.argv[1]).read_text())["cells"] if "v1_cpu native" in cell["times"]]
    if not cells:
        sys.exit(f"{sys.argv[1]} holds no cell that the native kernel ran")
    draw(cells, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
