"""The short form of the table's advice, for warnings: what to write instead. `v1-migrate explain` has the long one."""

from __future__ import annotations

import re

LIMIT = 240  # of a warning, its rule's id included
ROOM = LIMIT - len("V1M000 ")
MORE = "More: v1-migrate explain."
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(])")
_CLAUSE = re.compile(r"(?<=[^\s;:])(?=[;:] | \()")
_ACTION = re.compile(
    r"(?:^|: |; |, |then )(?:Ask|Batch|Build|Call|Change|Compare|Configure|Declare|Delete|Do not|Drop|Get|Give|Import|"
    r"Leave|Let|Make|Move|Name|Override|Pass|Port|Put|Read|Register|Remove|Rename|Return|See|Set|Subclass|Take|Test|Use|"
    r"Write)\b",
    re.IGNORECASE,
)
_HISTORY = re.compile(r"(?:Gone|Moved|Renamed|It was last|Since|V0 |A mix-in|In spite of)\b")


def brief(headline: str, advice: str, room: int = ROOM) -> str:
    """The headline, and of the advice what says what to do, in `room` characters. Says where more is left."""
    if not advice:
        return headline
    whole = f"{headline} {advice}"
    if len(whole) <= room:
        return whole
    space = room - len(headline) - len(MORE) - 2
    sentences = _SENTENCE.split(advice)
    ranked = sorted(sentences, key=_rank)  # stable: the first of its kind comes first
    fitting = next((text for text in ranked if _rank(text) < _rank("Gone") and len(text) <= space), "")
    best = ranked[0]
    if not fitting or _rank(fitting) > _rank(best):
        fitting = _clause(best, space) or fitting
    return " ".join(part for part in (headline, fitting, MORE) if part)


def _rank(sentence: str) -> int:
    """An action, then a statement about V1, then history."""
    if _ACTION.search(sentence):
        return 0
    return 2 if _HISTORY.match(sentence) else 1


def _clause(sentence: str, space: int) -> str:
    """The sentence up to the last clause that fits; "" if that leaves too little to be of use."""
    ends = [match.start() for match in _CLAUSE.finditer(sentence) if match.start() < space]
    text = sentence[: ends[-1]] if ends else ""
    return f"{text}." if len(text) >= 20 and text.count("`") % 2 == 0 and text.count("(") == text.count(")") else ""
