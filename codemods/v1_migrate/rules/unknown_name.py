"""A vllm name that no release known to this tool has.

## What it does
Reports imports and attribute chains that neither the target nor any other release in the index can satisfy.

## Why
The code was written for a release older than 0.8.5, for one newer than the index, or for a private fork. Whatever it
is, it fails on the target, and nobody should learn that at run time.

A name that the tree itself sets on a module or class of vLLM is information only.

## Example
```python
from vllm.model_executor.parallel_utils.parallel_state import initialize_model_parallel
```

## Safety
*manual*. If the name is your fork's own, add the fork to the index: `v1-migrate index add PATH --release LABEL`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Severity
from .namesakes import namesakes
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence

_ORIGIN = """\
Written for an older release, a newer one or a private fork? A fork's own names become known with \
`v1-migrate index add PATH`."""

_OF_OTHER_BUILDS = ("vllm.vllm_flash_attn.", "vllm._C", "vllm._moe_C", "vllm._flashmla_C")
_NOT_IN_CPU_BUILDS = (
    "vLLM's builds for CPUs, which the index is made from, lack parts of this: look into your own build."
)


class UnknownName(Rule):
    id = "V1M005"
    slug = "unknown-name"
    summary = "no known release of vLLM has this name"
    of_the_text = True
    order = 80

    def claims(self, occurrence: Occurrence) -> bool:
        return occurrence.verdict.fate == "alien"

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        releases = file.judge.index.releases
        dotted = occurrence.verdict.dotted
        if occurrence.sets:
            message = f"`{dotted}` is in no known release of vLLM: this tree sets it itself"
            return file.finding(
                self.id, occurrence.start, occurrence.end, message, Severity.INFO,
                advice="It is there once the code that sets it has run.", name=dotted, primary=occurrence.primary,
            )  # fmt: skip
        severity = Severity.WARNING if occurrence.in_trial else Severity.ERROR
        advice = occurrence.verdict.advice
        if not advice or "v1-migrate explain" in advice:  # which knows no more of such a name
            advice = _ORIGIN
        if dotted.startswith(_OF_OTHER_BUILDS):
            advice = f"{_NOT_IN_CPU_BUILDS} {advice}"
        advice = f"{namesakes(file.judge, dotted)} {advice}".strip()
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            f"`{dotted}` is in no vLLM release from {releases[0]} to {releases[-1]}",
            severity,
            effort=Effort.HOURS,
            advice=advice,
            name=dotted,
            primary=occurrence.primary,
        )
