"""The mark `skip_v1`, which skips nothing once no fixture runs both engines.

## What it does
Turns `skip_v1` into an explicit `skip` where a fixture of the same file honoured it, and reports it elsewhere.
`skip_v0` goes: the test runs on V1, as it did.

## Why
The mark works only through a fixture that runs a test on both engines. When that fixture goes, a marked test silently
starts to run on the engine it was marked against.

## Example
```python
@pytest.mark.skip_v1
def test_logits(run_with_both_engines): ...
```
becomes
```python
@pytest.mark.skip(reason="ran only on vLLM's former engine")
def test_logits(): ...
```

## Safety
*v1*: the test is skipped before and after. Where nothing in the file honours the mark the test may well run on V1
today; that is reported, and turned into a skip only with `--unsafe`.
"""

from __future__ import annotations

from ..findings import Effort, Severity
from .engine_marks import PlannedRule


class SkipV1(PlannedRule):
    id = "V1M301"
    slug = "skip-v1-mark"
    summary = "mark that skips a test on one engine"
    message = "this mark chooses an engine for the test, and vLLM {target} {only_v1}"
    advice = "Decide: delete the test if it tested V0, or the mark if V1 can do it"
    severity = Severity.WARNING
    effort = Effort.MINUTES
