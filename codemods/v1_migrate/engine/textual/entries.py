"""Where YAML, JSON, TOML and ini text sets an environment variable as a key or a list item, and how to take it out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import jsontree
from .cuts import Cut, line_end, line_start, lines_cut


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value, or `NAME=value` in a list."""

    name: str
    value: str | None  # None: not a literal
    start: int
    end: int
    cut: Cut | None = None
    why_not: str = ""


def json_entries(text: str, wanted: re.Pattern[str]) -> tuple[list[Entry], list[jsontree.Node]]:
    """Entries, and the strings that are none of them. Nothing if the text is not JSON."""
    try:
        root = jsontree.parse(text)
    except (jsontree.NotJson, RecursionError):
        return [], []
    entries: list[Entry] = []
    strings: list[jsontree.Node] = []
    _json_walk(root, wanted, entries, strings)
    return entries, strings


def _json_walk(
    node: jsontree.Node, wanted: re.Pattern[str], entries: list[Entry], strings: list[jsontree.Node]
) -> None:
    found: dict[int, tuple[str, str | None]] = {}
    for index, (key, value) in enumerate(node.members):
        if key is not None and wanted.fullmatch(key.value):
            found[index] = key.value, value.value if value.kind in ("string", "other") else None
        elif key is None and value.kind == "string" and wanted.fullmatch(value.value.partition("=")[0]):
            name, equals, rest = value.value.partition("=")
            if equals:
                found[index] = name, rest
        elif value.kind == "string":
            strings.append(value)
        else:
            _json_walk(value, wanted, entries, strings)
    spans = [node.span(i) for i in range(len(node.members))]
    for index, (name, value_text) in found.items():
        after_option = index > 0 and node.members[index - 1][1].value in ("-e", "--env")
        removed = [index - 1, index] if node.kind == "array" and after_option else [index]
        together = removed if len(found) == 1 else list(found)
        cut = jsontree.members_cut(spans, together, (node.start + 1, node.end - 1))
        entries.append(Entry(name, value_text, *spans[index], _around(cut, spans[index][0])))


def _around(cuts: Sequence[Cut], start: int) -> Cut | None:
    return next((cut for cut in cuts if cut.start <= start < cut.end), None)


_TOML_KEY = re.compile(
    r"(?P<before>^[ \t]*|[{,][ \t]*)(?P<quote>[\"']?)(?P<name>[A-Za-z_]\w*)(?P=quote)[ \t]*=[ \t]*"
    r"(?P<value>\"[^\"\r\n]*\"|'[^'\r\n]*'|[^\s,}#{\[]+)",
    re.MULTILINE,
)
_TOML_ITEM = re.compile(r"(?P<quote>[\"'])(?:[RD]:)*(?P<name>[A-Za-z_]\w*)=(?P<value>[^\"'\r\n]*)(?P=quote)")


def toml_entries(text: str, wanted: re.Pattern[str]) -> Iterator[Entry]:
    """Keys, keys of inline tables, and items of arrays. A cut is offered if the parser agrees with the result."""
    for match in _TOML_KEY.finditer(text):
        if wanted.fullmatch(match["name"]):
            start, end = match.start() + len(match["before"]), match.end()
            cut = lines_cut(text, start, end) if not match["before"].strip() else _comma_cut(text, start, end)
            yield _checked_toml(text, Entry(match["name"], match["value"].strip("\"'"), start, end, cut))
    for match in _TOML_ITEM.finditer(text):
        if wanted.fullmatch(match["name"]) and text[: match.start()].rstrip()[-1:] in ("[", ","):
            cut = _comma_cut(text, *match.span())
            yield _checked_toml(text, Entry(match["name"], match["value"].strip(), *match.span(), cut))


def _comma_cut(text: str, start: int, end: int) -> Cut:
    """An item of a bracketed list with one comma."""
    after = re.compile(r"[ \t]*,[ \t]*(?:#[^\r\n]*)?").match(text, end)
    line, stop = line_start(text, start), line_end(text, end)
    if not text[line:start].strip() and after is not None and not text[after.end() : stop].strip():
        return lines_cut(text, start, end)
    if after is not None:
        return Cut(start, after.end())
    before = re.search(r",?\s*\Z", text[:start])
    return Cut(before.start() if before and "," in before.group() else start, end)


def _checked_toml(text: str, entry: Entry) -> Entry:
    assert entry.cut is not None
    after = text[: entry.cut.start] + text[entry.cut.end :]
    try:
        old, new = tomllib.loads(text), tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        return Entry(entry.name, entry.value, entry.start, entry.end, None, "the result could not be checked")
    agreed = _count(old) - _count(new) == 1
    return entry if agreed else Entry(entry.name, entry.value, entry.start, entry.end, None, "it has an unusual form")


def _count(value: object) -> int:
    """Leaves of a document."""
    if isinstance(value, dict):
        return sum(map(_count, value.values()))
    return sum(map(_count, value)) if isinstance(value, list) else 1


_INI_LINE = re.compile(
    r"^[ \t]*(?:[-+][ \t]+)?(?:[RD]:)*(?P<quote>[\"']?)(?P<name>[A-Za-z_]\w*)[ \t]*[=:][ \t]*"
    r"(?P<value>[^\s#;\"']*)[\"']?(?P=quote)"
    r"[ \t]*(?:[#;][^\r\n]*)?$",
    re.MULTILINE,
)
_UNIT_LINE = re.compile(r"^(?P<lead>Environment=)(?P<rest>[^\r\n]*)$", re.MULTILINE)
_UNIT_ITEM = re.compile(r"(?P<quote>[\"']?)(?P<name>[A-Za-z_]\w*)=(?P<value>[^\s\"']*)(?P=quote)")


def ini_entries(text: str, wanted: re.Pattern[str]) -> Iterator[Entry]:
    """Lines `NAME = value` (also indented, as in tox's `setenv`), and systemd's `Environment=`."""
    for match in _INI_LINE.finditer(text):
        if wanted.fullmatch(match["name"]):
            start, end = match.start("name"), match.end("value")
            yield Entry(match["name"], match["value"], start, end, lines_cut(text, start, end))
    for line in _UNIT_LINE.finditer(text):
        items = list(_UNIT_ITEM.finditer(text, *line.span("rest")))
        for index, item in enumerate(items):
            if not wanted.fullmatch(item["name"]):
                continue
            if len(items) == 1:
                cut = lines_cut(text, line.start(), line.end())
            elif index + 1 < len(items):
                cut = Cut(item.start(), items[index + 1].start())
            else:
                cut = Cut(items[index - 1].end(), item.end())
            yield Entry(item["name"], item["value"], *item.span(), cut)
