"""What calls give: functions and methods of the file itself, and vLLM's by their annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..names.member_types import Typed
from .callshape import own_name
from .held import given, held
from .instance import Instance, agreed, of_type
from .scopes import Scope, class_around

if TYPE_CHECKING:
    from .instances import Instances

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Results:
    """Answers for one file."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances
        self._scopes = {id(scope.node): scope for scope in instances.file.model.scopes}

    def of(self, call: ast.Call, scope: Scope, depth: int) -> Instance | None:
        """The object that a call gives at once."""
        typed = self.typed(call, scope, depth)
        if typed is not None:
            return of_type(typed) if typed.kind == "result" and not typed.holds else None
        own = self._own(call, scope)
        return self._returned(own, depth) if isinstance(own, ast.FunctionDef) else None

    def awaited(self, call: ast.Call, scope: Scope, depth: int) -> Instance | None:
        """The object that a call gives when it is awaited."""
        typed = self.typed(call, scope, depth)
        if typed is not None:
            return of_type(typed) if typed.kind == "awaited" and not typed.holds else None
        own = self._own(call, scope)
        return self._returned(own, depth) if isinstance(own, ast.AsyncFunctionDef) else None

    def entered(self, node: ast.expr, scope: Scope, depth: int) -> Instance | None:
        """The object behind `as` of a `with`."""
        typed = self.typed(node, scope, depth) if isinstance(node, ast.Call) else None
        return of_type(typed) if typed is not None and typed.kind == "context" else None

    def typed(self, call: ast.Call, scope: Scope, depth: int) -> Typed | None:
        """What vLLM says of a function or a method of its own."""
        judge = self.instances.file.judge
        references = self.instances.file.by_node.get(id(call.func), ())
        if references:
            meant = len(references) == 1 and references[0].meant
            return given(judge, references[0].dotted) if meant else None
        if not isinstance(call.func, ast.Attribute):
            return None
        owner = self.instances.known(call.func.value, scope, depth + 1)
        if owner is None or owner.others:
            return None
        return held(judge, owner.dotted, call.func.attr)

    def _own(self, call: ast.Call, scope: Scope) -> Function | None:
        """The function or method of this file that a call reaches, where nothing else has its name."""
        found = None
        if isinstance(call.func, ast.Name):
            bound = scope.lookup(call.func.id)
            found = bound[1] if bound is not None else None
        elif isinstance(call.func, ast.Attribute) and own_name(call.func.value) in ("self", "cls"):
            owner = class_around(scope)
            found = owner.bindings.get(call.func.attr) if owner is not None else None
        only = found[0].node if found and len(found) == 1 else None
        plain = isinstance(only, Function) and not any(
            own_name(decorator) not in ("staticmethod", "classmethod") for decorator in only.decorator_list
        )
        return only if plain and isinstance(only, Function) else None

    def own_values(self, call: ast.Call, scope: Scope) -> tuple[list[ast.expr], Scope] | None:
        """What a function or method of this file returns, and its scope; None where there is none."""
        own = self._own(call, scope)
        return self._values(own) if isinstance(own, ast.FunctionDef) else None

    def _values(self, function: Function) -> tuple[list[ast.expr], Scope] | None:
        scope, values = self._scopes.get(id(function)), list(_given_back(function.body))
        known = sorted((each for each in values if each is not None), key=lambda each: each.lineno)
        return (known, scope) if scope is not None and len(known) == len(values) else None

    def _returned(self, function: Function, depth: int) -> Instance | None:
        """What the function's annotation says, else all of its `return`s."""
        scope = self._scopes.get(id(function))
        if scope is not None and function.returns is not None:
            return self.instances.of_annotation(function.returns, scope.parent or scope)
        found = self._values(function)
        return agreed([self.instances.known(each, found[1], depth + 1) for each in found[0]]) if found else None


def _given_back(body: list[ast.stmt]) -> Iterator[ast.expr | None]:
    """What a function's own `return`s give; None where it yields instead."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            yield None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
