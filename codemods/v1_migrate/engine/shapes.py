"""Members that are one object on the target and were several, and methods that give an object and gave none."""

from __future__ import annotations

from functools import cache

from ..names.builtin_names import attributes_of_base
from ..names.member_types import Typed, type_of
from .callees import older
from .held import held
from .verdicts import Judge

_WALKS = ("__iter__", "__getitem__", "__len__")


@cache
def was_many(judge: Judge, owner: str, member: str) -> str:
    """The class of the one object that a member holds on the target, where a release before it held several; or ""."""
    now = held(judge, owner, member)
    only = _one_object(now) if now is not None and now.kind == "attribute" else ""
    if not only or _may_be_walked(judge, only):
        return ""
    before = (type_of(judge.index, f"{owner}.{member}", release) for release in older(judge.index, judge.target))
    return only if any(typed is not None and typed.holds for typed in before) else ""


@cache
def gives_object(judge: Judge, base: str, new: str, method: str) -> str:
    """The class of the object that a method of the target's class always gives, where it gave none before; or ""."""
    now = type_of(judge.index, f"{new}.{method}", judge.target)
    only = _one_object(now) if now is not None and now.kind in ("result", "awaited") and not now.optional else ""
    if not only:
        return ""
    names = {f"{base}.{method}", f"{new}.{method}"}
    had = [(name, each) for each in older(judge.index, judge.target) for name in names]
    none = any(judge.index.resolve(*each).found and type_of(judge.index, *each) is None for each in had)
    return only if none else ""


def _one_object(typed: Typed) -> str:
    return typed.alternatives[0] if len(typed.alternatives) == 1 and not typed.holds else ""


def _may_be_walked(judge: Judge, dotted: str) -> bool:
    """The class has elements of its own, or derives from what nobody knows."""
    names = judge.index.of(judge.target)
    place = names.class_place(dotted)
    if place is None:
        return True
    outside = [attributes_of_base(base) for base in names.hierarchy.lineage(*place).outside]
    if any(known is None or not known.isdisjoint(_WALKS) for known in outside):
        return True
    return any(names.hierarchy.member(*place, special) is not None for special in _WALKS)
