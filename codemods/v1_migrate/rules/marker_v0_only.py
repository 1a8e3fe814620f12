"""A test that only made sense on V0.

## What it does
Names tests that set the switch to 0, that are always skipped on V1, that assert V0, or whose rows are all for V0, and
lists such as `REQUIRES_V0`.

## Why
Enabling such a test in silence makes a failure of it look like a fault of V1; deleting it in silence loses what it
guarded. Somebody has to say which of the two it is.

## Example
```python
def test_fallback(monkeypatch):
    monkeypatch.setenv("VLLM_USE_V1", "0")
```

## Safety
*manual*.
"""

from __future__ import annotations

from ..findings import Effort, Severity
from .engine_marks import PlannedRule


class V0Only(PlannedRule):
    id = "V1M305"
    slug = "v0-only-test"
    summary = "test that only made sense on V0"
    message = "only makes sense on V0, and vLLM {target} {only_v1}"
    advice = "Port it to V1 or delete it"
    severity = Severity.WARNING
    effort = Effort.HOURS
