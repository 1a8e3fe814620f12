"""An argument that V1 does not know, and that used to choose V0 without a word.

## What it does
Points at arguments of `LLM`, `EngineArgs`, `AsyncEngineArgs` and `SamplingParams` that only V0 served, when they carry
a value that means something.

## Why
Up to 0.10 such an argument made vLLM fall back to V0 with a line in the log. On a CPU that ends in `CPU backend only
supports V1`; on later releases the argument is a TypeError or is refused.

## Example
```python
llm = LLM(model, num_scheduler_steps=8)
```

## Safety
*manual*. The finding says what V1 offers instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.switch.needs import needed
from ..findings import Finding, Severity
from ..names.releases import only_v1
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class ForcedV0(Rule):
    id = "V1M204"
    slug = "forced-v0"
    summary = "argument that only V0 served"

    def check(self, file: PythonFile) -> Iterator[Finding]:
        for found in needed(file):
            target = file.judge.target
            message = f"`{found.need.argument}=` chose V0 without a word; vLLM {target} {only_v1(target)}"
            advice = found.need.instead
            yield file.finding(self.id, found.start, found.end, message, Severity.ERROR, advice=advice, name="")
