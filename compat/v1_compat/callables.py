"""Constructors and methods of vLLM's front end that take what V0's took, as far as it means something.

Only a call with a keyword that vLLM does not take is looked at; every other goes to vLLM's function as it is. Classes
stay the objects that they are: their functions are replaced, and given back.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from inspect import Parameter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import awaited, guided, positions
from .kinds import Arguments, in_front
from .mode import Mode
from .notices import LegacyUseError
from .place import unwanted_call

if TYPE_CHECKING:
    from .keywords import Callee
    from .serve import Server

CONFIGURATION = "vllm.config"
_INIT, _ABORT = "__init__", "abort_request"
METHODS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "vllm.engine.arg_utils": {"EngineArgs": (_INIT,), "AsyncEngineArgs": (_INIT,)},
    "vllm.entrypoints.llm": {
        "LLM": (
            _INIT,
            "chat",
            "classify",
            "embed",
            "encode",
            "generate",
            "get_tokenizer",
            "reset_prefix_cache",
            "score",
        )
    },
    "vllm.sampling_params": {"SamplingParams": ("from_optional",), "StructuredOutputsParams": (_INIT,)},
    "vllm.v1.engine.async_llm": {
        "AsyncLLM": (
            "add_request",
            "do_log_stats",
            "encode",
            "from_vllm_config",
            "generate",
            "get_tokenizer",
            "reset_prefix_cache",
        )
    },
    "vllm.v1.engine.llm_engine": {
        "LLMEngine": (_INIT, _ABORT, "add_request", "do_log_stats", "get_tokenizer", "reset_prefix_cache")
    },
}
"""Module -> class -> its callables whose keywords the table has words for. The keywords are the index's.

Of the modules of `vllm.config` it is the constructors of all classes.
"""
_FORWARDS = {"LLM": ("vllm.engine.arg_utils", "EngineArgs")}  # `**kwargs` go on to this one
_RULE = "V1M112"
_IDS, _PROMPTS = "prompt_token_ids", "prompts"


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let the callables of a module take what V0's took; returns the way back."""
    undo: list[Callable[[], None]] = []
    for cls, names in _classes(module):
        for name in names:
            own, bound = cls.__dict__.get(name), inspect.getattr_static(cls, name, None)
            function = bound.__func__ if isinstance(bound, classmethod | staticmethod) else bound
            if not inspect.isfunction(function):
                continue
            call: Any = _taking(cls, name, function, server)
            setattr(cls, name, type(bound)(call) if isinstance(bound, classmethod | staticmethod) else call)
            undo.append(functools.partial(_restore, cls, name, own))
    undo += [back for back in (guided.adapt(module, server),) if back is not None]

    def back() -> None:
        while undo:
            undo.pop()()

    return back if undo else None


def _classes(module: ModuleType) -> Iterator[tuple[type, tuple[str, ...]]]:
    if module.__name__ == CONFIGURATION or module.__name__.startswith(f"{CONFIGURATION}."):
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__ and _INIT in value.__dict__:
                yield from [(value, (_INIT,))] if dataclasses.is_dataclass(value) else []
    for name, names in METHODS.get(module.__name__, {}).items():
        found = vars(module).get(name)
        if isinstance(found, type):
            yield found, names


def _restore(cls: type, name: str, own: Any) -> None:
    if own is None:
        delattr(cls, name)
    else:
        setattr(cls, name, own)


def _taking(cls: type, name: str, function: Callable[..., Any], server: Server) -> Callable[..., Any]:
    """The function, asked again where it lacks a keyword."""

    @functools.cache
    def takes() -> frozenset[str]:
        return _takes(cls, cls if name == _INIT else function)

    by_position = cls.__name__ in positions.CLASSES and not isinstance(
        cls.__dict__.get(name), classmethod | staticmethod
    )

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if name == _ABORT:
            args, kwargs = _as_list(cls, server, args, kwargs)
        if by_position and not positions.fit(function, args) and not unwanted_call():
            args, kwargs = positions.named(function, _callee(cls, name, takes()), server, (args, kwargs))
        if not kwargs or kwargs.keys() <= takes() or unwanted_call():
            return args, kwargs
        if _IDS in kwargs and _IDS not in takes() and _PROMPTS in takes():
            args, kwargs = _as_prompts(cls, name, server, args, kwargs)
        return args, settled(cls, name, takes(), server, kwargs)

    return in_front(function, arguments, awaited.finish(cls, name, function, server))


def settled(cls: type, name: str, takes: Collection[str], server: Server, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keywords that vLLM takes, with a notice at the user's line; the same ones where nothing is known of a keyword.

    Raises LegacyUseError for a value that asks for what is gone.
    """
    if kwargs.keys() <= set(takes):
        return kwargs
    from .keywords import settle  # here: most programs never come by

    callee = _callee(cls, name, takes)
    try:
        found = settle(server.table, callee, kwargs)
    except LegacyUseError as error:
        if server.notices.mode is Mode.REPORT:
            server.say(error.rule, callee.places[0], str(error), "", error.use)
        raise
    if found is None:
        return kwargs
    server.say(found.rule, callee.places[0], found.text, found.since, found.use)
    return found.kwargs


def _callee(cls: type, name: str, takes: Collection[str]) -> Callee:
    from .keywords import Callee

    return Callee(cls.__name__ if name == _INIT else f"{cls.__name__}.{name}", _places(cls, name), takes)


def _takes(cls: type, function: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(function).parameters.values()
    names = {p.name for p in parameters if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
    further = _FORWARDS.get(cls.__name__)
    if further is not None and any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        names |= _takes(object, getattr(__import__(further[0], fromlist=[further[1]]), further[1]))
    return frozenset(names)


def _places(cls: type, name: str) -> tuple[str, ...]:
    """Where the index may know the callable: its module, and the packages that have it from there."""
    module, rest = cls.__module__, cls.__qualname__ + ("" if name == _INIT else f".{name}")
    homes = [module, CONFIGURATION] if module.startswith(f"{CONFIGURATION}.") else [module]
    homes += ["vllm.engine.llm_engine"] if cls.__name__ == "LLMEngine" else []
    places = [f"{home}.{rest}" for home in homes]
    if cls.__name__ == guided.NEW:
        places.append(f"{module}.{rest.replace(guided.NEW, guided.OLD)}")
    further = _FORWARDS.get(cls.__name__)
    if further is not None and name == _INIT:
        places.append(".".join(further))
    if cls.__name__ == "AsyncLLM":
        places.append(f"vllm.engine.async_llm_engine.AsyncLLMEngine.{name}")
    return tuple(places)


def _as_prompts(
    cls: type, name: str, server: Server, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`prompt_token_ids=`, where there are no other prompts, as the prompts that V1 takes."""
    given = args[1] if len(args) > 1 else kwargs.get(_PROMPTS)
    if given is not None or kwargs[_IDS] is None:
        return args, kwargs
    kwargs = dict(kwargs)
    ids = kwargs.pop(_IDS)
    several = [ids] if ids and isinstance(ids[0], int) else ids
    prompts = [{_IDS: list(one)} for one in several]
    text = f"`{cls.__name__}.{name}` lost `{_IDS}`: write `[{{'{_IDS}': ids}} for ids in ...]` as the prompts"
    server.say(_RULE, _places(cls, name)[0], text, "0.10.2", f"{cls.__name__}.{name}({_IDS}=)")
    if len(args) > 1:
        return (args[0], prompts, *args[2:]), kwargs
    return args, {**kwargs, _PROMPTS: prompts}


def _as_list(
    cls: type, server: Server, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """One request's id as the list that V1 takes: of a text it would take each letter for an id, and abort nothing."""
    key = next((key for key in ("request_ids", "request_id") if isinstance(kwargs.get(key), str)), "")
    first = len(args) > 1 and isinstance(args[1], str)
    if not first and not key:
        return args, kwargs
    text = f"`{cls.__name__}.{_ABORT}` takes a list: write `{_ABORT}([request_id])`."
    server.say(_RULE, _places(cls, _ABORT)[0], text, "0.11.0", f"{cls.__name__}.{_ABORT}(request_id)")
    return ((args[0], [args[1]], *args[2:]), kwargs) if first else (args, {**kwargs, key: [kwargs[key]]})
