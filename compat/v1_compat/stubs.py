"""Stand-ins for names that are gone: fit to be imported, annotated with, subclassed and patched; any other use raises.

A code base so gets as far as its first real use of V0, and there is told what to do instead.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any, NoReturn, TypeVar, Union

from .notices import LegacyUseError
from .table import Legacy

Say = Callable[[str], None]  # a notice at the user's line; its argument is how the name is used
_CLASS_OWN = frozenset({"__init__", "__new__", "__init_subclass__", "__class_getitem__", "__slots__", "__dict__"})

NO_TORCH = "torch is not installed, with which v1_compat serves this: pip install 'v1-migrate[backend]'."
_DATA = (str, bytes, int, float, complex, tuple, list, dict, set, frozenset)


def raising(words: str, use: str, cause: BaseException | None = None) -> NoReturn:
    """Raises LegacyUseError: what was done, and what to do instead."""
    raise LegacyUseError(f"{use}: {words}") from cause


def stub(
    legacy: Legacy,
    members: tuple[str, ...],
    exceptions: tuple[type[BaseException], ...],
    say: Say,
    cause: BaseException | None,
) -> Any:
    """A stand-in for a class, a function or a value.

    `members` are the names that a class had, `exceptions` the built-in exceptions it derived from; `cause` is why its
    successor could not be imported.
    """
    words = legacy.words
    if lacks_torch(cause):
        words = f"{NO_TORCH} {words}"
    elif cause is not None:
        words = f"{words} ({legacy.new} cannot be imported: {cause})"
    if legacy.what == "class":
        return _stub_class(legacy, words, members, exceptions, say, cause)
    if legacy.what == "function":
        return _stub_function(legacy.dotted, words, cause)
    name = legacy.dotted.rpartition(".")[2]
    if name in ("T", "P", "F", "N", "U") or (name[:1] == "T" and name[1:2].isupper() and not name.isupper()):
        return TypeVar(name)  # V0's type variables: TModelInputForCPU, TAttentionMetadata
    return StubValue(legacy.dotted, words)


def lacks_torch(cause: BaseException | None) -> bool:
    """Why an adapter or a successor cannot be imported."""
    return isinstance(cause, ModuleNotFoundError) and cause.name == "torch"


def _stub_function(dotted: str, words: str, cause: BaseException | None = None) -> Callable[..., NoReturn]:
    def gone(*args: Any, **kwargs: Any) -> NoReturn:
        raising(words, f"{dotted}() is called", cause)

    owner, _, name = dotted.rpartition(".")
    gone.__name__, gone.__qualname__, gone.__module__, gone.__doc__ = name, name, owner, words
    return gone


def _stub_class(
    legacy: Legacy,
    words: str,
    members: tuple[str, ...],
    exceptions: tuple[type[BaseException], ...],
    say: Say,
    cause: BaseException | None,
) -> type:
    module, _, name = legacy.dotted.rpartition(".")

    def new(cls: type, /, *args: Any, **kwargs: Any) -> NoReturn:
        made = legacy.dotted if cls is result else f"{cls.__module__}.{cls.__qualname__}, a {legacy.dotted},"
        raising(words, f"{made} is made", cause)

    def subclassed(cls: type, /, **kwargs: Any) -> None:
        say("is subclassed")
        super(result, cls).__init_subclass__()  # type: ignore[arg-type]

    def subscripted(cls: type, item: Any) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    space: dict[str, Any] = {
        m: _stub_function(f"{legacy.dotted}.{m}", words, cause)
        for m in members
        if m not in _CLASS_OWN and not (m.startswith("__") and m.endswith("__"))
    }
    space |= {
        "__new__": new,
        "__init_subclass__": classmethod(subclassed),
        "__class_getitem__": classmethod(subscripted),
        "__module__": module,
        "__doc__": words,
        "__v1_compat__": legacy,
    }
    result: type = type(name, exceptions or (object,), space)
    return result


class StubValue:
    """A constant, setting or alias that is gone. It can be passed on and annotated with, and not read."""

    def __init__(self, dotted: str, words: str) -> None:
        self._dotted, self._words, self.__doc__ = dotted, words, words

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raising(self._words, f"{self._dotted}() is called")

    def __repr__(self) -> str:
        return f"<{self._dotted}, gone from vLLM>"

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_name, (":".join(self._dotted.rsplit(".", 1)),)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # what tools ask of any object
            raise AttributeError(name)
        raising(self._words, f"{self._dotted}.{name} is read")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _DATA):
            raising(self._words, f"{self._dotted} is compared with {other!r}")
        return self is other  # `typing` asks whether it is one of its own

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # an alias of a type, in an annotation

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)  # an alias of a type, perhaps: it may be subclassed


def _refuse(operation: str) -> Callable[..., NoReturn]:
    def method(self: StubValue, *args: Any) -> NoReturn:
        raising(self._words, f"the value of {self._dotted} is used ({operation})")

    return method


_OPERATIONS = (
    "bool str format lt le gt ge len iter getitem contains int index float add radd sub rsub mul rmul truediv "
    "rtruediv floordiv mod and xor neg fspath enter next"
)
for _operation in _OPERATIONS.split():
    setattr(StubValue, f"__{_operation}__", _refuse(_operation))


def exceptions_among(bases: tuple[str, ...]) -> tuple[type[BaseException], ...]:
    """The built-in exceptions in a list of names."""
    found = (getattr(builtins, base.rpartition(".")[2], None) for base in bases)
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, BaseException)]
    return tuple(kinds[:1])
