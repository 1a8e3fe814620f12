"""A dotted path in a string that names something of vLLM which lives elsewhere on the target.

## What it does
Rewrites string constants that are exactly the path of a moved object: `worker_cls=`, `mock.patch` targets, what
`get_attn_backend_cls` returns, `importlib.import_module`, annotations in quotes, `# type:` comments.

## Why
No import fails when such a string is stale; the error comes when it is used, often in another process.

## Example
```python
mocker.patch("vllm.worker.worker_base.WorkerWrapperBase.init_worker")
```
becomes
```python
mocker.patch("vllm.v1.worker.worker_base.WorkerWrapperBase.init_worker")
```

## Safety
Only a string that is the path and nothing else is edited, and only if all of it, methods included, exists on the
target. A path inside a longer text, put together from pieces or written as a file name, is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Safety, Severity
from .moved_name import safety_of
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence

FORMS = ("string", "text", "computed", "path", "comment")  # of what a string holds, not code
_PROMPTS = (">>> ", "... ")  # of an example


class DottedString(Rule):
    id = "V1M002"
    slug = "moved-path-in-string"
    summary = "string spells the path of a name that lives elsewhere on the target"
    of_the_text = True
    safety = Safety.BRIDGE

    def claims(self, occurrence: Occurrence) -> bool:
        verdict = occurrence.verdict
        return verdict.missing and verdict.fate == "moved" and bool(verdict.new) and occurrence.form in FORMS

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        message = f"the string names `{verdict.dotted}`, which is `{verdict.new}` on vLLM {file.judge.target}"
        severity = string_severity(occurrence, file)
        advice = verdict.advice
        if occurrence.form == "computed":
            advice = f"The path is put together at run time: change the pieces by hand. {advice}".strip()
        elif not occurrence.edits and occurrence.reason:
            advice = f"Not edited: {occurrence.reason}. {advice}".strip()
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            severity,
            safety=safety_of(occurrence, file),
            effort=Effort.MINUTES,
            advice=advice,
            name=verdict.symbol,
            edits=occurrence.edits,
        )


def string_severity(occurrence: Occurrence, file: PythonFile) -> Severity:
    """A path that stands alone is used as one; inside a sentence or an example it is prose."""
    if occurrence.form in ("string", "computed"):
        return Severity.ERROR
    line_start = file.source.position(occurrence.start)[0]
    around = file.source.line(line_start)
    prose = occurrence.form == "text" and (around.count(" ") > 6 or around.lstrip().startswith(_PROMPTS))
    return Severity.INFO if prose or occurrence.form == "comment" else Severity.WARNING
