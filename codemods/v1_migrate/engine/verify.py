"""Checks that an edited file still binds every name that anything can read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .both import is_guarded_import
from .scopes import Model

_BLOCKS = ("body", "orelse", "finalbody")


def lost_names(before: ast.Module, after: ast.Module, touched: Callable[[ast.stmt], bool] | None = None) -> set[str]:
    """Names that some block (a module, a body, an arm of an `if` or `try`) bound before and does not bind after.

    Statements of the old module that are not `touched` by an edit are as they were, and not looked at.
    """
    if touched is None or len(before.body) != len(after.body):
        return _lost(list(_blocks(before)), list(_blocks(after)))
    pairs = [(old, new) for old, new in zip(before.body, after.body, strict=True) if touched(old)]
    lost = {name for old, _ in pairs for name in _bound(old)} - {name for new in after.body for name in _bound(new)}
    for old, new in pairs:
        lost |= _lost(list(_blocks(old)), list(_blocks(new)))
    return lost


def _lost(old: list[set[str]], new: list[set[str]]) -> set[str]:
    if len(old) != len(new):
        return set().union(*old) - set().union(*new) or {"a block"}
    lost: set[str] = set()
    for names_before, names_after in zip(old, new, strict=True):
        lost |= names_before - names_after
    return lost


def _blocks(node: ast.AST) -> Iterator[set[str]]:
    """What each list of statements binds itself, in the order of the text. A guarded import is one statement."""
    if is_guarded_import(node):
        return
    for name in _BLOCKS:
        body = getattr(node, name, None)
        if isinstance(body, list):
            yield {bound for statement in body for bound in _bound(statement)}
            for statement in body:
                yield from _blocks(statement)
    for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield from _blocks(handler)


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Try) and is_guarded_import(statement):
        yield from (name for inner in statement.body for name in _bound(inner))
    elif isinstance(statement, ast.Import):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in statement.names)
    elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def unbound_names(before: Model, after: Model) -> set[str]:
    """Names that code still reads, or `__all__` still lists, and that nothing binds any more."""
    missing = _unresolved(after) - _unresolved(before)
    exported = {name for name in _exported(after.module.node) if name not in after.module.bindings}
    return missing | {name for name in exported if name in before.module.bindings}


def _unresolved(model: Model) -> set[str]:
    return {use.name for use in model.uses if use.name and use.scope.lookup(use.name) is None}


def _exported(module: ast.AST) -> Iterator[str]:
    for statement in getattr(module, "body", ()):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                value = statement.value
                if isinstance(value, ast.List | ast.Tuple):
                    yield from (str(item.value) for item in value.elts if isinstance(item, ast.Constant))
