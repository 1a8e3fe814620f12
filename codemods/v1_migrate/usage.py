"""What `V1_COMPAT=report` wrote down: which legacy names a program really used, joined with what was found by reading.

The file has one JSON object per line, from as many processes and runs as appended to it; of one process and place the
largest number counts.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .findings import Finding

_FIELDS = {"name": str, "rule": str, "file": str, "line": int, "count": int, "process": str}


class UsageError(ValueError):
    """The file is no report of V1_COMPAT=report; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Use:
    """A name at a line, over all processes."""

    file: str  # absolute; relative to PATH in `Usage.unseen`
    line: int
    name: str
    rule: str
    count: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The uses of a run beside the findings of another."""

    of_finding: dict[tuple[str, int, int, str], int]  # (path, line, column, rule) -> uses
    of_file: dict[str, int]  # path -> uses in it
    unseen: tuple[Use, ...]  # used in files below PATH where reading found nothing, most used first
    elsewhere: tuple[Use, ...]  # used in files that are not below PATH
    total: int

    def uses(self, finding: Finding) -> int:
        return self.of_finding.get(_key(finding), 0)


def read(path: Path) -> list[Use]:
    """The uses in a file, merged. A last line that is cut short (a full disk) is left out. Raises UsageError."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise UsageError(f"{path}: {why}; run the program with V1_COMPAT=report first, it writes such a file") from None
    largest: dict[tuple[str, str, str, str, int], int] = {}
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
            if number == len(lines) > 1:
                continue
        if not _well_formed(entry):
            raise UsageError(f"{path}:{number}: no line of a usage report; --usage takes what V1_COMPAT=report writes")
        key = (entry["process"], entry["file"], entry["name"], entry["rule"], entry["line"])
        largest[key] = max(largest.get(key, 0), entry["count"])
    merged: Counter[tuple[str, str, str, int]] = Counter()
    for (_, *place), count in largest.items():
        merged[tuple(place)] += count  # type: ignore[index]
    return [Use(file, line, name, rule, count) for (file, name, rule, line), count in merged.items()]


def join(uses: Iterable[Use], root: Path, findings: Iterable[Finding]) -> Usage:
    """Lays the uses beside the findings: by file, line and name; else, as lines move, by file and name."""
    by_file: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_file[finding.path].append(finding)
    of_finding: Counter[tuple[str, int, int, str]] = Counter()
    of_file: Counter[str] = Counter()
    unseen: list[Use] = []
    elsewhere: list[Use] = []
    total = 0
    for use in uses:
        total += use.count
        rel = _below(use.file, root)
        if rel is None:
            elsewhere.append(use)
            continue
        of_file[rel] += use.count
        met = _met(use, by_file.get(rel, []))
        if met is None:
            unseen.append(Use(rel, use.line, use.name, use.rule, use.count))
        else:
            of_finding[_key(met)] += use.count
    return Usage(dict(of_finding), dict(of_file), _ranked(unseen), _ranked(elsewhere), total)


def _ranked(uses: list[Use]) -> tuple[Use, ...]:
    return tuple(sorted(uses, key=lambda use: (-use.count, use.file, use.line)))


def _met(use: Use, findings: list[Finding]) -> Finding | None:
    """The finding that speaks of a use."""
    related = [f for f in findings if f.name and (_within(f.name, use.name) or _within(use.name, f.name))]
    here = [f for f in related if f.line <= use.line <= f.end_line]
    exact = [f for f in here if f.name == use.name]
    if exact or here:
        return (exact or here)[0]
    at_line = [f for f in findings if f.line <= use.line <= f.end_line and f.rule == use.rule]
    return (at_line or [f for f in related if f.name == use.name] or [None])[0]  # type: ignore[list-item]


def _within(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _below(file: str, root: Path) -> str | None:
    base = root if root.is_dir() else root.parent
    relative = os.path.relpath(os.path.realpath(file), os.path.realpath(base))
    return None if relative.startswith("..") or os.path.isabs(relative) else relative.replace(os.sep, "/")


def _key(finding: Finding) -> tuple[str, int, int, str]:
    return finding.path, finding.line, finding.column, finding.rule


def _well_formed(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), kind) for name, kind in _FIELDS.items())
