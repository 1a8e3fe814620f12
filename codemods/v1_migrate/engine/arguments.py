"""The parenthesised list of a call or a definition as text: name, rename, drop, replace and add items in place.

The items come from the tokenizer, and each must hold exactly one node of the tree; a list that cannot be taken apart
that way is left alone. Comments and line breaks stay with the items that stay.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..findings import Edit
from ..source import Source

_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Item:
    """One item: its text without blanks, comments and comma; where its comma ends (0: it has none)."""

    start: int
    end: int
    comma: int


@dataclass(slots=True)
class ItemList:
    """The items between `open` (just behind the bracket) and `close` (at the closing bracket), and what to do."""

    source: Source
    open: int
    close: int
    items: list[Item]
    has_comments: bool
    _dropped: set[int] = field(default_factory=set)
    _prefix: dict[int, str] = field(default_factory=dict)
    _replaced: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    _behind: dict[int, list[str]] = field(default_factory=dict)  # -1: before the first item

    def text(self, position: int) -> str:
        item = self.items[position]
        return self.source.text[item.start : item.end]

    def drop(self, position: int) -> None:
        self._dropped.add(position)

    def name(self, position: int, name: str) -> None:
        """`value` becomes `name=value`."""
        self._prefix[position] = f"{name}="

    def rename(self, position: int, old: str, new: str) -> None:
        """`old=value` becomes `new=value`."""
        start = self.items[position].start
        self._replaced[position] = (start, start + len(old), new)

    def replace(self, position: int, text: str) -> None:
        """The whole item becomes `text`, which may hold several items."""
        item = self.items[position]
        self._replaced[position] = (item.start, item.end, text)

    def add(self, text: str, behind: int | None = None) -> None:
        """A new item at the end, or behind the item at `behind` (-1: at the front)."""
        self._behind.setdefault(len(self.items) - 1 if behind is None else behind, []).append(text)

    def edits(self) -> tuple[Edit, ...]:
        """What was asked for, as edits that do not touch each other."""
        out = [self._edit(item.start, item.start, self._prefix[position])
               for position, item in enumerate(self.items)
               if position in self._prefix and position not in self._dropped]  # fmt: skip
        for position, (start, end, text) in self._replaced.items():
            if position not in self._dropped:
                out.append(self._edit(start, end, text))
        out += self._runs()
        return tuple(sorted(out, key=lambda edit: (edit.start, edit.end)))

    def _runs(self) -> list[Edit]:
        """Runs of dropped items, and what is added, in one edit where they meet."""
        out: list[Edit] = []
        added = dict(self._behind)
        last_kept = max((i for i in range(len(self.items)) if i not in self._dropped), default=-1)
        extra = [text for i in sorted(added) if i > last_kept for text in added.pop(i)]
        tail = [*added.pop(last_kept, []), *extra]
        if last_kept >= 0 and -1 in added:
            first_kept = next(i for i in range(len(self.items)) if i not in self._dropped)
            at = self.items[first_kept].start
            indent = self._own_line(first_kept)
            separator = ", " if indent is None else "," + self.source.newline + indent
            out.append(self._edit(at, at, "".join(text + separator for text in added[-1])))
        position = 0
        while position <= last_kept:
            if position not in self._dropped:
                if position in added:
                    end = self.items[position].end
                    out.append(self._edit(end, end, self._joined(position, added[position])))
                position += 1
                continue
            first = position
            while position in self._dropped:
                position += 1
            out.append(self._removal(first, position))
        start = self.items[last_kept].end if last_kept >= 0 else self.open
        end = start
        if last_kept + 1 < len(self.items):
            last = self.items[-1]
            end = last.end if last_kept >= 0 or not last.comma else last.comma
        if last_kept >= 0 and (tail or end > start) and self.items[last_kept].comma:
            indent = self._own_line(last_kept)
            if indent is not None:  # one item a line: what comes and goes does so behind the kept item's own comment
                out.append(self._tail_lines(last_kept, tail, indent))
                return out
        if not tail and end > start and self._owns_line(last_kept + 1, len(self.items)):
            end = self._comment_end(self.items[-1])
            if end > self.items[-1].comma > 0:
                out.append(self._edit(start, end, "," if last_kept >= 0 else ""))
                return out
        if tail or end > start:
            text = self._joined(last_kept, tail) if last_kept >= 0 else ", ".join(tail)
            if last_kept < 0 and self.items and end == start:
                text += ", "
            out.append(self._edit(start, end, text))
        return out

    def _tail_lines(self, last_kept: int, tail: Sequence[str], indent: str) -> Edit:
        last = self.items[-1]
        start = end = self._line_end(self.items[last_kept].comma)
        closed = True  # the last item ends with a comma
        if last_kept + 1 < len(self.items):
            closed = bool(last.comma)
            end = self._line_end(last.comma) if closed else last.end
        lines = "".join(f"{self.source.newline}{indent}{text}," for text in tail)
        return self._edit(start, end, lines if closed else lines[:-1])

    def _removal(self, first: int, following: int) -> Edit:
        """Items [first, following) go; an item follows. Whole lines go where nothing else stands on them."""
        text = self.source.text
        start, end = self.items[first].start, self.items[following - 1].comma
        line = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
        newline = self._line_end(end)
        rest = text[end:newline].strip()
        if line > self.open and not text[line:start].strip() and (not rest or rest.startswith("#")):
            newline += 2 if text.startswith("\r\n", newline) else 1
            return self._edit(line, newline, "")
        if rest.startswith("#") and self._owns_line(first, following):
            return self._edit(self._behind_blanks(start), newline, "")
        upcoming = self.items[following].start
        if not text[end:upcoming].strip(" \t"):
            return self._edit(start, upcoming, "")
        return self._edit(self._behind_blanks(start), end, "")

    def _comment_end(self, item: Item) -> int:
        """Behind the comma and the comment of an item that ends its line; else behind the item itself."""
        end = self._line_end(item.comma or item.end)
        rest = self.source.text[item.comma or item.end : end].strip()
        return end if rest.startswith("#") else item.end

    def _line_end(self, position: int) -> int:
        found = (self.source.text.find(mark, position) for mark in "\r\n")
        return min((place for place in found if place >= 0), default=len(self.source.text))

    def _behind_blanks(self, start: int) -> int:
        while start > self.open and self.source.text[start - 1] in " \t":
            start -= 1
        return start

    def _owns_line(self, first: int, following: int) -> bool:
        """No item that stays begins on the line on which the last of items [first, following) stands."""
        text = self.source.text
        last = self.items[following - 1].start
        line = max(text.rfind("\n", 0, last), text.rfind("\r", 0, last)) + 1
        return line > self.open and (first == 0 or self.items[first - 1].start < line)

    def _joined(self, behind: int, texts: Sequence[str]) -> str:
        indent = self._own_line(behind)
        separator = ", " if indent is None else "," + self.source.newline + indent
        return "".join(separator + text for text in texts)

    def _own_line(self, position: int) -> str | None:
        """The indentation of an item that begins its line, when every item does."""
        text = self.source.text
        indents = []
        for item in self.items:
            line = max(text.rfind("\n", 0, item.start), text.rfind("\r", 0, item.start)) + 1
            if line <= self.open or text[line : item.start].strip():
                return None
            indents.append(text[line : item.start])
        return indents[position]

    def _edit(self, start: int, end: int, replacement: str) -> Edit:
        return Edit(start, end, self.source.text[start:end], replacement)


def call_items(source: Source, call: ast.Call) -> ItemList | None:
    """The arguments of a call, in the order of the text; None when the text cannot be taken apart."""
    start = source.offset(call.func.end_lineno or 1, call.func.end_col_offset or 0)
    end = source.offset(call.end_lineno or 1, call.end_col_offset or 0)
    at = source.text.find("(", start, end)
    if at < 0 or source.text[start:at].strip(" \t\r\n\\)"):
        return None
    items = _items(source, at)
    nodes = sorted([*call.args, *(k.value for k in call.keywords)], key=lambda n: (n.lineno, n.col_offset))
    if items is None or items.close != end - 1 or not _hold(source, items, nodes):
        return None
    return items


def definition_items(source: Source, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ItemList | None:
    """The parameters of a definition, bare `*` and `/` included."""
    start = source.offset(node.lineno, node.col_offset)
    at = source.text.find(node.name, start)
    at = source.text.find("(", at) if at >= 0 else -1
    if at < 0 or source.text[start:at].count("[") or source.text[start:at].count("\n"):
        return None
    items = _items(source, at)
    arguments = node.args
    expected = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    expected += [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    if items is None:
        return None
    named = [i for i in items.items if source.text[i.start : i.end] not in ("*", "/")]
    return items if len(named) == len(expected) else None


def position_of(items: ItemList, node: ast.AST) -> int:
    """The position of the item that holds the node; -1 when none does."""
    start = items.source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
    return next((i for i, item in enumerate(items.items) if item.start <= start < item.end), -1)


def _hold(source: Source, items: ItemList, nodes: Sequence[ast.expr]) -> bool:
    if len(items.items) != len(nodes):
        return False
    for item, node in zip(items.items, nodes, strict=True):
        start = source.offset(node.lineno, node.col_offset)
        end = source.offset(node.end_lineno or 1, node.end_col_offset or 0)
        generator = isinstance(node, ast.GeneratorExp)  # its span may be the brackets of the call
        if not generator and not (item.start <= start and end <= item.end):
            return False
    return True


def _items(source: Source, at: int) -> ItemList | None:
    """Takes the list apart whose bracket opens at `at`."""
    lines: list[int] = []
    position = at

    def readline() -> str:
        nonlocal position
        line = buffer.readline()
        lines.append(position)
        position += len(line)
        return line

    buffer = io.StringIO(source.text[at:], newline="")
    depth, comments = 0, False
    items: list[Item] = []
    start = end = -1
    try:
        for token in tokenize.generate_tokens(readline):
            if token.type in _LAYOUT:
                comments = comments or token.type == tokenize.COMMENT
                continue
            first = lines[token.start[0] - 1] + token.start[1]
            last = lines[token.end[0] - 1] + token.end[1]
            if token.type == tokenize.OP and token.string in _CLOSE:
                depth -= 1
                if depth == 0:
                    if start >= 0:
                        items.append(Item(start, end, 0))
                    return ItemList(source, at + 1, first, items, comments)
            elif token.type == tokenize.OP and token.string == "," and depth == 1:
                items.append(Item(start, end, last))
                start = -1
                continue
            if token.type == tokenize.OP and token.string in _OPEN:
                depth += 1
                if depth == 1:
                    continue
            if start < 0:
                start = first
            end = last
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    return None
