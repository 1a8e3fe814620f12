"""What became of each legacy name on the vLLM that is here: the names index and the curated table of v1_migrate, asked.

Nothing here imports vllm. Answers are remembered.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from v1_migrate.engine.verdicts import Judge, Verdict
    from v1_migrate.names.index import Index, Param

Fate = Literal["moved", "contract", "gone"]
What = Literal["module", "class", "function", "value"]

RULES: dict[Fate, str] = {"moved": "V1M001", "contract": "V1M003", "gone": "V1M004"}
UNKNOWN = "V1M005"  # of names that no known release has
_DEFINED = re.compile(r"\S+ defined it in \S+")  # that is where it is
_METADATA = {"v1_cpu.TorchSDPAMetadata": "V1M101"}  # has a rule of its own
_COMPARE = "Compare what you call and override of it with the two signatures, then import the new one."


@dataclass(frozen=True, slots=True)
class Legacy:
    """A name that an older release has and this one lacks."""

    dotted: str
    fate: Fate
    what: What
    new: str  # moved, contract: where its successor is; for the gone "", or the object outside vllm that it stood for
    since: str  # the release that took it away
    last: str  # the newest release that has it
    rule: str  # what `v1-migrate plan` files an import of the name under
    headline: str  # one sentence
    advice: str  # what to do; may be empty
    difference: str = ""  # contract: what differs

    @property
    def notice(self) -> str:
        """What a warning says: what became of it, and what to do."""
        return self.notice_with("")

    def notice_with(self, more: str) -> str:
        """The same, and what the shim does."""
        from .wording import ROOM, brief  # here: most programs warn of nothing

        return f"{brief(self.headline, self.advice, ROOM - len(more) - bool(more))} {more}".rstrip()

    @property
    def words(self) -> str:
        """Everything there is to say to a person."""
        return self.words_under(self.rule)

    def words_under(self, rule: str) -> str:
        """The same under the id of another rule, that speaks of this name in particular."""
        parts = (self.headline, self.difference, self.advice, f"[{rule}: v1-migrate explain {self.dotted}]")
        return " ".join(part for part in parts if part)


class Table:
    """The legacy names as seen from one release."""

    def __init__(self, release: str | Callable[[], str]) -> None:
        self._release = release
        self._names: dict[str, Legacy | None] = {}

    @cached_property
    def release(self) -> str:
        return self._release if isinstance(self._release, str) else self._release()

    @cached_property
    def index(self) -> Index:
        """Names, without what became of them. It is read when a name is asked for, which most programs never do."""
        from v1_migrate.names.index import Index

        return Index.load(user=False)

    @cached_property
    def judge(self) -> Judge:
        from v1_migrate.engine.verdicts import Judge

        return Judge(self.release, "vllm", self.index)

    @cached_property
    def planner(self) -> Judge:
        """The verdicts of `v1-migrate plan` with its default settings: CPU attention goes to v1_cpu."""
        from v1_migrate.engine.verdicts import Judge

        return Judge(self.release, "v1_cpu", self.index)

    @cached_property
    def older(self) -> tuple[str, ...]:
        """The releases before this one, newest first."""
        releases = self.index.releases
        return tuple(reversed(releases[: releases.index(self.release)]))

    def lost_module(self, module: str) -> bool:
        """Some older release has the module, this one does not."""
        index = self.index
        if index.has_module(module, self.release):
            return False
        return any(index.has_module(module, release) for release in self.older)

    def is_package(self, module: str) -> bool:
        """Some older release has modules below it."""
        return module in self._packages

    @cached_property
    def _packages(self) -> frozenset[str]:
        index = self.index
        return frozenset(name.rpartition(".")[0] for release in self.older for name in index.modules(release))

    def find(self, dotted: str) -> Legacy | None:
        """What became of a name or module; None when this release has it, or no older one does."""
        if dotted not in self._names:
            self._names[dotted] = self._find(dotted)
        return self._names[dotted]

    def row(self, dotted: str) -> tuple[str, str]:
        """The table's advice for a name and the release that took it, where the index cannot tell whether it went."""
        entry = self.judge.curated.entry(dotted)
        return (entry.advice, entry.gone_in) if entry is not None else ("", "")

    def older_than_all(self, dotted: str) -> str:
        """What to say to who imports a name that was gone before the oldest release that is known; "" for others."""
        advice = self.judge.curated.older(dotted)
        verdict = self.judge.judge(dotted)
        if not advice and verdict.missing and verdict.new and not self.index.known(dotted):
            advice = f"It became `{verdict.new}`. {verdict.advice}".rstrip()
        if not advice:
            return ""
        first = self.index.releases[0]
        return f"`{dotted}` was gone before vLLM {first}. {advice} [{UNKNOWN}: v1-migrate explain {dotted}]"

    def members(self, legacy: Legacy) -> tuple[str, ...]:
        """What a class or module had in its last release."""
        return self.index.members(legacy.dotted, legacy.last)

    def origin(self, dotted: str) -> str:
        """Where the last release that had the name defined it: an import of it leads there."""
        legacy = self.find(dotted)
        return self.index.resolve(dotted, legacy.last).canonical if legacy is not None else ""

    def params(self, dotted: str, release: str) -> tuple[Param, ...] | None:
        """Parameters of a function or method of a release, self left out; None when they cannot be told."""
        return self.index.params(dotted, release)

    def outside_bases(self, legacy: Legacy) -> tuple[str, ...]:
        """The classes outside vllm that a class derived from, however far away."""
        names = self.index.of(legacy.last)
        place = names.class_place(legacy.dotted)
        return names.hierarchy.lineage(*place).outside if place else ()

    def has(self, dotted: str) -> bool:
        """This release has the name."""
        return bool(self.index.resolve(dotted, self.release).found)

    def public_names(self, module: str) -> tuple[str, ...]:
        """What `from module import *` gave in the last release that has the module."""
        index = self.index
        release = next((r for r in self.older if index.has_module(module, r)), None)
        if release is None:
            return ()
        names = index.of(release)
        bound = (name for name in names.names(module) if name and not name.startswith("_"))
        return tuple(sorted(name for name in bound if not (names.record(module, name) or "").startswith("!")))

    def _find(self, dotted: str) -> Legacy | None:
        verdict = self.judge.judge(dotted)
        if verdict.status == "present":
            return self._not_at_run_time(dotted)
        if not verdict.missing or not verdict.last or verdict.symbol != dotted:
            return self._inside_lost_module(dotted, verdict)
        found = self.index.resolve(dotted, verdict.last)
        what = _what(found.kind.rpartition(":")[2])
        fate: Fate = verdict.fate if verdict.fate in ("moved", "contract") and verdict.new else "gone"
        new = verdict.new if fate != "gone" else ""
        if fate == "gone" and found.kind == "reexport:external":
            new = found.canonical
        since = verdict.since or self.release
        rule, *words = self._words(dotted, fate, new, since, verdict)
        return Legacy(dotted, fate, what, new, since, verdict.last, rule, *words)

    def _not_at_run_time(self, dotted: str) -> Legacy | None:
        """A name that the module imports for type checkers, or on other machines, only: who asks for it misses it."""
        index = self.index
        found = index.resolve(dotted, self.release)
        last = next((release for release in self.older if index.runtime(dotted, release)), "")
        if not last or not found.kind.startswith("reexport:") or found.canonical == dotted:
            return None
        kind, new = found.kind.partition(":")[2], found.canonical
        if new.startswith("vllm") and not index.resolve(new, self.release).found:  # of another build, or an attribute
            words = f"`{dotted}` is not imported there at run time.", "Import what it stood for."
            return Legacy(dotted, "gone", _what(kind), "", "", last, RULES["gone"], *words)
        fate: Fate = "gone" if kind == "external" else "moved"
        headline = f"`{dotted}` is not imported there at run time; it is `{new}`."
        return Legacy(dotted, fate, _what(kind), new, "", last, RULES[fate], headline, f"Import {new}.")

    def own(self, dotted: str) -> Legacy:
        """A name that this release has, where there is no vLLM at all."""
        found = self.index.resolve(dotted, self.release)
        outside = found.canonical if found.kind == "reexport:external" else ""
        headline = f"`{dotted}` is vLLM's own, and vLLM is not installed."
        advice = "Install it; v1_compat serves what V0 had."
        what = _what(found.kind.rpartition(":")[2])
        return Legacy(dotted, "gone", what, outside, "", self.release, RULES["gone"], headline, advice)

    def _inside_lost_module(self, dotted: str, verdict: Verdict) -> Legacy | None:
        """A name whose module went before this release; the verdict speaks of the module, as the name went earlier."""
        if not verdict.missing:
            return None
        index = self.index
        last = next((release for release in self.older if index.resolve(dotted, release).found), "")
        if not last:
            return None
        what = _what(index.resolve(dotted, last).kind.rpartition(":")[2])
        since = self.judge.span(dotted)[0] or verdict.since or self.release
        rule, headline, advice, difference = self._words(dotted, "gone", "", since, verdict)
        return Legacy(dotted, "gone", what, "", since, last, rule, headline, advice, difference)

    def _words(self, dotted: str, fate: Fate, new: str, since: str, verdict: Verdict) -> tuple[str, str, str, str]:
        """The rule, and its words: headline, advice, difference. Those of the plan, where it goes another way."""
        planned = self.planner.judge(dotted)
        if planned.new and planned.new != verdict.new and planned.fate in ("moved", "contract"):
            fate, new, verdict = planned.fate, planned.new, planned
        advice = verdict.advice
        if fate == "moved":
            plain = advice.startswith(("Since ", "Its module became")) and advice.count(".") <= new.count(".") + 3
            plain = plain or _DEFINED.fullmatch(advice) is not None
            since_then = "in v1_cpu" if new.startswith("v1_cpu") else f"since vLLM {since}"
            return RULES[fate], f"`{dotted}` is `{new}` {since_then}: write that.", "" if plain else advice, ""
        if fate == "contract":
            headline = f"`{dotted}` is gone since vLLM {since}; write `{new}`, whose contract differs."
            return _METADATA.get(new, RULES[fate]), headline, advice or _COMPARE, verdict.difference
        return RULES[fate], f"`{dotted}` is gone since vLLM {since}.", advice or self._namesakes(dotted), ""

    def _namesakes(self, dotted: str) -> str:
        names = self.index.definitions(dotted.rpartition(".")[2], self.release)
        if not 0 < len(names) <= 3:
            return ""
        return f"Of the same name there is {' and '.join(f'`{name}`' for name in names)}; compare the two first."


def _what(kind: str) -> What:
    return kind if kind in ("module", "class", "function") else "value"  # type: ignore[return-value]


def newest() -> str:
    """The newest release that is known: what is asked about when no vLLM is installed."""
    from v1_migrate.names.index import Index

    return Index.load(user=False).releases[-1]
