"""Which names each vLLM release has: the reader of the generated index.

Opening reads a directory only; a module's names are read when they are asked for. Nothing here imports vllm.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from .hierarchy import parse_signature
from .release_names import ReleaseNames, Resolution
from .releases import UnknownRelease, normalise, sort_key
from .store import Store

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LAST_V0", "Index", "Param", "Resolution", "UnknownRelease", "sort_key", "user_index_dir"]

INDEX_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "index.names")
ParamKind = Literal["pos", "pos_or_kw", "var_pos", "kw_only", "var_kw"]
LAST_V0 = "0.9.2"  # the last release with the V0 CPU engine


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter; self and cls are left out of a method's list."""

    name: str
    kind: ParamKind
    default: bool


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
        self._by_release: dict[str, ReleaseNames] = {}
        for store in stores:
            for i, release in enumerate(store.releases):
                self._by_release.setdefault(release, ReleaseNames(store, 1 << i))
        self.releases: tuple[str, ...] = tuple(sorted(self._by_release, key=sort_key))  # oldest first
        self._lasts: dict[tuple[str, bool], str] = {}
        self._known: dict[str, bool] = {}

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

    def of(self, release: str) -> ReleaseNames:
        """The names of one release. Raises UnknownRelease."""
        known = self._by_release.get(release)
        return known if known is not None else self._by_release[self.release(release)]

    def resolve(self, dotted: str, release: str) -> Resolution:
        """Follows a dotted name through modules, re-exports, classes and their bases. Kept."""
        return self.of(release).resolve(dotted)

    def has_module(self, module: str, release: str) -> bool:
        return self.of(release).has_module(module)

    def modules(self, release: str) -> Iterator[str]:
        return self.of(release).modules()

    def definitions(self, name: str, release: str) -> tuple[str, ...]:
        """Where modules of this release define (not merely re-export) a class, function or constant of this name."""
        return self.of(release).definitions(name)

    def releases_of(self, dotted: str) -> tuple[str, ...]:
        """Every release in which the name is there."""
        return tuple(r for r in self.releases if self.resolve(dotted, r).found)

    def known(self, dotted: str) -> bool:
        """The name is there in at least one release."""
        known = self._known.get(dotted)
        if known is None:
            known = self._known[dotted] = any(self.resolve(dotted, r).found for r in self.releases)
        return known

    def newest_with(self, dotted: str, *, doubtful: bool = False) -> str:
        """The newest release that has the name, or of which that cannot be told (`doubtful`); "" if there is none.

        All releases are asked, newest first: some names went, came back and went again. Kept.
        """
        key = dotted, doubtful
        last = self._lasts.get(key)
        if last is None:
            answers = ((r, self.resolve(dotted, r).found) for r in reversed(self.releases))
            last = next((r for r, found in answers if found or (doubtful and found is None)), "")
            self._lasts[key] = last
        return last

    def runtime(self, dotted: str, release: str) -> bool:
        """The name is there, and not for type checkers only."""
        names = self.of(release)
        if not names.resolve(dotted).found:
            return False
        module, _, name = dotted.rpartition(".")
        record = names.record(module, name) if module else None
        return record is None or not record.startswith("!") or names.has_module(dotted)

    def params(self, dotted: str, release: str) -> tuple[Param, ...] | None:
        """Parameters of a function or method, or of a class's constructor; None when they cannot be told."""
        names = self.of(release)
        found = names.resolve(dotted)
        place = names.place(found.canonical) if found.found else None
        if place is None:
            return None
        record = names.record(*place) or "?"
        if record[0] == "c":
            signature = names.hierarchy.constructor(*place)
        else:
            signature = record[1:] if record[0] in "fFmMks" else None
        return None if signature is None else tuple(Param(*p) for p in parse_signature(signature))

    def fields(self, dotted: str, release: str) -> tuple[str, ...]:
        """Annotated fields of a class in constructor order, inherited ones included."""
        names = self.of(release)
        place = names.class_place(dotted)
        return tuple(names.hierarchy.fields(*place)) if place else ()

    def bases(self, dotted: str, release: str) -> tuple[str, ...]:
        """Direct bases as dotted names, re-exports followed."""
        names = self.of(release)
        place = names.class_place(dotted)
        return tuple(names.hierarchy.bases(*place)) if place else ()

    def members(self, dotted: str, release: str) -> tuple[str, ...]:
        """Names inside a class (inherited ones included) or a module (submodules included), sorted."""
        names = self.of(release)
        place = names.class_place(dotted)
        if place:
            return tuple(sorted(names.hierarchy.members(*place)))
        module = names.resolve(dotted).canonical
        if not names.has_module(module):
            return ()
        start = module + "."
        below = {m[len(start) :] for m in names.modules() if m.startswith(start)}
        return tuple(sorted({n for n in names.names(module) if n} | {m for m in below if "." not in m}))
