"""Fixtures that run tests on both engines, or choose V0 for a whole file or folder.

## What it does
Takes `run_with_both_engines` out of tests and of fixtures that only passed it on; such a fixture goes. Reports the
fixture itself, and tests that a conftest.py above them pins to V0.

## Why
With one engine the second leg runs the same test again, or fails. A conftest.py that chooses V0 changes every test
below it without a hint in them.

## Example
```python
@pytest.fixture(autouse=True)
def v1(run_with_both_engines):
    pass
```
goes.

## Safety
*v1*. Marks that the fixture honoured become explicit in the same edit (V1M301).
"""

from __future__ import annotations

from ..findings import Effort, Severity
from .engine_marks import PlannedRule


class BothEngines(PlannedRule):
    id = "V1M303"
    slug = "both-engines-fixture"
    summary = "fixture that runs tests on both engines or pins them to V0"
    message = "chooses between engines, and vLLM {target} {only_v1}"
    advice = "Remove what is left of the choice by hand"
    severity = Severity.WARNING
    effort = Effort.MINUTES
