"""What the doctor judges and how it says so: an engine that is about to be started, a rule, a remark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..findings import Severity
from ..names.releases import sort_key
from .arguments import Arguments
from .model import Model

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that will not do what it says, and what to do about it."""

    severity: Severity
    subject: str
    message: str
    advice: str = ""
    reports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """An engine that is about to be started."""

    release: str
    arguments: Arguments | None = None
    model: Model | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    nodes: tuple[tuple[int, int], ...] = ()  # total and available bytes of each memory node
    served_by_v1_cpu: bool = False
    flags: tuple[str, ...] = ()  # the processor's
    settled: Mapping[str, Any] = field(default_factory=dict)  # what vLLM's own configuration came to, where it could

    def get(self, name: str, default: Any = None) -> Any:
        return self.arguments.get(name, default) if self.arguments else default

    def within(self, since: str, before: str) -> bool:
        key = sort_key(self.release)
        return (not since or sort_key(since) <= key) and (not before or key < sort_key(before))

    @property
    def world_size(self) -> int:
        sizes = (self.get("tensor_parallel_size", 1), self.get("pipeline_parallel_size", 1))
        return int(sizes[0]) * int(sizes[1]) if all(isinstance(size, int) for size in sizes) else 1

    @property
    def dtype(self) -> str | None:
        """The model's, "float32" and so on; None where neither vLLM, the arguments nor the model's folder say."""
        given = self.settled.get("dtype") or self.get("dtype", "auto")
        if given == "auto" and self.model is not None:
            given = {"float32": "bfloat16"}.get(self.model.dtype, self.model.dtype)  # as vLLM's auto does
        return {"half": "float16", "float": "float32", "auto": None, "": None}.get(given, given)

    @property
    def mla(self) -> bool:
        """Whether the engine attends to latents through a backend."""
        if self.model is not None and self.model.own_layers:
            return False
        known = self.settled.get("use_mla")
        if known is None:
            disabled = self.variables.get("VLLM_MLA_DISABLE", "0") not in ("", "0")
            known = self.model is not None and self.model.mla and not disabled
        return bool(known)


@dataclass(frozen=True, slots=True)
class Rule:
    """Holds in releases from `since` until before `before`, where `when` says what it is about."""

    subject: str
    since: str
    before: str
    when: Callable[[Case], Any]
    message: str  # {value}: what `when` returned; {release}
    advice: str = ""
    severity: Severity = Severity.ERROR
    reports: tuple[str, ...] = ()
