"""Says how two forms of a name differ, from the index: parameters gone, added, reordered; members gone."""

from __future__ import annotations

from collections.abc import Sequence

from .index import Index, Param
from .store import DEFINITIONS

_SHOWN = 8  # names listed before "and N more"


def describe(index: Index, old: str, old_release: str, new: str, new_release: str) -> str:
    """One or two sentences; "" when nothing that a caller could notice is known to differ."""
    before, after = index.resolve(old, old_release), index.resolve(new, new_release)
    sentences = []
    kinds = [found.kind.rpartition(":")[2] for found in (before, after)]
    if kinds[0] != kinds[1] and "unknown" not in kinds:
        sentences.append(f"It was a {kinds[0]} and is a {kinds[1]}")
    sentences += _parameters(index.params(old, old_release), index.params(new, new_release))
    if kinds == ["class", "class"]:
        lost = _public(index, old, old_release) - _public(index, new, new_release)
        if lost:
            sentences.append(f"Members gone: {listed(sorted(lost))}")
    return ". ".join(sentences) + "." if sentences else ""


def accepts(old: Sequence[Param], new: Sequence[Param]) -> bool:
    """Every call that was fine for `old` is fine for `new`."""
    by_name = {p.name: p for p in new}
    kinds = {p.kind for p in new}
    old_places, new_places = _places(old), _places(new)
    if old_places[: len(new_places)] != new_places[: len(old_places)]:
        return False
    if len(old_places) > len(new_places) and "var_pos" not in kinds:
        return False
    for p in old:
        if p.kind in ("pos_or_kw", "kw_only") and p.name not in by_name and "var_kw" not in kinds:
            return False
        if p.kind in ("var_pos", "var_kw") and p.kind not in kinds:
            return False
    given = {p.name for p in old if not p.default}
    return all(p.default or p.kind in ("var_pos", "var_kw") or p.name in given for p in new)


def _places(params: Sequence[Param]) -> list[str]:
    return [p.name for p in params if p.kind in ("pos", "pos_or_kw")]


def _parameters(old: Sequence[Param] | None, new: Sequence[Param] | None) -> list[str]:
    if old is None or new is None or accepts(old, new):
        return []
    names = [p.name for p in new]
    gone = [p.name for p in old if p.name not in names and p.kind not in ("var_pos", "var_kw")]
    known = {p.name for p in old}
    added = [p.name for p in new if p.name not in known and not p.default and p.kind not in ("var_pos", "var_kw")]
    found = []
    if gone:
        found.append(f"Parameters gone: {listed(gone)}")
    if added:
        found.append(f"New required parameters: {listed(added)}")
    if not found:
        tail = ", ..." if len(names) > _SHOWN else ""
        found.append(f"The order of parameters is now ({', '.join(_places(new)[:_SHOWN])}{tail})")
    return found


def _public(index: Index, dotted: str, release: str) -> set[str]:
    return {member for member in index.members(dotted, release) if not member.startswith("_")}


def defined_names(index: Index, module: str, release: str) -> set[str]:
    """Public names that a module defines itself."""
    names = index.of(release)
    records = ((name, names.record(module, name) or "=") for name in names.names(module))
    return {
        n
        for n, r in records
        if n and not n.startswith("_") and n != "logger" and r.lstrip("?!").startswith(DEFINITIONS)
    }


def listed(names: Sequence[str]) -> str:
    """ "a, b and 3 more"."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
