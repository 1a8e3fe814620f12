"""What the shim says: one class of warning per release that removed a name, once per place, at the user's own line.

Every notice carries the id of the codemod rule that speaks of the same thing (`v1-migrate explain V1M001`).
"""

from __future__ import annotations

import re
import threading
import warnings
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from . import report
from .mode import Mode

if TYPE_CHECKING:
    from .place import Place

_CLASS_NAME = re.compile(r"RemovedIn(\d+(?:_\d+)*(?:_post\d+)?)Warning")


class LegacyWarning(FutureWarning):
    """A legacy name of vLLM is used. (A FutureWarning, as Python hides deprecations outside of `__main__`.)"""

    rule = ""  # "V1M001"
    name = ""  # "vllm.utils.cdiv"


class LegacyUseError(NotImplementedError):
    """A legacy object that has no working counterpart is called, made or read; or an argument asks for what is gone."""

    rule = ""  # "V1M204"
    use = ""  # "EngineArgs(num_scheduler_steps=)"


class LegacyMemberError(AttributeError):
    """A method or attribute that one of vLLM's classes lost is read, and nothing stands for it."""


class LegacyContractError(TypeError):
    """V0's way to call or to override something that vLLM has with another contract."""


@cache
def removed_in(release: str) -> type[LegacyWarning]:
    """The warning class of the names that `release` removed; `LegacyWarning` where that is not known."""
    if not release:
        return LegacyWarning
    name = f"RemovedIn{release.replace('.', '_')}Warning"
    return type(name, (LegacyWarning,), {"__module__": __name__, "__doc__": f"vLLM {release} removed the name."})


def __getattr__(name: str) -> type[LegacyWarning]:
    match = _CLASS_NAME.fullmatch(name)
    if match is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return removed_in(match[1].replace("_", "."))


class Notices:
    """Says each thing once per place."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self._counts: Counter[tuple[str, str, str, str, int]] = Counter()
        self._lock = threading.Lock()

    def say(self, rule: str, name: str, text: str, since: str, place: Place, use: str = "") -> None:
        """A use of `name` at `place`. Raises the warning in error mode.

        `use` is how it was used, where one line may use it in several ways: "EngineArgs(swap_space=)".
        """
        if self.mode is Mode.OFF:
            return
        category = removed_in(since)
        warning = category(f"{rule} {text}")
        warning.rule, warning.name = rule, name
        with self._lock:
            key = (rule, name, use, place.filename, place.line)
            self._counts[key] += 1
            count = self._counts[key]
        if self.mode is Mode.ERROR:
            raise warning
        if self.mode is Mode.REPORT:
            report.record(rule, name, place, use)
        elif count == 1:
            warnings.warn_explicit(warning, None, place.filename, place.line, place.module, {})

    def forked(self) -> None:
        """In a forked child: a lock that another thread held stays locked for ever."""
        self._lock = threading.Lock()

    def counts(self) -> dict[tuple[str, str, str, int], int]:
        """(rule, name, file, line) -> uses so far."""
        found: Counter[tuple[str, str, str, int]] = Counter()
        with self._lock:
            for (rule, name, _, file, line), count in self._counts.items():
                found[rule, name, file, line] += count
        return dict(found)
