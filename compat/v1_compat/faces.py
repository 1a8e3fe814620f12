"""Legacy classes whose successor has another contract: the successor under the old name, with the differences caught.

A face is a subclass of the class that vLLM has now, so that objects of one are objects of the other in both directions.
Calling it makes an object of vLLM's class; setting an attribute on it patches vLLM's class; subclassing it is refused,
with the list of methods, where an override would not be called or be called otherwise.
"""

from __future__ import annotations

import copyreg
import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import EnumMeta
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from .contracts import misfits, widened
from .kinds import Arguments, in_front
from .notices import LegacyContractError
from .renamed import MEMBERS
from .stubs import Say, raising

if TYPE_CHECKING:
    from v1_migrate.names.index import Param

    from .table import Legacy

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Face:
    """What a face knows of both sides."""

    legacy: Legacy
    target: type
    members: tuple[str, ...]  # of the V0 class
    params: Callable[[str], Sequence[Param] | None]  # of a method of the V0 class; of "", its constructor
    say: Say
    adapted: bool  # a mixin takes V0's constructor arguments


class LegacyMeta(ABCMeta):
    """The class of faces and of what is derived from them."""

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any], /, **kwargs: Any) -> LegacyMeta:
        if "__v1_compat__" not in space:
            for base in bases:
                face = base.__dict__.get("__v1_compat__")
                if isinstance(face, Face):
                    _check(name, face, space)
                    space = space | widened(space, face.target, face.members)
        return super().__new__(mcs, name, bases, space, **kwargs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        face = _face(cls)
        if face is None or face.adapted:
            return super().__call__(*args, **kwargs)
        try:
            signature = inspect.signature(face.target)
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise LegacyContractError(_refused(face, str(error))) from None
        except ValueError:  # no signature to be had
            return face.target(*args, **kwargs)
        if moved := _misplaced(face, signature, len(args)):
            raise LegacyContractError(_refused(face, moved))
        return face.target(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """`inspect` would take that of `__call__`."""
        face = _face(cls)
        if face is not None:
            return inspect.signature(face.target)
        own = inspect.signature(cls.__init__)  # type: ignore[misc]
        return own.replace(parameters=list(own.parameters.values())[1:])

    def __instancecheck__(cls, instance: Any) -> bool:
        face = _face(cls)
        return isinstance(instance, face.target) if face else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        face = _face(cls)
        return issubclass(subclass, face.target) if face else super().__subclasscheck__(subclass)

    def __setattr__(cls, name: str, value: Any) -> None:
        face = _face(cls)
        if face is None or name.startswith(("__", "_abc_")) or not hasattr(face.target, name):
            super().__setattr__(name, value)
            return
        face.say(f"has {name} replaced, as has {face.legacy.new}")
        _replaced.setdefault((face.target, name), face.target.__dict__.get(name, _MISSING))
        setattr(face.target, name, value)

    def __delattr__(cls, name: str) -> None:
        face = _face(cls)
        if face is None or (face.target, name) not in _replaced:
            super().__delattr__(name)
            return
        original = _replaced.pop((face.target, name))
        if original is _MISSING:
            delattr(face.target, name)
        else:
            setattr(face.target, name, original)


def _reduced(cls: type) -> Any:
    """Pickles name vLLM's class, and are read without the shim."""
    face = _face(cls)
    if face is None:
        return cls.__qualname__
    return resolve_name, (f"{face.target.__module__}:{face.target.__qualname__}",)


copyreg.pickle(LegacyMeta, _reduced)


def _refused(face: Face, why: str) -> str:
    """That V0's way to make an object does not make V1's, and how V1's is made."""
    names = [name for name in inspect.signature(face.target).parameters if name != "self"]
    form = f"{face.target.__name__}({', '.join(names)})"
    return f"{face.legacy.dotted}() is called in V0's way: {why}. V1 has {form} in its place. {face.legacy.words}"


def _misplaced(face: Face, signature: inspect.Signature, count: int) -> str:
    """What the first of `count` positional arguments says that is another parameter of a successor of another name."""
    if face.legacy.dotted.rpartition(".")[2] == face.target.__name__:
        return ""
    before = [param.name for param in face.params("") or ()]
    for position, (old, new) in enumerate(zip(before[:count], signature.parameters, strict=False), 1):
        if old != new:
            return f"argument {position} was `{old}`, and is `{new}` of {face.target.__qualname__}"
    return ""


_replaced: dict[tuple[type, str], Any] = {}  # what stood in vLLM's classes before a face was patched


def class_face(
    legacy: Legacy, target: type, members: tuple[str, ...], params: Any, say: Say, mixin: type | None
) -> Any:
    """The face of a class; vLLM's class itself where it cannot be subclassed (models of libraries)."""
    if isinstance(target, EnumMeta):
        return _enum_face(legacy, target, members, say)
    if type(target) not in (type, ABCMeta):
        return target
    name = legacy.dotted.rpartition(".")[2]
    lost = {m: _gone(f"{legacy.dotted}.{m}", legacy.words) for m in members if _is_lost(m, legacy, target, params)}
    space = {
        **lost,
        "__module__": target.__module__,  # where tools find the source
        "__qualname__": target.__qualname__,
        "__doc__": legacy.words,
        "__class_getitem__": classmethod(_subscripted),
        "__v1_compat__": Face(legacy, target, members, params, say, mixin is not None),
    }
    try:
        return LegacyMeta(name, (mixin, target) if mixin else (target,), space)
    except TypeError:  # final
        return target


class _EnumMeta(type):
    """The class of faces of enumerations, which cannot be subclassed: all is asked of vLLM's."""

    __v1_compat__: tuple[Legacy, EnumMeta, tuple[str, ...], Say]

    def __getattr__(cls, name: str) -> Any:
        legacy, target, members, say = cls.__v1_compat__
        if name in members and not hasattr(target, name):
            new = MEMBERS.get(legacy.dotted, {}).get(name, "")
            if not hasattr(target, new or name):
                raise AttributeError(f"{legacy.dotted}.{name}: {legacy.words}")
            say(f"had the member {name}, which is {target.__qualname__}.{new} now")
            return getattr(target, new)
        return getattr(target, name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.__v1_compat__[1](*args, **kwargs)

    def __getitem__(cls, name: str) -> Any:
        return getattr(cls, name) if name in cls.__v1_compat__[2] else cls.__v1_compat__[1][name]

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls.__v1_compat__[1])

    def __len__(cls) -> int:
        return len(cls.__v1_compat__[1])

    def __contains__(cls, member: object) -> bool:
        members: list[Any] = list(cls)
        return member in members

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__v1_compat__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__v1_compat__[1])


def _enum_face(legacy: Legacy, target: EnumMeta, members: tuple[str, ...], say: Say) -> type:
    module, _, name = legacy.dotted.rpartition(".")
    space = {"__module__": module, "__doc__": legacy.words, "__v1_compat__": (legacy, target, members, say)}
    return _EnumMeta(name, (), space)


def function_face(legacy: Legacy, target: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's function, refusing a call that only V0's would have taken."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return target

    def arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise LegacyContractError(f"{legacy.dotted}() is called: {error}. {legacy.words}") from None
        return args, kwargs

    return in_front(target, arguments)


def _subscripted(cls: type, item: Any) -> type:
    """V0's bases were generic, and code derives from `ModelRunnerBase[Input]`; vLLM's are not."""
    return cls


def _face(cls: type) -> Face | None:
    found = cls.__dict__.get("__v1_compat__")
    return found if isinstance(found, Face) else None


def _check(name: str, face: Face, space: dict[str, Any]) -> None:
    found = misfits(space, face.target, face.members, face.params)
    if found:
        listed = "".join(f"\n  {misfit}" for misfit in found)
        raise LegacyContractError(
            f"class {name}({face.legacy.dotted}) overrides methods whose contract changed:{listed}\n{face.legacy.words}"
        )
    face.say("is subclassed")


def _is_lost(member: str, legacy: Legacy, target: type, params: Any) -> bool:
    """A method (not an attribute) of V0's class that vLLM's has not."""
    return not member.startswith("__") and not hasattr(target, member) and params(member) is not None


def _gone(dotted: str, words: str) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        raising(words, f"{dotted}() is called")

    method.__name__ = dotted.rpartition(".")[2]
    return method
