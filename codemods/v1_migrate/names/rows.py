"""The rows of the curated table, and the answer made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .releases import sort_key

Kind = Literal["moved", "contract", "gone"]
Attention = Literal["vllm", "v1_cpu"]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one name on one target release."""

    old: str
    kind: Kind
    new: str | None  # dotted, exists in the target
    advice: str  # for a person; plain sentences
    difference: str  # contract: what differs
    scope: str  # "cpu" "v0" "other-hw" "other"
    gone_in: str  # first release of the index without the old name; "" if it still exists


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table."""

    old: str
    also: tuple[str, ...]  # further places from which the same object could be imported
    kind: Kind
    scope: str
    to: tuple[tuple[str, str], ...]  # (first release, dotted destination); "" means gone from that release on
    v1_cpu: str  # destination in v1_cpu, for CPU attention names
    v1_cpu_kind: Kind
    difference: str
    advice: str
    gone_in: str

    def destination(self, target: str) -> str | None:
        """The dotted name to use on `target`; None when there is none."""
        found = ""
        for first, dotted in self.to:
            if sort_key(first) <= sort_key(target):
                found = dotted
        return found or None


@dataclass(frozen=True, slots=True)
class Setting:
    """A thing that is no dotted name: "env:VLLM_USE_V1", "cli:--device", "backend:TORCH_SDPA", "keyword:LLM.device"."""

    name: str
    gone_in: str  # first release that ignores or refuses it; "" if it still works
    to: tuple[tuple[str, str], ...]
    action: Literal["remove", "replace", "manual", "keep"]
    advice: str
