"""A file of a vLLM fork that *is* one of the modules the target removed.

## What it does
Says so once, at the top of the file, and edits nothing in it.

## Why
In a fork, `vllm/worker/cpu_worker.py` is not code to be rewritten. Either it is upstream's, and goes with the update,
or the fork changed it, and the change has to be carried to where that code lives now.

## Example
A tree that defines the package `vllm` and holds `vllm/attention/backends/torch_sdpa.py`, target 0.32.0.

## Safety
*manual*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class LegacyModule(Rule):
    id = "V1M011"
    slug = "legacy-module"
    summary = "file is a vLLM module that the target removed"
    severity = Severity.WARNING

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if not file.removed:
            return
        verdict = file.judge.judge(file.module)
        where = f" (its successor is `{verdict.successor}`)" if verdict.successor else ""
        yield file.finding(
            self.id,
            0,
            0,
            f"this file is vLLM's own `{file.module}`, which is gone since {verdict.since}{where}",
            Severity.WARNING,
            effort=Effort.HOURS,
            advice=(
                "Unchanged from upstream it goes with the update. If the fork changed it, port the change. "
                + verdict.advice
            ).strip(),
            name=file.module,
        )
