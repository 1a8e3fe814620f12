"""What a vLLM fork changed in a module that the target removed.

## What it does
Compares each legacy file of a fork with that file in every release, by hashes that this package carries. An unmodified
one may be deleted: it says so. In a modified one, it names each function, class and method that the fork changed or
added, with its line and with the place where that code lives in the target, and what the fork left out.

## Why
A merge shows conflicts in files that no longer exist. What has to be carried over is only what the fork did there.

## Example
```text
vllm/worker/cpu_worker.py:120: `CPUWorker.execute_model` is not what any release has (nearest: 0.9.2)
```

## Safety
*manual*: nothing is edited or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..names.fork_hashes import Definition, Module

_NAMED = 5  # releases or names listed in a sentence


class ForkChanges(Rule):
    id = "V1M701"
    slug = "fork-changes"
    summary = "what a fork changed in a module that the target removed"
    severity = Severity.WARNING

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if not file.legacy:
            return
        from ..names import fork_hashes  # forks only

        known = fork_hashes.modules().get(file.module)
        if known is None:
            return
        same = known.same_file(fork_hashes.digest(file.source.text))
        if same:
            message = f"this file is vLLM's, unchanged, as in {_listed(same)}"
            yield self._say(file, 1, message, Severity.INFO, Effort.MINUTES, "Delete it with the update.")
            return
        found = fork_hashes.definitions(file.source.text, file.parsed.tree)
        yield from self._changes(file, known, found)

    def _changes(self, file: PythonFile, known: Module, found: list[Definition]) -> Iterator[Finding]:
        nearest = known.nearest(found)
        own = [definition for definition in found if not known.upstream(definition)]
        left_out = known.missing(found, nearest)
        added = sum(definition.name not in known.definitions for definition in own)
        if own or left_out:
            message = (
                f"this file is not what any release has; from vLLM {nearest} it differs in {len(own) - added} "
                f"definitions, adds {added} and leaves out {len(left_out)}"
            )
        else:
            message = f"this file differs from vLLM {nearest} only outside functions and classes"
        advice = f"Left out: {_listed(left_out)}." if left_out else ""
        yield self._say(file, 1, message, Severity.WARNING, Effort.HOURS, advice)
        for definition in own:
            yield self._definition(file, known, definition, nearest)

    def _definition(self, file: PythonFile, known: Module, definition: Definition, nearest: str) -> Finding:
        name = definition.name
        if name in known.definitions:
            message = f"the fork changed `{name}`: no release has this text (nearest: {nearest})"
        else:
            message = f"the fork added `{name}`"
        return self._say(
            file, definition.line, message, Severity.WARNING, Effort.HOURS, _where(file, name), f"{file.module}.{name}"
        )

    def _say(
        self,
        file: PythonFile,
        line: int,
        message: str,
        severity: Severity,
        effort: Effort,
        advice: str,
        name: str = "",
    ) -> Finding:
        start = file.source.line_starts[line - 1]
        end = start + len(file.source.line(line))
        return file.finding(self.id, start, end, message, severity, effort=effort, advice=advice, name=name)


def _where(file: PythonFile, name: str) -> str:
    """Where the code of a definition lives in the target: of the name, else of its class, else of its module."""
    dotted = f"{file.module}.{name}"
    while dotted != file.module.rpartition(".")[0]:
        verdict = file.judge.judge(dotted)
        place = verdict.new or (verdict.successor if verdict.symbol == dotted else "")
        if place:
            return f"In vLLM {file.judge.target} that code is in `{place}`. {verdict.advice}".strip()
        if verdict.advice:
            return verdict.advice
        dotted = dotted.rpartition(".")[0]
    return f"vLLM {file.judge.target} has no place for it."


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[-_NAMED:])
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
