"""Statements that set, clear or test nothing but the switch: what they set it to, and whether they may go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .names import SWITCH, Names, is_switch
from .values import Values

Setting = Literal["on", "off", "unset", "unknown"]
_PATH = f"vllm.envs.{SWITCH}"
_ON, _OFF = ("1", "true", "yes", "on", "v1"), ("0", "false", "no", "off", "v0")


@dataclass(frozen=True, slots=True)
class Action:
    """One place that gives the switch a value or takes it away."""

    place: ast.AST
    setting: Setting
    deletes: bool = False  # the whole statement may go


class Actions:
    """Recognises actions. Statements inside `pinned` code keep what they do."""

    def __init__(self, names: Names, values: Values, unsafe: bool) -> None:
        self.names = names
        self.values = values
        self.unsafe = unsafe
        self.read_elsewhere = False  # something reads the entry of a dict that is not the environment

    def of(self, statement: ast.stmt) -> Action | None:
        """What a statement does to the switch, if that is all it does."""
        found: tuple[ast.AST, ast.expr | None] | None = None
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found = self._call(statement.value)
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            if self.target(statement.targets[0]):
                found = statement.targets[0], statement.value
        elif isinstance(statement, ast.Delete) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Subscript) and is_switch(target.slice) and _simple(target.value):
                found = target, None
        if found is None:
            return None
        place, value = found
        setting = self.setting(value)
        allowed = not self.values.withheld(place)  # type: ignore[arg-type]
        return Action(place, setting, allowed and self.goes(setting))

    def goes(self, setting: str) -> bool:
        """A place with this setting has no use on V1."""
        return setting in ("on", "unset") or (setting == "off" and self.unsafe)

    def setting(self, value: ast.expr | None) -> Setting:
        """What a value means for the switch."""
        if value is None:
            return "unset"
        if self._falls_back_to_v0(value):
            return "off"
        known = self.values.known(value)
        if known is None:
            return "unknown"
        text = str(known.value).strip().lower()
        if text in _ON:
            return "on"
        if _means_v0(text):
            return "off"
        return "unset" if text in ("", "none") else "unknown"

    def _falls_back_to_v0(self, value: ast.expr) -> bool:
        """The value is what the switch is set to, and 0 where it is not: `os.getenv("VLLM_USE_V1", "0")`."""
        for node in ast.walk(value):
            others: list[ast.expr] = []
            if isinstance(node, ast.Call) and self.values.read(node) is not None:
                others = node.args[1:]
            elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and self.values.reads_text(node):
                others = node.values[1:]
            elif isinstance(node, ast.IfExp) and self.values.asks_whether_set(node.test):
                others = [node.body, node.orelse]
            if any(isinstance(other, ast.Constant) and _means_v0(other.value) for other in others):
                return True
        return False

    def requests(self, call: ast.Call) -> bool:
        """A call, wherever it stands, that sets the switch to 0."""
        found = self._call(call)
        return found is not None and found[1] is not None and self.setting(found[1]) == "off"

    def target(self, node: ast.expr) -> bool:
        """An assignment's target is the switch: an entry of `os.environ` or of any dict, or `envs.VLLM_USE_V1`."""
        if isinstance(node, ast.Subscript):
            return is_switch(node.slice) and _simple(node.value)
        return isinstance(node, ast.Attribute) and self.names.dotted(node) == _PATH

    def _call(self, call: ast.Call) -> tuple[ast.AST, ast.expr | None] | None:
        function, arguments = call.func, call.args
        method = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        path = self.names.dotted(function)
        if path == "vllm.envs.set_vllm_use_v1":
            return call, arguments[0] if arguments else call.keywords[0].value if call.keywords else None
        if arguments and is_switch(arguments[0]):
            if method == "setenv" or path in ("os.putenv", "os.environ.setdefault"):
                return call, _argument(call, 1, "value")
            if method == "delenv" or path in ("os.environ.pop", "os.unsetenv"):
                return call, None
            owner = function.value if isinstance(function, ast.Attribute) else None
            if owner is not None and method in ("pop", "setdefault") and self.names.environment(owner):
                return call, None if method == "pop" else _argument(call, 1, "default")
        if method in ("setattr", "delattr"):
            return self._attribute(call, method)
        if method in ("setitem", "delitem") and len(arguments) >= 2 and is_switch(arguments[1]):
            return call, _argument(call, 2, "value") if method == "setitem" else None
        if method == "update" and isinstance(function, ast.Attribute) and _simple(function.value):
            return self._update(call)
        return None

    def _attribute(self, call: ast.Call, method: str) -> tuple[ast.AST, ast.expr | None] | None:
        arguments = call.args
        if arguments and isinstance(arguments[0], ast.Constant) and arguments[0].value == _PATH:
            return call, _argument(call, 1, "value") if method == "setattr" else None
        if len(arguments) >= 2 and is_switch(arguments[1]) and self.names.dotted(arguments[0]) == "vllm.envs":
            return call, _argument(call, 2, "value") if method == "setattr" else None
        return None

    def _update(self, call: ast.Call) -> tuple[ast.AST, ast.expr | None] | None:
        if len(call.args) == 1 and not call.keywords and isinstance(call.args[0], ast.Dict):
            entries = call.args[0]
            if len(entries.keys) == 1 and is_switch(entries.keys[0]):
                return call, entries.values[0]
        if not call.args and len(call.keywords) == 1 and call.keywords[0].arg == SWITCH:
            return call, call.keywords[0].value
        return None


def _means_v0(value: object) -> bool:
    return str(value).strip().lower() in _OFF


def entries(node: ast.AST) -> Iterator[tuple[int, ast.expr]]:
    """Entries of a dict display, or keywords of `dict(...)`, that are the switch: (position, value)."""
    if isinstance(node, ast.Dict):
        yield from (
            (position, value)
            for position, (key, value) in enumerate(zip(node.keys, node.values, strict=True))
            if is_switch(key)
        )
    elif isinstance(node, ast.Call):
        for position, keyword in enumerate(node.keywords):
            if keyword.arg == SWITCH:
                yield len(node.args) + position, keyword.value


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), ast.Name("?"))


def _simple(node: ast.expr) -> bool:
    """A name or chain: looking at it has no effect."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name)
