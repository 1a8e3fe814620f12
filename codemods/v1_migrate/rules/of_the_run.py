"""What a run says about its own work on a file: skipped, given up, or a suppression that suppresses nothing.

## What it does
- **V1M901** a file that could not be read or parsed: its vLLM names, if it has any, are not migrated.
- **V1M902** a file whose edits were given up, because the result would not have parsed, would have lost a name, or
  would have changed again on a second run. The file is as it was.
- **V1M905** a `# v1: ignore[...]` comment that suppresses nothing, or names no rule.

## Why
A file that was left out is not a file that is done.

## Example
```text
legacy.py:3:7: warning V1M901 skipped: not valid Python (Missing parentheses in call to 'print')
```

## Safety
*manual*.
"""

from __future__ import annotations

from ..findings import Severity
from .rule import Rule


class SkippedFile(Rule):
    id = "V1M901"
    slug = "skipped-file"
    summary = "file could not be read or parsed"
    severity = Severity.WARNING


class GivenUp(Rule):
    id = "V1M902"
    slug = "edits-given-up"
    summary = "edits of a file were given up, the file is as it was"
    severity = Severity.ERROR


class UnusedSuppression(Rule):
    id = "V1M905"
    slug = "unused-suppression"
    summary = "suppression comment that suppresses nothing"
    severity = Severity.WARNING
