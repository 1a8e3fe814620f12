"""A subclass of a vLLM class that overrides methods V1 does not call, or calls with other arguments.

## What it does
Compares each method of the class body with the base class of V0 and with the one of the target: a method the target's
base does not have is never called; a method whose parameters changed fails when it is.

## Why
A worker, model-runner or attention subclass keeps importing after its base moved. What it overrides is another matter,
and nothing says so until a request is served.

## Example
```python
class MyWorker(CPUWorker):
    def determine_num_available_blocks(self): ...
```

## Safety
*manual*. The finding names the parameters of the target.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Severity
from ..names.index import Param
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


V0_RELEASES = ("0.9.2", "0.8.5")  # with the V0 CPU engine, newest first


class StaleOverride(Rule):
    id = "V1M009"
    slug = "stale-override"
    summary = "overrides a method that the target's base class lacks or calls with other arguments"

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for found in file.model.every(ast.ClassDef):
            for base in found.node.bases:
                for reference in file.by_node.get(id(base), ()):
                    yield from self._overrides(found.node, reference.dotted, file)

    def _overrides(self, node: ast.ClassDef, base: str, file: PythonFile) -> Iterator[Finding]:
        verdict = file.judge.judge(base)
        new = base if verdict.status == "present" else verdict.new
        index = file.judge.index
        old_release = next((r for r in V0_RELEASES if index.resolve(base, r).found), file.judge.span(base)[1])
        if not new or old_release in ("", file.judge.target):
            return
        for method in node.body:
            if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or method.name.startswith("__"):
                continue
            before = index.params(f"{base}.{method.name}", old_release)
            if before is None:
                continue
            after = index.params(f"{new}.{method.name}", file.judge.target)
            message = self._difference(method, before, after, new, file, old_release)
            if message:
                yield self._say(file, method, message, new)

    def _difference(
        self,
        method: ast.FunctionDef | ast.AsyncFunctionDef,
        before: tuple[Param, ...],
        after: tuple[Param, ...] | None,
        new: str,
        file: PythonFile,
        old_release: str,
    ) -> str:
        target = file.judge.target
        if after is None:
            if file.judge.index.resolve(f"{new}.{method.name}", target).found is not False:
                return ""
            return f"`{method.name}` overrides a method that `{new}` does not have on vLLM {target}: nothing calls it"
        if [p.name for p in before] == [p.name for p in after] or _accepts(method.args, after):
            return ""
        wanted = ", ".join(_spelled(p) for p in after if p.name not in ("self", "cls"))
        return f"`{method.name}` is called as `{method.name}({wanted})` on vLLM {target}, which this override refuses"

    def _say(self, file: PythonFile, method: ast.FunctionDef | ast.AsyncFunctionDef, message: str, new: str) -> Finding:
        start = file.source.offset(method.lineno, method.col_offset)
        end = file.source.text.find(":", start)
        end = end if end >= 0 else start + 3
        line_end = file.source.text.find("\n", start)
        advice = f"Compare it with `{new}` of the target release and port what it is for."
        return file.finding(
            self.id,
            start,
            min(end, line_end) if line_end > 0 else end,
            message,
            Severity.WARNING if "nothing calls it" in message else Severity.ERROR,
            effort=Effort.HOURS,
            advice=advice,
            name=new,
        )


def _accepts(arguments: ast.arguments, wanted: tuple[Param, ...]) -> bool:
    """A definition with these arguments can be called with all parameters of the target's."""
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    named = {*positional, *(argument.arg for argument in arguments.kwonlyargs)}
    if arguments.vararg and arguments.kwarg:
        return True
    for param in wanted:
        if param.kind in ("var_pos", "var_kw"):
            continue
        if param.name not in named and arguments.kwarg is None:
            return False
    extra = positional[: len(positional) - len(arguments.defaults)]
    return set(extra) <= {param.name for param in wanted} | {"self", "cls"}


def _spelled(param: Param) -> str:
    star = {"var_pos": "*", "var_kw": "**"}.get(param.kind, "")
    return star + param.name + ("=..." if param.default else "")
