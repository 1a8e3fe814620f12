"""A finished run as data, and the numbers that every view of it shows."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from ..discover import Skipped
from ..findings import Effort, Finding, Severity
from ..usage import Usage


@dataclass(frozen=True, slots=True)
class Report:
    """What one run found and did. `findings` are sorted by place; their lines are those after the run."""

    command: str  # "rewrite", "plan" or "verify"
    path: str  # PATH as the user wrote it
    root: Path
    target: str
    target_origin: str  # why this target: "--target", "newest known release", ...
    attention: str
    files: int
    findings: tuple[Finding, ...] = ()
    lines: dict[tuple[str, int], str] = field(default_factory=dict)  # the source line of each finding
    rewritten: dict[str, int] = field(default_factory=dict)  # file -> number of edits
    written: bool = False  # False under --diff, --check and for commands that never write
    skipped: tuple[Skipped, ...] = ()
    pins: tuple[str, ...] = ()  # what the tree itself asks for: "pyproject.toml: vllm==0.9.2"
    suppressed: int = 0
    baselined: int = 0
    notes: tuple[str, ...] = ()
    next_command: str = ""
    usage: Usage | None = None  # of `plan --usage`

    @property
    def open(self) -> tuple[Finding, ...]:
        """Errors and warnings that are left."""
        return tuple(finding for finding in self.findings if finding.open)

    @property
    def left(self) -> tuple[Finding, ...]:
        """Everything that no edit settled, advice included."""
        return tuple(finding for finding in self.findings if not finding.fixed)

    @property
    def exit_code(self) -> int:
        """0: nothing to do; 1: errors or warnings left, or something that should have been read was not."""
        would_change = bool(self.rewritten) and not self.written and self.command == "rewrite"
        return int(bool(self.open) or would_change or any(skipped.failed for skipped in self.skipped))

    def shown(self, rel: str) -> str:
        """A file as it is called from where the command was given, so that a terminal or an editor can open it."""
        if os.path.basename(self.path) == rel and not os.path.isdir(self.path):
            return self.path
        return os.path.normpath(os.path.join(self.path, rel))

    def by_severity(self) -> dict[Severity, int]:
        counts = Counter(finding.severity for finding in self.left)
        return {severity: counts[severity] for severity in Severity}

    def by_effort(self) -> dict[Effort, int]:
        """Open findings by effort. Further uses of a name cost nothing: whoever settles the first one settles them."""
        counts = Counter(finding.effort for finding in self.open if finding.primary)
        return {effort: counts[effort] for effort in Effort if effort is not Effort.NONE}

    def skipped_reasons(self) -> dict[str, int]:
        return dict(Counter(skipped.reason for skipped in self.skipped).most_common())


def plural(count: int, noun: str) -> str:
    """ "1 file", "2 files", "3 entries"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{count:,} {noun}s"
