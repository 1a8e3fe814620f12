"""Which vLLM class the elements of a list, a tuple or a dictionary are of, as far as one file tells.

From annotations (`list[A]`, `dict[str, A]`), from what the file puts into it, and from the results of vLLM's methods.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..names.annotations import held_by, is_none, members_of
from ..names.member_types import Typed
from .callshape import own_name
from .held import held
from .instance import of_type
from .scopes import Binding, Scope

if TYPE_CHECKING:
    from .instance import Instance
    from .instances import Instances

_SAME_ELEMENTS = frozenset({"list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "tqdm"})
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Container:
    """Something that holds objects of one class: its elements, or the values of a mapping."""

    element: Instance
    mapping: bool = False


class Elements:
    """Answers for one file."""

    def __init__(self, instances: Instances) -> None:
        self.instances = instances

    def of(self, node: ast.expr, scope: Scope, depth: int = 0) -> Container | None:
        """What an expression holds."""
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self._of_name(node.id, scope, depth)
        if isinstance(node, ast.Attribute):
            return self._of_self(node, scope) or self._of_member(node, scope, depth)
        if isinstance(node, ast.Call):
            return self._of_call(node, scope, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.of(node.value, scope, depth + 1)
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return _of_one_class([self.instances.known(each, scope, depth + 1) for each in node.elts])
        if isinstance(node, ast.Dict):
            held = _of_one_class([self.instances.known(each, scope, depth + 1) for each in node.values])
            return Container(held.element, mapping=True) if held is not None else None
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            inner = self._scopes.get(id(node))
            return _of_one_class([self.instances.known(node.elt, inner, depth + 1)]) if inner is not None else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self.of(node.left, scope, depth + 1)
        return None

    @cached_property
    def _scopes(self) -> dict[int, Scope]:
        return {id(scope.node): scope for scope in self.instances.file.model.scopes}

    def _of_name(self, name: str, scope: Scope, depth: int) -> Container | None:
        found = scope.lookup(name)
        if found is None:
            return None
        return _agreed([self._bound(binding, depth) for binding in found[1] if not _empty(_value_of(binding))])

    def _bound(self, binding: Binding, depth: int) -> Container | None:
        if binding.kind == "argument":
            return self.of_annotation(getattr(binding.node, "annotation", None), binding.scope)
        statement = binding.node if isinstance(binding.node, ast.Assign) else binding.path[0]
        if isinstance(statement, ast.AnnAssign):
            return self.of_annotation(statement.annotation, binding.scope)
        value = _value_of(binding)
        return self.of(value, binding.scope, depth + 1) if value is not None else None

    def _of_self(self, node: ast.Attribute, scope: Scope) -> Container | None:
        if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
            return None
        annotations = self.instances.annotations_of_self(node.attr, scope)
        return _agreed([self.of_annotation(annotation, inner) for annotation, inner in annotations])

    def _of_member(self, node: ast.Attribute, scope: Scope, depth: int) -> Container | None:
        """What vLLM's own annotation of a member says that it holds."""
        owner = self.instances.known(node.value, scope, depth + 1)
        if owner is None or owner.others:
            return None
        return _typed(held(self.instances.file.judge, owner.dotted, node.attr), "attribute")

    def _of_call(self, node: ast.Call, scope: Scope, depth: int) -> Container | None:
        if isinstance(node.func, ast.Name) and node.func.id in _SAME_ELEMENTS and node.args:
            held = self.of(node.args[0], scope, depth + 1)
            return held if held is not None and not held.mapping else None
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "copy") and not node.args:
            held = self.of(node.func.value, scope, depth + 1)
            if held is not None and (held.mapping or node.func.attr == "copy"):
                return Container(held.element, held.mapping and node.func.attr == "copy")
        found = _held(self.instances.given_by(node, scope, depth))
        return found or _typed(self.instances.results.typed(node, scope, depth), "result")

    def of_annotation(self, node: ast.expr | None, scope: Scope) -> Container | None:
        """What an annotation says that it holds: plain, optional or quoted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self.of_annotation(ast.parse(node.value.strip(), mode="eval").body, scope)
            except (SyntaxError, ValueError, RecursionError):
                return None
        members = [each for each in members_of(node) if not is_none(each)] if node is not None else []
        if len(members) == 1 and members[0] is not node:
            return self.of_annotation(members[0], scope)
        held = held_by(node) if node is not None else None
        return _held(self.instances.of_annotation(held[0], scope), mapping=held[1]) if held is not None else None

    def of_target(self, binding: Binding, depth: int) -> Instance | None:
        """The class of a loop's variable: `for x in xs`, `for i, x in enumerate(xs)`, `for k, v in d.items()`."""
        parent, field_name, outer = binding.path
        position: int | None = None
        target: ast.AST = binding.node
        if isinstance(parent, ast.Tuple) and outer is not None:
            position, target = parent.elts.index(binding.node), parent  # type: ignore[arg-type]
            parent, field_name, outer = outer
        loop = isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension) and parent.target is target
        if not loop or field_name != "target":
            return None
        return self._each(parent.iter, binding.scope, position, depth)  # type: ignore[attr-defined]

    def _each(self, node: ast.expr, scope: Scope, position: int | None, depth: int) -> Instance | None:
        """The class of what an iteration gives; `position` in the tuples that it gives."""
        if position is None:
            held = self.of(node, scope, depth + 1)
            return held.element if held is not None and not held.mapping else None
        if not isinstance(node, ast.Call):
            return None
        name = own_name(node.func)
        if name == "enumerate" and position == 1 and node.args:
            return self._each(node.args[0], scope, None, depth + 1)
        if name == "zip" and position < len(node.args):
            return self._each(node.args[position], scope, None, depth + 1)
        if name == "items" and position == 1 and isinstance(node.func, ast.Attribute):
            held = self.of(node.func.value, scope, depth + 1)
            return held.element if held is not None and held.mapping else None
        return None


def _empty(node: ast.expr | None) -> bool:
    """`None`, `[]`, `{}`, `list()`: says nothing about what comes in later."""
    if isinstance(node, ast.List | ast.Tuple):
        return not node.elts
    if isinstance(node, ast.Dict):
        return not node.keys
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("list", "dict", "set") and not node.args
    return is_none(node)


def _value_of(binding: Binding) -> ast.expr | None:
    """What `name = value` gives; None for another kind of binding."""
    if isinstance(binding.node, ast.Assign | ast.NamedExpr):
        return binding.node.value
    parent, field_name, _ = binding.path
    return parent.value if isinstance(parent, ast.Assign) and field_name == "targets" else None


def _typed(typed: Typed | None, kind: str) -> Container | None:
    if typed is None or not typed.holds or typed.kind != kind:
        return None
    return _held(of_type(typed), mapping=typed.holds == "values")


def _held(element: Instance | None, *, mapping: bool = False) -> Container | None:
    return Container(element, mapping) if element is not None else None


def _of_one_class(found: list[Instance | None]) -> Container | None:
    return _held(found[0]) if found and len(set(found)) == 1 else None


def _agreed(found: list[Container | None]) -> Container | None:
    return found[0] if len(set(found)) == 1 else None
