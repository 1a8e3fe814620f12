"""Methods and attributes that the engine's front end lost: read from where they are now, or refused with advice.

They are looked up when everything else has failed, whose error is raised where there is nothing to say: a `__getattr__`
could not give it, as Python drops it, and would have to look the name up again. What is refused is an AttributeError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .mode import Mode
from .notices import LegacyMemberError
from .place import asked_by, attribute_before, unwanted

if TYPE_CHECKING:
    from .serve import Server

CLASSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "vllm.entrypoints.llm": ("LLM", ("vllm.entrypoints.llm.LLM",)),
    "vllm.v1.engine.llm_engine": (
        "LLMEngine",
        ("vllm.engine.llm_engine.LLMEngine", "vllm.v1.engine.llm_engine.LLMEngine"),
    ),
    "vllm.v1.engine.async_llm": (
        "AsyncLLM",
        ("vllm.engine.async_llm_engine.AsyncLLMEngine", "vllm.v1.engine.async_llm.AsyncLLM"),
    ),
}
"""vLLM's module -> its class, and what V0 and releases since had in its place."""

RULE, INSIDES = "V1M102", "V1M008"  # the plan's: a member that went; a chain into what is another process now
_CHAIN, _WORKERS = "llm_engine", "model_executor"
_CONFIGURATION = re.compile(r"(?:get_)?(\w+_config)")
_RENAMED = {"decoding_config": "structured_outputs_config"}


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Answer for the lost members of the module's class; returns the way back."""
    name, places = CLASSES.get(module.__name__, ("", ()))
    cls: Any = module.__dict__.get(name)
    if cls is None or "__getattribute__" in vars(cls) or hasattr(cls, "__getattr__"):
        return None
    look_up = cls.__getattribute__

    def __getattribute__(self: Any, attribute: str) -> Any:
        try:
            return look_up(self, attribute)
        except AttributeError:
            if attribute.startswith("_") or _defined(type(self), attribute) or asked_by(server.folder):
                raise
            if unwanted(attribute) or not (legacy := _legacy(attribute, places, server))[0]:
                raise
        return _lost(self, attribute, legacy, server)

    cls.__getattribute__ = __getattribute__

    def undo() -> None:
        del cls.__getattribute__

    return undo


def _defined(cls: type, name: str) -> bool:
    """A class has the name itself, and what failed is inside of that; or it answers for names that it has not."""
    return any(name in base.__dict__ or "__getattr__" in base.__dict__ for base in cls.__mro__)


def _lost(engine: Any, name: str, legacy: tuple[str, str, str], server: Server) -> Any:
    """What stands for a member that an older release has. Raises AttributeError."""
    dotted, words, since = legacy
    rule = INSIDES if name == _WORKERS or attribute_before() == _CHAIN else RULE
    owner, path = type(engine).__name__, _path(engine, name)
    if path:
        server.say(rule, dotted, f"`{owner}.{name}` is gone. Write `{path}`, an attribute.", since)
        value = attrgetter(path)(engine)
        return _accessor(value, asynchronous=_awaited(type(engine))) if name.startswith("get_") else value
    text = f"`{owner}.{name}` is gone. {words}"
    if server.notices.mode is Mode.REPORT:
        server.say(rule, dotted, text, since)
    raise LegacyMemberError(f"{text} [{rule}: v1-migrate explain {dotted}]", name=name, obj=engine)


def _legacy(name: str, places: tuple[str, ...], server: Server) -> tuple[str, str, str]:
    """The dotted name of a member that went, the words about it, and since when; "" if it is none."""
    if name == _WORKERS and places[0].endswith("LLMEngine"):
        from v1_migrate.rules.engine_internals import TO_THE_WORKERS

        return f"{places[0]}.{name}", TO_THE_WORKERS, ""  # there on V1, too, where nothing else is a process
    legacy = next((found for place in places if (found := server.table.find(f"{place}.{name}"))), None)
    return (legacy.dotted, legacy.advice, legacy.since) if legacy is not None else ("", "", "")


def _path(engine: Any, name: str) -> str:
    """Where a part of the configuration is; "" for what is none."""
    match = _CONFIGURATION.fullmatch(name)
    configuration = engine.__dict__.get("vllm_config")
    if match is None or configuration is None:
        return ""
    if match[1] == "vllm_config":
        return match[1]
    field = _RENAMED.get(match[1], match[1])
    return f"vllm_config.{field}" if field in getattr(type(configuration), "__dataclass_fields__", {}) else ""


def _awaited(cls: type) -> bool:
    return any(base.__name__ == "AsyncLLM" for base in cls.__mro__)


def _accessor(value: Any, *, asynchronous: bool) -> Callable[[], Any]:
    """V0's method; that of its asynchronous engine was awaited."""

    async def later() -> Any:
        return value

    return later if asynchronous else lambda: value
