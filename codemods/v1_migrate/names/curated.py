"""What became of each name: the reader of the hand-written table (data/*.toml, read from its compiled form).

The table says what the index cannot: whether a namesake is the same thing, and what a person should do. Where the
table is silent about a member or a re-export, the answer is derived from the class or module it belongs to, and
checked against the index.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from .differences import defined_names, describe, listed
from .index import Index
from .releases import sort_key
from .rows import Attention, Entry, Fate, Kind, Setting

__all__ = ["Attention", "Curated", "Entry", "Fate", "Kind", "Setting", "gone_in"]

COMPILED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "curated.json")


class Curated:
    """The whole table."""

    def __init__(self, content: dict[str, Any], index: Index) -> None:
        self._index = index
        self._rows: dict[str, list[Any]] = content["names"]
        self._also: dict[str, str] = content["also"]
        self._modules: dict[str, str] = content["modules"]
        self._settings: dict[str, list[Any]] = content["settings"]
        self._became: dict[str, dict[str, list[str]]] = {}  # by target: what each destination was before

    @classmethod
    def load(cls) -> Curated:
        """The shipped table. Cached."""
        return _load()

    def entries(self) -> Iterator[Entry]:
        return (self._entry(old) for old in self._rows)

    def entry(self, dotted: str) -> Entry | None:
        """The row of a name at any of its places."""
        old = dotted if dotted in self._rows else self._also.get(dotted)
        return self._entry(old) if old is not None else None

    def settings(self) -> Iterator[Setting]:
        return (found for name in self._settings if (found := self.setting(name)) is not None)

    def setting(self, name: str) -> Setting | None:
        """The row of "env:NAME", "cli:--flag", "backend:NAME" or "keyword:CALLABLE.NAME"."""
        row = self._settings.get(name)
        return None if row is None else Setting(name, row[0], tuple(map(tuple, row[1])), row[2], row[3])

    def fate(self, dotted: str, target: str, attention: Attention = "vllm") -> Fate | None:
        """What to do about a name on `target`: its row, or what follows from its class, module or re-export."""
        return self._fate(dotted, target, attention, 8)

    def predecessors(self, new: str, target: str) -> tuple[str, ...]:
        """The names in whose place `new` stands on the target: rows of its own, and of its module."""
        became = self._became.get(target)
        if became is None:
            became = self._became[target] = {}
            for entry in self.entries():
                destination = entry.destination(target) if entry.kind != "gone" else None
                if destination is not None:
                    became.setdefault(destination, []).extend((entry.old, *entry.also))
        module, _, name = new.rpartition(".")
        below = (f"{old}.{name}" for old in became.get(module, ()))
        return tuple(dict.fromkeys((*became.get(new, ()), *below)))

    def advice_for(self, dotted: str, target: str) -> str:
        """Advice for the most specific module of a name; "" if there is none."""
        del target  # the same words serve every target: they name the releases
        while dotted:
            if dotted in self._modules:
                return self._modules[dotted]
            dotted = dotted.rpartition(".")[0]
        return ""

    def older(self, dotted: str) -> str:
        """What the table says of a name that was gone before the oldest release of the index; "" if nothing."""
        parts = dotted.split(".")
        prefixes = (".".join(parts[:i]) for i in range(len(parts), 1, -1))
        found = next((prefix for prefix in prefixes if prefix in self._modules), "")
        return self._modules[found] if found and not self._index.known(found) else ""

    def modules(self) -> Iterable[str]:
        """The module prefixes that have advice."""
        return self._modules

    def _fate(self, dotted: str, target: str, attention: Attention, hops: int) -> Fate | None:
        entry = self.entry(dotted)
        if entry is not None:
            return self._of_entry(dotted, entry, target, attention)
        owner = self._owner(dotted)
        if owner is not None and not self._is_module(owner.old):
            return self._member(dotted, owner, target, attention)
        fate = self._reexported(dotted, target, attention, hops) if hops else None
        if fate is None and owner is not None:
            fate = self._of_module(dotted, owner, target)
        return fate

    def _of_entry(self, dotted: str, entry: Entry, target: str, attention: Attention) -> Fate:
        new, kind = entry.destination(target), entry.kind
        if attention == "v1_cpu" and entry.v1_cpu:
            new, kind = entry.v1_cpu, entry.v1_cpu_kind
        elif new is None and dotted != entry.old and self._index.resolve(entry.old, target).found:
            new, kind = entry.old, "moved"  # asked by another of its places; this one still stands
        advice, difference = entry.advice, entry.difference
        if new is None and kind != "gone" and self._known_to_lack(dotted, target):
            kind = "gone"
        came_in = self._came_in(dotted)
        if new is None and came_in and sort_key(target) < sort_key(came_in):
            advice = f"vLLM {target} does not have it yet: it came in {came_in}."
        elif not advice:
            advice = self._plain_advice(entry, new, target)
        if kind == "contract" and new and not difference:
            difference = self._difference(entry, new, target)
            kind = "contract" if difference else "moved"  # on this target nothing differs yet
        gone = entry.gone_in if dotted == entry.old else self._gone_in(dotted)
        return Fate(dotted, kind, new, advice, difference if kind == "contract" else "", entry.scope, gone)

    def _difference(self, entry: Entry, new: str, target: str) -> str:
        last = self._last(entry.old)
        if last is None or not new.startswith("vllm."):
            return ""
        if self._index.has_module(new, target):
            return self._module_difference(entry.old, last, target)
        return describe(self._index, entry.old, last, new, target)

    def _module_difference(self, old: str, last: str, target: str) -> str:
        """Which names of a module did not simply go along."""
        kinds: dict[str, list[str]] = {"gone": [], "contract": []}
        for name in sorted(defined_names(self._index, old, last)):
            fate = self.fate(f"{old}.{name}", target)
            if fate is None or fate.kind != "moved":
                kinds["gone" if fate is None else fate.kind].append(name)
        parts = [f"names gone: {listed(kinds['gone'])}"] if kinds["gone"] else []
        parts += [f"names with another contract: {listed(kinds['contract'])}"] if kinds["contract"] else []
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}." if text else ""

    def _last(self, dotted: str) -> str | None:
        """The newest release that has a name."""
        return self._index.newest_with(dotted) or None

    def _plain_advice(self, entry: Entry, new: str | None, target: str) -> str:
        """What the destinations alone say."""
        past = [(first, dotted) for first, dotted in entry.to if sort_key(first) <= sort_key(target)]
        if new is not None and past:
            module = self._modules.get(entry.old, "")
            return module if new in module else f"Since {past[-1][0]} it is {new}. {module}".rstrip()
        later = next(((first, dotted) for first, dotted in entry.to if (first, dotted) not in past), ("", ""))
        if not past and later[1]:
            return f"From {later[0]} on it is {later[1]}."
        homes = [dotted for _, dotted in past if dotted]
        last = f"It was last {homes[-1]}; " if homes else ""
        since = past[-1][0] if past else entry.gone_in
        text = f"{last}nothing takes its place from {since} on."
        if later[1]:
            text = f"{last}nothing takes its place from {since} until {later[0]}, from which on it is {later[1]}."
        return " ".join([text[0].upper() + text[1:], self.advice_for(entry.old, target)])

    def _came_in(self, dotted: str) -> str:
        """The first release with a name, if it is newer than the oldest of the index."""
        for release in self._index.releases:
            if self._index.resolve(dotted, release).found is not False:
                return "" if release == self._index.releases[0] else release
        return ""

    def _owner(self, dotted: str) -> Entry | None:
        """The row of the innermost class or module that holds a name."""
        while dotted := dotted.rpartition(".")[0]:
            entry = self.entry(dotted)
            if entry is not None:
                return entry
        return None

    def _is_module(self, dotted: str) -> bool:
        last = self._last(dotted)
        return last is not None and self._index.resolve(dotted, last).kind == "module"

    def _member(self, dotted: str, owner: Entry, target: str, attention: Attention) -> Fate:
        """A member of a class with a row."""
        place = self._place_of(dotted, owner)
        whole = self._of_entry(place, owner, target, attention)
        new = f"{whole.new}{dotted[len(place) :]}" if whole.new else None
        there = new is not None and (new.startswith("v1_cpu.") or self._has(new, whole.new or "", target))
        kind: Kind = whole.kind if there else "gone"
        return replace(whole, old=dotted, kind=kind, new=new if there else None, gone_in=self._gone_in(dotted))

    def _has(self, dotted: str, owner: str, target: str) -> bool:
        """The target has this below the class `owner`, or what it is read off (`Enumeration.MEMBER.value`)."""
        while (found := self._index.resolve(dotted, target).found) is None and dotted.rpartition(".")[0] != owner:
            dotted = dotted.rpartition(".")[0]
        return bool(found)

    def _of_module(self, dotted: str, owner: Entry, target: str) -> Fate | None:
        """A name of a module with a row: the namesake at the module's new place, compared in the index."""
        home, last = owner.destination(target), self._last(dotted)
        new = f"{home}{dotted[len(self._place_of(dotted, owner)) :]}"
        if home is None or last is None or not self._index.resolve(new, target).found:
            return None
        difference = describe(self._index, dotted, last, new, target)
        kind: Kind = "contract" if difference else "moved"
        return Fate(dotted, kind, new, f"Its module became {home}.", difference, owner.scope, self._gone_in(dotted))

    def _place_of(self, dotted: str, owner: Entry) -> str:
        """Which of the owner's places a name below it was asked by."""
        places = (owner.old, *owner.also, *(place for _, place in owner.to if place))
        return next(place for place in places if dotted.startswith(f"{place}."))

    def _reexported(self, dotted: str, target: str, attention: Attention, hops: int) -> Fate | None:
        """A name that its last home merely imported: the fate of what it stood for."""
        if self._index.resolve(dotted, target).found:
            return None
        release = self._last(dotted)
        if release is None:
            return None
        home = self._index.resolve(dotted, release).canonical
        if home == dotted:
            return None
        gone_in = self._gone_in(dotted)
        if home.partition(".")[0] != "vllm":
            advice = f"This module only imported {home}; import that directly."
            return Fate(dotted, "gone", None, advice, "", "other", gone_in)
        if self._index.resolve(home, target).found:
            return Fate(dotted, "moved", home, f"{release} defined it in {home}.", "", "other", gone_in)
        fate = self._fate(home, target, attention, hops - 1)
        return replace(fate, old=dotted, gone_in=gone_in) if fate else None

    def _known_to_lack(self, dotted: str, target: str) -> bool:
        return self._index.resolve(dotted, target).found is False

    def _gone_in(self, dotted: str) -> str:
        return gone_in(self._index, dotted)

    def _entry(self, old: str) -> Entry:
        also, kind, scope, to, v1_cpu, v1_cpu_kind, difference, advice, gone = self._rows[old]
        to = tuple((first, dotted) for first, dotted in to)
        return Entry(old, tuple(also), kind, scope, to, v1_cpu, v1_cpu_kind, difference, advice, gone)


def gone_in(index: Index, dotted: str) -> str:
    """The first release without a name, after the last one that has it; "" if the newest has it."""
    last = index.newest_with(dotted, doubtful=True)
    following = index.releases.index(last) + 1 if last else 0
    return index.releases[following] if following < len(index.releases) else ""


@lru_cache(maxsize=1)
def _load() -> Curated:
    with open(COMPILED, encoding="utf-8") as file:
        return Curated(json.load(file), Index.load())
