"""An override or patch of a method that vLLM runs under `torch.inference_mode()`, without that.

## What it does
Finds methods that replace one which the target decorates with `@torch.inference_mode()` (the memory probe and the step
of V1's worker and model runner), as an override or by assignment, and neither carry such a decorator nor call the
original.

## Why
A decorator belongs to the function that it stands on. Whoever replaces the function loses it: gradients are recorded,
and the memory that the probe measures, or the step needs, grows beyond all bounds.

## Example
```python
from vllm.v1.worker.gpu_worker import Worker

class MyWorker(Worker):
    def determine_available_memory(self) -> int:
        return self.probe()
```

## Safety
*manual*, severity info: add the decorator, or call `super()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.overrides import Function, overrides
from ..findings import Finding, Severity
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

# Where the target defines them; the decorator has been there in every release since 0.9.
_WORKER = "vllm.v1.worker.gpu_worker.Worker"
_RUNNER = "vllm.v1.worker.gpu_model_runner.GPUModelRunner"
_DECORATED = frozenset(
    {
        f"{_WORKER}.determine_available_memory",
        f"{_WORKER}.execute_model",
        f"{_RUNNER}.execute_model",
        f"{_RUNNER}._dummy_run",
        f"{_RUNNER}._dummy_sampler_run",
        f"{_RUNNER}._dummy_pooler_run",
    }
)
_MODES = ("inference_mode", "no_grad")


class LostDecorator(Rule):
    id = "V1M114"
    slug = "lost-decorator"
    summary = "replaces a method that runs under torch.inference_mode(), without it"
    severity = Severity.INFO
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy or file.for_release:
            return
        for override in overrides(file):
            name = f"{override.new}.{override.method.name}"
            if self._decorated(file, name) and not _keeps_it(override.method, override.method.name):
                start = file.source.offset(override.method.lineno, override.method.col_offset)
                yield self._say(file, start, name)
        functions = {found.node.name: found.node for found in file.model.every(ast.FunctionDef)}
        for reference in file.references.uses:
            if reference.role == "patch" and self._decorated(file, reference.dotted):
                parent = reference.use.path[0]
                value = parent.value if isinstance(parent, ast.Assign) else None
                function = functions.get(value.id) if isinstance(value, ast.Name) else None
                if function is not None and not _keeps_it(function, reference.dotted.rpartition(".")[2]):
                    yield self._say(file, file.span(reference.node)[0], reference.dotted)

    def _decorated(self, file: PythonFile, dotted: str) -> bool:
        return file.judge.index.resolve(dotted, file.judge.target).canonical in _DECORATED

    def _say(self, file: PythonFile, start: int, name: str) -> Finding:
        method = name.rpartition(".")[2]
        end = file.source.text.find(method, start) + len(method)
        message = f"`{name}` runs under torch.inference_mode(); what replaces it here does not"
        advice = "Decorate it with @torch.inference_mode(), or call the original inside."
        return file.finding(self.id, start, max(end, start), message, Severity.INFO, advice=advice, name=name)


def _keeps_it(function: Function, method: str) -> bool:
    """The function sets a mode itself, or leaves the work to the original."""
    for node in ast.walk(function):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in _MODES:
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if method.strip("_") in called.strip("_"):  # super().method(), original_method()
                return True
    return False
