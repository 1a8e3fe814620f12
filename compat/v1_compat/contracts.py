"""Which methods of a class written for V0 do not fit the class that vLLM has in its place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from v1_migrate.names.index import Param

_NAMED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Misfit:
    """An override that vLLM will not call, or not as it expects."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def misfits(
    space: Mapping[str, Any],
    target: type,
    old_members: Sequence[str],
    old_params: Callable[[str], Sequence[Param] | None],
) -> list[Misfit]:
    """The overrides in a class body that the target does not have, or calls otherwise.

    `old_members` are the V0 class's, `old_params(name)` the parameters of one of its methods. A class that overrides
    methods which only the target has serves both engines: there a V0 method may stand beside V1's.
    """
    known = set(old_members)
    overrides = {name: value for name, value in space.items() if _function(value) is not None and name in known}
    serves_both = any(
        _function(value) is not None and name not in known and not name.startswith("__") and hasattr(target, name)
        for name, value in space.items()
    )
    found = []
    for name, value in overrides.items():
        theirs = getattr(target, name, None)
        if theirs is None:
            if not serves_both and not name.startswith("__"):
                found.append(Misfit(name, f"{target.__qualname__} has no such method, nothing calls it"))
            continue
        reason = _difference(name, _function(value), theirs, old_params(name))
        if reason:
            found.append(Misfit(name, reason))
    return found


def widened(space: Mapping[str, Any], target: type, old_members: Sequence[str]) -> dict[str, Any]:
    """Overrides that lack optional parameters of the target's, made to take them as long as nobody uses them."""
    found = {}
    for name, value in space.items():
        theirs = getattr(target, name, None)
        if not inspect.isfunction(value) or name not in old_members or name == "__init__" or theirs is None:
            continue
        own, wanted = _parameters(value), _parameters(theirs)
        if own is None or wanted is None or any(p.kind is Parameter.VAR_KEYWORD for p in own.values()):
            continue
        extra = {p.name: p.default for p in wanted.values() if p.name not in own and p.default is not Parameter.empty}
        if extra:
            found[name] = _without(value, extra)
    return found


def _without(function: Callable[..., Any], extra: Mapping[str, Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name, default in extra.items():
            if name in kwargs and kwargs[name] == default:
                del kwargs[name]
        return function(*args, **kwargs)

    return call


def _difference(name: str, own: Callable[..., Any] | None, theirs: Any, old: Sequence[Param] | None) -> str:
    """Why an override does not fit; "" if it does."""
    wanted, have = _parameters(theirs), _parameters(own) if own is not None else None
    if wanted is None or have is None:
        return ""
    if name != "__init__" and old is not None and [p.name for p in old] == [p for p in wanted if p != "self"]:
        return ""  # the contract is as it was
    takes_any_place = any(p.kind is Parameter.VAR_POSITIONAL for p in have.values())
    takes_any_name = any(p.kind is Parameter.VAR_KEYWORD for p in have.values())
    for place, parameter in enumerate(p for p in wanted.values() if p.name != "self"):
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) or parameter.name in have:
            continue
        optional = parameter.default is not Parameter.empty
        if optional or takes_any_name or (takes_any_place and parameter.kind in _NAMED and place >= 0):
            continue
        return f"it is called as {_shown(name, wanted)} and takes {_shown(name, have)}"
    required = [
        p.name for p in have.values() if p.default is Parameter.empty and p.kind in (*_NAMED, Parameter.KEYWORD_ONLY)
    ]
    unknown = [p for p in required if p not in wanted and p != next(iter(have), "")]
    if unknown and not any(p.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for p in wanted.values()):
        return f"it is called as {_shown(name, wanted)}, without {', '.join(unknown)}"
    return ""


def _function(value: Any) -> Callable[..., Any] | None:
    inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    return inner if inspect.isfunction(inner) else None


def _parameters(function: Any) -> Mapping[str, Parameter] | None:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def _shown(name: str, parameters: Mapping[str, Parameter]) -> str:
    plain = [p.replace(annotation=Parameter.empty) for p in parameters.values() if p.name not in ("self", "cls")]
    return f"{name}({', '.join(map(str, plain))})"
