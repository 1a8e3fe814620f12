"""Classes of a file that derive from vLLM's: which of vLLM's is behind them, and what a call of them meets."""

from __future__ import annotations

import ast

from .callshape import own_name
from .context import PythonFile
from .scopes import Scope

_DEEP = 8
_MAKERS = frozenset({"__init__", "__new__"})


def first_base(file: PythonFile, owner: Scope, method: str = "") -> str:
    """The vLLM class that the class derives from first, directly or through classes of the same file.

    With `method`: "" where one of these defines the method, which `super()` reaches before vLLM's.
    """
    own, base = line_of(file, owner)
    return "" if method and any(method in _defined(local) for local in own[1:]) else base


def line_of(file: PythonFile, owner: Scope) -> tuple[list[ast.ClassDef], str]:
    """The class and those of this file that it derives from first, and the vLLM class behind them ("" for none)."""
    own: list[ast.ClassDef] = []
    node: ast.AST | None = owner.node
    while isinstance(node, ast.ClassDef) and node.bases and node not in own and len(own) < _DEEP:
        own.append(node)
        base = node.bases[0]
        base = base.value if isinstance(base, ast.Subscript) else base
        references = [reference for reference in file.by_node.get(id(base), ()) if reference.meant]
        if references:
            return own, references[0].dotted if len(references) == 1 else ""
        node = class_named(base, owner)
    return own, ""


def made_by(file: PythonFile, function: ast.expr, scope: Scope) -> tuple[str, tuple[str, ...]]:
    """The vLLM class whose constructor a call of a class of this file meets, and the fields that classes here add.

    "" where a class on the way has a constructor of its own, or where something else may answer the call.
    """
    node = class_named(function, scope)
    inside = next((each for each in file.model.scopes if each.node is node), None)
    if node is None or inside is None or not _plain(node) or not node.bases:
        return "", ()
    annotated = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    fields = tuple(target.id for target in annotated if isinstance(target, ast.Name))
    base, outer = node.bases[0], inside.parent or inside
    references = [reference for reference in file.by_node.get(id(base), ()) if reference.meant]
    if len(references) == 1:
        return references[0].dotted, fields
    if class_named(base, outer) is node:
        return "", ()
    dotted, more = made_by(file, base, outer)
    return dotted, (*fields, *more)


def _plain(node: ast.ClassDef) -> bool:
    """Calls of the class reach what it inherits."""
    metaclass = any(keyword.arg == "metaclass" for keyword in node.keywords)
    return not metaclass and not _MAKERS & _defined(node) and all(map(_is_dataclass, node.decorator_list))


def class_named(node: ast.expr, scope: Scope) -> ast.ClassDef | None:
    """The class of this file that a name means, if it means nothing else."""
    found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    only = found[1][0].node if found is not None and len(found[1]) == 1 else None
    return only if isinstance(only, ast.ClassDef) else None


def _defined(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def _is_dataclass(decorator: ast.expr) -> bool:
    return own_name(decorator.func if isinstance(decorator, ast.Call) else decorator) == "dataclass"
