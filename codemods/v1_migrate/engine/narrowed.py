"""What an `isinstance` before a place says of an object there, whatever its annotation names, or where it has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from .callshape import own_name
from .context import PythonFile
from .instance import Instance
from .instances import Instances
from .scopes import Path, Scope

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVE = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def narrowed(
    instance: Instance | None, instances: Instances, node: ast.expr, path: Path | None, scope: Scope
) -> Instance | None:
    """The object as an `isinstance` before it leaves it; None where that names a class that is not vLLM's."""
    if not isinstance(node, ast.Name | ast.Attribute) or not _asked_at_all(instances.file):
        return instance
    text = ast.unparse(node)
    asked = next(_asked(text, path), None) if text in _asked_at_all(instances.file) else None
    if asked is None:
        return instance
    found = instances.of_annotation(asked, scope)
    if instance is not None and found is not None and found.dotted == instance.dotted:
        return replace(instance, others=())
    return found


def _asked_at_all(file: PythonFile) -> frozenset[str]:
    """What the file asks of its class anywhere."""
    if narrowed not in file.plans:
        calls = (found.node for found in file.model.nodes.get(ast.Call, ()))
        asked = (call.args[0] for call in calls if own_name(call.func) == "isinstance" and len(call.args) == 2)
        file.plans[narrowed] = frozenset(ast.unparse(each) for each in asked)
    known = file.plans[narrowed]
    assert isinstance(known, frozenset)
    return known


def _asked(text: str, path: Path | None) -> Iterator[ast.expr]:
    """The classes that `isinstance(text, ...)` names before the place, nearest first."""
    inner: ast.AST | None = None
    while path is not None:
        parent, field_name, path = path
        block = getattr(parent, field_name, None)
        if isinstance(block, list) and inner is not None and isinstance(inner, ast.stmt):
            before = block[: next((i for i, each in enumerate(block) if each is inner), 0)]
            for statement in reversed(before):
                yield from _left_by(statement, text)
        if isinstance(parent, ast.If | ast.IfExp | ast.While) and field_name == "body":
            yield from _holds(parent.test, text)
        elif isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            yield from (found for value in parent.values if value is not inner for found in _holds(value, text))
        if isinstance(parent, _FUNCTIONS):
            return
        inner = parent


def _left_by(statement: ast.stmt, text: str) -> Iterator[ast.expr]:
    """What is true behind an `assert`, or behind `if not ...: return`."""
    if isinstance(statement, ast.Assert):
        yield from _holds(statement.test, text)
    elif isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVE) and not statement.orelse:
        test = statement.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from _holds(test.operand, text)


def _holds(test: ast.expr, text: str) -> Iterator[ast.expr]:
    """The classes of `isinstance(text, ...)` in a test that is true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        for value in test.values:
            yield from _holds(value, text)
        return
    asks = isinstance(test, ast.Call) and own_name(test.func) == "isinstance" and len(test.args) == 2
    if isinstance(test, ast.Call) and asks and ast.unparse(test.args[0]) == text:
        yield test.args[1]
