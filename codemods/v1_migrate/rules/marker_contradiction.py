"""A test or parameter that is marked for CPUs and against the only engine CPUs have.

## What it does
Takes `cpu_model` off what also has `skip_v1`.

## Why
`-m cpu_model` selects the test and `skip_v1` skips it: no CPU run ever executes it, and nobody is told.

## Example
```python
pytest.param("model", marks=[pytest.mark.core_model, pytest.mark.cpu_model, pytest.mark.skip_v1])
```
becomes
```python
pytest.param("model", marks=[pytest.mark.core_model, pytest.mark.skip_v1])
```

## Safety
*v1*: it did not run on CPUs and does not now. If V1 can run the model on a CPU, take `skip_v1` off instead and put
`cpu_model` back.
"""

from __future__ import annotations

from ..findings import Severity
from .engine_marks import PlannedRule


class Contradiction(PlannedRule):
    id = "V1M302"
    slug = "contradictory-marks"
    summary = "marked for CPUs and against V1 at once"
    message = "`cpu_model` and `skip_v1` exclude each other: no CPU ran this"
    advice = "If V1 runs it on CPUs, drop `skip_v1` instead"
    severity = Severity.WARNING
