"""Dictionaries in one file: what gives a name one, what adds to it or takes from it, before a call or behind it."""

from __future__ import annotations

import ast

from .callshape import own_name
from .scopes import Binding, Node, Path, Use, ancestors


class Unknown(Exception):
    """The dictionary cannot be followed."""


def given_by(binding: Binding) -> ast.expr | None:
    """What `kw = value` gives the name."""
    statement = binding.node if isinstance(binding.node, ast.Assign) else binding.path[0]
    plain = isinstance(statement, ast.AnnAssign) or (
        isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets)
    )
    return statement.value if plain and isinstance(statement, ast.Assign | ast.AnnAssign) else None


def added_by(binding: Binding) -> ast.expr | None:
    """What `kw |= value` adds."""
    statement = binding.path[0]
    added = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.BitOr)
    return statement.value if added and isinstance(statement, ast.AugAssign) else None


def is_behind(use: Use, call: Node) -> bool:
    """The use comes after the call, in the same function."""
    return use.scope is call.scope and (use.node.lineno, use.node.col_offset) > (
        call.node.lineno,
        call.node.col_offset,
    )


def in_another_arm(use: Path | None, call: Path | None) -> bool:
    """The use stands in one arm of an `if`, the call in the other."""
    arms = {id(parent): name for parent, name in ancestors(call) if isinstance(parent, ast.If) and name != "test"}
    return any(
        name != "test" and arms.get(id(parent), name) != name
        for parent, name in ancestors(use)
        if isinstance(parent, ast.If)
    )


def assigned(path: Path | None) -> ast.expr | None:
    return path[0].value if path is not None and isinstance(path[0], ast.Assign | ast.AnnAssign) else None


def start_of(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def is_asked_for(path: Path | None) -> bool:
    """The place is behind `if ... in ...` or `if hasattr(...)`, which may ask what the callee takes."""
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.If) and field_name == "body":
            for node in ast.walk(parent.test):
                asks = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
                if asks or (isinstance(node, ast.Call) and own_name(node.func) == "hasattr"):
                    return True
    return False


def is_items(node: ast.expr) -> bool:
    """`d.items()`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "items"


def asks_of_the_value(test: ast.expr, key: str) -> bool:
    """A condition of a comprehension that says nothing of the key: `if v is not None`."""
    return all(not isinstance(node, ast.Name) or node.id != key for node in ast.walk(test))


def text_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def take(items: dict[str, ast.expr], key: ast.expr) -> None:
    if not text_of(key):
        raise Unknown
    items.pop(text_of(key), None)


def arms_of(node: ast.expr) -> list[ast.expr]:
    """The two values of `a if c else b`, and of those in it; the value itself of anything else."""
    return [*arms_of(node.body), *arms_of(node.orelse)] if isinstance(node, ast.IfExp) else [node]
