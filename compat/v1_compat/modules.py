"""Modules under the shim: stand-ins for those that are gone, and the hook that gives living ones their lost names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import awaited, callables, makers, members, overrides, patches, platform_calls, renamed, structs, switch, values
from .place import asked_for_a_list, imported_by_vllm
from .serve import NotServed, Server

HOOK = "__getattr__"
OPERATIONS = "vllm._custom_ops"


class LegacyModule(ModuleType):
    """A module that this vLLM lacks. Its names are served one by one, when they are asked for."""

    _v1_server: Server

    def __getattr__(self, name: str) -> Any:
        server: Server = self.__dict__["_v1_server"]
        if name == "__all__":
            server.say_star(self.__name__)
            return list(server.table.public_names(self.__name__))
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return server.take(self.__name__, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """A patch. Where the name is the same object elsewhere, it is replaced there, too: that is what is meant."""
        server: Server = self.__dict__["_v1_server"]
        if (
            name.startswith("__")
            or isinstance(value, ModuleType)
            or not patches.ends(self.__name__, name, value, server)
        ):
            super().__setattr__(name, value)
        else:
            self.__dict__.pop(name, None)

    def __delattr__(self, name: str) -> None:
        """The end of a patch."""
        patches.end(self.__name__, name)
        super().__delattr__(name)


def make_legacy(module: ModuleType, server: Server) -> None:
    """Turn a fresh module into one that serves legacy names."""
    module.__dict__["_v1_server"] = server
    module.__class__ = LegacyModule


def hook(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let a living module answer for the names it lost; returns the way back."""
    name = module.__name__
    own = module.__dict__.get(HOOK)
    if hasattr(own, "_v1_compat"):
        return None
    alive = [True]

    def __getattr__(attribute: str) -> Any:
        if own is not None:
            try:
                return structs.for_user(attribute, own(attribute), sys._getframe(1)) if alive[0] else own(attribute)
            except AttributeError:
                if not alive[0] or attribute.startswith("__"):
                    raise
        elif not alive[0] or attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        if imported_by_vllm(server.folder) or (asked_for_a_list() and _has_file(module, attribute)):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        return server.take(name, attribute)

    __getattr__._v1_compat = True  # type: ignore[attr-defined]
    module.__dict__[HOOK] = __getattr__
    undos = [back for back in (_more(module, server), patches.watch(module)) if back is not None]

    def undo() -> None:
        alive[0] = False
        while undos:
            undos.pop()()
        if module.__dict__.get(HOOK) is __getattr__:
            if own is None:
                del module.__dict__[HOOK]
            else:
                module.__dict__[HOOK] = own

    return undo


def _has_file(package: ModuleType, name: str) -> bool:
    """A module that is really there, and is about to be imported."""
    stems = [os.path.join(folder, name) for folder in package.__dict__.get("__path__") or ()]
    return any(os.path.isdir(stem) or os.path.isfile(f"{stem}.py") for stem in stems)


def _more(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """What some of vLLM's modules need beside; returns the way back."""
    name = module.__name__
    found: list[Callable[[], None] | None] = []
    if name == OPERATIONS:
        found = [_operations(server)]
    elif name.startswith(f"{platform_calls.PACKAGE}."):
        found = [platform_calls.adapt(module, server)]
        if name == overrides.MODULE:
            found.append(overrides.adapt(module, server))
    elif name == renamed.MODULE or name.startswith(f"{renamed.MODULE}."):
        found = [adapt(module, server) for adapt in (renamed.adapt, makers.adapt, callables.adapt)]
    elif name == switch.MODULE:
        found = [switch.wrap_is_set(module, lambda name: server.table.find(f"{switch.MODULE}.{name}") is not None)]
    else:
        found = [adapt(module, server) for adapt in (callables.adapt, members.adapt, values.adapt, awaited.adapt)]
        found.append(structs.watch(module))

    def undo() -> None:
        for back in reversed(found):
            if back is not None:
                back()

    return undo if any(found) else None


def _operations(server: Server) -> Callable[[], None] | None:
    """vLLM's functions whose operator its CPU build lacks get V0's. Its own are loaded by now."""
    try:
        from .legacy import torch_ops
    except ImportError:  # no torch
        return None

    def say(name: str) -> None:
        dotted = f"{OPERATIONS}.{name}"
        server.say("V1M003", dotted, f"`{dotted}` has no operator in this vLLM. v1_compat's stands in.", "")

    return torch_ops.unregister if torch_ops.register(say) else None


def living() -> list[ModuleType]:
    """vLLM's own modules that are loaded."""
    found = []
    for name, module in list(sys.modules.items()):
        ours = isinstance(module, LegacyModule) or not isinstance(module, ModuleType)
        if (name == "vllm" or name.startswith("vllm.")) and not ours and module.__name__ == name:
            found.append(module)
    return found


__all__ = ["LegacyModule", "NotServed", "hook", "living", "make_legacy"]
