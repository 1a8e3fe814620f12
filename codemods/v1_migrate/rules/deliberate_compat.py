"""An old name that is there on purpose: behind a version test, or in a `try` whose other arm has the new one.

## What it does
Says so, as information, and leaves the code alone. A version test is one that tells vLLM's releases or engines apart:
of the version, of what a module or class of vLLM has, of which old name could be imported. That another object has an
attribute, or that vllm is installed, is none; nor does a test guard the arm that the target takes, and `getattr`
without a default asks for nothing: it fails where the name is gone. A `try` whose handler only notes the failure counts
where the next `try`, or a test of the name, imports what took its place. A package that is called after an older
release (`vllm_v_0_6_3`) is one arm as a whole.

## Why
Plugins that serve two releases guard their imports. Rewriting one arm would make both alike and break the other
release.

## Example
```python
try:
    from vllm.worker.worker_base import WorkerWrapperBase
except ModuleNotFoundError:
    from vllm.v1.worker.worker_base import WorkerWrapperBase
```

## Safety
Nothing is edited. When V0 is no longer served, remove the old arm by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.occurrence import Occurrence

_REASONS = {
    "twin": "the other arm of the `try` has a name that exists there",
    "version": "it stands behind a test of the version or the engine",
    "probe": "its presence is tested first",
    "package": "the package around this file is called after vLLM {release}",
    "trial": "the code around it goes on without it",
}


class DeliberateCompat(Rule):
    id = "V1M010"
    slug = "deliberate-compat"
    summary = "old name is guarded: deliberate compatibility code"
    of_the_text = True
    severity = Severity.INFO
    order = 0

    def claims(self, occurrence: Occurrence) -> bool:
        return occurrence.guard in _REASONS

    def word(self, occurrence: Occurrence, file: PythonFile) -> Finding:
        verdict = occurrence.verdict
        reason = _REASONS[occurrence.guard].format(release=file.for_release)
        message = f"`{verdict.dotted}` is not on vLLM {file.judge.target}, but {reason}"
        return file.finding(
            self.id,
            occurrence.start,
            occurrence.end,
            message,
            Severity.INFO,
            effort=Effort.MINUTES,
            advice="Remove the old arm when you no longer serve the old engine.",
            name=verdict.symbol or verdict.dotted,
            primary=occurrence.primary,
        )
