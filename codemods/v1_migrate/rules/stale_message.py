"""A message, comment or docstring of V1 code that still speaks of V0.

## What it does
In files of V1 (below a folder `v1`, or importing from `vllm.v1`), finds texts that name V0: an error that says what
"is not supported in V0", a comment, a docstring. Comments and texts that name `VLLM_USE_V1` are found in every
file.

## Why
Code that moved from V0 to V1 took its messages along. They send whoever reads them to an engine that does not exist.

## Example
```python
raise NotImplementedError("KV sharing is not supported in V0.")
```
becomes, with `--unsafe`,
```python
raise NotImplementedError("KV sharing is not supported in V1.")
```

## Safety
*unsafe*, and only for what an exception or a warning says: whether the sentence is true of V1, a tool cannot know.
Comments and docstrings are only reported.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Edit, Effort, Finding, Safety, Severity
from .rule import Phase, Rule
from .text_switch import SWITCH

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.scopes import Node

_V0 = re.compile(r"(?<![\w./-])(?:vLLM[ -])?V0(?!\w|\.\d)(?:[ -]engine)?", re.IGNORECASE)
_BOTH = re.compile(r"(?<![\w./-])V1(?!\w|\.\d)", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w./-])[vV]0(?!\w|\.\d)")
_EXPRESSION = re.compile(r"\{[^{}]*\}")  # Python 3.11 gives parts of an f-string the place of all of it
_SWITCH = re.compile(r"(?<!\w)VLLM_USE_V1(?!\w)")
_NEEDLE = re.compile(r"\bv0\b|VLLM_USE_V1", re.IGNORECASE)
_LOGGERS = frozenset("warning warn info error warning_once info_once debug exception critical".split())
_FIRST = "Check that the sentence holds for V1, then correct it."


class StaleMessage(Rule):
    id = "V1M501"
    slug = "stale-message"
    summary = "message, comment or docstring of V1 code that still speaks of V0"
    severity = Severity.INFO
    safety = Safety.UNSAFE
    phase = Phase.AFTER

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if not _NEEDLE.search(file.source.text) or file.legacy:
            return
        of_v1 = _of_v1(file)
        for found in file.model.every(ast.Constant):
            if isinstance(found.node.value, str) and _NEEDLE.search(found.node.value):
                yield from self._string(file, found, of_v1)
        for start, end in _comments(file.source.text):
            text = file.source.text[start:end]
            switch = _SWITCH.search(text)
            about_v0 = _V0.search(text) if of_v1 else None
            match = about_v0 or switch
            if match:
                yield self._say(file, start + match.start(), start + match.end(), "a comment", match.group())

    def _string(self, file: PythonFile, found: Node, of_v1: bool) -> Iterator[Finding]:
        start, end = file.span(found.node)
        literal = file.source.text[start:end]
        docstring = isinstance(found.path[0], ast.Expr)
        if not docstring and found.node.value != SWITCH:  # the bare name is a key or an argument: other rules' matter
            for match in _SWITCH.finditer(literal):
                yield self._say(file, start + match.start(), start + match.end(), "a text", match.group())
        said = docstring or _is_message(found)
        if not of_v1 or not said or not _V0.search(literal):
            return
        code = [m.span() for m in _EXPRESSION.finditer(literal)] if isinstance(found.path[0], ast.JoinedStr) else []
        matches = [m for m in _NAME.finditer(literal) if not any(a <= m.start() < b for a, b in code)]
        edits: tuple[Edit, ...] = ()
        if not docstring and file.settings.unsafe and not _BOTH.search(literal):
            edits = tuple(
                Edit(start + m.start(), start + m.end(), m.group(), m.group().replace("0", "1")) for m in matches
            )
        for match in matches[:1]:
            what = "a docstring" if docstring else "a message"
            yield self._say(file, start + match.start(), start + match.end(), what, match.group(), edits)

    def _say(
        self, file: PythonFile, start: int, end: int, what: str, word: str, edits: tuple[Edit, ...] = ()
    ) -> Finding:
        engine = "an engine choice" if "VLLM" in word else "V0"
        return file.finding(
            self.id,
            start,
            end,
            f"{what} speaks of {engine} (`{word.strip()}`), and vLLM {file.judge.target} has only V1",
            Severity.INFO,
            safety=Safety.UNSAFE if edits else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=_FIRST,
            edits=edits,
        )


def _of_v1(file: PythonFile) -> bool:
    """The file belongs to V1: by where it stands, or by what it imports."""
    parts = re.split(r"[/.]", file.source.rel) + file.module.split(".")
    return "v1" in parts or any(use.dotted.startswith("vllm.v1.") for use in file.references.imports)


def _is_message(found: Node) -> bool:
    """An argument of what is raised, warned or logged; or the message of an assertion."""
    path = found.path
    while path is not None:
        parent, name, outer = path
        if isinstance(parent, ast.Assert):
            return name == "msg"
        if isinstance(parent, ast.Raise):
            return True
        if isinstance(parent, ast.Call):
            function = parent.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called in _LOGGERS or called == "skip":
                return True
        if isinstance(parent, ast.stmt):
            return False
        path = outer
    return False


def _comments(text: str) -> Iterator[tuple[int, int]]:
    """Spans of comments. The text is valid Python: it was parsed."""
    starts = [0]
    for line in io.StringIO(text, newline=""):
        starts.append(starts[-1] + len(line))
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT and _NEEDLE.search(token.string):
                start = starts[token.start[0] - 1] + token.start[1]
                yield start, start + len(token.string)
    except (tokenize.TokenError, SyntaxError):
        return
