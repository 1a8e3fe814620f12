"""A name of vLLM that lives somewhere else on the target release, with the same contract.

## What it does
Rewrites imports, and the dotted paths that go with them, to where the name lives on the target.

## Why
vLLM's V0 modules are gone. Where V1 has the same object under another path, only the path has to change.

## Example
```python
from vllm.worker.worker_base import WorkerBase  # noqa: F401
import vllm.model_executor.utils
```
becomes, for vLLM 0.32.0,
```python
from vllm.v1.worker.worker_base import WorkerBase  # noqa: F401
import vllm.utils.torch_utils
```

## Safety
The import stands where it stood, binds the same name, and keeps its comments. An import that V0 releases also
understand is a *bridge* edit. A renamed object keeps its old local name (`New as Old`), so that nothing else has to
change. Code behind a version test, or with a second import for the other engine, is left alone (V1M010).

When the statement cannot be edited (a module whose parts went to several places, a path put together from pieces), the
finding says where the name is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.bridge import is_bridged
from ..findings import Effort, Finding, Safety, Severity
from ..names.index import LAST_V0
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence


class MovedName(Rule):
    id = "V1M001"
    slug = "moved-name"
    summary = "name lives elsewhere on the target"
    of_the_text = True
    safety = Safety.BRIDGE

    def claims(self, occurrence: Occurrence) -> bool:
        if occurrence.role == "patch" and not occurrence.edits and occurrence.form != "string":
            return False
        verdict = occurrence.verdict
        if occurrence.destination and not is_bridged(occurrence.destination):
            return occurrence.module or verdict.fate != "contract"
        whole = bool(verdict.new) or verdict.symbol == verdict.dotted
        forms = ("import", "chain", "attribute")
        return verdict.missing and verdict.fate == "moved" and whole and occurrence.form in forms

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        new = occurrence.destination or verdict.new or verdict.successor
        message = f"`{verdict.dotted}` is `{new}` on vLLM {file.judge.target}"
        if is_bridged(new):
            message = f"`{verdict.dotted}` is served to both engines by `{new}`"
        advice = verdict.advice if new == verdict.new else ""
        if not occurrence.edits and occurrence.reason:
            advice = f"Not edited: {occurrence.reason}. {advice}".strip()
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            Severity.ERROR,
            safety=safety_of(occurrence, file),
            effort=Effort.MINUTES,
            advice=advice,
            name=verdict.symbol,
            primary=occurrence.primary,
            edits=occurrence.edits,
        )


def safety_of(occurrence: Occurrence, file: PythonFile) -> Safety:
    """Bridge when the last release with the V0 CPU engine knows the new path, too."""
    if not occurrence.edits:
        return Safety.MANUAL
    new = occurrence.destination or occurrence.verdict.new
    if is_bridged(new):
        return Safety.BRIDGE
    index = file.judge.index
    bridge = all(part.startswith("vllm") and index.resolve(part, LAST_V0).found for part in new.split(", "))
    return Safety.BRIDGE if bridge else Safety.V1
