"""Put two runs of the benchmark side by side: `python tests/benchmarks/attention/compare.py BEFORE.json AFTER.json`.

Compares our own medians; where both runs have the reading limit of a cell, as a multiple of it, which cancels most of
the noise between runs. To compare two commits, run the benchmark in a checkout of each with `--json`.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from report import OURS


def cells(path: str) -> dict[str, dict[str, Any]]:
    return {f"{c['table']} {c['title']}": c for c in json.loads(Path(path).read_text())["cells"] if OURS in c["times"]}


def relative(cell: dict[str, Any]) -> tuple[float, bool]:
    """Our median, divided by that of reading where it was measured."""
    times = cell["times"]
    read = times.get("read", {}).get("median") if cell["table"] != "prefill" else None
    return times[OURS]["median"] / (read or 1.0), bool(read)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    before, after = cells(sys.argv[1]), cells(sys.argv[2])
    logs = []
    for name in before.keys() & after.keys():
        (old, old_read), (new, new_read) = relative(before[name]), relative(after[name])
        if old_read != new_read:
            continue
        logs.append(math.log(old / new))
        print(f"{old / new:6.2f}x  {name}")
    for name in sorted(before.keys() ^ after.keys()):
        print(f"only in one run: {name}")
    if logs:
        mean = math.exp(sum(logs) / len(logs))
        print(f"{mean:6.2f}x  geometric mean of {len(logs)} cells (above 1: the second run is faster)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
