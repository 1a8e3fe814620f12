"""Assignments to names that vLLM's modules lost: `mock.patch("vllm.utils.cdiv")`, `vllm.utils.cdiv = mine`.

Where the name moved, what is assigned goes to its new place, too: that is what is meant. Where it did not, whoever
assigns is told that vLLM does not see it. The end of a patch, and the shim's, give the new place back what it had.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import current, switch
from .place import asked_by

if TYPE_CHECKING:
    from .serve import Server

_ABSENT: Any = object()
_RULE = "V1M006"


@dataclass(frozen=True, slots=True)
class _Patch:
    """A name that is replaced."""

    home: ModuleType | None  # vLLM's module that has the name now; None where the replacement reaches nothing
    attribute: str  # its name there
    original: Any  # what stood there
    served: Any  # what the old name gave before


_patches: dict[tuple[str, str], _Patch] = {}


class _Module(ModuleType):
    """A module of vLLM. Its own code binds names past this; from outside, nearly all that is bound is submodules."""

    def __setattr__(self, name: str, value: Any) -> None:
        ended = False
        if (self.__name__, name) in _patches or not (
            name in self.__dict__ or name.startswith("__") or isinstance(value, ModuleType)
        ):
            shim = current()
            server = shim.server() if shim is not None else None
            ended = server is not None and not asked_by(server.folder) and ends(self.__name__, name, value, server)
        if ended:
            self.__dict__.pop(name, None)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        end(self.__name__, name)
        super().__delattr__(name)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """cloudpickle knows modules by their very type."""
        return importlib.import_module, (self.__name__,)


def watch(module: ModuleType) -> Callable[[], None] | None:
    """See what is assigned to a living module from outside; returns the way back."""
    before = type(module)
    if before.__setattr__ is not ModuleType.__setattr__:  # a module that has ways of its own
        return None
    try:
        module.__class__ = _watched(before)
    except TypeError:  # made by C code
        return None

    def undo() -> None:
        module.__class__ = before

    return undo


def _watched(cls: type[ModuleType]) -> type[ModuleType]:
    return _Module if cls is ModuleType else type(cls.__name__, (_Module, cls), {"__module__": __name__})


def ends(module: str, name: str, value: Any, server: Server) -> bool:
    """Carry what is assigned to where vLLM has the name, with a notice. True where the old value comes back instead."""
    known = _patches.get((module, name))
    if known is not None and value is known.served:
        end(module, name)
        return True
    legacy = server.table.find(f"{module}.{name}")
    if legacy is None:
        return False
    served = server.find(module, name)
    before = served.object if served is not None else _ABSENT
    if known is None and served is not None and served.how == "same" and value is before:
        return False  # the very object, under its old name
    home = server.home(module, name)
    if module == switch.MODULE and served is not None:
        server.say(served.rule, legacy.dotted, served.text, legacy.since)
    else:
        reach = f"as is `{legacy.new}`." if home is not None else "which vLLM does not see."
        text = f"`{legacy.dotted}` is replaced, {reach} {legacy.headline}"
        server.say(_RULE, legacy.dotted, text, legacy.since)
    attribute = legacy.new.rpartition(".")[2]
    if known is None:
        original = home.__dict__.get(attribute, _ABSENT) if home is not None else _ABSENT
        _patches[module, name] = _Patch(home, attribute, original, before)
    if home is not None:
        setattr(home, attribute, value)
    return False


def end(module: str, name: str) -> None:
    """The end of a patch, if there is one: the name's new place gets back what it had."""
    patch = _patches.pop((module, name), None)
    if patch is None or patch.home is None:
        return
    if patch.original is not _ABSENT:
        setattr(patch.home, patch.attribute, patch.original)
    elif patch.attribute in patch.home.__dict__:
        delattr(patch.home, patch.attribute)


def end_all() -> None:
    """The shim goes."""
    for module, name in list(_patches):
        end(module, name)
