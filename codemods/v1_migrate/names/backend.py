"""Which members the classes of v1_cpu have. The two packages do not import one another; a test compares them."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources


def backend_has(dotted: str) -> bool:
    """`v1_cpu.Class.member[.more]` or `v1_cpu.mla.Class.member` exists: one of the class's own or inherited ones."""
    parts = dotted.split(".")
    place = 3 if parts[1:2] == ["mla"] else 2  # of the member
    return parts[0] == "v1_cpu" and len(parts) > place and parts[place] in _members().get(".".join(parts[1:place]), ())


@cache
def _members() -> dict[str, list[str]]:
    text = (resources.files(__package__) / "data" / "v1_cpu.json").read_text("utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found
