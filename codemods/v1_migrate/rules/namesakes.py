"""Where the target has a name of the same last part: a place to look, not an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engine.verdicts import Judge

_FEW = 3  # of more, the name says nothing


def namesakes(judge: Judge, dotted: str) -> str:
    """One sentence that names the definitions called like the last part of `dotted`; "" if none, or too many."""
    found = [name for name in judge.index.definitions(dotted.rpartition(".")[2], judge.target) if name != dotted]
    if not 0 < len(found) <= _FEW:
        return ""
    return (
        f"Of the same name there is {' and '.join(f'`{name}`' for name in found)}; compare the two before you use it."
    )
