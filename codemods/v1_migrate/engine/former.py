"""What stood in the place of a class of the target before: the classes that the table sends there.

A file whose import was moved names the class of the target. What it still takes from the old one is found by these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ..names.index import LAST_V0, sort_key
from .verdicts import Judge


@cache
def former(judge: Judge, dotted: str) -> tuple[str, ...]:
    """The older names of a class that the target has, and of the classes it derives from there; nearest first."""
    if not judge.index.resolve(dotted, judge.target).kind.endswith("class"):
        return ()
    found: dict[str, None] = {}
    for name in _lineage(judge, dotted):
        for old in (*judge.curated.predecessors(name, judge.target), *_namesakes(judge, name)):
            if old != dotted and judge.known(old) and _earlier(judge, old):
                found[old] = None
    return tuple(found)


def _namesakes(judge: Judge, name: str) -> Iterator[str]:
    """Classes of the same name in V0's last release that the target has here: what moved without a row of its own."""
    for old in judge.index.definitions(name.rpartition(".")[2], LAST_V0):
        if old != name and judge.judge(old).missing and _is(judge, judge.judge(old).new, name):
            yield old


def _lineage(judge: Judge, dotted: str) -> list[str]:
    """The class under the name that is asked for, where it is defined, and its bases in vLLM."""
    index, target = judge.index, judge.target
    names = [dotted]
    for name in names:  # grows while it is walked
        canonical = index.resolve(name, target).canonical
        for other in (canonical, *index.bases(name, target)):
            if other.startswith("vllm.") and other not in names:
                names.append(other)
    return names


def _earlier(judge: Judge, old: str) -> bool:
    """A release before the target had it."""
    first = next((release for release in judge.index.releases if judge.index.resolve(old, release).found), "")
    return bool(first) and sort_key(first) < sort_key(judge.target)


@cache
def former_callables(judge: Judge, dotted: str) -> tuple[str, ...]:
    """The older names of a function, a class or a method that the target has under this one."""
    found = judge.index.resolve(dotted, judge.target)
    if found.kind.endswith("class"):
        return tuple(old for old in former(judge, dotted) if _is(judge, judge.judge(old).new, found.canonical))
    if found.kind.endswith("function"):
        names = (*judge.curated.predecessors(found.canonical, judge.target), *_namesakes(judge, found.canonical))
        return tuple(old for old in dict.fromkeys(names) if judge.known(old) and old != dotted)
    owner, _, method = dotted.rpartition(".")
    return tuple(f"{old}.{method}" for old in former(judge, owner) if judge.known(f"{old}.{method}"))


def _is(judge: Judge, dotted: str, canonical: str) -> bool:
    return bool(dotted) and judge.index.resolve(dotted, judge.target).canonical == canonical


def lost_member(judge: Judge, base: str, new: str, name: str) -> str:
    """The dotted name of a member that a class had under an older name, and that its successor `new` lacks; or "".

    `base` is the class as a file names it: the old name, or that of the target.
    """
    there = judge.index.resolve(f"{new}.{name}", judge.target).found
    if there is None and judge.judge(f"{new}.{name}").missing:
        there = False
    if there is not False:
        return ""
    return next((f"{old}.{name}" for old in (base, *former(judge, new)) if judge.known(f"{old}.{name}")), "")
