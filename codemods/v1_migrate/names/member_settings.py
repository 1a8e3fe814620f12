"""Rows of the table about keywords and fields ("keyword:CALLABLE.NAME", "field:CLASS.NAME"), found from any path."""

from __future__ import annotations

from functools import cache
from typing import Literal

from .curated import Curated, Setting
from .index import sort_key

Kind = Literal["keyword", "field"]


def member_setting(kind: Kind, owner: str, name: str) -> Setting | None:
    """The row about `name` of a class or function, by whichever path of vLLM that is named here."""
    for setting in _rows(kind).get(f"{owner.rpartition('.')[2]}.{name}", ()):
        home = setting.name.partition(":")[2].split(".")
        public = len(home) == 3 or owner.count(".") == 1  # of vllm itself
        if public or home[1] == owner.split(".")[1]:
            return setting
    return None


def renamed_to(setting: Setting, target: str) -> str:
    """The name that a keyword or field has on the target; "" when there is none."""
    known = [new for first, new in setting.to if sort_key(first) <= sort_key(target)]
    return known[-1] if known and setting.action == "replace" else ""


@cache
def _rows(kind: Kind) -> dict[str, list[Setting]]:
    rows: dict[str, list[Setting]] = {}
    for setting in Curated.load().settings():
        if setting.name.startswith(f"{kind}:"):
            rows.setdefault(".".join(setting.name.split(".")[-2:]), []).append(setting)
    return rows
