"""Code that asks which engine runs, although only V1 is left.

## What it does
Folds every read of `VLLM_USE_V1` to true: `envs.VLLM_USE_V1`, `os.environ`, `os.getenv`, `envs.is_set`, and what is
computed from them. Of an `if` the arm for V1 stays, moved to the left; conditions lose the superfluous part; names,
parameters, fixtures and imports that only the folded code used go, too.

## Why
On V1-only releases the question has one answer, and from 0.11.2 on asking it through `vllm.envs` is an AttributeError.

## Example
```python
if envs.VLLM_USE_V1 and current_platform.is_cpu():
    worker = "v1"
else:
    worker = "v0"
```
becomes
```python
if current_platform.is_cpu():
    worker = "v1"
else:
    worker = "v0"
```

## Safety
*v1*. What short-circuit evaluation would have run still runs. A test of the raw text (`if os.getenv("VLLM_USE_V1"):`)
is folded as it was meant, and the finding says so: the text `0` passes it, too. A test of whether the variable is set
(`os.getenv("VLLM_USE_V1") is None`, `"VLLM_USE_V1" not in os.environ`) is folded as if it were set to 1. Code
that sets the switch to 0 around the read, that first tests whether the release has it, or that a test of vLLM's version
keeps from the target, is reported and left alone; so is, for a 0.10 target, code that is not only for CPUs. A class of
the tree that an arm which goes alone named by its path is a finding of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.release_arms import NEVER
from ..engine.switch.defaults import MORE_THAN_A_DEFAULT
from ..engine.switch.names import SWITCH
from ..engine.switch.plan import SUBJECT, plan_of
from ..findings import Effort, Finding, Safety, Severity
from ..names.releases import only_v1
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence


class SwitchRead(Rule):
    id = "V1M201"
    slug = "engine-switch-read"
    summary = "asks which engine runs, and only V1 is left"
    safety = Safety.V1
    phase = Phase.DEAD_CODE
    folds = True
    order = -1

    def claims(self, occurrence: Occurrence) -> bool:
        return occurrence.dotted == SUBJECT and occurrence.form in ("import", "chain")

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        return self._say(file, occurrence.start, occurrence.end, False, "")

    def check(self, file: PythonFile) -> Iterator[Finding]:
        plan = plan_of(file)
        for orphan in plan.orphans:
            yield file.finding(
                self.id,
                orphan.start,
                orphan.end,
                f"`{orphan.dotted}` is named in an arm that V1 never takes, and in no other Python file of the tree",
                Severity.WARNING,
                effort=Effort.HOURS,
                advice="Name it where V1 chooses (`get_attn_backend_cls` of the platform, `worker_cls`), or delete it.",
                name=orphan.dotted,
            )
        for note in plan.notes:
            if note.rule == self.id:
                finding = self._say(file, note.start, note.end, note.edited, note.remark)
                yield (
                    finding
                    if not note.edited
                    else file.finding(
                        self.id,
                        note.start,
                        note.end,
                        finding.message,
                        finding.severity,
                        safety=Safety.V1,
                        advice=finding.advice,
                        name=SUBJECT,
                        edits=plan.edits,
                    )
                )

    def _say(self, file: PythonFile, start: int, end: int, edited: bool, remark: str) -> Finding:
        gone, target = file.judge.judge(SUBJECT).missing, file.judge.target
        written = " ".join(file.source.text[start:end].split())
        text = written if len(written) < 60 else written[:57] + "..."
        message, severity = f"`{text}` is true on vLLM {target}, which {only_v1(target)}", Severity.WARNING
        if "environ" in text or "getenv" in text:
            state = f"nothing sets `{SWITCH}` on vLLM {target}, which {only_v1(target)}"
            if not gone:
                state = f"vLLM {target}, which {only_v1(target)}, sets `{SWITCH}` with its first engine; until then"
            message = f"{state}{':' if gone else ''} `{text}` {_given(written)}"
        elif gone and (SWITCH in text or "is_set" in text):
            message, severity = f"vLLM {target} {only_v1(target)}, and `{SUBJECT}` is gone", Severity.ERROR
        if edited:
            return file.finding(self.id, start, end, message, severity, advice=remark, name=SUBJECT)
        if remark == NEVER:
            advice = f"Not edited: {remark}. It can go once you support no such release."
            return file.finding(self.id, start, end, message, Severity.INFO, advice=advice, name=SUBJECT)
        advice = f"Not edited: {remark}. " if remark else ""
        advice += (
            "Keep of its arms what shall happen on every run, and drop the test."
            if remark in MORE_THAN_A_DEFAULT
            else "Keep the V1 arm and drop the test."
        )
        return file.finding(self.id, start, end, message, severity, advice=advice, name=SUBJECT)


def _given(text: str) -> str:
    """What a read of the environment gives where the variable is not set."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return "gives its default"
    if isinstance(node, ast.Subscript):
        return "fails"
    if isinstance(node, ast.Compare):
        return "is true" if isinstance(node.ops[0], ast.NotIn) else "is false"
    default = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else ast.Constant(None)
    if not isinstance(default, ast.Constant):
        return "gives its default"
    gives = f"gives `{ast.unparse(default)}`"
    return gives if default.value in ("1", 1) else f"{gives}, and what is meant for V0 runs without a word"
