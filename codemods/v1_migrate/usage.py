"""What `V1_COMPAT=report` wrote down: which legacy names a program really used, joined with what was found by reading.

The file has one JSON object per line, from as many processes and runs as appended to it; of one process and place the
largest number counts.
"""

from __future__ import annotations

import ast
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .findings import Finding

_Lines = tuple[int, int]  # first and last
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
    """Lays the uses beside the findings: by file, statement and name; else, as lines move, by file and name.

    Of a statement over several lines, a program that runs is at one line, and reading points at another.
    """
    by_file: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_file[finding.path].append(finding)
    of_finding: Counter[tuple[str, int, int, str]] = Counter()
    of_file: Counter[str] = Counter()
    unseen: list[Use] = []
    elsewhere: list[Use] = []
    statements: dict[str, list[_Lines]] = {}
    total = 0
    for use in uses:
        total += use.count
        rel = _below(use.file, root)
        if rel is None:
            elsewhere.append(use)
            continue
        of_file[rel] += use.count
        if rel not in statements:
            statements[rel] = _statements(_base(root) / rel)
        met = _met(use, by_file.get(rel, []), statements[rel])
        if met is None:
            unseen.append(Use(rel, use.line, use.name, use.rule, use.count))
        else:
            of_finding[_key(met)] += use.count
    return Usage(dict(of_finding), dict(of_file), _ranked(unseen), _ranked(elsewhere), total)


def _ranked(uses: list[Use]) -> tuple[Use, ...]:
    return tuple(sorted(uses, key=lambda use: (-use.count, use.file, use.line)))


def _met(use: Use, findings: list[Finding], statements: list[_Lines]) -> Finding | None:
    """The finding that speaks of a use: the nearest of those that say the most alike."""
    first, last = min(
        (lines for lines in statements if lines[0] <= use.line <= lines[1]),
        key=lambda lines: lines[1] - lines[0],
        default=(use.line, use.line),
    )
    best: tuple[tuple[int, bool, bool, int], Finding] | None = None
    for finding in findings:
        at_line = finding.line <= use.line <= finding.end_line
        near = at_line or (finding.line <= last and finding.end_line >= first)
        likeness = _likeness(use, finding, at_line, near)
        if likeness is not None:
            away = 0 if at_line else abs(finding.line - use.line)
            key = (likeness, finding.rule != use.rule, finding.line < use.line, away)
            best = (key, finding) if best is None or key < best[0] else best
    return best[1] if best is not None else None


def _likeness(use: Use, finding: Finding, at_line: bool, near: bool) -> int | None:
    """How sure it is that a finding speaks of a use, 0 for the most; None if it does not."""
    exact = finding.name == use.name
    if exact and near:
        return 0 if at_line else 1
    if near and finding.name and (_within(finding.name, use.name) or _within(use.name, finding.name)):
        return 2 if at_line else 3
    if finding.rule == use.rule and near and finding.name.rpartition(".")[2] == use.name.rpartition(".")[2]:
        return 4  # `vllm.EngineArgs` and `vllm.engine.arg_utils.EngineArgs`
    if finding.rule == use.rule and at_line:
        return 5
    return 6 if exact else None


def _statements(path: Path) -> list[_Lines]:
    """First and last lines of a file's statements; of those with a body, what stands above it, decorators included."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []  # no Python; the line itself counts
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            inner = body[0] if body else None
            last = (node.end_lineno or node.lineno) if inner is None else max(node.lineno, _start(inner) - 1)
            found.append((_start(node), last))
    return found


def _start(node: ast.AST) -> int:
    """The first line, of a decorator if there is one."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", None) or []
    head = node.pattern if isinstance(node, ast.match_case) else node
    lines: list[int] = [getattr(each, "lineno", 1) for each in (head, *decorators)]
    return min(lines)


def _within(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _base(root: Path) -> Path:
    return root if root.is_dir() else root.parent


def _below(file: str, root: Path) -> str | None:
    relative = os.path.relpath(os.path.realpath(file), os.path.realpath(_base(root)))
    return None if relative.startswith("..") or os.path.isabs(relative) else relative.replace(os.sep, "/")


def _key(finding: Finding) -> tuple[str, int, int, str]:
    return finding.path, finding.line, finding.column, finding.rule


def _well_formed(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), kind) for name, kind in _FIELDS.items())
