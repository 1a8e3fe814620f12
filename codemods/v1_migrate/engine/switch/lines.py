"""Where statements and blocks stand, in offsets and lines, with the decorators and comments that belong to them."""

from __future__ import annotations

import ast

from ..context import PythonFile
from .draft import Draft, of_the_switch
from .tokens import Tokens

Block = list[ast.stmt]
BLOCKS = ("body", "orelse", "finalbody")


class Lines:
    """Answers for one file."""

    def __init__(self, file: PythonFile, draft: Draft) -> None:
        self.file = file
        self.draft = draft
        self.tokens: Tokens = draft.tokens

    def start(self, statement: ast.stmt) -> int:
        """Offset of the statement, its first decorator included."""
        start, _ = self.file.span(statement)
        decorators = getattr(statement, "decorator_list", None)
        if decorators:
            at = self.tokens.before(self.tokens.parenthesized(*self.file.span(decorators[0]))[0])
            return self.tokens.table[at].start
        return start

    def first_line(self, statement: ast.stmt) -> int:
        """First line, decorators included."""
        return self.draft.line_of(self.start(statement))

    def last_line(self, statement: ast.stmt) -> int:
        """Last line of a statement, with the comments that belong to its blocks."""
        tails: list[int] = [self.draft.line_of(self.file.span(statement)[1])]
        for name in BLOCKS:
            body = getattr(statement, name, None)
            if body:
                tails.append(self.arm_end(body))
        return max(tails)

    def arm_end(self, body: Block) -> int:
        """The last line of a block, with the comments behind it that are indented as it is."""
        draft = self.draft
        line = end = draft.line_of(max(self.file.span(body[-1])[1] - 1, 0))
        if not draft.blank_before(self.start(body[0])):  # `if x: a` on one line
            return end
        inner = draft.indentation(self.first_line(body[0]))
        while draft.blank(line + 1) or (draft.comment_only(line + 1) and draft.indentation(line + 1) >= inner):
            line += 1
            if line >= len(draft.source.line_starts):
                break
            if draft.comment_only(line):
                end = line
        return end

    def _colon_before(self, arm: Block) -> int:
        index = self.tokens.before(self.start(arm[0]))
        return self.tokens.table[index].start

    def _comment_stays(self, header: int) -> bool:
        """The comment behind `if V1:` or `else:` gets the line to itself, unless it only speaks of the switch."""
        draft = self.draft
        start, end = self.tokens.comments.get(header, (0, 0))
        if start == end or of_the_switch(self.file.source.text[start:end]):
            return False
        draft.delete(draft.line_start(header) + draft.indentation(header), start)
        return True
