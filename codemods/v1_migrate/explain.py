"""`v1-migrate explain`: a rule's page, or what became of a vllm name on each release."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Protocol

from .target import Target


class Index(Protocol):
    """What is needed of the names index."""

    @property
    def releases(self) -> Sequence[str]: ...
    def known(self, dotted: str) -> bool: ...
    def releases_of(self, dotted: str) -> tuple[str, ...]: ...


def name(dotted: str, target: Target, attention: str) -> str | None:
    """What became of a dotted name, as text; None for one that neither the index nor the table knows."""
    from .names.curated import Curated
    from .names.index import Index as Names

    index = Names.load()
    fate = Curated.load().fate(dotted, target.release, "v1_cpu" if attention == "v1_cpu" else "vllm")
    if fate is None and not index.known(dotted):
        return None
    found = index.resolve(dotted, target.release)
    if found.found and fate is not None and fate.kind == "moved":
        fate = None  # a re-export: the name is fine where it is
    lines = [dotted, *_item("in vLLM", _ranges(index, dotted) or "no release of the index")]
    here = f"on {target.release}"
    if found.found:
        kind = found.kind.removeprefix("reexport:")
        lines += _item(here, f"there, a {kind}{_home(dotted, found.canonical)}")
    elif fate is None:
        lines += _item(here, "gone; nothing is known to replace it")
    if fate is not None:
        if fate.new or not found.found:
            lines += _item(here, _FATES[fate.kind].format(fate.new))
        lines += _item("differs", fate.difference)
        lines += _item("what to do", fate.advice)
    return "\n".join(lines) + "\n"


_FATES = {
    "moved": "moved to {}; `v1-migrate rewrite` does it",
    "contract": "{} has its place, under another contract",
    "gone": "gone; it has no counterpart",
}


def _item(label: str, text: str) -> list[str]:
    """A labelled paragraph; nothing if there is nothing to say."""
    return textwrap.wrap(text, 100, initial_indent=f"  {label:<12}", subsequent_indent=" " * 14, break_on_hyphens=False)


def _home(dotted: str, canonical: str) -> str:
    return f", defined as {canonical}" if canonical and canonical != dotted else ""


def _ranges(index: Index, dotted: str) -> str:
    """The releases that have the name, as "0.8.5 to 0.9.2, 0.11.0"."""
    having = set(index.releases_of(dotted))
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in _runs(index.releases, having))


def _runs(releases: Sequence[str], having: set[str]) -> Iterator[tuple[str, str]]:
    first = last = None
    for release in (*releases, None):
        if release in having:
            first, last = first or release, release
        elif first is not None and last is not None:
            yield first, last
            first = last = None


def names_like(wanted: str) -> list[str]:
    """Dotted names of the curated table that end like, or look like, what was typed."""
    import difflib

    from .names.curated import Curated

    by_last: defaultdict[str, list[str]] = defaultdict(list)
    for entry in Curated.load().entries():
        by_last[entry.old.rpartition(".")[2]].append(entry.old)
    near = difflib.get_close_matches(wanted.rpartition(".")[2], by_last, 3, 0.8)
    return [dotted for last in near for dotted in sorted(by_last[last])][:6]
