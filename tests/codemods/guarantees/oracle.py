"""Silent misses: names the target release lacks, still in a tree after the rewrite, with no finding on their line.

Told from the releases' own source, by `ast`, with no part of `v1_migrate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from guarantees.references import Reference, references
from guarantees.release import Has, Release

LAST_V0 = "0.9.2"  # the last release with the V0 CPU engine
WIDE = 40  # a finding over more lines than this points at a file, not at a place


@dataclass(frozen=True, slots=True)
class Place:
    """A reference in a file of a tree."""

    path: str
    reference: Reference

    def __str__(self) -> str:
        return f"{self.path}:{self.reference.line}: {self.reference.name} ({self.reference.form})"


@dataclass(slots=True)
class Verdict:
    """What the checker found in one tree."""

    files: int = 0
    stale: int = 0  # references the target lacks, reported or not
    misses: list[Place] = field(default_factory=list)  # ... with no finding on their line
    uses: list[Place] = field(
        default_factory=list
    )  # uses of a name whose stale import stands elsewhere, with no finding
    wide: list[Place] = field(default_factory=list)  # covered, but only by a finding on more than WIDE lines
    unreadable: list[tuple[str, bool]] = field(default_factory=list)  # (file the running ast refuses, has a finding)


class Names:
    """What the target has, and what any older release had."""

    def __init__(self, target: Release, olds: Iterable[Release], tree: Release | None = None) -> None:
        self.target = target
        self.olds = list(olds)
        self.tree = tree  # the tree itself, where it defines `vllm`: its own additions are not stale
        self.stale = cache(self._stale)
        self.existed = cache(self._existed)

    def _existed(self, name: str) -> bool:
        return any(old.has(name, True) is Has.YES for old in self.olds)

    def lost_at(self, name: str, typing: bool) -> str:
        """The shortest leading part of `name` that the target lacks, "" if it may have all of it."""
        if self.target.has(name, typing) is not Has.NO:
            return ""
        parts = name.split(".")
        heads = (".".join(parts[:count]) for count in range(2, len(parts) + 1))
        return next(head for head in heads if self.target.has(head, typing) is Has.NO)

    def _stale(self, reference: Reference) -> bool:
        """Does this line break, or silently do nothing, on the target?"""
        name = reference.name
        lost = self.lost_at(name, reference.typing)
        if not lost:
            return False
        if self.tree is not None and not self.existed(lost) and self.tree.has(lost, True) is not Has.NO:
            return False
        if reference.form in {"from", "import", "star"}:
            return True
        if reference.form == "string":
            return self.existed(lost) and any(old.has(name, True) is not Has.NO for old in self.olds)
        broken_read = not reference.store and bool(self.target.module_kind(lost.rpartition(".")[0]))
        return broken_read or self.existed(lost)

    def is_use(self, reference: Reference) -> bool:
        """A mere use of a name that a stale import of the same file brings in."""
        if reference.form in {"from", "import", "star", "string"}:
            return False
        if reference.form == "use":
            return True
        lost = self.lost_at(reference.name, reference.typing)
        return len(lost) <= len(reference.root) and not self._is_module(reference.root)

    def _is_module(self, name: str) -> bool:
        return any(old.module_kind(name) for old in self.olds)


def version_key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))


def load(releases: Path, target: str, tree: Path | None = None) -> Names:
    """Names for a target from a folder with a sub-folder per release.

    Raises FileNotFoundError, naming what is there, where the target has no folder.
    """
    found = {path.name: path for path in releases.iterdir() if (path / "vllm").is_dir()}
    if target not in found:
        raise FileNotFoundError(
            f"no release {target} in {releases}; there are {', '.join(sorted(found, key=version_key))}"
        )
    older = [name for name in found if version_key(name) < version_key(target) and "post" not in name]
    older.sort(key=lambda name: (name != LAST_V0, [-part for part in version_key(name)]))  # most names are found there
    olds = [Release(found[name]) for name in older]
    return Names(Release(found[target]), olds, fork(tree) if tree else None)


def releases_folder() -> Path | None:
    """Where V1_MIGRATE_RELEASES says the release trees are."""
    folder = os.environ.get("V1_MIGRATE_RELEASES")
    return Path(folder) if folder else None


def fork(tree: Path) -> Release | None:
    """The package `vllm` that a tree defines, if it does: a folder of that name that holds vLLM's own parts."""
    for init in sorted(tree.glob("**/vllm/__init__.py"), key=lambda path: len(path.parts)):
        root = init.parent.parent
        parts = ("engine", "model_executor", "config.py", "config", "entrypoints", "sampling_params.py")
        if not (root / "__init__.py").exists() and sum((init.parent / part).exists() for part in parts) >= 4:
            return Release(root)
    return None


def python_files(tree: Path) -> Iterator[Path]:
    for path in sorted(tree.rglob("*.py")):
        if path.is_file() and ".git" not in path.parts:
            yield path


def package_of(path: Path, own: Release | None) -> str:
    """The package a file of a fork lies in, "" elsewhere (relative imports there are the user's own)."""
    if own is None or own.root / "vllm" not in path.parents:
        return ""
    return ".".join(path.parent.relative_to(own.root).parts)


Findings = dict[str, list[dict[str, Any]]]


def by_path(report: dict[str, Any]) -> Findings:
    grouped: Findings = {}
    for finding in report["findings"]:
        grouped.setdefault(finding["path"], []).append(finding)
    return grouped


def speaking(findings: Iterable[dict[str, Any]], reference: Reference) -> list[dict[str, Any]]:
    """The findings on a reference's lines that are still open: one that was fixed says nothing of what is left."""
    return [f for f in covering(findings, reference.line, reference.end_line) if not f["fixed"]]


def covering(findings: Iterable[dict[str, Any]], first: int, last: int) -> list[dict[str, Any]]:
    """The findings that stand on any of these lines."""
    return [f for f in findings if f["line"] <= last and (f.get("end_line") or f["line"]) >= first]


def check(tree: Path, report: dict[str, Any], names: Names) -> Verdict:
    """Judge a tree as it stands after a run, by the run's own report."""
    verdict = Verdict()
    findings = by_path(report)
    for path in python_files(tree):
        source = path.read_bytes()
        package = package_of(path, names.tree)
        if b"vllm" not in source and not package:
            continue
        verdict.files += 1
        where = path.relative_to(tree).as_posix()
        try:
            found = references(source, package)
        except (SyntaxError, ValueError, RecursionError):
            verdict.unreadable.append((where, where in findings))
            continue
        for reference in found:
            if names.stale(reference):
                _judge(verdict, names, Place(where, reference), findings.get(where, []))
    return verdict


def _judge(verdict: Verdict, names: Names, place: Place, findings: list[dict[str, Any]]) -> None:
    use = names.is_use(place.reference)
    verdict.stale += not use
    covered = speaking(findings, place.reference)
    if not covered:
        (verdict.uses if use else verdict.misses).append(place)
    elif not use and all((f.get("end_line") or f["line"]) - f["line"] > WIDE for f in covered):
        verdict.wide.append(place)
