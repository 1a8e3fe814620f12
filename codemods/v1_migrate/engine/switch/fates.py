"""What becomes of the statements of a file: which go, which give way to one of their blocks, and what is left then."""

from __future__ import annotations

import ast

from ..context import PythonFile
from .draft import Draft
from .lines import BLOCKS, Block, Lines
from .values import pure


class Fates(Lines):
    """Keeps what was decided; the lines of what gives way are planned at once, those of what goes at the end."""

    def __init__(self, file: PythonFile, draft: Draft) -> None:
        super().__init__(file, draft)
        self.doomed: set[int] = set()  # statements that go
        self.doomed_spans: list[tuple[int, int]] = []
        self.arms: dict[int, Block] = {}  # statements that give way to these
        self.chains: dict[int, tuple[list[ast.If], Block]] = {}  # if-chains: arms that stay, and the last block

    def doom(self, statement: ast.stmt) -> None:
        """The statement goes, with all that is in it."""
        self.doomed.add(id(statement))
        self.doomed_spans.append((self.start(statement), self.file.span(statement)[1]))

    def gone(self, node: ast.AST) -> bool:
        """Nothing of the node will be left."""
        return self.gone_text(*self.file.span(node))

    def gone_text(self, start: int, end: int) -> bool:
        """Nothing of text[start:end] will be left."""
        return any(low <= start and end <= high for low, high in self.doomed_spans) or self.draft.gone(start, end)

    def unwrap(self, statement: ast.stmt, arm: Block, instead: tuple[int, int, str] | None = None) -> None:
        """Plan the lines for a statement that gives way to one of its blocks.

        `instead`: what is written for the statement's header, which has one line.
        """
        draft = self.draft
        self.arms[id(statement)] = arm
        first = draft.line_of(self.file.span(statement)[0])
        last = self.last_line(statement)
        colon = self._colon_before(arm)
        header = draft.line_of(colon)
        start = self.first_line(arm[0])
        outer = draft.indentation(first)
        if start == header:  # `if x: pass`
            draft.delete(self.file.span(statement)[0], self.file.span(arm[0])[0])
            draft.delete_lines(self.arm_end(arm) + 1, last)
            return
        if instead is not None:
            draft.replace(*instead)
            if header > first:  # the other block, and `else:`
                draft.delete_lines(first + 1, header, tight=True)
        above = draft.remarks_above(first) if isinstance(statement, ast.With | ast.AsyncWith) else 0
        if instead is None:
            draft.delete_lines(first - above, header - 1 if self._comment_stays(header) else header, tight=True)
        end = self.arm_end(arm)
        draft.shift(header + 1, end, outer, draft.indentation(start))
        draft.delete_lines(end + 1, last)

    def remaining(self, body: Block) -> list[ast.stmt]:
        """The statements of a block that stay, those of unwrapped ones included."""
        left: list[ast.stmt] = []
        for statement in body:
            if id(statement) in self.doomed:
                continue
            arm = self.arms.get(id(statement))
            left += [statement] if arm is None else self.remaining(arm)
        return left

    def blocks(self, statement: ast.stmt) -> list[Block]:
        """The blocks of a statement that stay with it."""
        if id(statement) in self.chains:
            kept, tail = self.chains[id(statement)]
            return [*(link.body for link in kept), tail]
        found: list[Block] = [getattr(statement, name, None) or [] for name in BLOCKS]
        parts = (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
        return [*found, *(part.body for part in parts)]

    def settle(self, body: Block) -> bool:
        """Doom what its emptied blocks make superfluous; True when that doomed something."""
        changed = False
        for statement in self.remaining(body):
            for inner in self.blocks(statement):
                changed |= self.settle(inner)
            if isinstance(statement, ast.If) and self._vain(statement):
                self.doom(statement)
                changed = True
        return changed

    def _vain(self, statement: ast.If) -> bool:
        """All arms became empty, and the tests have no effect of their own."""
        blocks = [block for block in self.blocks(statement) if block]
        links = self.chains[id(statement)][0] if id(statement) in self.chains else [statement]
        return not any(self.remaining(block) for block in blocks) and all(pure(link.test) for link in links)
