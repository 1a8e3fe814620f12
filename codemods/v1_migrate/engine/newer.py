"""Masks syntax that the running Python's `ast` cannot read, at the same length, using libcst's positions."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

_LINE_END = re.compile(r"\r\n|\r|\n")


def mask(text: str, module: cst.Module) -> tuple[str, list[ast.expr]]:
    """The text with f-strings, type parameters and type aliases blanked out, and the f-strings' expressions."""
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    ranges = wrapper.resolve(PositionProvider)
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    finder = _Newer()
    module.visit(finder)
    out = list(text)

    def span(node: cst.CSTNode) -> tuple[int, int]:
        at: CodeRange = ranges[node]
        return starts[at.start.line - 1] + at.start.column, starts[at.end.line - 1] + at.end.column

    expressions: list[ast.expr] = []
    for node in finder.strings:
        start, end = span(node)
        _blank(out, start, end, reads='""')
    for node in finder.expressions:
        start, end = span(node)
        expressions += _expression(text, start, end, starts)
    for node in finder.parameters:
        _blank(out, *span(node))
    for node in finder.aliases:
        start, end = span(node)
        _blank(out, start, end, reads="pass")
    for node in finder.handlers:
        start, end = span(node)
        expressions += _expression(text, start, end, starts)
        _blank(out, start, end, reads="0")
    return "".join(out), expressions


def _blank(out: list[str], start: int, end: int, reads: str = "") -> None:
    """Fill with blanks, keeping line ends; `reads` says what `ast` shall read there instead."""
    for position in range(start, end):
        if out[position] not in "\r\n":
            out[position] = " "
    if reads == '""':
        _as_string(out, start, end)
    elif reads:
        out[start : start + len(reads)] = reads


def _as_string(out: list[str], start: int, end: int) -> None:
    """A blanked region becomes one string literal; over several lines a triple-quoted one."""
    if any(character in "\r\n" for character in out[start:end]):
        out[start : start + 3] = '"""'
        out[end - 3 : end] = '"""'
    else:
        out[start] = out[end - 1] = '"'


def _expression(text: str, start: int, end: int, starts: list[int]) -> list[ast.expr]:
    """One f-string expression, with the positions it has in the file."""
    try:
        tree = ast.parse("(" + text[start:end] + "\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return []
    line = bisect_right(starts, start)
    first_column = len(text[starts[line - 1] : start].encode()) - 1  # less the bracket we added
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.keyword | ast.arg):
            if node.lineno == 1:
                node.col_offset += first_column
            if node.end_lineno == 1 and node.end_col_offset is not None:
                node.end_col_offset += first_column
            node.lineno += line - 1
            if node.end_lineno is not None:
                node.end_lineno += line - 1
    return [tree]


class _Newer(cst.CSTVisitor):
    """Collects what may be newer than the running Python's grammar."""

    def __init__(self) -> None:
        super().__init__()
        self.strings: list[cst.CSTNode] = []
        self.expressions: list[cst.CSTNode] = []
        self.parameters: list[cst.CSTNode] = []
        self.aliases: list[cst.CSTNode] = []
        self.handlers: list[cst.CSTNode] = []

    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        self.strings.append(node)
        self._collect(node.parts)
        return False

    def visit_TemplatedString(self, node: cst.CSTNode) -> bool:
        self.strings.append(node)
        return False

    def _collect(self, parts: object) -> None:
        for part in parts if isinstance(parts, list | tuple) else ():
            if isinstance(part, cst.FormattedStringExpression):
                self.expressions.append(part.expression)

    def visit_TypeParameters(self, node: cst.TypeParameters) -> bool:
        self.parameters.append(node)
        return False

    def visit_TypeAlias(self, node: cst.TypeAlias) -> bool:
        self.aliases.append(node)
        return False

    def visit_ExceptHandler(self, node: cst.ExceptHandler) -> None:
        if isinstance(node.type, cst.Tuple) and not node.type.lpar:
            self.handlers.append(node.type)
