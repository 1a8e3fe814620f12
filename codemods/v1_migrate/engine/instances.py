"""Which vLLM class an object is of, as far as one file tells: annotations, `x = Class(...)`, attributes of self.

Small on purpose: a name with bindings of several kinds has no class here, and nothing is followed into other files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cached_property

from ..names.annotations import is_none, members_of
from .callshape import own_name
from .context import PythonFile
from .elements import Elements
from .held import held
from .instance import Instance, agreed, of_type
from .own_classes import line_of
from .own_results import Results
from .results import element_class, member_class, returned_class
from .scopes import Binding, Scope, Use, ancestors, class_around
from .stand_ins import stands_in

_DEPTH = 6
_OBJECTS = {"vllm.platforms.current_platform": "vllm.platforms.interface.Platform"}
"""Objects that modules of vLLM hold, and their classes."""


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
        self.elements = Elements(self)
        self.results = Results(self)

    def of_expression(self, node: ast.expr, scope: Scope) -> Instance | None:
        """The class of what an expression gives; None where it may be of another one, too."""
        found = self.known(node, scope)
        return found if found is not None and not found.others else None

    def known(self, node: ast.expr, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of what an expression gives, or one of several."""
        if depth > _DEPTH:
            return None
        if isinstance(node, ast.Name):
            return self.of_name(node.id, scope, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self.of_self(node.attr, scope, depth)
        if isinstance(node, ast.Attribute):
            owner = self.known(node.value, scope, depth + 1)
            return self.member(owner, node.attr) if owner is not None else None
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            held = self.elements.of(node.value, scope, depth + 1)
            return held.element if held is not None else None
        if isinstance(node, ast.Call):
            dotted = self._class_named(node.func) or self._class_of_factory(node.func)
            return Instance(dotted, True) if dotted else self._returned(node, scope, depth)
        if isinstance(node, ast.NamedExpr):
            return self.known(node.value, scope, depth + 1)
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            return self.results.awaited(node.value, scope, depth)
        return None

    def member(self, owner: Instance, attribute: str) -> Instance | None:
        """The object behind an attribute, where it is known what vLLM holds there."""
        dotted = member_class(owner.dotted, attribute)
        if dotted:
            return Instance(dotted, True)
        typed = held(self.file.judge, owner.dotted, attribute) if not owner.others else None
        return of_type(typed) if typed is not None and typed.kind == "attribute" and not typed.holds else None

    def _returned(self, call: ast.Call, scope: Scope, depth: int) -> Instance | None:
        """The object that a method of a known object returns, or that is a copy of one."""
        if own_name(call.func) in ("copy", "deepcopy") and len(call.args) == 1:
            return self.known(call.args[0], scope, depth + 1)
        owner = self.known(call.func.value, scope, depth + 1) if isinstance(call.func, ast.Attribute) else None
        dotted = returned_class(owner.dotted, own_name(call.func)) if owner is not None else ""
        return Instance(dotted, True) if dotted else self.results.of(call, scope, depth)

    def of_name(self, name: str, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of the object a name stands for here, or one of several; None unless all its bindings agree."""
        found = scope.lookup(name)
        if found is None or depth > _DEPTH:
            return None
        key = (id(found[0]), name)
        if key not in self._known:
            self._known[key] = None  # cuts a cycle: `x = x`
            telling = [binding for binding in found[1] if not _is_none(binding) and not _replaces_itself(binding)]
            self._known[key] = agreed([self._bound(binding, depth) for binding in telling])
        return self._known[key]

    def of_self(self, attribute: str, scope: Scope, depth: int = 0) -> Instance | None:
        """The class of `self.attribute` in a method, or one of several."""
        owner = class_around(scope)
        if owner is None:
            return None
        found: list[Instance | None] = []
        for use in self._stores.get((id(owner.node), attribute), ()):
            parent = use.path[0]
            if isinstance(parent, ast.AnnAssign):
                found.append(self.of_annotation(parent.annotation, use.scope))
            elif isinstance(parent, ast.Assign) and use.path[1] == "targets":
                if not is_none(parent.value):
                    found.append(self.known(parent.value, use.scope, depth + 1))
            else:
                found.append(None)
        for binding in owner.bindings.get(attribute, ()):
            parent = binding.path[0]
            if isinstance(parent, ast.AnnAssign):
                found.append(self.of_annotation(parent.annotation, owner))
            elif not _is_none(binding):
                found.append(None)
        return agreed(found) if found else self._inherited(attribute, owner)

    def _inherited(self, attribute: str, owner: Scope) -> Instance | None:
        """What vLLM's class holds under a name that no class between it and this one sets."""
        own, base = line_of(self.file, owner)
        if not base or any(self._gives(node, attribute) for node in own):
            return None
        return self.member(Instance(base), attribute)

    def _gives(self, node: ast.ClassDef, attribute: str) -> bool:
        """A class of this file sets or defines the attribute."""
        inside = self._classes.get(id(node))
        return (id(node), attribute) in self._stores or (inside is not None and attribute in inside.bindings)

    @cached_property
    def _classes(self) -> dict[int, Scope]:
        return {id(scope.node): scope for scope in self.file.model.scopes if scope.kind == "class"}

    def annotations_of_self(self, attribute: str, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """The annotations of `self.attribute`: of where it is set, and of a parameter that it is set to."""
        owner = class_around(scope)
        if owner is None:
            return []
        found: list[tuple[ast.expr, Scope]] = []
        for use in self._stores.get((id(owner.node), attribute), ()):
            parent = use.path[0]
            if isinstance(parent, ast.AnnAssign):
                found.append((parent.annotation, use.scope))
            elif isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Name):
                bound = use.scope.lookup(parent.value.id)
                arguments = [each.node for each in (bound[1] if bound else ()) if each.kind == "argument"]
                found += [(each.annotation, use.scope) for each in arguments if getattr(each, "annotation", None)]  # type: ignore[attr-defined]
        for binding in owner.bindings.get(attribute, ()):
            if isinstance(binding.path[0], ast.AnnAssign):
                found.append((binding.path[0].annotation, owner))
        return found

    def of_annotation(self, node: ast.expr | None, scope: Scope) -> Instance | None:
        """The class that an annotation names, plain, optional or quoted; of a union, the first of vLLM's."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                return self.of_annotation(ast.parse(node.value.strip(), mode="eval").body, scope)
            except (SyntaxError, ValueError, RecursionError):
                return None
        members = [each for each in members_of(node) if not is_none(each)] if node is not None else []
        if members and members != [node]:
            return self._one_of(members, scope)
        if isinstance(node, ast.Name | ast.Attribute):
            dotted = self._class_named(node) or self._class_written(node, scope)
            return Instance(dotted) if dotted else None
        return None

    def _one_of(self, nodes: list[ast.expr], scope: Scope) -> Instance | None:
        found = [self.of_annotation(node, scope) for node in nodes]
        first = next((instance for instance in found if instance is not None), None)
        if first is None or len(found) == 1:
            return first
        names = [instance.dotted if instance is not None else "" for instance in found]
        return Instance(first.dotted, others=tuple(name for name in dict.fromkeys(names) if name != first.dotted))

    def _bound(self, binding: Binding, depth: int) -> Instance | None:
        if binding.target in _OBJECTS:
            return Instance(_OBJECTS[binding.target], True)
        if binding.kind == "argument":
            annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
            return self.of_annotation(annotation, binding.scope)
        if binding.kind == "alias" and binding.value is not None:
            return self.known(binding.value.node, binding.value.scope, depth + 1)
        if isinstance(binding.node, ast.NamedExpr):
            return self.known(binding.node.value, binding.scope, depth + 1)
        parent = binding.path[0]
        if isinstance(parent, ast.AnnAssign):
            return self.of_annotation(parent.annotation, binding.scope)
        if isinstance(parent, ast.Assign) and binding.path[1] == "targets":
            return self.known(parent.value, binding.scope, depth + 1)
        if isinstance(parent, ast.withitem) and binding.path[1] == "optional_vars":
            return self.results.entered(parent.context_expr, binding.scope, depth)
        return self.elements.of_target(binding, depth)

    def _class_named(self, node: ast.expr) -> str:
        """The vllm class that a name or chain of this file means."""
        found = [reference for reference in self.file.by_node.get(id(node), ()) if reference.meant]
        return found[0].dotted if len(found) == 1 and self.is_class(found[0].dotted) else ""

    def _class_of_factory(self, node: ast.expr) -> str:
        """The class behind `Class.from_engine_args` and the like: vLLM's methods of such names make one."""
        found = [reference for reference in self.file.by_node.get(id(node), ()) if reference.meant]
        owner, _, method = found[0].dotted.rpartition(".") if len(found) == 1 else ("", "", "")
        return owner if method.startswith("from_") and self.is_class(owner) else ""

    def _class_written(self, node: ast.expr, scope: Scope) -> str:
        """The same for a node of a quoted annotation, which the walk did not see."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        telling = [binding for binding in (found[1] if found else ()) if not stands_in(binding)]
        targets = {self._imports.get((id(binding.node), binding.name), "") for binding in telling}
        dotted = ".".join((targets.pop(), *attributes)) if len(targets) == 1 else ""
        return dotted if dotted and self.is_class(dotted) else ""

    def given_by(self, call: ast.Call, scope: Scope, depth: int) -> Instance | None:
        """An element of what a method of a known object returns."""
        owner = self.known(call.func.value, scope, depth + 1) if isinstance(call.func, ast.Attribute) else None
        dotted = element_class(owner.dotted, own_name(call.func)) if owner is not None else ""
        return Instance(dotted, True) if dotted else None

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


def function_around(path: tuple[ast.AST, str, object] | None) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function definition around a node."""
    for parent, _ in ancestors(path):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return parent
    return None


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
    return isinstance(parent, ast.Assign) and is_none(parent.value)
