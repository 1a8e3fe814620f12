"""VLLM_USE_V1 and other variables that vLLM stopped reading, as legacy code sees them through vllm.envs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .variables import Reading, reading

if TYPE_CHECKING:
    from .table import Legacy

MODULE = "vllm.envs"
VARIABLE = "VLLM_USE_V1"
Say = Callable[[str, str], None]  # a rule's id, a sentence

_READ, _SET, _V0 = "V1M201", "V1M202", "V1M203"
_ONLY_V1 = "V1 is the only engine"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable that vllm.envs lost, read whenever it is asked for."""

    name: str
    reading: Reading

    @property
    def value(self) -> Any:
        """V1 is always used; other variables are read from the environment. Raises ValueError, as vLLM's did."""
        return True if self.name == VARIABLE else self.reading.value


def variable(name: str) -> Variable | None:
    """A variable of this name; None for what else vllm.envs has had."""
    found = reading(name)
    return Variable(name, found) if found is not None else None


def notice(name: str, legacy: Legacy) -> str:
    """What the read of a variable that went says."""
    if name == VARIABLE:
        return f"{legacy.headline} It is True here: {_ONLY_V1}. Delete the test and the arm of V0."
    from .wording import brief

    return brief(f"{legacy.headline} It is read from the environment as it was.", legacy.advice)


def set_vllm_use_v1(use_v1: bool, say: Say) -> None:
    """Stands in for vllm.envs.set_vllm_use_v1."""
    if use_v1:
        say(_SET, f"set_vllm_use_v1(True) does nothing: {_ONLY_V1}.")
    else:
        say(_V0, f"set_vllm_use_v1(False) is not obeyed: {_ONLY_V1}. Remove the call, or pin vllm below 0.10.")


def wrap_is_set(module: ModuleType, legacy: Callable[[str], bool]) -> Callable[[], None] | None:
    """Let `vllm.envs.is_set` answer for variables that went; returns the way back, None if there is nothing to do."""
    original = module.__dict__.get("is_set")
    if original is None:
        return None

    def is_set(name: str) -> bool:
        return name in os.environ if legacy(name) else bool(original(name))

    module.is_set = is_set  # type: ignore[attr-defined]

    def undo() -> None:
        if module.__dict__.get("is_set") is is_set:
            module.is_set = original  # type: ignore[attr-defined]

    return undo


class Switch:
    """VLLM_USE_V1=0 in the environment, which a vLLM that still reads it answers with an engine that is not there."""

    def __init__(self) -> None:
        self._before: str | None = None

    def neutralise(self, read: Callable[[], bool], say: Say) -> None:
        """Called when vllm is imported. `read()`: this release still reads the variable."""
        if os.environ.get(VARIABLE) != "0":
            return
        text = f"VLLM_USE_V1=0 asks for V0, which is gone: {_ONLY_V1}."
        if read():
            self._before = os.environ[VARIABLE]
            os.environ[VARIABLE] = "1"
            text += " It is set to 1 for this process, as this vLLM would refuse to start."
        say(_V0, f"{text} Remove the variable, or pin vllm below 0.10.")

    def restore(self) -> None:
        """Undo `neutralise`, unless somebody else has set the variable since."""
        if self._before is not None and os.environ.get(VARIABLE) == "1":
            os.environ[VARIABLE] = self._before
        self._before = None
