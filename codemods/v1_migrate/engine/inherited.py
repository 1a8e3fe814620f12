"""Members that a class takes from a base of vLLM's: `super().NAME`, `self.NAME` and `cls.NAME`.

Only of classes of which all is known: their bases are vLLM's, classes of the same file, or say nothing (`ABC`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from .context import PythonFile
from .former import lost_member
from .scopes import Binding, Scope, Use, class_around

_SILENT = frozenset({"ABC", "Generic", "Protocol", "object"})
_DEEP = 8


@dataclass(frozen=True, slots=True)
class Inherited:
    """A use of a member that no class of this file gives, and that vLLM's class had."""

    use: Use
    base: str  # vLLM's class, as the file names it
    new: str  # where it is on the target
    member: str  # the member, as the class had it: "vllm.worker.worker.Worker.execute_worker"
    node: ast.Attribute
    through_super: bool


class _Family:
    """The classes of one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file

    @cached_property
    def given(self) -> frozenset[str]:
        """Names that something in the file may give to a class or an object, from outside, too."""
        found: set[str] = set()
        for node in ast.walk(self.file.parsed.tree):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)  # setattr(x, "name", ...), patch.object(x, "name")
        return frozenset(found)

    def bases(self, scope: Scope, own: set[str], depth: int = 0) -> list[str] | None:
        """vLLM's classes behind a class; None if there are others. `own` takes what the file's classes define."""
        node = scope.node
        if not isinstance(node, ast.ClassDef) or node.keywords or node.decorator_list or depth > _DEEP:
            return None
        found: list[str] = []
        for base in node.bases:
            behind = self._base(base, scope, own, depth)
            if behind is None:
                return None
            found += behind
        return found

    def _base(self, base: ast.expr, scope: Scope, own: set[str], depth: int) -> list[str] | None:
        inner = base.value if isinstance(base, ast.Subscript) else base
        references = self.file.by_node.get(id(inner), ())
        if references:
            return [references[0].dotted] if len(references) == 1 and references[0].meant else None
        if (inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")) in _SILENT:
            return []
        bound = scope.parent.lookup(inner.id) if isinstance(inner, ast.Name) and scope.parent is not None else None
        if bound is None or len(bound[1]) != 1:
            return None
        inside = self._class_scope(bound[1][0])
        if inside is None:
            return None
        own.update(inside.bindings)
        return self.bases(inside, own, depth + 1)

    def _class_scope(self, binding: Binding) -> Scope | None:
        return next((scope for scope in self.file.model.scopes if scope.node is binding.node), None)


def inherited(file: PythonFile) -> Iterator[Inherited]:
    """The uses of members that vLLM's class had before the target and lost."""
    family = _Family(file)
    for use in file.model.uses:
        node = _first(use)
        through_super = node is not None and _is_super(node.value)
        if node is None or node.attr.startswith("__") or not (through_super or _is_of_own(use, node)):
            continue
        scope = class_around(use.scope)
        if scope is None or node.attr in family.given:
            continue
        own = set() if through_super else set(scope.bindings)
        bases = family.bases(scope, own)
        if not bases or node.attr in own or "__getattr__" in own:
            continue
        lost = _lost(file, bases, node.attr)
        if lost is not None:
            yield Inherited(use, *lost, node, through_super)


def _first(use: Use) -> ast.Attribute | None:
    """The attribute that a chain begins with: `self.a` of `self.a.b`."""
    node: ast.expr = use.node
    while isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) else None


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args


def _is_of_own(use: Use, node: ast.Attribute) -> bool:
    """`self.name` in a method of which `self` is the first parameter; of `cls`, `cls.name(...)` alone."""
    found = use.scope.lookup(use.name) if use.name in ("self", "cls") else None
    if found is None or len(found[1]) != 1 or (use.name == "cls" and not _is_called(use, node)):
        return False
    method = found[0].node
    if found[0].parent is not class_around(use.scope) or not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    first = [*method.args.posonlyargs, *method.args.args][:1]
    static = any(getattr(decorator, "id", "") == "staticmethod" for decorator in method.decorator_list)
    return not static and [argument.arg for argument in first] == [use.name]


def _is_called(use: Use, node: ast.Attribute) -> bool:
    return use.node is node and use.path is not None and isinstance(use.path[0], ast.Call) and use.path[1] == "func"


def _lost(file: PythonFile, bases: list[str], name: str) -> tuple[str, str, str] | None:
    """The base that had the member, where it is now, and the member's old name; None if a base may still have it."""
    judge = file.judge
    lost: tuple[str, str, str] | None = None
    for base in bases:
        verdict = judge.judge(base)
        present = verdict.status == "present"
        new = base if present else verdict.new if verdict.symbol == base else ""
        if not new.startswith("vllm.") or (file.tree.is_vllm and file.tree.defines(base)):
            return None
        there = judge.index.resolve(f"{new}.{name}", judge.target).found
        if there is not False and not judge.judge(f"{new}.{name}").missing:
            return None
        member = lost_member(judge, base, new, name)
        if member:
            lost = lost or (base, new, member)
    return lost
