"""JSON as a tree of nodes that know their place, so that a member can be cut out and nothing else changes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cuts import Cut
from .view import Element, View

_TOKEN = re.compile(r'[ \t\r\n]*(?P<text>"(?:[^"\\\x00-\x1f]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)')
_DEPTH = 200


class NotJson(ValueError):
    """The text is not one JSON value."""


@dataclass(slots=True)
class Node:
    """A value. Members of an object are pairs of nodes, items of a list have no key."""

    start: int
    end: int
    kind: str  # "object" | "array" | "string" | "other"
    value: str = ""  # decoded string, or the literal
    members: list[tuple[Node | None, Node]] = field(default_factory=list)

    def span(self, index: int) -> tuple[int, int]:
        key, value = self.members[index]
        return (key.start if key else value.start), value.end


def parse(text: str) -> Node:
    """The tree of a document. Raises NotJson."""
    reader = _Reader(text)
    node = reader.value(0)
    if reader.next() is not None:
        raise NotJson("something follows the value")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.start = 0

    def next(self) -> str | None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            if self.text[self.at :].strip():
                raise NotJson(f"at {self.at}")
            return None
        self.start, self.at = match.span("text")
        return match["text"]

    def value(self, depth: int) -> Node:
        token = self.next()
        start = self.start
        if token is None or token in "}]:," or depth > _DEPTH:
            raise NotJson(f"at {start}")
        if token not in ("{", "["):
            try:
                loaded = json.loads(token)
            except ValueError:
                raise NotJson(f"at {start}") from None
            return (
                Node(start, self.at, "string", loaded)
                if isinstance(loaded, str)
                else Node(start, self.at, "other", token)
            )
        return self._container(start, token == "{", depth)

    def _container(self, start: int, is_object: bool, depth: int) -> Node:
        node = Node(start, start, "object" if is_object else "array")
        closing = "}" if is_object else "]"
        before = self.at
        if self.next() == closing:
            node.end = self.at
            return node
        self.at = before
        while True:
            key = None
            if is_object:
                key = self.value(depth + 1)
                if key.kind != "string" or self.next() != ":":
                    raise NotJson(f"at {self.at}")
            node.members.append((key, self.value(depth + 1)))
            token = self.next()
            if token == closing:
                node.end = self.at
                return node
            if token != ",":
                raise NotJson(f"at {self.at}")


def members_cut(spans: Sequence[tuple[int, int]], removed: Sequence[int], inside: tuple[int, int]) -> list[Cut]:
    """Cuts that take members out of a bracketed list; `inside` is the span between the brackets."""
    gone = sorted(set(removed))
    if len(gone) == len(spans):
        return [Cut(*inside)] if spans else []
    cuts: list[Cut] = []
    runs: list[list[int]] = []
    for index in gone:
        if runs and runs[-1][-1] + 1 == index:
            runs[-1].append(index)
        else:
            runs.append([index])
    for run in runs:
        if run[-1] + 1 < len(spans):
            cuts.append(Cut(spans[run[0]][0], spans[run[-1] + 1][0]))
        else:
            cuts.append(Cut(spans[run[0] - 1][1], spans[run[-1]][1]))
    return cuts


def string_view(view: View, nodes: Sequence[Node]) -> View:
    """Strings of the document, one after the other, as text. `view` must be a slice of the file."""
    pieces: list[str] = []
    offsets: list[int] = []
    elements: list[Element] = []
    at = 0
    for node in nodes:
        raw = view.text[node.start + 1 : node.end - 1]
        base = view.place(node.start + 1)
        for match in _units(raw):
            decoded = json.loads(f'"{match.group()}"')
            pieces.append(decoded)
            offsets.extend([base + match.start()] * len(decoded))
        length = len(offsets)
        elements.append(Element(at, length, view.place(node.start), view.place(node.end)))
        at = length
    offsets.append(elements[-1].raw_end - 1 if elements else view.place(0))
    return View(view.file, "".join(pieces), 0, tuple(offsets), tuple(elements))


def _units(raw: str) -> list[re.Match[str]]:
    """The string's characters as written; a surrogate pair of two escapes is one."""
    return list(
        re.finditer(
            r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", raw, re.DOTALL
        )
    )
