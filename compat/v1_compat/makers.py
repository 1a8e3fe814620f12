"""Makers that configuration classes lost: `KVTransferConfig.from_cli(text)` and its like are the plain constructor.

A maker is asked of the class, where no `__getattr__` of objects is asked. To take it is not to use it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .place import asked_by, unwanted

if TYPE_CHECKING:
    from .serve import Server

RULE = "V1M102"  # the plan's: a member that went


def _of_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def _of_level_or_json(text: str) -> dict[str, Any]:
    return {"mode": int(text)} if text in ("0", "1", "2", "3") else _of_json(text)


_JSON = "json.loads(text)"
MAKERS: Mapping[str, tuple[str, Callable[[Any], dict[str, Any]], str]] = {
    "CompilationConfig": ("from_cli", _of_level_or_json, _JSON),
    "KVTransferConfig": ("from_cli", _of_json, _JSON),
    "PoolerConfig": ("from_json", _of_json, _JSON),
    "SpeculativeConfig": ("from_dict", dict, "values"),
}
"""Configuration -> its maker, what the maker took as keywords, and how that is written."""


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let the configurations of a module be made in V0's ways; returns the way back."""
    put: list[tuple[type, str]] = []
    for name, (maker, keywords, written) in MAKERS.items():
        cls: Any = module.__dict__.get(name)
        if not isinstance(cls, type) or cls.__module__ != module.__name__ or hasattr(cls, maker):
            continue
        make = partial(_make, cls, maker, keywords, written, server)
        setattr(cls, maker, LostMaker(maker, make, server.folder))
        put.append((cls, maker))

    def undo() -> None:
        while put:
            delattr(*put.pop())

    return undo if put else None


def _make(
    cls: Any, maker: str, keywords: Callable[[Any], dict[str, Any]], written: str, server: Server, value: Any
) -> Any:
    name = cls.__name__
    text = f"`{name}.{maker}` is gone. Write `{name}(**{written})`."
    server.say(RULE, f"vllm.config.{name}.{maker}", text, "")
    return cls(**keywords(value))


class LostMaker:
    """A maker in its class; who is ready for that finds it lost."""

    def __init__(self, name: str, maker: Callable[..., Any], folder: str) -> None:
        self._name, self._maker, self._folder = name, maker, folder

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if asked_by(self._folder) or unwanted(self._name):
            raise AttributeError(f"type object {owner.__name__!r} has no attribute {self._name!r}")
        return self._maker
