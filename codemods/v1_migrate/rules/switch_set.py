"""Code that turns V1 on, although it is always on.

## What it does
Takes out what sets `VLLM_USE_V1` to 1 or clears it: assignments to `os.environ`, `monkeypatch.setenv` and `delenv`,
`setdefault`, entries of dicts that become an environment, `envs.set_vllm_use_v1(True)`. A `with monkeypatch.context()`
that did nothing else gives way to its body, and a fixture parameter or import that nothing needs any more goes.

## Why
The variable is not read any more. Each line that sets it tells the next reader that there is a choice.

## Example
```python
def test_engine(monkeypatch):
    with monkeypatch.context() as m:
        m.setenv("VLLM_USE_V1", "1")
        run()
```
becomes
```python
def test_engine():
    run()
```

## Safety
*v1*. A V0 release without the line may choose V0. A dict that is only compared, a value that is computed, and a dict
whose entry is read elsewhere in the file are reported and left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.switch.plan import SUBJECT, plan_of
from ..findings import Finding, Safety, Severity
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class SwitchSet(Rule):
    id = "V1M202"
    slug = "engine-switch-set"
    summary = "sets the engine switch, which V1-only releases do not need"
    severity = Severity.INFO
    safety = Safety.V1
    phase = Phase.DEAD_CODE
    folds = True

    def check(self, file: PythonFile) -> Iterator[Finding]:
        plan = plan_of(file)
        for note in plan.notes:
            if note.rule != self.id:
                continue
            computed = not note.edited and "value" in note.remark
            message = f"sets `VLLM_USE_V1`, which vLLM {file.judge.target} does not need"
            advice = note.remark if note.edited else f"Not edited: {note.remark or 'it is part of an expression'}."
            if computed:
                advice += " Remove the entry once nothing asks for V0."
            yield file.finding(
                self.id,
                note.start,
                note.end,
                message,
                Severity.WARNING if computed else Severity.INFO,
                safety=Safety.V1 if note.edited else Safety.MANUAL,
                advice=advice,
                name=SUBJECT,
                edits=plan.edits if note.edited else (),
            )
