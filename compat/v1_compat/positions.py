"""Arguments that V0 took by their position and V1 takes by name only, or reads at that place as something else.

A call with more of them than V1 takes is a TypeError, so that naming them takes nothing from anybody. Where V1 takes as
many and reads them otherwise, they are named only if they make no sense to V1 and do to V0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .keywords import Callee
    from .kinds import Arguments
    from .serve import Server

RULE = "V1M112"  # the plan's, of arguments that get their names
CLASSES = frozenset({"LLM", "LLMEngine", "AsyncLLM"})  # the front end: of configurations fields were put in between
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


_FORMATS = ("auto", "string", "openai")


def _request(value: Any) -> bool:
    return not isinstance(value, bool | int | float | str | bytes)


def _text(value: Any) -> bool:
    return value is None or isinstance(value, str)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "add_generation_prompt": lambda value: isinstance(value, bool),
    "chat_template": lambda value: _text(value) and value not in _FORMATS,
    "chat_template_content_format": lambda value: _text(value) and value in _FORMATS,
    "continue_final_message": lambda value: isinstance(value, bool),
    "guided_options_request": _request,
    "lora_request": _request,
    "priority": lambda value: not _text(value) or value is None,
    "prompt_adapter_request": _request,
    "prompt_token_ids": lambda value: value is None or isinstance(value, list | tuple),
    "tools": lambda value: value is None or isinstance(value, list),
    "trace_headers": lambda value: value is None or isinstance(value, Mapping),
    "use_tqdm": lambda value: isinstance(value, bool) or callable(value),
}
"""What a value of that name can be; of other names, anything."""


@cache
def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """What a method takes by position, itself left out."""
    return tuple(p.name for p in signature(function).parameters.values() if p.kind in _BY_POSITION)[1:]


def fit(function: Callable[..., Any], args: Sequence[Any]) -> bool:
    """V1 takes as many positional arguments, and they can be what it reads there. The first is the object."""
    now = parameters(function)
    return len(args) <= len(now) + 1 and _sensible(now, args[1:])


def named(function: Callable[..., Any], callee: Callee, server: Server, arguments: Arguments) -> Arguments:
    """The call with names where V1 wants them; as it is where it is not one of V0's.

    Keywords that V1 lost are among them, for whoever settles those.
    """
    args, kwargs = arguments
    now = parameters(function)
    for before in _older(callee.places, server):
        same = next(
            (i for i, (a, b) in enumerate(zip(now, before, strict=False)) if a != b), min(len(now), len(before))
        )
        names, values = before[same:], args[same + 1 :]
        if not values or len(values) > len(names) or not _sensible(before, args[1:]):
            continue
        given = dict(zip(names, values, strict=False))
        if given.keys() & kwargs.keys():
            break
        kept = {name: value for name, value in given.items() if value is not None}
        _say(callee, server, kept, [name for name in given if name not in kept])
        return args[: same + 1], {**kwargs, **kept}
    return arguments


def _older(places: Sequence[str], server: Server) -> list[list[str]]:
    """The positional parameters of the last V0, and of what came before and after it."""
    from v1_migrate.names.index import LAST_V0

    table, found = server.table, list[list[str]]()
    places = [place for place in places if not place.startswith(("vllm.v1.", "vllm.engine.arg_utils."))]
    older = [release for release in table.older if ".post" not in release]
    for release in [LAST_V0, *reversed(older)]:
        params = next((params for place in places if (params := table.params(place, release)) is not None), ())
        names = [param.name for param in params if param.kind in ("pos", "pos_or_kw")]
        if names and names not in found:
            found.append(names)
    return found


def _sensible(names: Sequence[str], values: Sequence[Any]) -> bool:
    return all(name not in _KINDS or _KINDS[name](value) for name, value in zip(names, values, strict=False))


def _say(callee: Callee, server: Server, kept: Mapping[str, Any], idle: Sequence[str]) -> None:
    named = [f"`{name}={_shown(value)}`" for name, value in kept.items() if name in callee.takes]
    parts = [f"write {', '.join(named)}"] if named else []
    parts += [f"leave {', '.join(f'`{name}`' for name in idle)} out"] if idle else []
    if parts:
        text = f"`{callee.name}` no longer takes these arguments by their position: {', '.join(parts)}."
        server.say(RULE, callee.places[0], text, "", f"{callee.name}(...) by position")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | str | None) and len(repr(value)) < 30 else "..."
