"""A name that the target has again, but with another contract: other constructor, other fields, other methods.

## What it does
Says what differs. The import is rewritten only where every use of the name in the file is safe: annotations, and base
classes, whose overrides are then reported one by one. Calls, `isinstance` tests and attribute reads are not followed
by an edit unless you ask for `--unsafe`.

## Why
`SamplingMetadata`, `SamplerOutput`, `Worker` exist on V1. Code that only gets a new import path would start, and do
something else.

## Example
```python
from vllm.worker.worker import Worker

class MyWorker(Worker):
    def execute_model(self, execute_model_req): ...
```
The import moves to V1's worker, and the class gets a finding that names each method whose contract changed.

## Safety
*unsafe* for everything but annotations and base classes: the constructor call of a namesake is not the same call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.bridge import is_bridged
from ..findings import Effort, Finding, Safety, Severity
from .dotted_string import FORMS, string_severity
from .moved_name import safety_of
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence

_USE = {
    "call": "is called with V0's arguments",
    "base": "is subclassed",
    "isinstance": "is tested with isinstance, which is silently false for V1's objects",
    "patch": "is patched",
    "annotation": "is used as an annotation",
}


class ChangedContract(Rule):
    id = "V1M003"
    slug = "changed-contract"
    summary = "name exists on the target with another contract"
    safety = Safety.V1

    def claims(self, occurrence: Occurrence) -> bool:
        verdict = occurrence.verdict
        if occurrence.module and not is_bridged(occurrence.destination):
            return False
        return verdict.fate == "contract" and (bool(verdict.new) or verdict.symbol == verdict.dotted)

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        present = verdict.status == "present"
        if present:
            message = f"`{verdict.dotted}` has another contract on vLLM {file.judge.target}"
        else:
            new = verdict.new or verdict.successor
            message = f"`{verdict.dotted}` is gone; vLLM {file.judge.target} has `{new}` with another contract"
        if is_bridged(occurrence.destination):
            message += f"; `{occurrence.destination}` serves both engines"
        if not occurrence.primary and occurrence.role in _USE:
            message = f"`{verdict.dotted}` {_USE[occurrence.role]}; its successor has another contract"
        advice = " ".join(part for part in (verdict.difference, verdict.advice) if part)
        swallowed = occurrence.in_trial and occurrence.form == "import" and not present and not occurrence.edits
        if swallowed:
            message += "; the `try` around it always takes its other arm there"
        harmless = present or swallowed or occurrence.edits or occurrence.role == "annotation"
        severity = Severity.WARNING if harmless else Severity.ERROR
        if occurrence.form in FORMS and not occurrence.edits:
            severity = string_severity(occurrence, file)
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            severity,
            safety=self._safety(occurrence, file),
            effort=Effort.HOURS,
            advice=advice,
            name=verdict.symbol,
            primary=occurrence.primary,
            edits=occurrence.edits,
        )

    def _safety(self, occurrence: Occurrence, file: PythonFile) -> Safety:
        if is_bridged(occurrence.destination):
            return safety_of(occurrence, file)
        if occurrence.edits and not occurrence.roles <= {"annotation", "base"}:
            return Safety.UNSAFE
        return safety_of(occurrence, file)
