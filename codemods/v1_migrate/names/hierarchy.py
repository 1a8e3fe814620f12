"""Classes of one release: method resolution order, inherited members, generated constructors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from .builtin_names import attributes_of_base

_PLAIN_METACLASSES = {"type", "ABCMeta", "EnumMeta", "EnumType"}
Place = tuple[str, str]  # module, name inside it
ParamTuple = tuple[str, Literal["pos", "pos_or_kw", "var_pos", "kw_only", "var_kw"], bool]


def parse_signature(signature: str) -> list[ParamTuple]:
    """ "a,b=,*,c" -> [("a", "pos_or_kw", False), ...]."""
    found: list[ParamTuple] = []
    keyword_only = False
    for part in signature.split(",") if signature else ():
        if part == "/":
            found = [(name, "pos", default) for name, _, default in found]
        elif part == "*":
            keyword_only = True
        elif part.startswith("**"):
            found.append((part[2:], "var_kw", False))
        elif part.startswith("*"):
            found.append((part[1:], "var_pos", False))
            keyword_only = True
        else:
            kind: Literal["kw_only", "pos_or_kw"] = "kw_only" if keyword_only else "pos_or_kw"
            found.append((part.rstrip("="), kind, part.endswith("=")))
    return found


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A class statement as stored."""

    place: Place
    flags: str
    bases: tuple[str, ...]
    fields: tuple[str, ...]
    ambiguous: bool


@dataclass(frozen=True, slots=True)
class Lineage:
    """The classes a lookup passes, in order, and what is known of bases outside vllm."""

    classes: tuple[ClassRecord, ...]
    outside: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Some attributes cannot be listed."""
        closed = all(attributes_of_base(base) is not None for base in self.outside)
        return not closed or any("g" in c.flags or c.ambiguous for c in self.classes)

    def family(self) -> str:
        """Which library writes the constructor: "BaseModel", "Struct", "NamedTuple", "TypedDict", "Enum" or ""."""
        for base in self.outside:
            name = base.rpartition(".")[2]
            if name in {"IntEnum", "StrEnum", "Flag", "IntFlag"}:
                return "Enum"
            if name in {"BaseModel", "BaseSettings", "Struct", "NamedTuple", "TypedDict", "Enum"}:
                return "BaseModel" if name == "BaseSettings" else name
        return ""


class Hierarchy:
    """Looks classes up through three functions of the index, for one release."""

    def __init__(
        self,
        record: Callable[[str, str], str | None],
        locate: Callable[[str], Place | None],
        names: Callable[[str, str], Iterator[str]],
    ) -> None:
        self._record, self._locate, self._names = record, locate, names
        self._lineages: dict[Place, Lineage] = {}

    def lineage(self, module: str, name: str) -> Lineage:
        place = (module, name)
        known = self._lineages.get(place)
        if known is None:
            self._lineages[place] = Lineage((), ())  # cuts a cycle in broken source
            known = self._lineages[place] = self._linearise(place)
        return known

    def member(self, module: str, name: str, attribute: str) -> tuple[Place, str] | None:
        """(place, record) of an attribute, inherited ones included."""
        for cls in self.lineage(module, name).classes:
            inside = f"{cls.place[1]}.{attribute}"
            record = self._record(cls.place[0], inside)
            if record is not None:
                return (cls.place[0], inside), record
        return None

    def members(self, module: str, name: str) -> set[str]:
        found: set[str] = set()
        for cls in self.lineage(module, name).classes:
            found.update(self._names(*cls.place))
        return found

    def bases(self, module: str, name: str) -> list[str]:
        own = self._class((module, name))
        bases = [base for base in own.bases if not base.startswith("@")] if own else []
        return [".".join(place) if (place := self._locate(base)) else base for base in bases]

    def fields(self, module: str, name: str) -> list[str]:
        return [field.rstrip("=!*") for field in self._ordered(self.lineage(module, name).classes)]

    def constructor(self, module: str, name: str) -> str | None:
        """The signature that a call of the class meets; None when a base outside vllm decides."""
        lineage = self.lineage(module, name)
        family = lineage.family()
        for i, cls in enumerate(lineage.classes):
            if cls.ambiguous or "w" in cls.flags or self._record(cls.place[0], f"{cls.place[1]}.__new__"):
                return None
            own = self._record(cls.place[0], f"{cls.place[1]}.__init__")
            if own is not None:
                return own[1:] if own[0] == "m" else None
            rest = lineage.classes[i:]
            if "d" in cls.flags and "i" not in cls.flags:
                return _generated(self._ordered([c for c in rest if "d" in c.flags]))
            if family == "Struct":
                return _generated(self._ordered(rest))
            if family == "BaseModel":
                return ",".join(["*", *(f.rstrip("*!") for f in self._ordered(rest)), "**data"])
            if family == "NamedTuple" and i == len(lineage.classes) - 1:
                return _generated(list(cls.fields))
            if family == "TypedDict":
                return ",".join(["*", *(f.rstrip("=!*") + "=" for f in self._ordered(rest)), "**items"])
            if family == "Enum":
                return "value"
        plain = all(b.rpartition(".")[2] in {"object", "ABC", "Generic", "Protocol"} for b in lineage.outside)
        return "" if plain and lineage.classes else None

    def _class(self, place: Place) -> ClassRecord | None:
        record = self._record(*place)
        text = (record or "").lstrip("!?")
        if record is None or not text.startswith("c"):
            return None
        flags, bases, fields = text[1:].split("|")
        return ClassRecord(
            place,
            flags,
            tuple(bases.split(",")) if bases else (),
            tuple(fields.split(",")) if fields else (),
            "?" in record[:2],
        )

    def _ordered(self, classes: tuple[ClassRecord, ...] | list[ClassRecord]) -> list[str]:
        """Fields as dataclasses order them: bases first, an overridden field keeps its place."""
        found: dict[str, str] = {}
        for cls in reversed(classes):
            for field in cls.fields:
                found[field.rstrip("=!*")] = field
        return list(found.values())

    def _linearise(self, place: Place) -> Lineage:
        own = self._class(place)
        if own is None:
            return Lineage((), ("?",))
        parents: list[Lineage] = []
        outside: list[str] = []
        direct: list[ClassRecord] = []
        for base in own.bases:
            located = self._locate(base.removeprefix("@"))
            if base.startswith("@"):  # a metaclass: its attributes are the class's, but it is no ancestor
                if not self._listable(base, located):
                    outside.append("?")
                continue
            if located is None:
                outside.append(base)
                continue
            parents.append(self.lineage(*located))
            direct += parents[-1].classes[:1]
        for parent in parents:
            outside += [base for base in parent.outside if base not in outside]
        return Lineage((own, *_merge([*(list(p.classes) for p in parents), direct])), tuple(outside))

    def _listable(self, metaclass: str, located: Place | None) -> bool:
        if located is None:
            return metaclass.rpartition(".")[2] in _PLAIN_METACLASSES
        return not any("g" in cls.flags for cls in self.lineage(*located).classes)


def _merge(sequences: list[list[ClassRecord]]) -> list[ClassRecord]:
    """The merge step of C3 linearisation; where it has no answer the first candidate is taken."""
    merged: list[ClassRecord] = []
    while sequences := [s for s in sequences if s]:
        tails = [s[1:] for s in sequences]
        head = next((s[0] for s in sequences if not any(s[0] in tail for tail in tails)), sequences[0][0])
        merged.append(head)
        sequences = [[c for c in s if c != head] for s in sequences]
    return merged


def _generated(fields: list[str]) -> str:
    """The signature a dataclass-like library writes for marked fields (`=` default, `!` not in init, `*` keyword)."""
    taken = [f for f in fields if "!" not in f]
    positional = [f for f in taken if not f.endswith("*")]
    keywords = [f.rstrip("*") for f in taken if f.endswith("*")]
    return ",".join([*positional, *(["*", *keywords] if keywords else [])])
