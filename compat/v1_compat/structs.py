"""Classes of vLLM's that C code makes (msgspec's structures), for modules that call them with keywords they lost.

No function of such a class runs when it is called, so that there is nothing to put anything in front of. A module whose
code has one of the lost keywords, or calls the class with `**keywords`, is given a subclass under the name; calling
that makes vLLM's object, `isinstance` and `issubclass` answer as vLLM's class does. Every other module is given vLLM's.
"""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from . import current
from .callables import settled
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
_SPREADS = dis.opmap["CALL_FUNCTION_EX"]
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

    def undo() -> None:
        module.__class__ = ModuleType

    return undo


def for_user(name: str, found: Any, frame: FrameType | None) -> Any:
    """What the code that runs in `frame` is given for a structure."""
    if name not in STRUCTS or frame is None or type(found) in (type, ModuleType):
        return found
    code = frame.f_code
    if frame.f_globals.get("__name__", "").partition(".")[0] == "vllm":
        return found
    if code.co_code[frame.f_lasti] not in _TAKES_A_NAME or not _may_need(code, name):
        return found
    if found not in _faces:
        _faces[found] = _make_face(found)
    return _faces[found]


@lru_cache(maxsize=256)
def _may_need(code: CodeType, name: str) -> bool:
    """The code has a lost keyword among its constants, or calls something with `**keywords` where it has the name."""
    if name in code.co_names and _SPREADS in code.co_code[::2]:
        return True
    lost = STRUCTS[name][1]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if _may_need(constant, name):
                return True
        elif constant in lost if isinstance(constant, str) else _has_one(constant, lost):
            return True
    return False


def _has_one(constant: object, lost: frozenset[str]) -> bool:
    return isinstance(constant, tuple | frozenset) and any(isinstance(c, str) and c in lost for c in constant)


def _make_face(target: Any) -> type:
    kind: Any = type(target)

    class Meta(kind):  # type: ignore[misc]
        """The class of the face, and of what is derived from it, which is as of vLLM's class."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if not _is_face(cls):
                return super().__call__(*args, **kwargs)
            return target(*args, **_taken(target, kwargs))

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, target) if _is_face(cls) else super().__instancecheck__(instance)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, target) if _is_face(cls) else super().__subclasscheck__(subclass)

    space = {"__module__": __name__, "__qualname__": target.__name__, "__doc__": target.__doc__, _MARK: target}
    try:
        face: type = Meta(target.__name__, (target,), space)
    except TypeError:  # a msgspec whose metaclass nobody may derive from
        return target  # type: ignore[no-any-return]
    return face


def _is_face(cls: type) -> bool:
    return _MARK in cls.__dict__


def _taken(target: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that vLLM's structure takes."""
    shim = current()
    fields = target.__struct_fields__
    if shim is None or kwargs.keys() <= set(fields) or unwanted_call():
        return kwargs
    server = shim.server()
    return kwargs if server is None else settled(target, "__init__", fields, server, kwargs)


def __getattr__(name: str) -> Any:
    """Pickles of the class itself."""
    if name not in STRUCTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    target: Any = importlib.import_module(STRUCTS[name][0]).__dict__[name]
    if target not in _faces:
        _faces[target] = _make_face(target)
    return _faces[target]
