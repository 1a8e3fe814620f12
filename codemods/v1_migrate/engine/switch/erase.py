"""The lines of statements that go, and `pass` where nothing else would be left."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..context import PythonFile
from .draft import Draft
from .lines import Block
from .statements import Statements
from .tokens import Tokens


class Eraser:
    """Plans the lines once every decision is taken."""

    def __init__(self, file: PythonFile, draft: Draft, statements: Statements) -> None:
        self.file = file
        self.draft = draft
        self.tokens: Tokens = draft.tokens
        self.statements = statements

    def emit(self, body: Block, owner: ast.AST) -> None:
        """Plan the lines of everything doomed, and `pass` where a block would be left empty."""
        left = self.statements.remaining(body)
        if not left and body and not isinstance(owner, ast.Module):
            self._hollow(body, owner)
            return
        self._erase(body, isinstance(owner, ast.Module))
        for statement in left:
            for inner in self.statements.blocks(statement):
                self.emit(inner, statement)

    def _hollow(self, body: Block, owner: ast.AST) -> None:
        """Nothing of the block is left: an `else` goes, anything else gets `pass`."""
        for link in self._every_link(owner):
            if (
                link.body is body and link not in self.statements.chains[id(owner)][0]
            ):  # an `elif` that would become the `else`
                self.draft.delete_lines(self.draft.line_of(self.file.span(link)[0]), self.statements.arm_end(body))
                return
        if self._is_else(body, owner):
            colon = self.tokens.before(self.statements.start(body[0]))
            word = self.tokens.table[colon - 1]
            if self.tokens.table[colon].text == ":" and word.text == "else":
                self.draft.delete_lines(self.draft.line_of(word.start), self.statements.arm_end(body))
                return
        first = next(iter(self._going(body)))
        start, end = self.statements.start(first), self.file.span(first)[1]
        self._erase(body, False, spare=first)
        self.draft.replace(start, end, "pass")

    def _every_link(self, owner: ast.AST) -> list[ast.If]:
        return self.statements.links(owner) if isinstance(owner, ast.If) and id(owner) in self.statements.chains else []

    def _is_else(self, body: Block, owner: ast.AST) -> bool:
        chain = self.statements.chains.get(id(owner))
        return body is (chain[1] if chain else getattr(owner, "orelse", None))

    def _going(self, body: Block) -> Iterator[ast.stmt]:
        for statement in body:
            if id(statement) in self.statements.doomed:
                yield statement
            elif id(statement) in self.statements.arms:
                yield from self._going(self.statements.arms[id(statement)])

    def _erase(self, body: Block, top: bool, spare: ast.stmt | None = None) -> None:
        for position, statement in enumerate(body):
            given_way = id(statement) in self.statements.arms and id(statement) not in self.statements.doomed
            if given_way and not self.statements.remaining([statement]) and spare is None:
                self._erase_one(body, position, top)
            elif given_way:
                self._erase(self.statements.arms[id(statement)], top, spare)
            elif id(statement) in self.statements.doomed and statement is not spare:
                self._erase_one(body, position, top)

    def _erase_one(self, body: Block, position: int, top: bool) -> None:
        draft, statement = self.draft, body[position]
        start, end = self.statements.start(statement), self.file.span(statement)[1]
        first, last = draft.line_of(start), draft.line_of(end)
        beside = [
            other
            for other in body
            if draft.line_of(self.file.span(other)[1]) == last or self.statements.first_line(other) == first
        ]
        alone = draft.blank_before(start) and draft.blank_behind(end)
        if alone or (
            all(id(other) in self.statements.doomed for other in beside)
            and draft.blank_before(self.statements.start(beside[0]))
        ):
            if isinstance(statement, ast.If | ast.While | ast.With | ast.FunctionDef | ast.AsyncFunctionDef):
                last = self.statements.last_line(statement)
            draft.delete_lines(first - draft.remarks_above(first), last, tight=position == 0 and not top)
        elif position + 1 < len(body) and body[position + 1] in beside:
            draft.delete(start, self.statements.start(body[position + 1]))
        elif position and body[position - 1] in beside:
            draft.delete(self.file.span(body[position - 1])[1], end)
        else:
            draft.replace(start, end, "pass")
