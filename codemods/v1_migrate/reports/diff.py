"""Unified diffs that `git apply` and `patch -p1` take: CR LF kept, missing last newlines marked, odd names quoted."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ..source import Source

_CONTEXT = 3
_NO_NEWLINE = "\\ No newline at end of file\n"
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}


def diff(old: Source, new_text: str) -> bytes:
    """The change of one file, in the file's own encoding; empty if there is none."""
    if new_text == old.text:
        return b""
    mark = "\ufeff" if old.bom else ""  # part of line one, as far as patch programs know
    encoding = old.encoding
    before, after = _lines(mark + old.text), _lines(mark + new_text)
    name = _quoted(old.rel)
    body = "".join(_hunks(before, after))
    return f"diff --git {name[0]} {name[1]}\n--- {name[0]}\n+++ {name[1]}\n".encode() + body.encode(encoding, "replace")


def coloured(patch: bytes) -> str:
    """The same for the eyes of a person at a terminal."""
    lines = patch.decode("utf-8", "replace").split("\n")
    return "\n".join(_coloured(line) for line in lines)


def _coloured(line: str) -> str:
    shown = "".join(char if char.isprintable() or char == "\t" else "" if char == "\r" else "�" for char in line)
    if shown.startswith(("---", "+++", "diff ")):
        return f"\x1b[1m{shown}\x1b[0m"
    colour = _COLOURS.get(shown[:1])
    return f"{colour}{shown}\x1b[0m" if colour else shown


def _lines(text: str) -> list[str]:
    """Lines as patch programs see them: LF ends a line, nothing else does."""
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _hunks(before: list[str], after: list[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        old_range = _range(group[0][1], group[-1][2])
        new_range = _range(group[0][3], group[-1][4])
        yield f"@@ -{old_range} +{new_range} @@\n"
        for tag, old_start, old_end, new_start, new_end in group:
            if tag == "equal":
                yield from _marked(" ", before[old_start:old_end])
            else:
                yield from _marked("-", before[old_start:old_end])
                yield from _marked("+", after[new_start:new_end])


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line
        if not line.endswith("\n"):
            yield "\n" + _NO_NEWLINE


def _range(start: int, end: int) -> str:
    length = end - start
    first = start + 1 if length else start
    return str(first) if length == 1 else f"{first},{length}"


def _quoted(rel: str) -> tuple[str, str]:
    """The name with `a/` and `b/`, quoted as git quotes names that would be misread."""
    data = rel.encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in data):
        tab = "\t" if " " in rel else ""  # ends a name that holds blanks
        return f"a/{rel}{tab}", f"b/{rel}{tab}"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in data)
    return f'"a/{escaped}"', f'"b/{escaped}"'
