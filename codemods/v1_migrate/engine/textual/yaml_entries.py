"""Where YAML sets an environment variable: keys, `- NAME=value`, `- name: NAME` with a value, a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from . import jsontree
from .cuts import Cut, line_end, line_start, lines_cut
from .entries import Entry

_ENVIRONMENT = re.compile(r"env|variables|vars\b|args", re.IGNORECASE)
_ITEM = re.compile(r"[ \t]*(?:-[ \t]+)+\Z")
_LITERAL = re.compile(r"[\w.,:/+-]*\Z")
_EXPORT = re.compile(r"export[ \t]+([A-Za-z_]\w*)=[\"']?([\w.,:/+-]*)[\"']?;?")  # a whole command
Path = tuple[tuple[Any, str | None, int], ...]  # (parent node, key or None, position) from the root down


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar that sets no variable: its text may be a script."""

    start: int
    end: int


@dataclass(slots=True)
class Found:
    """What a document holds; `parsed` is False for text that is no YAML (a template)."""

    entries: list[Entry] = field(default_factory=list)
    scalars: list[Scalar] = field(default_factory=list)
    parsed: bool = True


def yaml_entries(text: str, wanted: re.Pattern[str]) -> Found:
    """Entries and scalars of every document in the text."""
    import yaml

    found = Found()
    try:
        roots = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError):
        return Found(parsed=False)
    walk = _Walk(text, wanted, found)
    for root in roots:
        if root is not None:
            walk.node(root, ())
    return found


class _Walk:
    """One pass over composed nodes; `path` holds (parent node, key or None, position) from the root down."""

    def __init__(self, text: str, wanted: re.Pattern[str], found: Found) -> None:
        self.text, self.wanted, self.found = text, wanted, found

    def node(self, node: Any, path: Path) -> None:
        if len(path) > 100:
            return
        kind = type(node).__name__
        if kind == "MappingNode":
            self._mapping(node, path)
        elif kind == "SequenceNode":
            self._sequence(node, path)
        elif kind == "ScalarNode":
            self._scalar(node)

    def _mapping(self, node: Any, path: Path) -> None:
        members = node.value
        named = {key.value: value for key, value in members if is_scalar(key) and is_scalar(value)}
        if self.wanted.fullmatch(str(getattr(named.get("name"), "value", ""))) and path and path[-1][1] is None:
            self._named_item(node, named, path)
            return
        for position, (key, value) in enumerate(members):
            if is_scalar(key) and self.wanted.fullmatch(str(key.value)):
                literal = _literal(value)
                cut = self._cut(node, position, path)
                self._add(str(key.value), literal, key.start_mark.index, value.end_mark.index, cut, path)
            else:
                name = str(key.value) if is_scalar(key) else ""
                self.node(value, (*path, (node, name, position)))

    def _sequence(self, node: Any, path: Path) -> None:
        for position, item in enumerate(node.value):
            text = str(item.value) if is_scalar(item) else ""
            export = _EXPORT.fullmatch(text)
            name, equals, value = (export[1], "=", export[2]) if export else text.partition("=")
            option = position > 0 and _is_option(node.value[position - 1])
            listed = export is not None or option or _is_environment(path)
            if not listed or not self.wanted.fullmatch(name):
                self.node(item, (*path, (node, None, position)))
                continue
            literal = value if equals and _LITERAL.match(value) else None
            cut = self._cut(node, position, path, pair=option and not export)
            self._add(name, literal, item.start_mark.index, item.end_mark.index, cut, path)

    def _named_item(self, node: Any, named: dict[str, Any], path: Path) -> None:
        """`- name: X` with `value: y`, as in Kubernetes."""
        parent, _, position = path[-1]
        value = named.get("value")
        literal = _literal(value) if value is not None else None
        last = max(member.end_mark.index for _, member in node.value)
        cut = self._cut(parent, position, path[:-1])
        self._add(str(named["name"].value), literal, node.start_mark.index, last, cut, path)

    def _scalar(self, node: Any) -> None:
        start, end = node.start_mark.index, node.end_mark.index
        style = node.style
        if style in ("|", ">"):
            start = min(line_end(self.text, start) + 1, end)
        elif style in ("'", '"'):
            start, end = start + 1, end - 1
        self.found.scalars.append(Scalar(start, end))

    def _add(
        self,
        name: str,
        value: str | None,
        start: int,
        end: int,
        cut: Cut | None,
        path: Path,
    ) -> None:
        matrix = any(key in ("matrix", "strategy", "parametrize") for _, key, _ in path)
        why = "it is an axis of a matrix" if matrix else "" if cut else "nothing would be left around it"
        self.found.entries.append(Entry(name, value, start, end, None if matrix else cut, why))

    # cuts

    def _cut(self, parent: Any, position: int, path: Path, *, pair: bool = False) -> Cut | None:
        """Member `position` of a collection; the collection's own entry when nothing else is in it.

        `pair`: with the member before it, the option that hands the variable on.
        """
        members = parent.value
        first = position - 1 if pair else position
        if parent.flow_style:
            spans = [_span(member) for member in members]
            inside = (parent.start_mark.index + 1, parent.end_mark.index - 1)
            return jsontree.members_cut(spans, range(first, position + 1), inside)[0]
        if len(members) == position - first + 1:
            return self._cut_of_all(parent, path)
        start, end = _span(members[first])[0], _span(members[position])[1]
        is_item = not isinstance(members[position], tuple)
        left = self.text[line_start(self.text, start) : start]
        if is_block_item(self.text, start) if is_item else not left.strip():
            return lines_cut(self.text, start, _content_end(self.text, start, end))
        if not is_item and position == 0:  # the key beside the hyphen of a list's item: the next one moves up
            following = _span(members[1])[0]
            return None if "#" in self.text[_content_end(self.text, start, end) : following] else Cut(start, following)
        return None

    def _cut_of_all(self, parent: Any, path: Path) -> Cut | None:
        """The entry of a collection in which nothing else is left."""
        if not path:
            return None
        outer, key, position = path[-1]
        if key is None:  # `- NAME: value`, an item of a list of variables
            listed = _is_environment(path[:-1]) and is_block_item(self.text, parent.start_mark.index)
            return self._cut(outer, position, path[:-1]) if listed else None
        return self._cut(outer, position, path[:-1]) if _ENVIRONMENT.search(key) else None


def _is_option(node: Any) -> bool:
    return is_scalar(node) and node.value in ("-e", "--env")


def _is_environment(path: Path) -> bool:
    return bool(path) and path[-1][1] is not None and _ENVIRONMENT.search(path[-1][1]) is not None


def is_scalar(node: Any) -> bool:
    return type(node).__name__ == "ScalarNode"


def is_block_item(text: str, start: int) -> bool:
    """`- ` and nothing else stands before it on its line."""
    left = text[line_start(text, start) : start]
    return _ITEM.match(left) is not None and left.count("-") == 1


def _literal(node: Any) -> str | None:
    value = str(getattr(node, "value", "")) if is_scalar(node) else "${"
    return value if _LITERAL.match(value) else None


def _span(member: Any) -> tuple[int, int]:
    first, last = member if isinstance(member, tuple) else (member, member)
    return first.start_mark.index, last.end_mark.index


def _content_end(text: str, start: int, end: int) -> int:
    """The end without the white space and comments that PyYAML counts to a block collection."""
    lines: Iterator[str] = iter(text[start:end].splitlines(keepends=True))
    stop = at = start
    for line in lines:
        at += len(line)
        if line.strip() and not line.strip().startswith("#"):
            stop = at - (len(line) - len(line.rstrip()))
    return max(stop, start)
