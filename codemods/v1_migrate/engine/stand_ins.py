"""What stands in for a name where vLLM is not there: it says nothing of what the code does with the name."""

from __future__ import annotations

import ast

from .scopes import Binding, Path

_ANYTHING = frozenset({"Any", "object"})


def stands_in(binding: Binding) -> bool:
    """`X = None` beside an import of X; `X = Any`, `X = object`, `class X: ...` where the import was not run or failed.

    None has no members and is not called: whatever is done with X is meant for the other thing.
    """
    value = binding.node.value if isinstance(binding.node, ast.Assign) else None
    parent = binding.path[0]
    if value is None and isinstance(parent, ast.Assign | ast.AnnAssign):
        value = parent.value
    if isinstance(value, ast.Constant):
        return value.value is None
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return (name in _ANYTHING or isinstance(binding.node, ast.ClassDef)) and _is_instead(binding.path)


def _is_instead(path: Path | None) -> bool:
    """The place is the handler of a `try`, or the `else` of a condition."""
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.ExceptHandler) or (isinstance(parent, ast.If) and field_name == "orelse"):
            return True
    return False
