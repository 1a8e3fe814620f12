"""Code that asks for V0, which is gone.

## What it does
Points at everything that sets `VLLM_USE_V1` to 0, also where that is only its default, and names what the file does
that only V0 could: per-request logits processors, `best_of`, and other arguments that V1 has no place for.

## Why
Someone needed V0 there. A release from 0.11.0 on refuses the setting or ignores it, so the code fails, or runs on V1
and does something else. Which of the two is right cannot be read from the line.

## Example
```python
os.environ["VLLM_USE_V1"] = "0"
params = SamplingParams(logits_processors=[ban_words])
```
stays as it is; both lines are named.

## Safety
*manual*. With `--unsafe` the setting is taken out; what needed V0 still has to be replaced by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.switch.needs import v0_needs
from ..engine.switch.plan import SUBJECT, plan_of
from ..findings import Effort, Finding, Safety, Severity
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class SwitchV0(Rule):
    id = "V1M203"
    slug = "engine-switch-v0"
    summary = "asks for V0, which is gone"
    safety = Safety.UNSAFE
    phase = Phase.DEAD_CODE
    folds = True

    def check(self, file: PythonFile) -> Iterator[Finding]:
        plan = plan_of(file)
        notes = [note for note in plan.notes if note.rule == self.id]
        needs = list(v0_needs(file)) if notes else []
        refused = file.judge.target.startswith(("0.10.", "0.11.0"))
        for note in notes:
            does = "refuses it" if refused else "ignores it and runs V1"
            message = f"asks for V0; vLLM {file.judge.target} {does}"
            yield file.finding(
                self.id,
                note.start,
                note.end,
                message,
                Severity.ERROR if refused else Severity.WARNING,
                safety=Safety.UNSAFE if note.edited else Safety.MANUAL,
                effort=Effort.HOURS,
                advice=self._advice(file, needs),
                name=SUBJECT,
                edits=plan.edits if note.edited else (),
            )

    def _advice(self, file: PythonFile, needs: list[tuple[int, str, str]]) -> str:
        if not needs:
            return "Find out what needed V0, then remove the line."
        lines = [f"line {file.source.position(start)[0]}: {what}" for start, what, _ in needs[:3]]
        return f"The file needs V0 for something else: {'; '.join(lines)}. {needs[0][2]}"
