"""Calls of V0's form that reach vLLM's own platform classes: through `super()`, a class's name or `current_platform`.

A method whose signature changed is asked whether the call fits; one of V0's form is turned into vLLM's. Methods that
went answer what V1 does, or say what to write: an instance would answer None for them, and the call of that fails.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from enum import EnumMeta
from inspect import Parameter
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from .notices import LegacyUseError
from .place import asked_by, unwanted

if TYPE_CHECKING:
    from .serve import Server

PACKAGE, INTERFACE, BASE = "vllm.platforms", "vllm.platforms.interface", "Platform"
SELECT = "get_attn_backend_cls"
CALL, LOST = "V1M112", "V1M102"  # the plan's: an argument that went; a member that went
_CONFIG = "attn_selector_config"
_CONFIG_HOMES = ("vllm.v1.attention.selector", "vllm.attention.selector")
_SELECT_V0 = ("selected_backend", "head_size", "dtype", "kv_cache_dtype", "block_size", "use_v1", "use_mla")
FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    SELECT: ((*_SELECT_V0, "has_sink", "use_sparse"),),
    "validate_request": (("prompt", "params", "processed_inputs"),),
}
"""Method -> the parameters of V0's form, of which a call may leave out the last ones that 0.11.0 added."""
_OPTIONAL = {"has_sink": False, "use_sparse": False}


class Answer(NamedTuple):
    """What a lost method gives."""

    value: Any = None
    new: str = ""  # the method of the platform, or the function, that does the same
    refused: bool = False


METHODS: Mapping[str, Answer] = {
    "default_v1": Answer(True),
    "get_cu_count": Answer(new="num_compute_units"),
    "get_lora_vocab_padding_size": Answer(256),
    "get_piecewise_backend_cls": Answer(refused=True),
    "is_async_output_supported": Answer(False),
    "is_hpu": Answer(False),
    "is_kv_cache_dtype_supported": Answer(refused=True),
    "is_neuron": Answer(False),
    "seed_everything": Answer(new="vllm.utils.torch_utils.set_random_seed"),
    "supports_v1": Answer(True),
}
"""Lost method of `Platform` -> what it gives on V1."""


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let the platform classes that a module defines be called in V0's way; returns the way back."""
    if not module.__name__.startswith(f"{PACKAGE}."):
        return None
    undo: list[Callable[[], None]] = []
    for cls in [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == module.__name__]:
        if not any(base.__name__ == BASE and base.__module__ == INTERFACE for base in cls.__mro__):
            continue
        for name in FORMS:
            own: Any = cls.__dict__.get(name)
            if isinstance(own, classmethod) and inspect.isfunction(own.__func__):
                setattr(cls, name, classmethod(_taking(cls, name, own.__func__, server)))
                undo.append(functools.partial(setattr, cls, name, own))
        for name in METHODS if cls.__name__ == BASE else ():
            if not hasattr(cls, name):
                setattr(cls, name, _Lost(name, METHODS[name], server))
                undo.append(functools.partial(delattr, cls, name))

    def back() -> None:
        while undo:
            undo.pop()()

    return back if undo else None


def _taking(cls: type, name: str, function: Callable[..., Any], server: Server) -> Callable[..., Any]:
    """The method; a call that it does not take, and V0's did, in its own form."""
    wanted = inspect.signature(function)

    @functools.wraps(function)
    def call(owner: type, /, *args: Any, **kwargs: Any) -> Any:
        if _fits(wanted, owner, args, kwargs):
            return function(owner, *args, **kwargs)
        given = _of_v0(name, args, kwargs)
        if given is None:
            return function(owner, *args, **kwargs)
        form = f"{name}({', '.join(p for p in wanted.parameters if p != 'cls')})"
        text = f"`{cls.__name__}.{name}` is called with V0's arguments, and translated. Write `{form}`."
        server.say(CALL, f"{cls.__module__}.{cls.__qualname__}.{name}", text, "")
        return function(owner, **_named(wanted, given))

    return call


def _fits(wanted: inspect.Signature, owner: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        bound = wanted.bind(owner, *args, **kwargs)
    except TypeError:
        return False
    return not isinstance(bound.arguments.get("attn_type"), bool)  # 0.11.0's nine arguments, one place on


def _of_v0(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by V0's names; None where it is no call of V0's."""
    for form in FORMS[name]:
        optional = {key: value for key, value in _OPTIONAL.items() if key in form}
        parameters = [
            Parameter(key, Parameter.POSITIONAL_OR_KEYWORD, default=optional.get(key, Parameter.empty)) for key in form
        ]
        try:
            bound = inspect.Signature(parameters).bind(*args, **kwargs)
        except TypeError:
            continue
        return {**optional, **bound.arguments}
    return None


def _named(wanted: inspect.Signature, given: dict[str, Any]) -> dict[str, Any]:
    """What vLLM's method takes, out of what V0's took."""
    if "selected_backend" in given:
        given = {**given, "selected_backend": _member(given["selected_backend"])}
    found = {name: given[name] for name in wanted.parameters if name in given}
    if _CONFIG in wanted.parameters:
        config = _config_class()
        found[_CONFIG] = config(**{key: value for key, value in given.items() if key in config._fields})
    return found


def _member(backend: Any) -> Any:
    """vLLM's member for one of V0's enumeration."""
    if type(backend).__module__ != "v1_compat.legacy.platform_backend":
        return backend
    for home in ("vllm.v1.attention.backends.registry", "vllm.attention.backends.registry"):
        try:
            members: Any = importlib.import_module(home).AttentionBackendEnum
        except (ImportError, AttributeError):
            continue
        if isinstance(members, EnumMeta):
            return next(filter(backend.__eq__, members), backend)
    return backend


def _config_class() -> Any:
    for home in _CONFIG_HOMES:
        try:
            return importlib.import_module(home).AttentionSelectorConfig
        except (ImportError, AttributeError):
            continue
    raise LegacyUseError(
        f"this vLLM takes {_CONFIG} and has no AttentionSelectorConfig in {' or '.join(_CONFIG_HOMES)}"
    )


class _Lost:
    """A method that `Platform` lost. Who is ready for that finds it lost."""

    def __init__(self, name: str, answer: Answer, server: Server) -> None:
        self._name, self._answer, self._server = name, answer, server

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if asked_by(self._server.folder) or unwanted(self._name):
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")
        return functools.partial(self._call, owner if instance is None else instance)

    def _call(self, platform: Any, *args: Any, **kwargs: Any) -> Any:
        name, answer = self._name, self._answer
        dotted = f"{INTERFACE}.{BASE}.{name}"
        words, since = self._server.table.row(dotted)  # what an instance has, vLLM answers for any name
        if answer.refused:
            raise LegacyUseError(f"{dotted}() is called: it is gone. {words} [{LOST}: v1-migrate explain {dotted}]")
        now = f"`{answer.new}` is called" if answer.new else f"it gives {answer.value!r}"
        self._server.say(LOST, dotted, f"`{BASE}.{name}` is gone; {now}. {words}".rstrip(), since)
        if not answer.new:
            return answer.value
        home, _, last = answer.new.rpartition(".")
        return getattr(importlib.import_module(home) if home else platform, last)(*args, **kwargs)
