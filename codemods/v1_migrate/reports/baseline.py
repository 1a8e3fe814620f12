"""A file of findings that are known and accepted for now, so that only new ones count.

An entry names the file, the rule, the vllm name and the text of the line, not its number: lines may move.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..findings import Finding
from .report import Report

VERSION = 1
_FIELDS = ("path", "rule", "name", "text")
Key = tuple[str, str, str, str]


class BaselineError(Exception):
    """The file is no baseline; the message says why."""


def read(file: Path) -> Counter[Key]:
    """The accepted findings and how often each may occur. Raises BaselineError and OSError."""
    try:
        document = json.loads(file.read_text("utf-8"))
        if document["version"] != VERSION:
            found = document["version"]
            raise BaselineError(f"{file}: version {found!r} is not {VERSION}; write it anew with --write-baseline")
        entries = {tuple(str(entry[name]) for name in _FIELDS): int(entry["count"]) for entry in document["findings"]}
        return Counter({(path, rule, name, text): count for (path, rule, name, text), count in entries.items()})
    except (ValueError, KeyError, TypeError) as error:
        raise BaselineError(f"{file}: not a baseline ({error!r}); write it anew with --write-baseline") from None


def subtract(
    findings: Sequence[Finding], lines: dict[tuple[str, int], str], accepted: Counter[Key]
) -> tuple[list[Finding], int]:
    """Findings that the baseline does not accept, and the number of those that it does."""
    left = accepted.copy()
    kept = []
    for finding in findings:
        key = _key(finding, lines)
        if finding.open and left[key] > 0:
            left[key] -= 1
        else:
            kept.append(finding)
    return kept, len(findings) - len(kept)


def render(report: Report) -> str:
    """The baseline that accepts every error and warning of this run."""
    counts = Counter(_key(finding, report.lines) for finding in report.open)
    entries = [{**dict(zip(_FIELDS, key, strict=True)), "count": count} for key, count in sorted(counts.items())]
    return json.dumps({"version": VERSION, "findings": entries}, indent=1) + "\n"


def _key(finding: Finding, lines: dict[tuple[str, int], str]) -> Key:
    text = " ".join(lines.get((finding.path, finding.line), "").split())
    return finding.path, finding.rule, finding.name, text
