"""Which names each vLLM release has: the reader of the generated index.

Opening reads a directory only; a module's names are read when they are asked for. Nothing here imports vllm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from .builtin_names import CLASS_ATTRIBUTES, MODULE_ATTRIBUTES, attributes_of_base
from .hierarchy import Hierarchy, parse_signature
from .releases import UnknownRelease, normalise, sort_key
from .store import DEFINITIONS, Store

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Index", "Param", "Resolution", "UnknownRelease", "sort_key", "user_index_dir"]

INDEX_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "index.names")
ParamKind = Literal["pos", "pos_or_kw", "var_pos", "kw_only", "var_kw"]
_KINDS = {"f": "function", "F": "function", "c": "class", "v": "value", "m": "method", "M": "method", "k": "method"}
_KINDS |= {"s": "method", "p": "property", "a": "attribute", "A": "field", "i": "attribute"}
_HOPS = 40  # re-exports followed before giving up on a cycle


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter; self and cls are left out of a method's list."""

    name: str
    kind: ParamKind
    default: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a dotted name is in one release."""

    dotted: str  # as asked
    found: bool | None  # None: cannot be known from source (C extension, value, base class outside vllm, ...)
    kind: str  # module class function method property field attribute value reexport:KIND; "" when missing
    canonical: str  # where it is defined, re-exports and inherited members followed
    missing_at: str  # found=False: the shortest missing prefix, else ""


def user_index_dir() -> str:
    """Where `v1-migrate index add` keeps what a user adds."""
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~/AppData/Local")
    else:
        base = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "v1-migrate", "index")


@lru_cache(maxsize=8)
def _load(paths: tuple[str, ...]) -> Index:
    return Index([Store(path) for path in paths])


class Index:
    """Answers for every release of one or more index files."""

    def __init__(self, stores: Sequence[Store]) -> None:
        self._where: dict[str, tuple[Store, int]] = {}
        for store in stores:
            for i, release in enumerate(store.releases):
                self._where.setdefault(release, (store, 1 << i))
        self.releases: tuple[str, ...] = tuple(sorted(self._where, key=sort_key))  # oldest first
        self._resolved: dict[tuple[str, str], Resolution] = {}
        self._hierarchies: dict[str, Hierarchy] = {}

    @classmethod
    def load(cls, extra: Sequence[Path] = (), user: bool = True) -> Index:
        """The index shipped with this package, what the user added, and `extra` files. Cached."""
        added: list[str] = []
        folder = user_index_dir()
        if user and os.path.isdir(folder):
            added = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".names")]
        return _load((INDEX_FILE, *added, *map(str, extra)))

    @staticmethod
    def forget() -> None:
        """Drop the cache: index files changed."""
        _load.cache_clear()

    def release(self, text: str) -> str:
        """The release `text` names. Raises UnknownRelease."""
        return normalise(text, self.releases)

    def record(self, module: str, name: str, release: str) -> str | None:
        """The stored record of a name inside a module (see `extract`)."""
        store, bit = self._at(release)
        return store.block(module).record(name, bit) if store.mask(module) & bit else None

    def has_module(self, module: str, release: str) -> bool:
        store, bit = self._at(release)
        return bool(store.mask(module) & bit)

    def modules(self, release: str) -> Iterator[str]:
        store, bit = self._at(release)
        return (name for name in store.modules() if store.mask(name) & bit)

    def resolve(self, dotted: str, release: str) -> Resolution:
        """Follows a dotted name through modules, re-exports, classes and their bases."""
        key = (dotted, release)
        known = self._resolved.get(key)
        if known is None:
            known = self._resolved[key] = self._resolve(dotted, release, _HOPS)
        return known

    def releases_of(self, dotted: str) -> tuple[str, ...]:
        """Every release in which the name is there."""
        return tuple(r for r in self.releases if self.resolve(dotted, r).found)

    def known(self, dotted: str) -> bool:
        """The name is there in at least one release."""
        return any(self.resolve(dotted, r).found for r in self.releases)

    def runtime(self, dotted: str, release: str) -> bool:
        """The name is there, and not for type checkers only."""
        if not self.resolve(dotted, release).found:
            return False
        module, _, name = dotted.rpartition(".")
        record = self.record(module, name, release) if module else None
        return record is None or not record.startswith("!") or self.has_module(dotted, release)

    def params(self, dotted: str, release: str) -> tuple[Param, ...] | None:
        """Parameters of a function or method, or of a class's constructor; None when they cannot be told."""
        found = self.resolve(dotted, release)
        if not found.found:
            return None
        place = self._place(found.canonical, release)
        if place is None:
            return None
        record = self.record(*place, release) or ""
        if record.startswith("?"):
            return None
        if record[:1] == "c":
            signature = self._hierarchy(release).constructor(*place)
        elif record[:1] in tuple("fFmMks"):
            signature = record[1:]
        else:
            return None
        return None if signature is None else tuple(Param(*p) for p in parse_signature(signature))

    def fields(self, dotted: str, release: str) -> tuple[str, ...]:
        """Annotated fields of a class in constructor order, inherited ones included."""
        place = self._class(dotted, release)
        return tuple(self._hierarchy(release).fields(*place)) if place else ()

    def bases(self, dotted: str, release: str) -> tuple[str, ...]:
        """Direct bases as dotted names, re-exports followed."""
        place = self._class(dotted, release)
        return tuple(self._hierarchy(release).bases(*place)) if place else ()

    def members(self, dotted: str, release: str) -> tuple[str, ...]:
        """Names inside a class (inherited ones included) or a module (submodules included), sorted."""
        place = self._class(dotted, release)
        if place:
            return tuple(sorted(self._hierarchy(release).members(*place)))
        canonical = self.resolve(dotted, release).canonical
        if not self.has_module(canonical, release):
            return ()
        store, bit = self._at(release)
        names = {name for name in store.block(canonical).names("", bit) if name}
        start = canonical + "."
        names |= {m[len(start) :] for m in self.modules(release) if m.startswith(start) and "." not in m[len(start) :]}
        return tuple(sorted(names))

    def definitions(self, name: str, release: str) -> tuple[str, ...]:
        """Where modules of this release define (not merely re-export) a class, function or constant of this name."""
        store, bit = self._at(release)
        return tuple(
            f"{module}.{name}"
            for module in sorted(store.defined(name))
            if (store.block(module).record(name, bit) or "=").lstrip("?!").startswith(DEFINITIONS)
        )

    def _at(self, release: str) -> tuple[Store, int]:
        try:
            return self._where[release]
        except KeyError:
            return self._where[self.release(release)]

    def _hierarchy(self, release: str) -> Hierarchy:
        known = self._hierarchies.get(release)
        if known is None:
            known = self._hierarchies[release] = Hierarchy(
                lambda module, name: self.record(module, name, release),
                lambda dotted: self._class(dotted, release),
                lambda module, scope: self._names(module, scope, release),
            )
        return known

    def _names(self, module: str, scope: str, release: str) -> Iterator[str]:
        store, bit = self._at(release)
        return store.block(module).names(scope, bit)

    def _place(self, canonical: str, release: str) -> tuple[str, str] | None:
        """Splits "vllm.a.B.c" into its module and the name inside it."""
        module = canonical
        while module and not self.has_module(module, release):
            module = module.rpartition(".")[0]
        return (module, canonical[len(module) + 1 :]) if module and module != canonical else None

    def _class(self, dotted: str, release: str) -> tuple[str, str] | None:
        found = self.resolve(dotted, release)
        if not found.found or found.kind.rpartition(":")[2] != "class":
            return None
        return self._place(found.canonical, release)

    def _resolve(self, dotted: str, release: str, hops: int) -> Resolution:
        parts = dotted.split(".")
        store, bit = self._at(release)
        if parts[0] != "vllm" or not store.mask("vllm") & bit or not hops:
            return Resolution(dotted, None, "", dotted, "")
        module = "vllm"
        for i in range(1, len(parts)):
            inner = f"{module}.{parts[i]}"
            is_module = bool(store.mask(inner) & bit)
            record = store.block(module).record(parts[i], bit)
            if record is not None and is_module:  # a submodule and an attribute of one name
                into = i + 1 < len(parts) and self._holds(store, bit, inner, parts[i + 1])
                if into or record.lstrip("!?") == f"={inner}":
                    record = None
            if record is not None:
                return self._named(dotted, release, f"{module}.{parts[i]}", record, parts[i + 1 :], hops)
            if not is_module:
                return self._absent(dotted, release, module, parts[i], i + 1 == len(parts))
            module = inner
        return Resolution(dotted, True, "module", dotted, "")

    @staticmethod
    def _holds(store: Store, bit: int, module: str, name: str) -> bool:
        return store.block(module).record(name, bit) is not None or bool(store.mask(f"{module}.{name}") & bit)

    def _absent(self, dotted: str, release: str, module: str, name: str, last: bool) -> Resolution:
        store, bit = self._at(release)
        if name in MODULE_ATTRIBUTES:
            return Resolution(dotted, True if last else None, "value" if last else "", dotted, "")
        inner = f"{module}.{name}"
        if store.block(module).record("", bit) is not None or store.phantoms.get(inner, 0) & bit:
            return Resolution(dotted, None, "", dotted, "")
        return Resolution(dotted, False, "", dotted, inner)

    def _named(self, dotted: str, release: str, place: str, record: str, rest: list[str], hops: int) -> Resolution:
        """`place` is bound to `record` at the top level of a module; `rest` is looked up inside it."""
        text = record.lstrip("!?")
        if text[0] == "=":
            return self._through(dotted, release, record, text[1:], rest, hops)
        if not rest:
            return Resolution(dotted, True, _KINDS[text[0]], place, "")
        if text[0] != "c":
            return Resolution(dotted, None, "", dotted, "")
        module, _, name = place.rpartition(".")
        return self._inside(dotted, release, (module, name), rest)

    def _through(self, dotted: str, release: str, record: str, target: str, rest: list[str], hops: int) -> Resolution:
        """Follows a re-export."""
        if target.partition(".")[0] != "vllm":
            outside = ".".join([target, *rest])
            return Resolution(dotted, None if rest else True, "" if rest else "reexport:external", outside, "")
        inner = self._resolve(".".join([target, *rest]), release, hops - 1)
        if not rest:
            kind = inner.kind.rpartition(":")[2] if inner.found else "unknown"
            return Resolution(dotted, True, f"reexport:{kind}", inner.canonical if inner.found else target, "")
        if inner.found is False:
            deeper = len(inner.dotted.split(".")) - len(inner.missing_at.split("."))
            if "?" in record[:2] or deeper >= len(rest):  # another arm may bind it, or the import itself fails
                return Resolution(dotted, None, "", dotted, "")
            missing = dotted.rsplit(".", deeper)[0] if deeper else dotted
            return Resolution(dotted, False, "", dotted, missing)
        return Resolution(dotted, inner.found, inner.kind, inner.canonical, "")

    def _inside(self, dotted: str, release: str, place: tuple[str, str], rest: list[str]) -> Resolution:
        """Looks attributes up in a class."""
        hierarchy = self._hierarchy(release)
        for i, attribute in enumerate(rest):
            last = i + 1 == len(rest)
            found = hierarchy.member(*place, attribute)
            if found is None:
                outside = [attributes_of_base(base) or () for base in hierarchy.lineage(*place).outside]
                if attribute in CLASS_ATTRIBUTES or any(attribute in names for names in outside):
                    return Resolution(dotted, True if last else None, "attribute" if last else "", dotted, "")
                if hierarchy.lineage(*place).open:
                    return Resolution(dotted, None, "", dotted, "")
                missing = ".".join(dotted.split(".")[: len(dotted.split(".")) - (len(rest) - i - 1)])
                return Resolution(dotted, False, "", dotted, missing)
            place, record = found
            if last:
                return Resolution(dotted, True, _KINDS[record.lstrip("?!")[0]], ".".join(place), "")
            if record[:1] != "c":
                break
        return Resolution(dotted, None, "", dotted, "")
