"""What a rule is."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar

from ..findings import Finding, Safety, Severity

if TYPE_CHECKING:
    from ..engine.context import PythonFile, TextFile
    from ..engine.occurrence import Occurrence


class Phase(IntEnum):
    """When a rule runs. Each phase looks at the text that the one before left."""

    DEAD_CODE = 0  # what V1 makes dead goes first
    CALLS = 1  # arguments and signatures, while names still say which release they are written for
    NAMES = 2  # rules claim occurrences of names
    AFTER = 3  # what is left: words


class Rule:
    """One kind of thing to say about a file.

    A rule either claims occurrences of vllm names (`claims` and `word`), or looks for something of its own (`check`,
    `check_text`), or both. Its module's docstring is its page: what it finds, why, an example, how safe the edit is.
    """

    id: ClassVar[str] = ""  # "V1M001"
    slug: ClassVar[str] = ""  # "moved-name"
    summary: ClassVar[str] = ""  # one line, without a full stop
    severity: ClassVar[Severity] = Severity.ERROR
    safety: ClassVar[Safety] = Safety.MANUAL  # the best that its edits can be
    phase: ClassVar[Phase] = Phase.NAMES
    folds: ClassVar[bool] = False  # its edits may take away names that nothing reads any more
    of_the_text: ClassVar[bool] = False  # what it says of a name gives way to what the edited text says
    order: ClassVar[int] = 50  # claims are asked in this order, lowest first

    def claims(self, occurrence: Occurrence) -> bool:
        """This rule is the one to speak about the occurrence."""
        return False

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        """Put a claimed occurrence into words."""
        raise NotImplementedError(f"{self.id} claims occurrences without wording them")

    def check(self, file: PythonFile) -> Iterator[Finding]:
        """Findings about a Python file that are no occurrences of names."""
        return iter(())

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        """Findings about a file that is not Python."""
        return iter(())

    @property
    def page(self) -> str:
        """The rule's page, relative to the repository."""
        return f"docs/rules/{self.id}.md"

    @property
    def doc(self) -> str:
        """The page's text in Markdown, without its title."""
        return inspect.cleandoc(inspect.getmodule(type(self)).__doc__ or "")
