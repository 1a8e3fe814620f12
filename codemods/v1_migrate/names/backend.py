"""Which members the classes of v1_cpu have. The two packages do not import one another; a test compares them."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


def backend_has(dotted: str) -> bool:
    """`v1_cpu.Class.member[.more]` exists: the member is one of the class's own or inherited ones."""
    _, name, member, *_ = *dotted.split("."), ""
    return member in _members().get(name, ())


@cache
def _members() -> dict[str, list[str]]:
    text = (resources.files(__package__) / "data" / "v1_cpu.json").read_text("utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found
