"""Arms for a switch that is not set, or that set it to V1: what else they do is what a run on V1 gets today."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .actions import Actions
from .values import Values

_CHOOSES = "the arm that chooses V1 does more than that"
_TELLS_SET = "it tells a switch that is set from one that is not, which V1 does not decide"
MORE_THAN_A_DEFAULT = (_CHOOSES, _TELLS_SET)
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)
_SPEAKING = ("print", "warn", "debug", "info", "warning", "error", "info_once", "warning_once")


def why_more_than_a_default(test: ast.If, values: Values, actions: Actions) -> str:
    """Why an `if` of the switch chooses more than the engine; "" where folding it changes no run on V1."""
    known = values.truth(test.test)
    if known is None or not known.switched:
        return ""
    never = test.orelse if known.value else test.body
    if _sets_v1(never, actions) and _does_more(never, actions):
        return _CHOOSES
    if (
        _alone(test.test)
        and values.asks_for_presence(test.test)
        and (_does_more(test.body, actions) or _does_more(test.orelse, actions))
    ):
        return _TELLS_SET
    return ""


def _alone(test: ast.expr) -> bool:
    """One question, not `is_set(...) and VLLM_USE_V1`, which asks for the engine after all."""
    return not any(isinstance(node, ast.BoolOp) for node in ast.walk(test))


def _statements(arm: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in arm:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.stmt))


def _sets_v1(arm: list[ast.stmt], actions: Actions) -> bool:
    return any(action.setting == "on" for node in _statements(arm) if (action := actions.of(node)) is not None)


def _does_more(arm: list[ast.stmt], actions: Actions) -> bool:
    """Anything but setting the switch and speaking of it."""
    return any(
        not isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom, *_COMPOUND))
        and actions.of(node) is None
        and not (isinstance(node, ast.Expr) and _speaks(node.value))
        for node in _statements(arm)
    )


def _speaks(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return True
    function = value.func if isinstance(value, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) in _SPEAKING
