"""Reads a module-level `__getattr__`: the names it answers, and where it takes them from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Absolute = Callable[[int, str | None], str]
Target = Callable[[ast.expr], str | None]


def lazy_records(
    node: ast.FunctionDef, literals: dict[str, ast.expr], absolute: Absolute, target: Target
) -> dict[str, str] | None:
    """name -> record for what this `__getattr__` answers; None when that cannot be told from its source."""
    if not node.args.args:
        return None
    asked = node.args.args[0].arg
    found: dict[str, str] = {}
    understood = False
    for part in ast.walk(node):
        match part:
            case ast.If(test=ast.Compare(left=ast.Name(id=left), ops=[ast.Eq()], comparators=[wanted])):
                if left == asked and isinstance(wanted, ast.Constant) and isinstance(wanted.value, str):
                    found.setdefault(wanted.value, _returned(part.body, absolute, target))
                    understood = True
            case ast.Compare(left=ast.Name(id=left), ops=[ast.In() | ast.NotIn()], comparators=[table]) if (
                left == asked
            ):
                if _is_globals(table):
                    understood = True
                    continue
                names = dict(_table(table, literals, absolute))
                if not names:
                    return None
                found = names | found
                understood = True
            case ast.Call(func=ast.Attribute(value=ast.Name() as table, attr="get"), args=[ast.Name(id=left), *_]):
                if left == asked:
                    found = dict(_table(table, literals, absolute)) | found
                    understood = True
    return found if understood else None


def _is_globals(table: ast.expr) -> bool:
    return isinstance(table, ast.Call) and isinstance(table.func, ast.Name) and table.func.id == "globals"


def _table(table: ast.expr, literals: dict[str, ast.expr], absolute: Absolute) -> Iterator[tuple[str, str]]:
    """(name, record) for each entry of a dict, list, tuple or set, literal here or at module level."""
    if isinstance(table, ast.Name):
        table = literals.get(table.id, table)
    if isinstance(table, ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, _place(key.value, value, absolute)
    elif isinstance(table, ast.List | ast.Tuple | ast.Set):
        for item in table.elts:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.value, "v"


def _place(name: str, value: ast.expr, absolute: Absolute) -> str:
    """The record behind a table's value: "pkg.mod:attr", "pkg.mod", ".mod" or the bare name of a submodule."""
    if not (isinstance(value, ast.Constant) and isinstance(value.value, str)):
        return "v"
    module, _, attribute = value.value.partition(":")
    if module.startswith("."):
        bare = module.lstrip(".")
        module = absolute(len(module) - len(bare), bare)
    elif "." not in module:
        module = absolute(1, module)
    return f"={module}.{attribute or name}"


def _returned(body: list[ast.stmt], absolute: Absolute, target: Target) -> str:
    """The record of the object an arm returns."""
    imported: dict[str, str] = {}
    for statement in body:
        for part in ast.walk(statement):
            if isinstance(part, ast.ImportFrom):
                module = absolute(part.level, part.module)
                imported |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in part.names}
            if isinstance(part, ast.Return) and isinstance(part.value, ast.Name):
                place = imported.get(part.value.id) or target(part.value)
                return f"={place}" if place else "v"
    return "v"
