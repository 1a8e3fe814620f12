"""A message, comment or docstring of V1 code that still speaks of V0.

## What it does
In files of V1 (below a folder `v1`, or importing from `vllm.v1`), finds texts that name V0: an error that says what
"is not supported in V0", a comment, a docstring. Comments that name V0 are found in every file that imports from vllm,
comments and texts that name `VLLM_USE_V1` in every file. A command in a text that sets it is said to be one.

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
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.releases import only_v1
from .rule import Phase, Rule
from .text_switch import SWITCH, V0_ADVICE

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.scopes import Node

_V0 = re.compile(r"(?<![\w./-])(?:vLLM[ -])?V0(?!\w|\.\d)(?:[ -]engine)?", re.IGNORECASE)
_ENGINE = re.compile(r"(?<![\w./-])V0(?!\w|\.\d)")  # as people write the engine's name
_BOTH = re.compile(r"(?<![\w./-])V1(?!\w|\.\d)", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w./-])[vV]0(?!\w|\.\d)")
_EXPRESSION = re.compile(r"\{[^{}]*\}")  # Python 3.11 gives parts of an f-string the place of all of it
_SWITCH = re.compile(r"(?<!\w)VLLM_USE_V1(?!\w)")
_PROGRAM = r"(?:python[\d.]*|vllm|pytest|torchrun|bash|sh|ray|uv|accelerate|nohup|mpirun|srun|env)\b"
_SETTING = re.compile(  # among the assignments in front of a command, or all of a text
    r"(?:[\"'\n;&|(]|\bexport\b|\benv\b|(?<!\w)-e\b)\s*(?:[A-Za-z_]\w*=[^\s\"']*\s+)*"
    r"(?P<set>VLLM_USE_V1=(?P<value>[^\s\"'\\=]*))(?=\s*(?:[\"'\\;&|]|\Z|[A-Za-z_]\w*=|\{|" + _PROGRAM + "))"
)
_NEEDLE = re.compile(r"\bv0\b|VLLM_USE_V1", re.IGNORECASE)
_COMMENT = re.compile(r"#[^\r\n]*")
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
        if not any(word in file.source.text for word in ("V0", "v0", "VLLM_USE_V1")) or file.legacy:
            return
        of_v1 = _of_v1(file)
        for found in file.model.every(ast.Constant):
            if isinstance(found.node.value, str) and _NEEDLE.search(found.node.value):
                yield from self._string(file, found, of_v1)
        for start, end in _comments(file):
            text = file.source.text[start:end]
            switch = _SWITCH.search(text)
            about_v0 = _V0.search(text) if of_v1 else _ENGINE.search(text) if file.references.imports else None
            match = about_v0 or switch
            if match:
                yield self._say(file, start + match.start(), start + match.end(), "a comment", match.group())

    def _string(self, file: PythonFile, found: Node, of_v1: bool) -> Iterator[Finding]:
        start, end = file.span(found.node)
        literal = file.source.text[start:end]
        docstring = isinstance(found.path[0], ast.Expr)
        if not docstring and found.node.value != SWITCH:  # the bare name is a key or an argument: other rules' matter
            settings = {match.start("set"): match for match in _SETTING.finditer(literal)}
            for match in _SWITCH.finditer(literal):
                setting = settings.get(match.start())
                if setting is not None:
                    yield self._setting(file, start, setting)
                else:
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

    def _setting(self, file: PythonFile, start: int, match: re.Match[str]) -> Finding:
        """The switch is set for a command that the text is, or is a part of."""
        off = match["value"] == "0"
        return file.finding(
            self.id,
            start + match.start("set"),
            start + match.end("set"),
            f"a command in a text sets `{match['set']}`"
            + (", which asks for V0" if off else "")
            + f", and vLLM {file.judge.target} {only_v1(file.judge.target)}",
            Severity.WARNING if off else Severity.INFO,
            effort=Effort.HOURS if off else Effort.MINUTES,
            advice=V0_ADVICE if off else "Take the assignment out of the command, with whatever computes its value.",
        )

    def _say(
        self, file: PythonFile, start: int, end: int, what: str, word: str, edits: tuple[Edit, ...] = ()
    ) -> Finding:
        engine = "an engine choice" if "VLLM" in word else "V0"
        return file.finding(
            self.id,
            start,
            end,
            f"{what} speaks of {engine} (`{word.strip()}`), and vLLM {file.judge.target} {only_v1(file.judge.target)}",
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


def _comments(file: PythonFile) -> Iterator[tuple[int, int]]:
    """Spans of comments that may concern this rule: from a number sign outside every string to the end of its line."""
    text = file.source.text
    found = [match.span() for match in _COMMENT.finditer(text) if _NEEDLE.search(match.group())]
    if not found:
        return
    strings = [file.span(node.node) for node in file.model.every(ast.Constant, ast.JoinedStr) if _is_text(node.node)]
    for start, end in found:
        mark = start
        while mark >= 0 and any(low <= mark < high for low, high in strings):
            mark = text.find("#", mark + 1, end)
        if mark >= 0:
            yield mark, end


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
