"""A pytest marker that sorts tests by engine, in CI scripts, workflow matrices and pytest's own configuration.

## What it does
Reports `-m` expressions, `markers:` values and marker definitions that name `v0`, `v1`, `skip_v0` or `skip_v1`, and, as
information, expressions with `core_model` or `cpu_model`, whose tests changed hands when V0 went.

## Why
Once the tests lose such a marker, `-m "v0 and cpu"` selects nothing, and pytest ends with exit code 5;
`-m "not skip_v1"` selects everything, V0's tests included.

## Example
```bash
pytest -v tests -m "v0 and cpu and e2e"
```

## Safety
*manual*. What the job is to test is your decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from packaging.version import Version

from ..findings import Effort, Finding, Severity
from ..kinds import Kind
from ..names.releases import only_v1
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import TextFile

_EXPRESSIONS = (
    re.compile(
        r"\bpytest\b(?:[^\r\n\\]|\\\r?\n|\\.){0,400}?[ \t\n]-m[ =]?"
        r"(?P<quote>\\?[\"']?)(?P<text>(?<=[\"'])[^\"'\r\n]+|[\w.]+)"
    ),
    re.compile(
        r"^[ \t]*(?:-[ \t]+)?\w*mark(?:er)?s?\w*[ \t]*[:=][ \t]*(?P<quote>[\"']?)(?P<text>[^\"'\[\r\n]+)", re.MULTILINE
    ),
)
_DEFINITION = re.compile(r"^[ \t]*[\"']?(?P<text>v0|v1|skip_v0|skip_v1)[ \t]*:[ \t]*(?=[A-Za-z])", re.MULTILINE)
_ENGINE = re.compile(r"\b(?:skip_v[01]|v[01])\b")
_MODEL = re.compile(r"\b(?:core_model|cpu_model)\b")
_PROSE = (Kind.MARKDOWN, Kind.RST, Kind.NOTEBOOK, Kind.PATCH)


class TextMarker(Rule):
    id = "V1M404"
    slug = "text-marker"
    summary = "pytest marker of an engine in CI or configuration"
    severity = Severity.WARNING

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        text = file.source.text
        seen: set[int] = set()
        for pattern in _EXPRESSIONS:
            for expression in pattern.finditer(text):
                yield from self._expression(file, expression, seen)
        if file.kind in (Kind.INI, Kind.TOML, Kind.PYPROJECT) and "markers" in text:
            for definition in _DEFINITION.finditer(text):
                target = file.judge.target
                message = f"defines the marker `{definition['text']}`, and vLLM {target} {only_v1(target)}"
                advice = "Delete it once no test has it."
                yield self._say(file, *definition.span("text"), message, Severity.WARNING, advice)

    def _expression(self, file: TextFile, expression: re.Match[str], seen: set[int]) -> Iterator[Finding]:
        start, end = expression.span("text")
        engine = _ENGINE.search(file.source.text, start, end)
        model = _MODEL.search(file.source.text, start, end)
        if start in seen or not (engine or model) or Version(file.judge.target) < Version("0.10.0"):
            return
        seen.add(start)
        if engine:
            message = f"selects tests by engine (`{expression['text'].strip()}`): vLLM {file.judge.target} has one"
            severity = Severity.INFO if file.kind in _PROSE else Severity.WARNING
            advice = "Take the marker out of the expression, or the job out of the pipeline if it was V0's."
        else:
            message = f"selects tests by `{expression['text'].strip()}`, a marker that V0's tests carried, too"
            severity, advice = Severity.INFO, "Check that it still selects what the job is for."
        yield self._say(file, start, end, message, severity, advice)

    def _say(self, file: TextFile, start: int, end: int, message: str, severity: Severity, advice: str) -> Finding:
        return file.finding(self.id, start, end, message, severity, effort=Effort.MINUTES, advice=advice)
