"""Of which class of vLLM the members of its classes are, and what its functions return: the reader of the types file.

The file is made from released wheels (types_build.py). A release that it does not have is read as the one before it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from .releases import sort_key
from .store import Store

if TYPE_CHECKING:
    from .index import Index

TYPES_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "types.names")
SUBCLASSES = "+"  # the name under which a class's subclasses stand
Kind = Literal["attribute", "result", "awaited", "context"]
_KINDS: dict[str, Kind] = {":": "attribute", "(": "result", "~": "awaited", "@": "context"}
_HOLDS: dict[str, Literal["elements", "values"]] = {"[]": "elements", "{}": "values"}


@dataclass(frozen=True, slots=True)
class Typed:
    """What a member is (`attribute`), or what a call of it gives: at once, awaited, or by `with`.

    `alternatives`: classes of vLLM by name, "" for everything else that it may be, None left out.
    """

    kind: Kind
    alternatives: tuple[str, ...]
    holds: Literal["", "elements", "values"] = ""  # it is a container of such objects
    optional: bool = False  # or None


@cache
def _store() -> tuple[Store, tuple[tuple[object, int], ...]]:
    store = Store(TYPES_FILE)
    return store, tuple((sort_key(release), 1 << i) for i, release in enumerate(store.releases))


@cache
def _bit(release: str) -> int:
    """The bit of the newest release of the file that is no newer than this one."""
    asked = sort_key(release)
    return next((bit for key, bit in reversed(_store()[1]) if key <= asked), 0)  # type: ignore[operator]


def _record(module: str, name: str, release: str) -> str:
    store, bit = _store()[0], _bit(release)
    return (store.block(module).record(name, bit) or "") if store.mask(module) & bit else ""


@cache
def type_of(index: Index, dotted: str, release: str) -> Typed | None:
    """The type of a member of a class, inherited ones included, or of what a function gives."""
    names = index.of(release)
    owner, _, member = dotted.rpartition(".")
    place = names.class_place(owner)
    if place is not None:
        for cls in names.hierarchy.lineage(*place).classes:
            name = f"{cls.place[1]}.{member}"
            record = _record(cls.place[0], name, release)
            if record or names.record(cls.place[0], name) is not None:
                return _typed(record)
        return None
    found = names.resolve(dotted)
    at = names.place(found.canonical) if found.found else None
    return _typed(_record(*at, release)) if at is not None else None


@cache
def subclasses(index: Index, dotted: str, release: str) -> tuple[str, ...]:
    """vLLM's classes that derive from one, where the types name it; ("",) for more than are listed."""
    place = index.of(release).class_place(dotted)
    record = _record(place[0], f"{place[1]}.{SUBCLASSES}", release) if place is not None else ""
    return tuple(name.replace("?", "") for name in record[1:].split(",")) if record else ()


def _typed(record: str) -> Typed | None:
    if not record:
        return None
    written = record[1:].split("|")
    alternatives = [each for each in written if each != "None"]
    marks = {each[:2] if each.startswith(tuple(_HOLDS)) else "" for each in alternatives}
    if len(marks) != 1:
        return None  # `A | list[A]`
    mark = marks.pop()
    classes = tuple(each.removeprefix(mark) for each in alternatives)
    return Typed(_KINDS[record[0]], classes, _HOLDS.get(mark, ""), len(alternatives) < len(written))
