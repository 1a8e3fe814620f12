"""What an expression is worth when V1 is the only engine."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..scopes import Scope
from .names import SWITCH, Names, is_switch

_ENVS = "vllm.envs"
_READERS = {"os.getenv", "os.environ.get", "os.environ.pop", "os.environ.setdefault"}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CASTS: Final[dict[str, Callable[[Any], Any]]] = {"bool": bool, "int": int, "str": str}
_METHODS = {"lower", "upper", "strip", "casefold"}


@dataclass(frozen=True, slots=True)
class Known:
    """A value, and whether it comes from the switch (then it is worth folding) and as the raw string."""

    value: Any
    switched: bool = True
    raw: bool = False

    @property
    def text(self) -> str:
        if isinstance(self.value, str):
            plain = self.value.isprintable() and '"' not in self.value and "\\" not in self.value
            return f'"{self.value}"' if plain else repr(self.value)
        return repr(self.value)


class Values:
    """Evaluates expressions; `names` may be given values that were proven elsewhere."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.proven: dict[tuple[int, str], Known] = {}  # (scope, name)
        self.withheld: Callable[[ast.expr], bool] = lambda node: False  # reads that must not be folded

    def prove(self, scope: Scope, name: str, value: Known) -> bool:
        """Note that a name has this value wherever it is read; True when that is news."""
        if (id(scope), name) in self.proven:
            return False
        self.proven[id(scope), name] = value
        return True

    def read(self, node: ast.expr) -> Known | None:
        """The value of a direct read of the switch; None for anything else."""
        if isinstance(node, ast.Attribute | ast.Name):
            if isinstance(node.ctx, ast.Load) and self.names.dotted(node) == f"{_ENVS}.{SWITCH}":
                return Known(True)
            return None
        if isinstance(node, ast.Subscript):
            if isinstance(node.ctx, ast.Load) and is_switch(node.slice) and self.names.environment(node.value):
                return Known("1", raw=True)
            return None
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and is_switch(node.left):
            tests = isinstance(node.ops[0], ast.In | ast.NotIn) and self.names.environment(node.comparators[0])
            return Known(isinstance(node.ops[0], ast.In)) if tests else None
        return None

    def _call(self, node: ast.Call) -> Known | None:
        path = self.names.dotted(node.func)
        if node.args and is_switch(node.args[0]) and all(_plain(rest) for rest in node.args[1:]):
            if path == f"{_ENVS}.is_set" and len(node.args) == 1:
                return Known(True)
            function = node.func
            of_copy = isinstance(function, ast.Attribute) and function.attr in ("get", "pop", "setdefault")
            if path in _READERS or (of_copy and self.names.environment(function.value)):  # type: ignore[attr-defined]
                return Known("1", raw=True)
        asks = getattr(node.func, "id", "") == "getattr" and len(node.args) in (2, 3) and is_switch(node.args[1])
        return Known(True) if asks and self.names.dotted(node.args[0]) == _ENVS else None

    def asks_whether_set(self, test: ast.expr) -> bool:
        """The test tells a switch that is not set from one that is, rather than one engine from the other."""
        if self.asks_for_presence(test):
            return True
        while isinstance(test, ast.UnaryOp):
            test = test.operand
        found = self.read(test)
        return found is not None and found.raw

    def asks_for_presence(self, test: ast.expr) -> bool:
        """It does so in words (`in os.environ`, `is None`), not by the text's truth."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and self.names.dotted(node.func) == f"{_ENVS}.is_set":
                return True
            if isinstance(node, ast.Compare):
                parts = (node.left, *node.comparators)
                unset = any(isinstance(part, ast.Constant) and part.value in (None, "") for part in parts)
                if is_switch(node.left) or (unset and any(self.reads_text(part) for part in parts)):
                    return True
        return False

    def reads_text(self, node: ast.AST) -> bool:
        """Some part reads the switch from the environment."""
        return any(
            isinstance(part, ast.expr) and (known := self.read(part)) is not None and known.raw
            for part in ast.walk(node)
        )

    def known(self, node: ast.expr) -> Known | None:
        """The constant an expression amounts to, if it does without losing a side effect."""
        found = self.read(node)
        if found is not None:
            return None if self.withheld(node) else found
        if isinstance(node, ast.Constant):
            return Known(node.value, switched=False)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return Known(not inner.value, inner.switched, inner.raw) if inner else None
        if isinstance(node, ast.BoolOp):
            return self._bool_op(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            test = self.truth(node.test)
            chosen = self.known(node.body if test.value else node.orelse) if test and test.switched else None
            return Known(chosen.value, True, chosen.raw) if chosen else None
        if isinstance(node, ast.Call):
            return self._cast(node)
        return None

    def truth(self, node: ast.expr) -> Known | None:
        """As `known`, where only truth counts: `pure and False` is false, too."""
        found = self.known(node)
        if found is not None:
            return Known(bool(found.value), found.switched, found.raw)
        if isinstance(node, ast.BoolOp):
            stop = not isinstance(node.op, ast.And)
            for position, value in enumerate(node.values):
                part = self.truth(value)
                if part and part.switched and part.value is stop and all(pure(left) for left in node.values[:position]):
                    return Known(stop, True, part.raw)
        return None

    def decided(self, node: ast.expr) -> tuple[bool, int] | None:
        """The truth of `f() or V1`, which holds whatever `f()` says, and which operand decides it."""
        if isinstance(node, ast.BoolOp) and self.truth(node) is None:
            stop = not isinstance(node.op, ast.And)
            for position, value in enumerate(node.values):
                part = self.truth(value)
                if part and part.switched and part.value is stop:
                    return (stop, position) if position else None
        return None

    def _name(self, node: ast.Name) -> Known | None:
        found = self.names.lookup(node)
        if found is None or not isinstance(node.ctx, ast.Load):
            return None
        known = self.proven.get((id(found[0]), node.id))
        return None if known is None or self.withheld(node) else known

    def _bool_op(self, node: ast.BoolOp) -> Known | None:
        stop = not isinstance(node.op, ast.And)
        switched = False
        known: Known | None = None
        for value in node.values:
            known = self.known(value)
            if known is None:
                return None
            switched |= known.switched
            if bool(known.value) is stop:
                break
        return Known(known.value, switched, known.raw) if known else None

    def _compare(self, node: ast.Compare) -> Known | None:
        parts = [self._operand(value) for value in (node.left, *node.comparators)]
        if any(part is None for part in parts):
            return None
        switched = any(part.switched for part in parts if part)
        for left, op, right in zip(parts, node.ops, parts[1:], strict=False):
            try:
                result = _COMPARE[type(op)](left.value, right.value)  # type: ignore[union-attr]
            except TypeError:
                return None
            if not result:
                return Known(False, switched)
        return Known(True, switched)

    def _operand(self, node: ast.expr) -> Known | None:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [self.known(item) for item in node.elts]
            if all(value is not None for value in values):
                return Known([value.value for value in values if value], any(v.switched for v in values if v))
            return None
        return self.known(node)

    def _cast(self, node: ast.Call) -> Known | None:
        function = node.func
        if isinstance(function, ast.Name) and function.id in _CASTS and len(node.args) == 1 and not node.keywords:
            if self.names.lookup(function) is not None:  # shadowed
                return None
            inner = self.truth(node.args[0]) if function.id == "bool" else self.known(node.args[0])
            try:
                return Known(_CASTS[function.id](inner.value), inner.switched) if inner else None
            except (TypeError, ValueError):
                return None
        if isinstance(function, ast.Attribute) and function.attr in _METHODS and not node.args and not node.keywords:
            inner = self.known(function.value)
            if inner and isinstance(inner.value, str):
                return Known(getattr(inner.value, function.attr)(), inner.switched, inner.raw)
        return None


def pure(node: ast.expr) -> bool:
    """Leaving the expression out changes nothing but time: names, constants, tests, and questions like `x.is_cpu()`."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        asks = name.startswith(("is_", "has_")) or name in ("isinstance", "hasattr", "len", "bool", "getenv")
        children: list[ast.expr] = [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            children.append(node.func.value)
        return asks and all(pure(child) for child in children)
    if isinstance(node, ast.Constant | ast.Name):
        return True
    if isinstance(node, ast.Attribute | ast.Starred):
        return pure(node.value)
    if isinstance(node, ast.Subscript):
        return pure(node.value) and pure(node.slice)
    if isinstance(node, ast.BoolOp):
        return all(pure(value) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        return pure(node.operand)
    if isinstance(node, ast.Compare):
        return all(pure(value) for value in (node.left, *node.comparators))
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return all(pure(value) for value in node.elts)
    return False


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Name)
