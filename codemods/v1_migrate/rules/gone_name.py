"""A name of V0 that the target does not have, and that nothing replaces under the same contract.

## What it does
Reports every place that names it, with what to use on V1 instead, or that there is no counterpart and why.

## Why
Three quarters of what breaks when V0 goes has no renamed twin: sequence groups, block managers, model-runner bases,
speculative-decoding workers. No rewrite can be right there; a person has to choose.

## Example
```python
from vllm.sequence import SequenceGroupMetadata
```
stays as it is and is an error, with advice.

## Safety
*manual*. Nothing is edited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.bridge import is_bridged
from ..findings import Effort, Finding, Severity
from .dotted_string import FORMS, string_severity
from .moved_name import safety_of
from .namesakes import namesakes
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence


class GoneName(Rule):
    id = "V1M004"
    slug = "gone-name"
    summary = "name does not exist on the target"
    of_the_text = True
    order = 90

    def claims(self, occurrence: Occurrence) -> bool:
        return occurrence.verdict.missing

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        member = verdict.dotted[len(verdict.symbol) + 1 :]
        if verdict.fate in ("moved", "contract") and member:
            message = (
                f"`{verdict.symbol}` is `{verdict.successor}` on vLLM {file.judge.target}, which has no `{member}`"
            )
        elif verdict.last:
            message = (
                f"`{verdict.symbol}` is gone since vLLM {verdict.since}"
                if verdict.since
                else (f"vLLM {file.judge.target} has no `{verdict.symbol}`")
            )
        else:
            message = f"vLLM {file.judge.target} has no `{verdict.dotted}`"
        if is_bridged(occurrence.destination):
            message += f"; `{occurrence.destination}` serves both engines"
        severity = Severity.ERROR
        if occurrence.form in FORMS:
            severity = string_severity(occurrence, file)
        if occurrence.in_trial and occurrence.form == "import":
            severity = Severity.WARNING
            message += "; the `try` around it always takes its other arm there"
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            severity,
            effort=self._effort(occurrence),
            advice=self._advice(occurrence, file),
            name=verdict.symbol,
            primary=occurrence.primary,
            safety=safety_of(occurrence, file),
            edits=occurrence.edits,
        )

    def _effort(self, occurrence: Occurrence) -> Effort:
        return Effort.DAYS if occurrence.role in ("base", "patch") else Effort.HOURS

    def _advice(self, occurrence: Occurrence, file: PythonFile) -> str:
        verdict = occurrence.verdict
        wanted = verdict.dotted if file.judge.is_module(verdict.symbol) else verdict.symbol
        if verdict.advice and verdict.fate != "unlisted" and wanted == verdict.symbol:
            return verdict.advice
        alike = namesakes(file.judge, wanted)
        if alike:
            return f"{alike} {verdict.advice}".strip()
        return (
            verdict.advice
            or "It has no counterpart of that name there: see what its module became (`v1-migrate explain`)."
        )
