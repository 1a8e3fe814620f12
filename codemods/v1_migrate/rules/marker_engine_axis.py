"""A test that is parametrised over engines.

## What it does
Takes the axis out: the name, its values, the rows for V0, the parameter, and what the body did with it. A fixture that
only hands out `use_v1` goes the same way.

## Why
One of the two values is left, so it is no parameter any more.

## Example
```python
@pytest.mark.parametrize("use_v1", [True, False])
def test_engine(use_v1, model):
    check(model, "v1" if use_v1 else "v0")
```
becomes
```python
def test_engine(model):
    check(model, "v1")
```

## Safety
*v1*. Values that stand elsewhere, an `indirect` or `ids` beside several names, and fixtures in a conftest.py, which
tests elsewhere may request, are reported and left.
"""

from __future__ import annotations

from ..findings import Severity
from .engine_marks import PlannedRule


class EngineAxis(PlannedRule):
    id = "V1M304"
    slug = "engine-axis"
    summary = "test parametrised over engines"
    message = "runs over engines, and vLLM {target} {only_v1}"
    advice = "Take the axis, the parameter and its uses out together"
    severity = Severity.WARNING
