"""Modules under the shim: stand-ins for those that are gone, and the hook that gives living ones their lost names."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import switch
from .serve import NotServed, Server

HOOK = "__getattr__"


class LegacyModule(ModuleType):
    """A module that this vLLM lacks. Its names are served one by one, when they are asked for."""

    _v1_server: Server

    def __getattr__(self, name: str) -> Any:
        server: Server = self.__dict__["_v1_server"]
        if name == "__all__":
            return list(server.table.public_names(self.__name__))
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return server.take(self.__name__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """A patch. Where the name is the same object elsewhere, that is what is meant."""
        server = self.__dict__.get("_v1_server")
        if server is None or name.startswith("__") or isinstance(value, ModuleType):
            super().__setattr__(name, value)
            return
        legacy = server.table.find(f"{self.__name__}.{name}")
        if legacy is not None:
            server.say(
                "V1M006", legacy.dotted, f"`{legacy.dotted}` is replaced, which vLLM does not see. {legacy.headline}", legacy.since
            )
        super().__setattr__(name, value)


def make_legacy(module: ModuleType, server: Server) -> None:
    """Turn a fresh module into one that serves legacy names."""
    module.__dict__["_v1_server"] = server
    module.__class__ = LegacyModule


def hook(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let a living module answer for the names it lost; returns the way back."""
    name = module.__name__
    if not name.startswith("vllm") or HOOK in module.__dict__ and hasattr(module.__dict__[HOOK], "_v1_compat"):
        return None
    own = module.__dict__.get(HOOK)
    alive = [True]

    def __getattr__(attribute: str) -> Any:
        if own is not None:
            try:
                return own(attribute)
            except AttributeError:
                if not alive[0] or attribute.startswith("__"):
                    raise
        elif not alive[0] or attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return server.take(name, attribute)

    __getattr__._v1_compat = True  # type: ignore[attr-defined]
    module.__dict__[HOOK] = __getattr__
    undo_more = _more(module, server)

    def undo() -> None:
        alive[0] = False
        if undo_more is not None:
            undo_more()
        if module.__dict__.get(HOOK) is __getattr__:
            if own is None:
                del module.__dict__[HOOK]
            else:
                module.__dict__[HOOK] = own

    return undo


def _more(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """What vllm.envs needs beside."""
    if module.__name__ != switch.MODULE:
        return None

    def legacy(name: str) -> bool:
        return server.table.find(f"{switch.MODULE}.{name}") is not None

    return switch.wrap_is_set(module, legacy)


def living() -> list[ModuleType]:
    """vLLM's own modules that are loaded."""
    found = []
    for name, module in list(sys.modules.items()):
        if (name == "vllm" or name.startswith("vllm.")) and isinstance(module, ModuleType):
            if module.__name__ == name and not isinstance(module, LegacyModule):
                found.append(module)
    return found


__all__ = ["LegacyModule", "NotServed", "hook", "living", "make_legacy"]
