"""Which vLLM class an object is of, as far as one file tells: annotations, `x = Class(...)`, attributes of self.

Small on purpose: a name with bindings of several kinds has no class here, and nothing is followed into other files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass

from .context import PythonFile
from .scopes import Binding, Scope, Use, ancestors

_OPTIONAL = {"Optional", "Annotated", "ClassVar", "Final", "Type", "type"}
_DEPTH = 6
_OBJECTS = {"vllm.platforms.current_platform": "vllm.platforms.interface.Platform"}
"""Objects that modules of vLLM hold, and their classes."""


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of the class `dotted`; `built` when the file makes it, else an annotation says so."""

    dotted: str
    built: bool = False


class Instances:
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self._imports = {
            (id(imported.statement), imported.local): imported.dotted for imported in file.references.imports
        }
        self._stores: dict[tuple[int, str], list[Use]] = defaultdict(list)
        for use in file.model.uses:
            if use.name == "self" and len(use.attributes) == 1 and isinstance(use.node.ctx, ast.Store):  # type: ignore[attr-defined]
                owner = class_around(use.scope)
                if owner is not None:
                    self._stores[id(owner.node), use.attributes[0]].append(use)
        self._known: dict[tuple[int, str], Instance | None] = {}

    def of_expression(self, node: ast.expr, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of what an expression gives."""
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self.of_name(node.id, scope, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self.of_self(node.attr, scope, depth)
        if isinstance(node, ast.Call):
            dotted = self._class_named(node.func) or self._class_of_factory(node.func)
            return Instance(dotted, True) if dotted else None
        if isinstance(node, ast.NamedExpr):
            return self.of_expression(node.value, scope, depth + 1)
        return None

    def of_name(self, name: str, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of the object a name stands for here; None unless all its bindings agree."""
        found = scope.lookup(name)
        if found is None or depth > _DEPTH:
            return None
        key = (id(found[0]), name)
        if key not in self._known:
            self._known[key] = None  # cuts a cycle: `x = x`
            telling = [binding for binding in found[1] if not _is_none(binding) and not _replaces_itself(binding)]
            self._known[key] = _agreed([self._bound(binding, depth) for binding in telling])
        return self._known[key]

    def of_self(self, attribute: str, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of `self.attribute` in a method."""
        owner = class_around(scope)
        if owner is None:
            return None
        found: list[Instance | None] = []
        for use in self._stores.get((id(owner.node), attribute), ()):
            parent = use.path[0]
            if isinstance(parent, ast.AnnAssign):
                found.append(self.of_annotation(parent.annotation, use.scope))
            elif isinstance(parent, ast.Assign) and use.path[1] == "targets":
                if not _none(parent.value):
                    found.append(self.of_expression(parent.value, use.scope, depth + 1))
            else:
                found.append(None)
        for binding in owner.bindings.get(attribute, ()):
            parent = binding.path[0]
            if isinstance(parent, ast.AnnAssign):
                found.append(self.of_annotation(parent.annotation, owner))
            elif not _is_none(binding):
                found.append(None)
        return _agreed(found)

    def of_annotation(self, node: ast.expr | None, scope: Scope) -> Instance | None:
        """The class that an annotation names: plain, optional or quoted."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self.of_annotation(ast.parse(node.value.strip(), mode="eval").body, scope)
            except (SyntaxError, ValueError, RecursionError):
                return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._one_of([node.left, node.right], scope)
        if isinstance(node, ast.Subscript):
            name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            inner = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
            if name in _OPTIONAL and name not in ("Type", "type"):
                return self.of_annotation(inner[0], scope)
            return self._one_of(inner, scope) if name == "Union" else None
        if isinstance(node, ast.Name | ast.Attribute):
            dotted = self._class_named(node) or self._class_written(node, scope)
            return Instance(dotted) if dotted else None
        return None

    def _one_of(self, nodes: list[ast.expr], scope: Scope) -> Instance | None:
        members = [node for node in nodes if not _none(node)]
        return self.of_annotation(members[0], scope) if len(members) == 1 else None

    def _bound(self, binding: Binding, depth: int) -> Instance | None:
        if binding.target in _OBJECTS:
            return Instance(_OBJECTS[binding.target], True)
        if binding.kind == "argument":
            annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
            return self.of_annotation(annotation, binding.scope)
        if binding.kind == "alias" and binding.value is not None:
            return self.of_expression(binding.value.node, binding.value.scope, depth + 1)
        if isinstance(binding.node, ast.NamedExpr):
            return self.of_expression(binding.node.value, binding.scope, depth + 1)
        parent = binding.path[0]
        if isinstance(parent, ast.AnnAssign):
            return self.of_annotation(parent.annotation, binding.scope)
        if isinstance(parent, ast.Assign) and binding.path[1] == "targets":
            return self.of_expression(parent.value, binding.scope, depth + 1)
        return None

    def _class_named(self, node: ast.expr) -> str:
        """The vllm class that a name or chain of this file means."""
        found = [reference for reference in self.file.by_node.get(id(node), ()) if reference.certain]
        return found[0].dotted if len(found) == 1 and self.is_class(found[0].dotted) else ""

    def _class_of_factory(self, node: ast.expr) -> str:
        """The class behind `Class.from_engine_args` and the like: vLLM's methods of such names make one."""
        found = [reference for reference in self.file.by_node.get(id(node), ()) if reference.certain]
        owner, _, method = found[0].dotted.rpartition(".") if len(found) == 1 else ("", "", "")
        return owner if method.startswith("from_") and self.is_class(owner) else ""

    def _class_written(self, node: ast.expr, scope: Scope) -> str:
        """The same for a node of a quoted annotation, which the walk did not see."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        targets = {self._imports.get((id(binding.node), binding.name), "") for binding in (found[1] if found else ())}
        dotted = ".".join((targets.pop(), *attributes)) if len(targets) == 1 else ""
        return dotted if dotted and self.is_class(dotted) else ""

    def is_class(self, dotted: str) -> bool:
        """Some release has a class of this name."""
        judge = self.file.judge
        last = judge.span(dotted)[1] if dotted.startswith("vllm.") else ""
        return bool(last) and judge.index.resolve(dotted, last).kind.endswith("class")


def instances_of(file: PythonFile) -> Instances:
    """The instances of a file; kept for the last file asked about, since several rules ask."""
    global _last
    if _last is None or _last.file is not file:
        _last = Instances(file)
    return _last


_last: Instances | None = None


def class_around(scope: Scope) -> Scope | None:
    """The class whose method (or a function inside it) the scope is."""
    inner: Scope | None = scope
    while inner is not None and inner.kind != "class":
        inner = inner.parent
    return inner


def function_around(path: tuple[ast.AST, str, object] | None) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function definition around a node."""
    for parent, _ in ancestors(path):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return parent
    return None


def _agreed(found: list[Instance | None]) -> Instance | None:
    classes = {instance.dotted if instance else "" for instance in found}
    if len(classes) != 1 or not found or found[0] is None:
        return None
    return Instance(found[0].dotted, all(instance is not None and instance.built for instance in found))


def _none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _replaces_itself(binding: Binding) -> bool:
    """`x = replace(x, ...)`: still of the same class."""
    parent = binding.path[0]
    call = parent.value if isinstance(parent, ast.Assign) else None
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Name):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name == "replace" and call.args[0].id == binding.name


def _is_none(binding: Binding) -> bool:
    """The binding only says `x = None`."""
    parent = binding.path[0]
    return isinstance(parent, ast.Assign) and _none(parent.value)
