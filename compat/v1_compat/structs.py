"""Classes of vLLM's that C code makes (msgspec's structures), for modules that call them with keywords they lost.

No function of such a class runs when it is called, so that there is nothing to put anything in front of. A module that
has the name of a lost keyword in its code is given a subclass under the name. Whoever makes an object of that, by a
call or by decoding, gets vLLM's own; so does who derives from it. Every other module is given vLLM's class.
"""

from __future__ import annotations

import copyreg
import dis
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pkgutil import resolve_name
from types import CodeType, FrameType, ModuleType
from typing import Any

from . import current
from .callables import settled
from .guards import words
from .place import unwanted_call

STRUCTS: Mapping[str, tuple[str, frozenset[str]]] = {
    "SamplingParams": (
        "vllm.sampling_params",
        frozenset(
            "best_of early_stopping guided_decoding length_penalty logits_processors truncate_prompt_tokens "
            "use_beam_search".split()
        ),
    ),
    "PoolingParams": (
        "vllm.pooling_params",
        frozenset("activation additional_data normalize softmax truncate_prompt_tokens use_cross_encoder".split()),
    ),
    "LoRARequest": (
        "vllm.lora.request",
        frozenset("long_lora_max_len lora_local_path tensorizer_config_dict".split()),
    ),
}
"""Class -> its module, and what it took in some release (the index says so; here, that it need not be read)."""

_TAKES_A_NAME = frozenset(dis.opmap[name] for name in ("IMPORT_FROM", "LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap)
_MARK = "__v1_compat__"
_faces: dict[type, type] = {}


class _Watched(ModuleType):
    """A module that is asked for its structures."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return for_user(name, found, sys._getframe(1)) if name in STRUCTS else found


def watch(module: ModuleType) -> Callable[[], None] | None:
    """Hand out the structures of a module by who asks; returns the way back."""
    if type(module) is not ModuleType or not any(home == module.__name__ for home, _ in STRUCTS.values()):
        return None
    module.__class__ = _Watched
    undo = [] if getattr(module.__spec__, "_initializing", False) else list(_given_before(module))

    def back() -> None:
        module.__class__ = ModuleType
        while undo:
            undo.pop()()

    return back


def _given_before(module: ModuleType) -> Iterator[Callable[[], None]]:
    """Give modules that took a structure before the shim was there what they would be given now."""
    for name, (home, lost) in STRUCTS.items():
        target = vars(module).get(name) if home == module.__name__ else None
        for space in _spaces() if isinstance(target, type) and type(target) is not type else ():
            bound = [key for key, value in list(space.items()) if value is target]
            if bound and _names(space.get("__file__") or "", lost):
                yield from (_give(space, key, target) for key in bound)


def _give(space: dict[str, Any], key: str, target: Any) -> Callable[[], None]:
    face = space[key] = _face(target)

    def back() -> None:
        if space.get(key) is face:
            space[key] = target

    return back


def _spaces() -> list[dict[str, Any]]:
    """The names of the modules that are loaded, and of scripts that are running without being one of them."""
    found = {id(vars(m)): vars(m) for m in list(sys.modules.values()) if isinstance(m, ModuleType)}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found[id(frame.f_globals)] = frame.f_globals
        frame = frame.f_back
    return [space for space in found.values() if not _is_vllms(space)]


def _is_vllms(space: Mapping[str, Any]) -> bool:
    return str(space.get("__name__", "")).partition(".")[0] in ("vllm", __package__)


def for_user(name: str, found: Any, frame: FrameType | None) -> Any:
    """What the code that runs in `frame` is given for a structure."""
    if name not in STRUCTS or frame is None or type(found) in (type, ModuleType):
        return found
    code = frame.f_code
    if _is_vllms(frame.f_globals) or code.co_code[frame.f_lasti] not in _TAKES_A_NAME:
        return found
    return _face(found) if _may_need(code, name) else found


@lru_cache(maxsize=256)
def _may_need(code: CodeType, name: str) -> bool:
    """The code, or that of its module, has the name of a lost keyword: in a call, or as a text."""
    lost = STRUCTS[name][1]
    return _has(code, lost) or (code.co_name != "<module>" and _names(code.co_filename, lost))


def _has(code: CodeType, lost: frozenset[str]) -> bool:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if _has(constant, lost):
                return True
        elif constant in lost if isinstance(constant, str) else _has_one(constant, lost):
            return True
    return False


def _names(filename: str, lost: frozenset[str]) -> bool:
    return bool(filename) and not lost.isdisjoint(words(filename))


def _has_one(constant: object, lost: frozenset[str]) -> bool:
    return isinstance(constant, tuple | frozenset) and any(isinstance(c, str) and c in lost for c in constant)


def _face(target: Any) -> type:
    if target not in _faces:
        _faces[target] = _make_face(target)
    return _faces[target]


def _make_face(target: Any) -> type:
    kind: Any = type(target)

    class Meta(kind):  # type: ignore[misc]
        """The class of the face alone: what is derived from it derives from vLLM's class, and is of that one's."""

        def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any) -> Any:
            if _MARK in space:
                return super().__new__(mcs, name, bases, space, **options)
            return kind(name, tuple(target if type(base) is mcs else base for base in bases), space, **options)

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            return target(*args, **_taken(target, kwargs))

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, target)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, target)

    def __post_init__(self: Any) -> None:
        if hasattr(target, "__post_init__"):
            target.__post_init__(self)
        self.__class__ = target  # a decoder made it; object's own __setattr__ refuses msgspec's structures

    space = {"__module__": __name__, "__qualname__": target.__name__, "__doc__": target.__doc__, _MARK: target}
    try:
        face: type = Meta(target.__name__, (target,), {**space, "__post_init__": __post_init__})
    except TypeError:  # a msgspec whose metaclass nobody may derive from
        return target  # type: ignore[no-any-return]
    # For code that asks which options there are; given in `space`, they would be fields once more.
    face.__annotations__ = {**dict.fromkeys(STRUCTS[target.__name__][1], Any), **getattr(target, "__annotations__", {})}
    copyreg.pickle(Meta, lambda _: (resolve_name, (f"{target.__module__}:{target.__qualname__}",)))
    return face


def _taken(target: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that vLLM's structure takes."""
    shim = current()
    fields = target.__struct_fields__
    if shim is None or kwargs.keys() <= set(fields) or unwanted_call():
        return kwargs
    server = shim.server()
    return kwargs if server is None else settled(target, "__init__", fields, server, kwargs)


def __getattr__(name: str) -> Any:
    """For picklers that make sure that a class is where it says to be."""
    if name not in STRUCTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _face(importlib.import_module(STRUCTS[name][0]).__dict__[name])
