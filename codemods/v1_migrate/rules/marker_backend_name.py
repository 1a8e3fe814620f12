"""A test that expects the CPU attention backend under the name of another release.

## What it does
Rewrites the literal that is compared with `get_name()`: `TORCH_SDPA_VLLM_V1` before 0.11.0, `TORCH_SDPA` on 0.11.0,
`CPU_ATTN` from 0.11.1 on.

## Why
The backend is the same; only its name changed, twice.

## Example
```python
assert backend.get_name() == "TORCH_SDPA_VLLM_V1"
```
becomes, for vLLM 0.32.0,
```python
assert backend.get_name() == "CPU_ATTN"
```

## Safety
*v1*. From 0.11.2 on `TORCH_SDPA` is still the tag of a vision encoder's attention: a comparison that speaks of one is
left alone. Values of `VLLM_ATTENTION_BACKEND` are another name, and no business of this rule.
"""

from __future__ import annotations

from ..findings import Severity
from .engine_marks import PlannedRule


class BackendName(PlannedRule):
    id = "V1M306"
    slug = "expected-backend-name"
    summary = "expects the CPU backend under another release's name"
    message = "vLLM {target} calls the CPU attention backend something else"
    advice = "Look up what `get_name()` answers there"
    severity = Severity.ERROR
