"""What vLLM's own annotations say of its members and functions: of which class the target holds an object there."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ..names.index import LAST_V0
from ..names.member_types import Typed, subclasses, type_of
from .verdicts import Judge


@cache
def held(judge: Judge, owner: str, member: str) -> Typed | None:
    """The type of a member of a class, named as a file names it: that of the target.

    Of a member that the target lacks, the type that it had last: what the code does with it was written for that.
    """
    new = judge.of_vllm.judge(owner)
    here = owner if new.status == "present" else new.new
    if here.startswith("vllm.") and judge.index.resolve(f"{here}.{member}", judge.target).found is not False:
        return _named(judge, type_of(judge.index, f"{here}.{member}", judge.target))
    return _last(judge, f"{owner}.{member}")


@cache
def given(judge: Judge, function: str) -> Typed | None:
    """What a function gives, named as a file names it."""
    new = judge.of_vllm.judge(function)
    here = function if new.status == "present" else new.new
    if here.startswith("vllm."):
        return _named(judge, type_of(judge.index, here, judge.target))
    return _last(judge, function)


def _last(judge: Judge, dotted: str) -> Typed | None:
    last = judge.span(dotted)[1]
    return type_of(judge.index, dotted, last) if last else None


def _named(judge: Judge, typed: Typed | None) -> Typed | None:
    """The same by the names that the classes had with V0, where the target still has these: the table goes by them."""
    if typed is None:
        return None
    return replace(typed, alternatives=tuple(_old_name(judge, name) for name in typed.alternatives))


@cache
def _old_name(judge: Judge, dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    while "." in module:
        module = module.rpartition(".")[0]
        shorter = f"{module}.{name}"
        before, there = judge.index.resolve(shorter, LAST_V0), judge.index.resolve(shorter, judge.target)
        if before.found and before.canonical == shorter and there.canonical == dotted:
            return shorter
    return dotted


@cache
def a_subclass_has(judge: Judge, dotted: str, member: str) -> bool:
    """A class of vLLM's that derives from this one on the target has the member, or may have it."""
    below = subclasses(judge.index, dotted, judge.target)
    return any(not name or judge.index.resolve(f"{name}.{member}", judge.target).found is not False for name in below)
