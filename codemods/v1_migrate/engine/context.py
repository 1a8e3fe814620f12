"""What a rule gets to see of one file."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cached_property

from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.releases import sort_key
from ..source import Source
from .parse import Parsed
from .references import Reference, References
from .scopes import Model
from .tree import Tree
from .verdicts import Judge
from .walk import walk

V0_GONE = "0.11.0"  # the first release in which no engine uses V0's modules
_OF_RELEASE = re.compile(r"vllm_?v?_?(\d+_\d+(?:_\d+)?)")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was asked to do, as far as it changes what is found in a file."""

    target: str
    attention: str = "vllm"
    unsafe: bool = False
    select: frozenset[str] = frozenset()  # empty: all rules
    ignore: frozenset[str] = frozenset()
    also: str = ""  # a release that the code must go on to serve, too
    bridge: bool = False  # ... and what no edit serves there goes to v1_compat.bridge

    def selected(self, rule: str) -> bool:
        """The rule takes part; ids may be given as prefixes ("V1M0")."""
        if any(rule.startswith(prefix) for prefix in self.ignore):
            return False
        return not self.select or any(rule.startswith(prefix) for prefix in self.select)


class AnyFile:
    """What files of every kind have. Offsets count characters of `source.text`."""

    source: Source
    tree: Tree
    judge: Judge
    settings: Settings
    blocked: frozenset[str]  # names that a suppression keeps as they are

    def allowed(self, rule: str, name: str) -> bool:
        """The rule takes part, and no suppression in the file holds on to the name."""
        return self.settings.selected(rule) and name not in self.blocked

    def finding(
        self,
        rule: str,
        start: int,
        end: int,
        message: str,
        severity: Severity,
        *,
        safety: Safety = Safety.MANUAL,
        effort: Effort = Effort.MINUTES,
        advice: str = "",
        name: str = "",
        primary: bool = True,
        edits: tuple[Edit, ...] = (),
    ) -> Finding:
        """A finding about text[start:end]."""
        line, column = self.source.position(start)
        end_line, end_column = self.source.position(end)
        return Finding(
            self.source.rel,
            line,
            column,
            end_line,
            end_column,
            rule,
            message,
            severity,
            safety,
            Effort.NONE if edits else effort,
            advice,
            name,
            primary,
            edits,
        )


@dataclass
class PythonFile(AnyFile):
    """One Python file under inspection."""

    source: Source
    tree: Tree
    module: str  # dotted name of this file
    package: str  # where its relative imports start
    parsed: Parsed
    judge: Judge
    settings: Settings
    blocked: frozenset[str] = frozenset()
    plans: dict[object, object] = field(default_factory=dict, repr=False)  # what rules that plan together share

    @cached_property
    def model(self) -> Model:
        """Scopes, uses and nodes: walked when first asked for, since the last text of an edited file may need none."""
        return walk(self.parsed.tree, self.parsed.extra)

    @cached_property
    def references(self) -> References:
        """Imports of vLLM and the uses of what they bind."""
        return References(self.model, self.package, bridged=not self.settings.bridge)

    def forget(self) -> None:
        """Let go of what refers back to itself, so that the memory is free without a search for garbage."""
        if "model" in self.__dict__:
            self.model.forget()
        self.__dict__.clear()

    @cached_property
    def removed(self) -> bool:
        """The file is one of vLLM's own modules that the target does not have."""
        return (
            self.module.startswith("vllm.")
            and self.judge.known(self.module)
            and self.judge.judge(self.module).missing
            and self.module in self.tree.own
        )

    @cached_property
    def legacy(self) -> bool:
        """The file is a module of V0 itself: it is spoken of and not edited.

        A module that was removed later served V1 as well; until it goes, its imports are as good as any other's.
        """
        return self.removed and not self.judge.index.resolve(self.module, V0_GONE).found

    @cached_property
    def for_release(self) -> str:
        """The older release that the file is for, as a package around it says (`vllm_v_0_6_3`); "" for none."""
        for part in self.module.split("."):
            written = _OF_RELEASE.fullmatch(part)
            release = written[1].replace("_", ".") if written else ""
            if release and sort_key(release) < sort_key(self.judge.target):
                return release
        return ""

    @cached_property
    def by_node(self) -> dict[int, list[Reference]]:
        """References by the identity of their node."""
        found: dict[int, list[Reference]] = {}
        for reference in self.references.uses:
            found.setdefault(id(reference.node), []).append(reference)
        return found

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offset of a node that has a position."""
        start = self.source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self.source.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return start, end


@dataclass
class TextFile(AnyFile):
    """One file that is not Python."""

    source: Source
    tree: Tree
    kind: str  # discover.Kind
    judge: Judge
    settings: Settings
    blocked: frozenset[str] = frozenset()
