"""Does a call fit a signature? Written arguments are bound to parameters by position and name; values do not matter."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from ..names.index import Param

_BY_POSITION = ("pos", "pos_or_kw")


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of a call as written."""

    positional: tuple[ast.expr, ...]  # those before the first `*x`
    keywords: tuple[ast.keyword, ...]  # those with a name
    star: bool = False  # `*x`: more positional arguments, nobody knows how many
    double_star: bool = False  # `**x`: more keywords

    @classmethod
    def of(cls, call: ast.Call) -> Given:
        first_star = next((i for i, a in enumerate(call.args) if isinstance(a, ast.Starred)), len(call.args))
        return cls(
            tuple(call.args[:first_star]),
            tuple(keyword for keyword in call.keywords if keyword.arg is not None),
            first_star < len(call.args),
            any(keyword.arg is None for keyword in call.keywords),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(keyword.arg for keyword in self.keywords if keyword.arg is not None)

    def value(self, name: str) -> ast.expr | None:
        """The value given by keyword `name`."""
        return next((keyword.value for keyword in self.keywords if keyword.arg == name), None)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a call is refused; false when it is not."""

    unknown: tuple[str, ...] = ()  # keywords that no parameter takes
    surplus: int = 0  # positional arguments too many
    repeated: tuple[str, ...] = ()  # given by position and by keyword
    missing: tuple[str, ...] = ()  # required parameters without an argument

    def __bool__(self) -> bool:
        return bool(self.unknown or self.surplus or self.repeated or self.missing)


def fit(params: Sequence[Param], given: Given) -> Misfit:
    """How the call fails on this signature."""
    by_position = [p for p in params if p.kind in _BY_POSITION]
    takes_more = any(p.kind == "var_pos" for p in params)
    takes_names = any(p.kind == "var_kw" for p in params)
    named = {p.name for p in params if p.kind in ("pos_or_kw", "kw_only")}
    taken = {p.name for p in by_position[: len(given.positional)]}
    names = set(given.names)
    surplus = 0 if takes_more else max(0, len(given.positional) - len(by_position))
    unknown = () if takes_names else tuple(name for name in given.names if name not in named)
    repeated = tuple(name for name in given.names if name in taken & named)
    missing: tuple[str, ...] = ()
    if not given.star and not given.double_star:
        missing = tuple(
            p.name
            for p in params
            if not p.default and not p.kind.startswith("var_") and p.name not in taken and p.name not in names
        )
    elif not given.double_star:
        missing = tuple(p.name for p in params if p.kind == "kw_only" and not p.default and p.name not in names)
    return Misfit(unknown, surplus, repeated, missing)


def names_by_position(params: Sequence[Param], count: int) -> tuple[str, ...] | None:
    """The parameters that the first `count` positional arguments meet; None when some meet `*args` or nothing."""
    by_position = [p.name for p in params if p.kind == "pos_or_kw"]
    leading = [p for p in params if p.kind in _BY_POSITION][:count]
    if len(leading) < count or any(p.kind == "pos" for p in leading):
        return None
    return tuple(by_position[:count])


def shifted(before: Sequence[Param], after: Sequence[Param], count: int) -> int | None:
    """The first of `count` positional arguments that meets another parameter than it was meant for.

    A parameter that only got another name is no shift: neither name may occur elsewhere in the other signature.
    """
    old = [p.name for p in before if p.kind in _BY_POSITION][:count]
    new = [p.name for p in after if p.kind in _BY_POSITION][:count]
    all_old, all_new = {p.name for p in before}, {p.name for p in after}
    for position, (was, now) in enumerate(zip(old, new, strict=False)):
        if was != now and (was in all_new or now in all_old):
            return position
    return None


def own_name(value: ast.expr) -> str:
    """The name of a variable or attribute that is handed on."""
    return value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""


def spelled(params: Sequence[Param]) -> str:
    """The signature for a person: "a, b=..., *, c, **kwargs"."""
    out: list[str] = []
    star = False
    for param in params:
        if param.kind == "kw_only" and not star:
            out.append("*")
        star = star or param.kind in ("kw_only", "var_pos")
        mark = {"var_pos": "*", "var_kw": "**"}.get(param.kind, "")
        out.append(mark + param.name + ("=..." if param.default else ""))
    return ", ".join(out)
