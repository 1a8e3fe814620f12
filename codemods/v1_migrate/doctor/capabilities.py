"""The capability table of v1_cpu, read as a file beside this package: v1_cpu itself is not imported."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..names.releases import sort_key

_GENERATIONS = (("0.32.0", "g3"), ("0.11.1", "g2"), ("0.10.0", "g1"), ("", "v0"))


def rows() -> dict[str, dict[str, Any]]:
    """The rows by id; none where v1_cpu is not installed beside v1_migrate."""
    spec = find_spec("v1_cpu")
    for folder in spec.submodule_search_locations or () if spec else ():
        path = Path(folder) / "capabilities.toml"
        if path.is_file():
            return {row["id"]: row for row in tomllib.loads(path.read_text("utf-8"))["capability"]}
    return {}


def column(release: str) -> str:
    """The table's column for a release; the nearest one before it where it has none of its own."""
    return next(name for since, name in _GENERATIONS if not since or sort_key(since) <= sort_key(release))
