"""What becomes of a vllm name on the target: the index says whether it is there, the curated table where it went."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ..names.backend import backend_has
from ..names.builtin_names import attributes_of_base
from ..names.curated import Curated, Fate
from ..names.index import LAST_V0, Index, sort_key

_VALUE = (
    "It was a class; there the name is a plain value (a Literal, an alias or an instance), without the class's members."
)

Attention = Literal["vllm", "v1_cpu"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one dotted name."""

    dotted: str
    status: Literal["present", "unknown", "missing"]  # unknown: nobody can tell without running it
    fate: Literal["same", "moved", "contract", "gone", "unlisted", "alien"] = "same"
    symbol: str = ""  # the missing name itself: dotted, or a prefix of it when the rest is a member
    new: str = ""  # moved, contract: where all of `dotted` is now; "" when only the symbol has a successor
    successor: str = ""  # where the symbol is now, even if the rest of `dotted` is not there
    since: str = ""  # first release of the index without the symbol
    last: str = ""  # last release with it
    advice: str = ""
    difference: str = ""
    scope: str = ""

    @property
    def missing(self) -> bool:
        return self.status == "missing"

    @property
    def movable(self) -> bool:
        """The whole of `dotted` has a place in the target and means the same there."""
        return self.fate == "moved" and bool(self.new)


class Judge:
    """Verdicts for one target, remembered."""

    def __init__(self, target: str, attention: Attention = "vllm", index: Index | None = None) -> None:
        self.target = target
        self.attention: Attention = attention
        self.index = index or Index.load()
        self.curated = Curated.load()
        self._verdicts: dict[str, Verdict] = {}
        self._spans: dict[str, tuple[str, str]] = {}

    def judge(self, dotted: str) -> Verdict:
        """The verdict for a dotted name that begins with "vllm"."""
        verdict = self._verdicts.get(dotted)
        if verdict is None:
            verdict = self._verdicts[dotted] = self._judge(dotted)
        return verdict

    @cached_property
    def of_vllm(self) -> Judge:
        """The same for vLLM's own names: what vLLM is given as a path must be a class that its engine accepts."""
        return self if self.attention == "vllm" else Judge(self.target, "vllm", self.index)

    def known(self, dotted: str) -> bool:
        """Some release of the index has it."""
        return self.index.known(dotted)

    def _judge(self, dotted: str) -> Verdict:
        found = self.index.resolve(dotted, self.target)
        missing_at = found.missing_at
        if found.found is None:
            if not self._declared_before(dotted):
                return Verdict(dotted, "unknown")
            missing_at = dotted
        if found.found:
            fate = self.curated.fate(dotted, self.target, self.attention)
            if fate is not None and fate.kind != "moved" and fate.new in (dotted, found.canonical):
                return Verdict(
                    dotted, "present", "contract", dotted, dotted, dotted, "", "", fate.advice, fate.difference
                )
            return Verdict(dotted, "present")
        if self.attention == "v1_cpu":
            verdict = self._in_backend(dotted, missing_at)
            if verdict is not None:
                return verdict
        for symbol in _prefixes(dotted, missing_at):
            fate = self._fate(symbol)
            if fate is not None:
                verdict = self._listed(dotted, symbol, fate)
                if verdict is not None:
                    return verdict
        return self._unlisted(dotted, missing_at)

    def _declared_before(self, dotted: str) -> bool:
        """A class that answers for names it does not declare had to declare this one: now that it does not, it is gone.

        Not where a base from outside of vLLM may have it, as a torch module has what is registered with it.
        """
        owner = dotted.rpartition(".")[0]
        if not self._answers_for_more(owner, self.target):
            return False
        last = self.index.newest_with(dotted)
        return bool(last) and sort_key(last) < sort_key(self.target) and self._answers_for_more(owner, last)

    def _answers_for_more(self, owner: str, release: str) -> bool:
        """A class of vLLM with a `__getattr__`, all of whose bases are known."""
        place = self.index.of(release).class_place(owner)
        if place is None:
            return False
        lineage = self.index.of(release).hierarchy.lineage(*place)
        return lineage.open and all(attributes_of_base(base) is not None for base in lineage.outside)

    def _in_backend(self, dotted: str, missing_at: str) -> Verdict | None:
        """A class that v1_cpu offers, or a member of one: what v1_cpu has counts, not what vLLM did with the member."""
        for symbol in _prefixes(dotted, missing_at):
            fate = self.curated.fate(symbol, self.target, self.attention)
            if fate is None or not fate.new:
                continue
            if fate.new.rpartition(".")[0] in ("v1_cpu", "v1_cpu.mla") or backend_has(fate.new):
                return self._listed(dotted, symbol, fate)
        return None

    def _fate(self, symbol: str) -> Fate | None:
        """The table's entry for the name, or for the place where its last release defined it."""
        fate = self.curated.fate(symbol, self.target, self.attention)
        if fate is not None:
            return fate
        _, last = self.span(symbol)
        if not last:
            return None
        canonical = self.index.resolve(symbol, last).canonical
        if canonical and canonical != symbol and canonical.startswith("vllm"):
            fate = self.curated.fate(canonical, self.target, self.attention)
            if fate is None and self.index.resolve(canonical, self.target).found:  # only the re-export is gone
                return Fate(symbol, "moved", canonical, "", "", "other", "")
        return fate

    def _listed(self, dotted: str, symbol: str, fate: Fate) -> Verdict | None:
        rest = dotted[len(symbol) :]
        new = fate.new + rest if fate.new else ""
        if new.startswith("v1_cpu.") and rest:
            new = new if backend_has(new) else ""
        elif new and rest:
            found = self.index.resolve(new, self.target).found
            if not found and self.is_module(symbol):
                return None  # the module has a successor, this name of it does not: look for the name itself
            if found is False:  # None: what a value's attributes are, no index knows; the value is the same
                new = ""
        since, last = self.span(symbol)
        if fate.kind == "moved" and not rest and self._became_value(symbol, last, new):
            fate = replace(fate, kind="contract", difference=f"{_VALUE} {fate.difference}".strip())
        return Verdict(
            dotted,
            "missing",
            fate.kind,
            symbol,
            new,
            fate.new or "",
            fate.gone_in or since,
            last,
            fate.advice or self.curated.advice_for(symbol, self.target),
            fate.difference,
            fate.scope,
        )

    def _became_value(self, symbol: str, last: str, new: str) -> bool:
        """A class whose name means a Literal, an alias or an instance on the target."""
        if not last or not new.startswith("vllm") or not self.index.resolve(new, self.target).kind.endswith("value"):
            return False
        before = self.index.resolve(symbol, LAST_V0)  # what the code was written for
        return (before if before.found else self.index.resolve(symbol, last)).kind.endswith("class")

    def _unlisted(self, dotted: str, missing_at: str) -> Verdict:
        symbol = dotted if self.index.known(dotted) else self._longest_known(dotted, missing_at)
        since, last = self.span(symbol)
        kind: Literal["unlisted", "alien"] = "unlisted" if last else "alien"
        return Verdict(
            dotted, "missing", kind, symbol, since=since, last=last, advice=self.curated.advice_for(symbol, self.target)
        )

    def _longest_known(self, dotted: str, missing_at: str) -> str:
        for prefix in _prefixes(dotted, missing_at):
            if self.index.known(prefix):
                return prefix
        return missing_at or dotted

    def is_module(self, dotted: str) -> bool:
        """The last release that has the name has it as a module."""
        _, last = self.span(dotted)
        return bool(last) and self.index.resolve(dotted, last).kind.endswith("module")

    def span(self, symbol: str) -> tuple[str, str]:
        """(the release in which the name went, the last one before it that has it); "" for what is not known.

        A name that is newer than the target went from nothing: "", and the last release that has it.

        Asking all releases is dear, and names come and go once: find the first release that has it, then halve.
        """
        found = self._spans.get(symbol)
        if found is None:
            found = self._spans[symbol] = self._span(symbol)
        return found

    def _span(self, symbol: str) -> tuple[str, str]:
        releases = self.index.releases
        first = next((i for i, release in enumerate(releases) if self.index.resolve(symbol, release).found), None)
        if first is None:
            return "", ""
        low, high = first, releases.index(self.target)
        newer = low > high
        if newer:
            high = len(releases)
        if high < len(releases) and self.index.resolve(symbol, self.target).found:
            return "", self.target
        while high - low > 1:
            middle = (low + high) // 2
            if self.index.resolve(symbol, releases[middle]).found:
                low = middle
            else:
                high = middle
        return (releases[high] if high < len(releases) and not newer else ""), releases[low]


def _prefixes(dotted: str, shortest: str) -> list[str]:
    """`a.b.c.d` down to `shortest`, longest first."""
    out = []
    while dotted and len(dotted) >= len(shortest):
        out.append(dotted)
        dotted = dotted.rpartition(".")[0]
    return out
