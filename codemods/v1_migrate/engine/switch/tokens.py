"""A file's tokens by their offset in the text: brackets, comments, and the lines that begin inside a string."""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import NamedTuple

from ...source import Source

_LAYOUT = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENDMARKER}
_STRING_START, _STRING_END = (  # f-strings are tokens of several parts from Python 3.12 on
    {number for number, name in tokenize.tok_name.items() if name.endswith(end)}
    for end in ("STRING_START", "STRING_END")
)
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


class Token(NamedTuple):
    """One token that is neither layout nor comment."""

    text: str
    start: int
    end: int


class Item(NamedTuple):
    """One part of a comma-separated list."""

    start: int
    end: int
    comma: int  # offset of the comma behind it, -1 without one


class Tokens:
    """Tokens of a text that `ast` has parsed."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._table: list[Token] = []
        self._comments: dict[int, tuple[int, int]] = {}
        self._literal_lines: set[int] = set()

    @property
    def table(self) -> list[Token]:
        """All tokens, in order. Read when first asked for: most files need none."""
        if not self._table:
            self._read()
        return self._table

    @property
    def comments(self) -> dict[int, tuple[int, int]]:
        """Line -> span of its comment."""
        return self._comments if self.table else {}

    @property
    def literal_lines(self) -> set[int]:
        """Lines that begin inside a string literal."""
        return self._literal_lines if self.table else set()

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.table]

    @cached_property
    def _ends(self) -> list[int]:
        return [token.end for token in self.table]

    def _read(self) -> None:
        lines = self.source.line_starts
        text = "\n".join(self.source.line(number + 1) for number in range(len(lines)))
        starts = [*lines, len(self.source.text)]  # the end marker stands behind the last line
        inside: list[int] = []
        add = self._table.append
        for kind, string, (line, column), (last, end), _ in tokenize.generate_tokens(
            io.StringIO(text, newline="\n").readline
        ):
            if kind in _LAYOUT:
                if kind == tokenize.COMMENT:
                    start = starts[line - 1] + column
                    self._comments[line] = (start, start + len(string))
                continue
            if kind in _STRING_START:
                inside.append(line)
            elif kind in _STRING_END or kind == tokenize.STRING:
                first = inside.pop() if kind != tokenize.STRING and inside else line
                self._literal_lines.update(range(first + 1, last + 1))
            add(Token(string, starts[line - 1] + column, starts[last - 1] + end))

    def at(self, offset: int) -> int:
        """Index of the first token that starts at `offset` or behind."""
        return bisect_left(self._starts, offset)

    def before(self, offset: int) -> int:
        """Index of the last token that ends at `offset` or before; -1 without one."""
        return bisect_right(self._ends, offset) - 1

    def parenthesized(self, start: int, end: int, outer: tuple[int, int] | None = None) -> tuple[int, int]:
        """The span with the parentheses that belong to it alone, not reaching out of `outer`."""
        low, high = outer or (0, len(self.source.text))
        first, last = self.at(start), self.before(end)
        while first > 0 and last + 1 < len(self.table):
            left, right = self.table[first - 1], self.table[last + 1]
            if left.text != "(" or right.text != ")" or left.start < low or right.end > high:
                break
            first, last = first - 1, last + 1
        return self.table[first].start, self.table[last].end

    def closing(self, opening: int) -> int:
        """Index of the bracket that closes the one at index `opening`."""
        depth = 0
        for index in range(opening, len(self.table)):
            text = self.table[index].text
            depth += (text in _OPEN) - (text in _CLOSE)
            if depth == 0:
                return index
        return len(self.table) - 1

    def items(self, first: int, stop: int) -> list[Item]:
        """The comma-separated parts between the tokens `first` (inclusive) and `stop` (exclusive)."""
        found: list[Item] = []
        depth, start = 0, -1
        for index in range(first, stop):
            token = self.table[index]
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if token.text == "," and depth == 0:
                found.append(Item(start, self.table[index - 1].end, token.start))
                start = -1
            elif start < 0:
                start = token.start
        if start >= 0:
            found.append(Item(start, self.table[stop - 1].end, -1))
        return found

    def colon(self, offset: int) -> Token:
        """The colon that ends a block's header, looking from `offset` on (which may be inside parentheses)."""
        depth = 0
        lambdas = 0
        for index in range(self.at(offset), len(self.table)):
            token = self.table[index]
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if depth <= 0 and token.text == "lambda":
                lambdas += 1
            if token.text == ":" and depth <= 0:
                if not lambdas:
                    return token
                lambdas -= 1
        raise ValueError(f"no block starts behind offset {offset}")
