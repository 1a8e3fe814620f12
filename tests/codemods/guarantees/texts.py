"""Stale dotted paths in files that are not Python: configuration, scripts, containers, documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from guarantees.oracle import Names, Place, by_path, speaking
from guarantees.references import Reference
from guarantees.release import Has

SUFFIXES = {".toml", ".cfg", ".ini", ".txt", ".in", ".yaml", ".yml", ".json", ".sh", ".md", ".rst", ".ipynb"}
PATH = re.compile(r"(?<![\w./-])vllm(?:\.[A-Za-z_]\w*+)++(?::[A-Za-z_]\w*+)?+(?![\w/-])")


def unreported(tree: Path, report: dict[str, Any], names: Names) -> Iterator[Place]:
    """Paths that named an object of an older release exactly, which the target lacks, with no finding on their line."""
    findings = by_path(report)
    for path in sorted(tree.rglob("*")):
        if not path.is_file() or not (path.suffix in SUFFIXES or path.name.startswith("Dockerfile")):
            continue
        where = path.relative_to(tree).as_posix()
        for number, line in enumerate(path.read_text("utf-8", "replace").split("\n"), 1):
            for match in PATH.finditer(line) if "vllm." in line else ():
                reference = Reference(match.group().replace(":", "."), number, number, "string")
                exact = any(old.has(reference.name, True) is Has.YES for old in names.olds)
                if exact and names.stale(reference) and not speaking(findings.get(where, ()), reference):
                    yield Place(where, reference)
