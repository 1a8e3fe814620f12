"""A `skipif` that asks for the engine.

## What it does
Takes a `skipif` out whose condition never holds on V1, as decorator, in `pytestmark` and in `marks=`; one that always
holds is reported as a test for V0 (V1M305). Points at skips whose reason speaks of an engine while their condition does
not.

## Why
A condition with one outcome is none. A reason such as "V1 only runs on CUDA" may have been true when it was written.

## Example
```python
@pytest.mark.skipif(os.getenv("VLLM_USE_V1") == "0", reason="V1 only")
def test_graph(): ...
```
becomes
```python
def test_graph(): ...
```

## Safety
*v1* for what never skips; *manual*, as information, for reasons.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.switch.plan import plan_of
from ..findings import Finding, Severity
from .engine_marks import PlannedRule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_ENGINE = re.compile(r"\b[Vv][01]\b")


class SkipIf(PlannedRule):
    id = "V1M307"
    slug = "engine-skipif"
    summary = "skip on a condition that asks for the engine"
    message = "the condition never holds on vLLM {target}"
    advice = ""
    severity = Severity.WARNING

    def check(self, file: PythonFile) -> Iterator[Finding]:
        yield from super().check(file)
        for found in file.model.every(ast.Call):
            call = found.node
            if not isinstance(call.func, ast.Attribute) or call.func.attr not in ("skip", "skipif"):
                continue
            start, end = file.span(call)
            gone = any(edit.start <= start and end <= edit.end for edit in plan_of(file).edits)
            if gone or "VLLM_USE_V1" in ast.unparse(call):
                continue
            texts = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "reason")]
            for text in texts:
                if isinstance(text, ast.Constant) and isinstance(text.value, str) and _ENGINE.search(text.value):
                    start, end = file.span(text)
                    message = "the reason for this skip speaks of an engine, its condition does not"
                    advice = "See whether it still holds with V1 as the only engine."
                    yield file.finding(self.id, start, end, message, Severity.INFO, advice=advice)
