r"""The engine switch `VLLM_USE_V1` in a file that is not Python.

## What it does
Takes `VLLM_USE_V1=1` out of shell scripts, Dockerfiles, Makefiles, YAML, JSON, TOML, ini and env files, of the code
in Markdown, reST, notebooks and Python docstrings: exports and assignments with their line, a prefix of a command as
one word, an option of `docker run` with its continued line, a key with its line. Reports what it must not decide:
`VLLM_USE_V1=0`, tests of the variable, matrices over both engines, sentences that speak of it.

## Why
From 0.11.0 on there is one engine. 0.11.0 refuses `VLLM_USE_V1=0`, later releases read the variable no more: a script
that asks for V0 gets V1, without a word.

## Example
```bash
export VLLM_USE_V1=1
CUDA_VISIBLE_DEVICES=0 VLLM_USE_V1=1 vllm serve facebook/opt-125m \
    --port 8000
```
becomes
```bash
CUDA_VISIBLE_DEVICES=0 vllm serve facebook/opt-125m \
    --port 8000
```

## Safety
*v1* for `=1`: the result runs V1 on every release from 0.11.0 on, an older one may choose V0. *unsafe* for `=0`: its
author needed something of V0 (per-request logits processors, a model V1 could not run); find that out first. For a
target before 0.11.0 only files that speak of the CPU backend are edited: there, V0 is still served on other devices.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import Version

from ..engine.textual.environment import Environment, Place
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..kinds import Kind
from ..names.releases import only_v1
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import AnyFile, PythonFile, TextFile

SWITCH = "VLLM_USE_V1"
_WANTED = re.compile(rf"{SWITCH}(?:(?<!\w{SWITCH})|(?<=\s-e{SWITCH}))(?!\w)")
_OF_CPU = re.compile(r"VLLM_CPU_|VLLM_TARGET_DEVICE\s*[=:]\s*[\"']?cpu|--device[ =]cpu|\bcpu_model\b")
_ONE_ENGINE, _UNREAD = Version("0.11.0"), Version("0.11.1")
_PROSE = (Kind.MARKDOWN, Kind.RST, Kind.NOTEBOOK, Kind.PATCH)
V0_ADVICE = (
    "Find out what needed V0 (a per-request logits processor, a model or an option that V1 did not take), settle that, "
    "then delete the setting."
)


class TextSwitch(Rule):
    id = "V1M401"
    slug = "text-switch"
    summary = "engine switch VLLM_USE_V1 in a file that is not Python"
    severity = Severity.WARNING
    safety = Safety.V1
    phase = Phase.DEAD_CODE  # a command may lose several words: each rule looks at what the one before left

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        if SWITCH not in file.source.text:
            return
        environment = Environment(file.source.text, Kind(file.kind), _WANTED)
        edits = environment.edits(self._picked(file, environment.places))
        for place in environment.places:
            yield self._finding(file, place, edits.get(place))

    def check(self, file: PythonFile) -> Iterator[Finding]:
        """Docstrings: the command lines in them."""
        if SWITCH not in file.source.text:
            return
        for found in file.model.every(ast.Constant):
            docstring = isinstance(found.path[0], ast.Expr) and isinstance(found.node.value, str)
            if docstring and SWITCH in found.node.value:
                start, end = file.span(found.node)
                yield from self._docstring(file, start, file.source.text[start:end])

    def _docstring(self, file: PythonFile, start: int, text: str) -> Iterator[Finding]:
        environment = Environment(text, Kind.MARKDOWN if "```" in text else Kind.RST, _WANTED, usage=True)
        edits = environment.edits(self._picked(file, environment.places))
        for place in environment.places:
            edit = edits.get(place)
            message, severity, advice = _words(file, place)
            placed = replace(edit, start=edit.start + start, end=edit.end + start) if edit else None
            severity = severity if placed else Severity.INFO
            yield self._said(
                file,
                replace(place, start=place.start + start, end=place.end + start),
                placed,
                message,
                severity,
                advice,
            )

    def _picked(self, file: AnyFile, places: list[Place]) -> list[Place]:
        """What may go: settings to 1, and what then has nothing left to hand on."""
        if not _decided(file):
            return []
        sure = [p for p in places if p.form == "set" and (p.value == "1" or (p.value == "0" and file.settings.unsafe))]
        rest = [p for p in places if p.form == "unset"]
        if all(p in sure for p in places if p.form == "set"):
            rest += [p for p in places if p.form == "pass"]
        return sure + rest

    def _finding(self, file: TextFile, place: Place, edit: Edit | None) -> Finding:
        return self._said(file, place, edit, *_words(file, place))

    def _said(
        self, file: AnyFile, place: Place, edit: Edit | None, message: str, severity: Severity, advice: str
    ) -> Finding:
        off = place.value == "0" and place.form == "set"
        safety = (Safety.UNSAFE if off else Safety.V1) if edit else Safety.MANUAL
        return file.finding(
            self.id,
            place.start,
            place.end,
            message,
            severity,
            safety=safety,
            effort=Effort.HOURS if off else Effort.MINUTES,
            advice=advice,
            edits=(edit,) if edit else (),
        )


def _decided(file: AnyFile) -> bool:
    """On the target there is one engine for what this file runs."""
    target = min(map(Version, (file.judge.target, file.settings.also or file.judge.target)))
    return target >= _ONE_ENGINE or (target >= Version("0.10.0") and of_cpu(file))


def of_cpu(file: AnyFile) -> bool:
    """The file is about vLLM on a CPU, by its name or by what it sets."""
    return "cpu" in file.source.rel.lower() or _OF_CPU.search(file.source.text) is not None


def _words(file: AnyFile, place: Place) -> tuple[str, Severity, str]:
    target = file.judge.target
    version = Version(target)
    read = version < _UNREAD
    state = f"vLLM {target} {only_v1(target)}" if read else f"vLLM {target} does not read it"
    if not _decided(file):
        older = file.settings.also or target
        message = f"`{SWITCH}` still chooses the engine on vLLM {older}, from 0.11.0 on there is only V1"
        return message, Severity.INFO, "Delete it when you move to 0.11.0 or later."
    if place.form == "set" and place.value == "0":
        what = f"asks for the V0 engine (`{SWITCH}=0`), which vLLM {target} does not have"
        refused = f"{what}: it refuses to start" if read else f"{what}: V1 runs all the same"
        return refused, Severity.ERROR if read else Severity.WARNING, V0_ADVICE
    if place.form in ("comment", "text"):
        prose = place.form == "comment" or getattr(file, "kind", Kind.RST) in _PROSE
        advice = "Correct the sentence: there is nothing left to switch."
        return f"speaks of `{SWITCH}`: {state}", Severity.INFO if prose else Severity.WARNING, advice
    if place.form == "read":
        advice = "Keep the branch for V1 and delete the test."
        return f"reads `{SWITCH}`: {state}", Severity.WARNING, advice
    if place.form == "set" and place.value == "1":
        advice = "Delete it." + (f" Not done here, because {place.why_not}." if place.why_not else "")
        return f"sets `{SWITCH}=1`: {state}", Severity.WARNING, advice
    if place.form == "set":
        shown = place.value if place.value is not None else "an expression"
        advice = "Delete it, with whatever computes the value, and keep what was done for V1."
        return f"sets `{SWITCH}` to {shown}: {state}", Severity.WARNING, advice
    return f"hands on or unsets `{SWITCH}`: {state}", Severity.WARNING, "Delete it."
