"""Code that patches something of vLLM which moved, changed its contract, or is gone.

## What it does
Reports assignments to attributes of vllm modules and classes, `setattr`, and `mock.patch` targets, where the thing
patched is not what it was. What the tree sets on a module or class of vLLM, and no release ever had, is its own: that
is information, as are reads of it (V1M005).

## Why
A patch on a stale path does nothing, or fails far from its cause. A patch on a moved class works only if the method
still exists and is still called with the same arguments; decorators of the original (such as
`torch.inference_mode`) are not inherited by the replacement.

## Example
```python
import vllm.worker.model_runner

vllm.worker.model_runner.ModelRunner.execute_model = traced
```

## Safety
The path is rewritten by V1M001 or V1M002 where it moved; that the patch still does what it should, only you can say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..engine.text_finder import IMPORTED_ONLY
from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence


_USER = (
    "The old path was the copy of a module that imported the name. Patch it where the target uses it: in the module "
    "whose code shall see the replacement, not where the name is defined."
)


class PatchTarget(Rule):
    id = "V1M006"
    slug = "patch-target"
    summary = "patched object moved, changed or is gone"
    of_the_text = True
    order = 20

    def claims(self, occurrence: Occurrence) -> bool:
        if occurrence.form == "string":
            return occurrence.role == "patch" and occurrence.reason == IMPORTED_ONLY
        patches = occurrence.role in ("patch", "delete") and occurrence.form in ("chain", "attribute")
        return patches and not occurrence.edits

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        if occurrence.sets and verdict.fate == "alien" and verdict.symbol == verdict.dotted:
            return self._own(occurrence, file)
        carried = (
            verdict.movable and not occurrence.reason and occurrence.form == "chain"
        )  # the import's edit takes the patch along
        where = f" (now `{verdict.new or verdict.successor}`)" if verdict.new or verdict.successor else ""
        if carried:
            message = f"patches `{verdict.dotted}`, which is `{verdict.new}` on vLLM {file.judge.target}"
        elif verdict.status == "present":
            message = f"patches `{verdict.dotted}`, which has another contract on vLLM {file.judge.target}"
        else:
            message = f"patches `{verdict.dotted}`, which vLLM {file.judge.target} does not have{where}"
        advice = " ".join(
            part
            for part in (
                verdict.difference,
                verdict.advice,
                _USER if occurrence.form == "string" else "",
                "A replacement does not inherit the original's decorators; wrap it with functools.wraps.",
            )
            if part
        )
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            Severity.INFO if carried else Severity.ERROR if verdict.missing else Severity.WARNING,
            effort=Effort.HOURS,
            advice=advice,
            name=verdict.symbol,
        )

    def _own(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        """An assignment to what vLLM never had: it makes an attribute, and fails nowhere."""
        message = f"sets `{occurrence.dotted}`, which no known release of vLLM has: an attribute of your own"
        advice = "If it was meant to replace something of vLLM's, nothing there reads it."
        return file.finding(
            self.id, occurrence.start, occurrence.end, message, Severity.INFO, advice=advice, name=occurrence.dotted
        )
