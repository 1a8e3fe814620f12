"""One place that names something of vLLM, and what the finders of such places share."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..findings import Edit
from .both import needs_guard
from .context import PythonFile
from .references import Role
from .release_tests import taken_arm, version_guard
from .scopes import Path
from .tree import attributes_set
from .verdicts import Verdict

Form = Literal["import", "chain", "string", "text", "computed", "path", "attribute", "comment"]


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """One place that names something the target lacks, or has with another contract."""

    verdict: Verdict
    start: int
    end: int
    form: Form
    role: Role
    guard: str = ""  # why the old name is there on purpose: "twin", "version", "package", "probe", "trial"; or "taken"
    primary: bool = True
    edits: tuple[Edit, ...] = ()
    destination: str = ""  # import: what to import instead, when that is decided
    module: bool = False  # import: of a module, whose destination is decided by what the file uses of it
    sets: bool = False  # an assignment to it, which works though the name is not there, or a read of what the tree sets
    reason: str = ""  # why a movable name is not moved here
    roles: frozenset[Role] = frozenset()  # import: all that the name is used for in this file
    in_trial: bool = False  # import: stands in a `try` that would swallow the failure

    @property
    def dotted(self) -> str:
        return self.verdict.dotted


Claim = Callable[[Occurrence], str]  # the id of the rule that speaks about an occurrence


class Finder:
    """Finds some of a file's occurrences, into `out`."""

    def __init__(self, file: PythonFile, claim: Claim) -> None:
        self.file = file
        self.judge = file.judge.judge
        self.claim = claim
        self.out: list[Occurrence] = []

    def own(self, verdict: Verdict) -> bool:
        """A fork's own name, which no release of vLLM ever had."""
        return verdict.fate == "alien" and self.file.tree.is_vllm and self.file.tree.defines(verdict.dotted)

    def set_by_tree(self, verdict: Verdict) -> bool:
        """An attribute of the tree's own, which some file of it sets on something that the target has."""
        if verdict.fate != "alien":
            return False
        owner, _, name = verdict.symbol.rpartition(".")
        there = self.file.judge.index.resolve(owner, self.file.judge.target).found
        return bool(there) and (name in attributes_set(self.file.source.text) or self.file.tree.sets(name))

    def may_edit(self, occurrence: Occurrence) -> bool:
        rule = self.claim(occurrence)
        return bool(rule) and self.file.allowed(rule, occurrence.verdict.symbol)

    def guard_around(self, path: Path | None, node: ast.AST) -> str:
        """ "version" where a test of the release keeps the target away, "taken" where it leads there.

        "package" where the file is in a package for an older release.
        """
        if self.file.for_release:
            return "package"
        if version_guard(self.file, path, node):
            return "version"
        return "taken" if taken_arm(self.file, path) else ""

    def serves_one(self, old: str, new: str) -> bool:
        """With `--also`: the new name is not on that release, the old one is."""
        also = self.file.settings.also
        return bool(also) and needs_guard(self.file.judge.index, old, new, also)
