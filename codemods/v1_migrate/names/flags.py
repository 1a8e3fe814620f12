"""Options and environment variables that some release of vLLM no longer reads, and what to do about each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from .releases import sort_key

Action = Literal["drop", "rename", "report"]
_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Flag:
    """An option ("--device") or a variable ("VLLM_USE_V1")."""

    name: str
    last: str  # last release that reads it
    gone: str  # first one that does not
    action: Action = "report"
    to: str = ""  # rename: what stands for it
    value: bool = False  # the option takes one
    listed: bool = False  # somebody wrote down what to do
    advice: str = ""

    def missing(self, target: str) -> bool:
        """The target does not read it."""
        return sort_key(target) >= sort_key(self.gone)


@cache
def options() -> dict[str, Flag]:
    """Every option that a release dropped."""
    return _table("options")


@cache
def variables() -> dict[str, Flag]:
    """Every environment variable that a release stopped reading."""
    return _table("variables")


@cache
def gone_options(target: str) -> dict[str, Flag]:
    """Options that the target does not take."""
    return {name: flag for name, flag in options().items() if flag.missing(target)}


@cache
def gone_variables(target: str) -> dict[str, Flag]:
    """Variables that the target does not read."""
    return {name: flag for name, flag in variables().items() if flag.missing(target)}


def _table(name: str) -> dict[str, Flag]:
    spans: dict[str, list[str]] = tomllib.loads((_DATA / "flag_spans.toml").read_text("utf-8"))[name]
    curated: dict[str, dict[str, Any]] = tomllib.loads((_DATA / "flags.toml").read_text("utf-8"))[name]
    found = {}
    for flag in sorted(spans.keys() | curated.keys()):
        entry = dict(curated.get(flag, {}))
        last, gone = entry.pop("last", ""), entry.pop("gone", "")
        if flag in spans:
            _, last, gone = spans[flag]
        found[flag] = Flag(flag, last, gone, listed=flag in curated, **entry)
    return found
