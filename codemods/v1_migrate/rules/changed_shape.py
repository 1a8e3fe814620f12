"""What was a list is one object on the target, and a method that gave nothing has to give one.

## What it does
By vLLM's own annotations, reports a member that held a list or a dictionary in an earlier release and one object on the
target, where it is walked through, indexed, counted, or given as a list; and an override that returns nothing where the
target's method returns an object of vLLM's.

## Why
The name is still there and the import works. The code fails with a TypeError in the first step of the engine, or vLLM
fails on the None that it gets.

## Example
```python
from vllm.v1.core.sched.output import SchedulerOutput

def ids(output: SchedulerOutput) -> list[str]:
    return [request.req_id for request in output.scheduled_cached_reqs]
```
From 0.9.2 on, `scheduled_cached_reqs` is one object with lists in it:
```python
def ids(output: SchedulerOutput) -> list[str]:
    return output.scheduled_cached_reqs.req_ids
```

## Safety
*manual*. The object has other members than the elements of the list had.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.callees import callees_of
from ..engine.chains import chain_nodes, name_span, owner_of
from ..engine.guards import probed
from ..engine.instance import Instance
from ..engine.instances import instances_of
from ..engine.overrides import Override, overrides
from ..engine.release_tests import version_guard
from ..engine.scopes import Use
from ..engine.shapes import gives_object, was_many
from ..findings import Effort, Finding, Severity
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_MANY = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
_WALKS = frozenset("len list tuple set sorted enumerate iter zip map filter any all sum reversed".split())


class ChangedShape(Rule):
    id = "V1M115"
    slug = "changed-shape"
    summary = "one object on the target where there was a list, or a result where there was none"
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for use in file.model.uses:
            if use.attributes and _is_walked(use):
                yield from self._walked(file, use)
        yield from self._given(file)
        paths = {id(found.node): found.path for found in file.model.every(ast.FunctionDef, ast.AsyncFunctionDef)}
        for override in overrides(file):
            if not version_guard(file, paths.get(id(override.method)), override.method):
                yield from self._returning(file, override)

    def _given(self, file: PythonFile) -> Iterator[Finding]:
        callees = callees_of(file)
        for found in file.model.nodes.get(ast.Call, ()):
            listed = [keyword for keyword in found.node.keywords if keyword.arg and isinstance(keyword.value, _MANY)]
            callee = callees.of(found) if listed else None
            if callee is None:
                continue
            for keyword in listed:
                there = was_many(file.judge, callee.new, keyword.arg)
                if there:
                    yield self._say(file, file.span(keyword.value), callee.new, keyword.arg, there)

    def _walked(self, file: PythonFile, use: Use) -> Iterator[Finding]:
        instances = instances_of(file)
        instance, rest = owner_of(use, instances)
        for attribute in rest[:-1]:
            instance = instances.member(instance, attribute) if instance is not None else None
        if not isinstance(instance, Instance) or instance.others or not rest:
            return
        object_there = was_many(file.judge, instance.dotted, rest[-1])
        if not object_there or version_guard(file, use.path, use.node) or probed(use.path, use.attributes):
            return
        if not (file.tree.is_vllm and file.judge.judge(instance.dotted).status == "present"):
            yield self._say(file, name_span(file, chain_nodes(use)[-1]), instance.dotted, rest[-1], object_there)

    def _say(self, file: PythonFile, span: tuple[int, int], owner: str, member: str, there: str) -> Finding:
        return file.finding(
            self.id,
            *span,
            f"`{member}` of `{owner}` is one `{there.rpartition('.')[2]}` on vLLM {file.judge.target}, no list of them",
            Severity.ERROR,
            effort=Effort.HOURS,
            advice=f"Read the members of `{there}` there: {_members(file, there)}.",
            name=f"{owner}.{member}",
        )

    def _returning(self, file: PythonFile, override: Override) -> Iterator[Finding]:
        method, target = override.method, file.judge.target
        given = (
            gives_object(file.judge, override.base, override.new, method.name)
            if not override.gone and override.new
            else ""
        )
        if not given or not _gives_nothing(method):
            return
        start = file.source.offset(method.lineno, method.col_offset)
        at = file.source.text.find(method.name, start)
        yield file.finding(
            self.id,
            at,
            at + len(method.name),
            f"`{method.name}` returns nothing; vLLM {target} reads a `{given.rpartition('.')[2]}` from it",
            Severity.ERROR,
            advice=f"Return a `{given}`: {_members(file, given)}.",
            name=f"{override.new}.{method.name}",
        )


def _members(file: PythonFile, dotted: str) -> str:
    fields = file.judge.index.fields(dotted, file.judge.target)
    return ", ".join(f"`{name}`" for name in fields[:8]) + (", ..." if len(fields) > 8 else "")


def _is_walked(use: Use) -> bool:
    """The chain is what a loop goes through, what is indexed, or what `len` and its like are given."""
    parent, field_name, _ = use.path
    if isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension):
        return field_name == "iter"
    if isinstance(parent, ast.Subscript):
        return field_name == "value" and isinstance(parent.ctx, ast.Load)
    called = parent.func.id if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) else ""
    return field_name == "args" and called in _WALKS


def _gives_nothing(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """The method ends without a value: it has no `return` with one, does not yield, and does not only raise."""
    stack: list[ast.AST] = list(method.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom) or (isinstance(node, ast.Return) and not _is_none(node.value)):
            return False
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
    abstract = any("abstract" in ast.unparse(each) for each in method.decorator_list)
    return not abstract and not isinstance(method.body[-1], ast.Raise)


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
