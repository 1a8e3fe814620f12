"""The capability table: what CPU attention could do in each release, and what this backend can.

The data is `capabilities.toml`; `python -m v1_cpu.capabilities > docs/capabilities.md` writes the page.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources

COLUMNS = {
    "v0": "V0 (0.8.5 to 0.9.2)",
    "g1": "V1 (0.9.1 to 0.11.0)",
    "g2": "V1 (0.11.2 to 0.16.0)",
    "g3": "V1 (0.32.0)",
    "here": "v1_cpu",
}


@dataclass(frozen=True, slots=True)
class Capability:
    """One row: a feature, and a few words for each generation."""

    id: str
    feature: str
    v0: str
    g1: str
    g2: str
    g3: str
    here: str
    reports: tuple[str, ...] = ()


@functools.cache
def table() -> tuple[Capability, ...]:
    """All rows, in the order of the file."""
    text = resources.files("v1_cpu").joinpath("capabilities.toml").read_text(encoding="utf-8")
    return tuple(
        Capability(**{**row, "reports": tuple(row.get("reports", ()))}) for row in tomllib.loads(text)["capability"]
    )


def page() -> str:
    """The table as a Markdown page."""
    lines = [
        "# What CPU attention can do, by release",
        "",
        "<!-- Written by `python -m v1_cpu.capabilities`; edit v1_cpu/capabilities.toml. -->",
        "",
        "Numbers are issues and pull requests of vllm-project/vllm unless a repository is named.",
        "",
        "| | " + " | ".join(COLUMNS.values()) + " | reports |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for row in table():
        cells = [getattr(row, column) for column in COLUMNS]
        reports = ", ".join(r if "#" in r else f"#{r}" for r in row.reports)
        lines.append(f"| **{row.feature}** | " + " | ".join(cells) + f" | {reports} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
