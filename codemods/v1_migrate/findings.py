"""What a rule says: a finding, and the edits that would settle it.

Everything a user sees (diff, JSON, SARIF, the plan, the exit code) is a view of a list of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How bad the line is on the target release if nobody touches it."""

    ERROR = "error"  # breaks
    WARNING = "warning"  # runs, and means something else
    INFO = "info"  # deliberate compatibility code, or advice


class Safety(StrEnum):
    """What may be assumed of a finding's edits."""

    BRIDGE = "bridge"  # the result runs on V0 and on V1
    V1 = "v1"  # safe, and V1 only
    UNSAFE = "unsafe"  # probably meant, behaviour may differ: only with --unsafe
    MANUAL = "manual"  # no edit: a person decides


class Effort(StrEnum):
    """How long a person needs for what is left."""

    NONE = "none"  # an edit settles it
    MINUTES = "minutes"
    HOURS = "hours"
    DAYS = "days"


Span = tuple[int, int, int, int]  # line, column, end line, end column, as in a finding


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace text[start:end], which must read `expected`. Offsets count characters of the decoded file."""

    start: int
    end: int
    expected: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to say about one place of one file."""

    path: str  # relative to the PATH of the command line, with forward slashes
    line: int  # 1-based
    column: int  # 1-based, in characters
    end_line: int
    end_column: int  # exclusive
    rule: str  # "V1M001"
    message: str  # one sentence: what is wrong; never starts with the rule's id
    severity: Severity
    safety: Safety = Safety.MANUAL
    effort: Effort = Effort.MINUTES
    advice: str = ""  # what to do; may be several sentences
    name: str = ""  # the dotted vllm name this is about, if it is about one
    primary: bool = True  # False: a further use of a name that another finding of this file introduces
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    fixed: bool = False  # the edits were written (or would be, under --diff and --check)
    edited: tuple[Span, ...] = ()  # where they are; an import that only folded code needed stands far from the finding

    @property
    def open(self) -> bool:
        """Still to do, and worth a non-zero exit code."""
        return not self.fixed and self.severity is not Severity.INFO
