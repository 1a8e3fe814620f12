"""A use of vLLM that cannot be followed without running the code.

## What it does
Points at star imports from vLLM, at `getattr` on a vLLM object with a computed name, at `import_module` with a computed
path, and at code that replaces `builtins.__import__`. Not at a path that begins with the name of another package, nor
at the module that an object at hand comes from (`model.__class__.__module__`), which is there.

## Why
Nobody can say what such code reaches, so nobody can say that it is done. It is a place to look at, not a fault.

## Example
```python
from vllm.sequence import *
worker = getattr(vllm.worker, name)
```

## Safety
*manual*. Spell the names out where you can; the tool follows literal names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.asked_in_tests import value_of
from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.scopes import Node, Scope

_READERS = {"getattr", "setattr", "delattr"}
_DEEP = 4


class CannotFollow(Rule):
    id = "V1M007"
    slug = "cannot-follow"
    summary = "use of vLLM that cannot be followed without running it"
    severity = Severity.WARNING

    def check(self, file: PythonFile) -> Iterator[Finding]:
        yield from self._stars(file)
        for found in file.model.every(ast.Call):
            yield from self._call(found, file)
        for found in file.model.every(ast.Assign):
            for target in found.node.targets:
                if isinstance(target, ast.Attribute) and ast.unparse(target) == "builtins.__import__":
                    yield self._say(
                        file,
                        target,
                        "replaces `builtins.__import__`: every import of vLLM may be another",
                        Severity.WARNING,
                    )

    def _stars(self, file: PythonFile) -> Iterator[Finding]:
        for found, module in file.references.stars:
            verdict = file.judge.judge(module)
            start, end = file.span(found.node)
            gone = verdict.missing
            message = f"star import from `{module}`: " + (
                f"vLLM {file.judge.target} has no such module" if gone else "which names it brings cannot be followed"
            )
            advice = " ".join(part for part in ("Import the names you use, one by one.", verdict.advice) if part)
            severity = Severity.ERROR if gone else Severity.WARNING
            if module.partition(".")[0] == "vllm" and file.module.startswith("vllm") and not gone:
                severity = Severity.INFO
            yield file.finding(self.id, start, end, message, severity, advice=advice, name=module)

    def _call(self, found: Node, file: PythonFile) -> Iterator[Finding]:
        call: ast.Call = found.node
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in _READERS and len(call.args) >= 2 and not isinstance(call.args[1], ast.Constant):
            for reference in file.by_node.get(id(call.args[0]), ()):
                yield self._say(
                    file,
                    call,
                    f"`{name}` with a computed name on `{reference.dotted}` cannot be followed",
                    Severity.WARNING if not file.tree.is_vllm else Severity.INFO,
                )
                return
        if (
            name in ("import_module", "__import__")
            and call.args
            and not _literal(call.args[0])
            and not _of_others(call.args[0], found.scope)
            and file.references.imports
        ):
            yield self._say(file, call, f"`{name}` with a computed path cannot be followed", Severity.INFO)

    def _say(self, file: PythonFile, node: ast.AST, message: str, severity: Severity) -> Finding:
        start, end = file.span(node)
        advice = "Check by hand that every name it can reach exists on the target, or spell the names out."
        return file.finding(self.id, start, end, message, severity, effort=Effort.MINUTES, advice=advice)


def _literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.JoinedStr) and "vllm" in ast.unparse(node))


def _of_others(node: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """The path is of an object's own module, relative, or begins with the name of another package."""
    if isinstance(node, ast.Attribute):
        return node.attr == "__module__"
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not (node.value.startswith("vllm") or "vllm".startswith(node.value))
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and _of_others(node.values[0], scope, depth)
    if isinstance(node, ast.FormattedValue):
        return _of_others(node.value, scope, depth)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and _of_others(node.left, scope, depth)
    found = scope.lookup(node.id) if isinstance(node, ast.Name) and depth < _DEEP else None
    values = [value_of(binding) for binding in found[1]] if found is not None else []
    return bool(values) and all(value is not None and _of_others(value, scope, depth + 1) for value in values)
