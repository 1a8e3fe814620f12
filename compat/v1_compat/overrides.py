"""Platform classes of V0's time on V1: methods whose signature changed are called as they expect.

Such a class derives from a class that vLLM still has, so it is made without a word and fails when it is called. Each
override that does not take what vLLM passes is given what it takes: the same argument under its name, a field of an
argument that took its place, or what V1 has instead. A platform for CPUs gets what vLLM's own does on V1.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .serve import Server

RULE = "V1M111"
MODULE = "vllm.platforms.interface"
BASE = "Platform"
SELECT, CONFIGURE = "get_attn_backend_cls", "check_and_update_config"
METHODS = (SELECT, "validate_request")
_OWN = ("vllm.platforms.cpu", "CpuPlatform")  # vLLM's platform for CPUs
_RENAMED = {"prompt": "processed_inputs"}  # V0 validated what was not processed yet
_ENGINE = "use_v1"
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Adapt the platform classes that are there and those that will be made; returns the way back."""
    base: Any = module.__dict__.get(BASE)
    if not isinstance(base, type) or "__init_subclass__" in base.__dict__:
        return None
    work = _Adapter(base, server)

    def made(cls: Any, /, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)  # type: ignore[arg-type]
        work.fit(cls)

    base.__init_subclass__ = classmethod(made)  # type: ignore[assignment]
    for cls in _below(base):
        work.fit(cls)

    def undo() -> None:
        del base.__init_subclass__
        work.undo()

    return undo


def _below(cls: type) -> Iterator[type]:
    children: list[type] = cls.__subclasses__()
    for child in children:
        yield child
        yield from _below(child)


class _Adapter:
    """Adapts classes, and remembers how they were."""

    def __init__(self, base: type, server: Server) -> None:
        self._base, self._server = base, server
        self._undo: list[Callable[[], None]] = []

    def fit(self, cls: type) -> None:
        """Adapt a class that is not vLLM's."""
        if cls.__module__.partition(".")[0] == "vllm":
            return
        for name in METHODS:
            own: Any = cls.__dict__.get(name)
            theirs = getattr(self._base, name, None)
            function = own.__func__ if isinstance(own, classmethod | staticmethod) else own
            if theirs is None or not inspect.isfunction(function):
                continue
            wanted, takes = inspect.signature(theirs), inspect.signature(own.__get__(None, cls))
            if _fits(takes.parameters, wanted.parameters):
                continue
            said = f"`{cls.__qualname__}.{name}` has V0's signature"
            self._say(said, name, f"v1_compat translates vLLM's calls of it. Write `{name}{_shown(wanted)}`.")
            self._replace(cls, name, self._called(own, takes, wanted, name))
            if name == SELECT and _for_cpus(cls):
                self._complete(cls)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _say(self, what: str, method: str, done: str) -> None:
        self._server.say(RULE, f"{MODULE}.{BASE}.{method}", f"{what}. {done}", "")

    def _replace(self, cls: type, name: str, method: Any) -> None:
        own = cls.__dict__[name]
        self._undo.append(lambda: setattr(cls, name, own))
        setattr(cls, name, method)

    def _called(self, own: Any, takes: inspect.Signature, wanted: inspect.Signature, name: str) -> Any:
        """The override, taking what vLLM passes."""

        def call(owner: type, /, *args: Any, **kwargs: Any) -> Any:
            method = own.__get__(None, owner)
            try:
                given = wanted.bind(*args, **kwargs)
            except TypeError:  # a caller of V0's time
                return method(*args, **kwargs)
            given.apply_defaults()
            named = _filled(takes.parameters, given.arguments)
            if name != SELECT:
                return method(**named)
            return self._served(self._select(method, named, owner), owner, args, kwargs)

        return classmethod(functools.wraps(getattr(own, "__func__", own))(call))

    def _select(self, method: Callable[..., Any], named: dict[str, Any], owner: type) -> Any:
        """V1's backend is asked for; where that is refused, V0's, which V1's engine can be given, too."""
        try:
            return method(**named)
        except Exception as error:
            if _ENGINE not in named:
                raise
            said = f"`{owner.__qualname__}.{SELECT}({_ENGINE}=True)` raises `{error!r}`"
            self._say(said, SELECT, "V0's backend is taken.")
            return method(**{**named, _ENGINE: False})

    def _served(self, answer: Any, owner: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The path of a backend that V1's engine can use, for the one that an override names."""
        if not isinstance(answer, str) or not answer:
            return answer
        from .legacy.engine import engine_path

        path = engine_path(answer)
        if path != answer:
            path = path or getattr(_vllms_own(), SELECT)(*args, **kwargs)
            self._say(
                f"`{owner.__qualname__}.{SELECT}` names `{answer}`, of V0's contract", SELECT, f"`{path}` serves."
            )
        return path

    def _complete(self, cls: type) -> None:
        """Put vLLM's own platform for CPUs between the class and the base: what came after V0 is there."""
        if self._base in cls.__bases__:
            before = cls.__bases__
            cls.__bases__ = tuple(_vllms_own() if base is self._base else base for base in before)
            self._undo.append(lambda: setattr(cls, "__bases__", before))
        own = cls.__dict__.get(CONFIGURE)
        if own is None:
            return

        def configure(owner: type, vllm_config: Any) -> None:
            """What V1 needs is set after the class has had its say. vLLM leaves what it chose, but the block size."""
            cache = getattr(vllm_config, "cache_config", None)
            before = getattr(cache, "block_size", None)
            own.__get__(None, owner)(vllm_config)
            chosen = getattr(cache, "block_size", None)
            getattr(_vllms_own(), CONFIGURE).__func__(owner, vllm_config)
            if cache is not None and chosen != before:
                cache.block_size = chosen

        self._replace(cls, CONFIGURE, classmethod(configure))


def _vllms_own() -> Any:
    return getattr(importlib.import_module(_OWN[0]), _OWN[1])


def _for_cpus(cls: type) -> bool:
    return getattr(cls, "device_type", "") == "cpu"


def _fits(takes: Mapping[str, Parameter], wanted: Mapping[str, Parameter]) -> bool:
    """The override takes whatever vLLM passes, by name or in its place."""
    kinds = {p.kind for p in takes.values()}
    unknown = [name for name in _required(takes) if name not in wanted]
    return not unknown and (Parameter.VAR_KEYWORD in kinds or all(name in takes for name in wanted))


def _required(takes: Mapping[str, Parameter]) -> list[str]:
    return [p.name for p in takes.values() if p.default is Parameter.empty and p.kind not in _VARIADIC]


def _filled(takes: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """What an override takes, out of what vLLM passes. A thing that V1 does not know is None."""
    found: dict[str, Any] = {}
    for name, parameter in takes.items():
        holder = next((value for value in given.values() if name in getattr(value, "_fields", ())), None)
        if parameter.kind in _VARIADIC:
            continue
        if name in given or _RENAMED.get(name) in given:
            found[name] = given[name if name in given else _RENAMED[name]]
        elif holder is not None:
            found[name] = getattr(holder, name)
        elif parameter.default is Parameter.empty:
            found[name] = True if name == _ENGINE else None
    if found.get("block_size", 0) is None:  # V1 names it only where the user did
        config = importlib.import_module("vllm.config").get_current_vllm_config()
        found["block_size"] = getattr(config.cache_config, "block_size", None)
    return found


def _shown(signature: inspect.Signature) -> str:
    plain = [p.replace(annotation=Parameter.empty) for p in signature.parameters.values()]
    return f"({', '.join(map(str, plain))})"
