"""A constructor call of a metadata class rewritten for the fields that the target's class has."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from ..names.index import Param
from .arguments import ItemList, call_items, position_of
from .callees import Callee
from .callshape import Given, fit, names_by_position, shifted
from .context import PythonFile


@dataclass(slots=True)
class Rebuild:
    """The arguments of one call by their names of today, and what has to be done to them."""

    items: ItemList
    positions: dict[str, int]  # keyword as it will be written -> item
    values: dict[str, ast.expr]
    deeds: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        """The written value of an argument."""
        node = self.values[name]
        source = self.items.source
        start = source.offset(node.lineno, node.col_offset)
        return source.text[start : source.offset(node.end_lineno or 1, node.end_col_offset or 0)]

    def rename(self, old: str, new: str) -> None:
        position = self.positions.pop(old)
        self.items.name(position, new) if self.items.text(position)[: len(old)] != old else self.items.rename(
            position, old, new
        )
        self.positions[new], self.values[new] = position, self.values.pop(old)
        self.deeds.append(f"`{old}` is `{new}`")

    def drop(self, name: str, why: str) -> None:
        self.items.drop(self.positions.pop(name))
        del self.values[name]
        self.deeds.append(f"`{name}` goes, {why}")

    def add(self, name: str, expression: str) -> None:
        self.items.add(f"{name}={expression}")
        self.values[name] = ast.parse(expression, mode="eval").body
        self.deeds.append(f"`{name}` is added")

    def simple(self, name: str) -> str:
        """The value's text if it may be written twice (a name, a chain of names, a number), else nothing."""
        if name not in self.positions:
            return ""
        node = self.values[name]
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        return self.text(name) if isinstance(inner, ast.Name | ast.Constant) else ""

    def derive(self, name: str, needs: tuple[str, ...], expression: str) -> bool:
        """Add a field that is computed from others, where those are simple enough to be written twice."""
        written = {need: self.simple(need) for need in needs}
        if not all(written.values()):
            return False
        for need, text in written.items():
            if isinstance(self.values[need], ast.Constant) and f"{{{need}}}." in expression:
                written[need] = f"({text})"  # `1.cpu()` would be a number with a letter behind it
        self.add(name, expression.format(**written))
        return True


def begin(
    file: PythonFile, call: ast.Call, callee: Callee | None, target: tuple[Param, ...], skip: int = 0
) -> Rebuild | str:
    """Take a call apart, positional arguments by the names of the releases it was written for.

    `skip` positional arguments in front are none of the constructor's (the object of dataclasses.replace). Returns why
    it cannot be done, for a person, where it cannot.
    """
    given = Given.of(call)
    given = replace(given, positional=given.positional[skip:])
    if given.star or given.double_star:
        return "its arguments are not written out"
    items = call_items(file.source, call)
    if items is None:
        return "the argument list cannot be taken apart"
    names: tuple[str, ...] | None = ()
    if given.positional:
        names = callee.meant(given) if callee is not None else None
        if names is None:
            return f"{len(given.positional)} positional arguments, whose meaning depends on the release"
    result = Rebuild(items, {}, {})
    shift = bool(names) and _moves(callee, target, given)
    for name, value in zip(names or (), given.positional, strict=True):
        at = position_of(items, value)
        if at < 0:
            return "the argument list cannot be taken apart"
        if shift:
            items.name(at, name)
        result.positions[name], result.values[name] = at, value
    if shift:
        result.deeds.append("positional arguments get their names")
    for keyword in given.keywords:
        assert keyword.arg is not None
        result.positions[keyword.arg], result.values[keyword.arg] = position_of(items, keyword.value), keyword.value
    return result


def _moves(callee: Callee | None, target: tuple[Param, ...], given: Given) -> bool:
    """Some positional argument would meet another field on the target, or on a release between."""
    count = len(given.positional)
    meant = callee.meant(given) if callee is not None else None
    if meant != names_by_position(target, count) or callee is None:
        return True
    return any(shifted(params, target, count) is not None for _, params in callee.accepting(given)) or bool(
        fit(target, given).surplus
    )
