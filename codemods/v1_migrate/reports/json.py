"""The report for programs. Its form is docs/report.schema.json; `version` changes when a reader would break."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ..findings import Finding
from ..usage import Usage
from .report import Report

VERSION = 1


def render(report: Report) -> str:
    """One JSON document; paths are relative to PATH, lines are those of the files after the run."""
    document = {
        "version": VERSION,
        "findings": [_finding(finding) | _uses(finding, report.usage) for finding in report.findings],
        "summary": _summary(report),
    }
    if report.usage is not None:
        document["usage"] = {
            "total": report.usage.total,
            "unseen": [asdict(use) for use in report.usage.unseen],
            "elsewhere": [asdict(use) for use in report.usage.elsewhere],
        }
    return json.dumps(document, indent=2) + "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "rule": finding.rule,
        "name": finding.name,
        "message": finding.message,
        "advice": finding.advice,
        "severity": finding.severity.value,
        "safety": finding.safety.value,
        "effort": finding.effort.value,
        "primary": finding.primary,
        "fixed": finding.fixed,
        "edited": sorted({(line, end_line) for line, _, end_line, _ in finding.edited}),
    }


def _uses(finding: Finding, usage: Usage | None) -> dict[str, int]:
    return {} if usage is None else {"uses": usage.uses(finding)}


def _summary(report: Report) -> dict[str, Any]:
    return {
        "command": report.command,
        "target": report.target,
        "target_origin": report.target_origin,
        "attention": report.attention,
        "pins": list(report.pins),
        "files": report.files,
        "rewritten": dict(sorted(report.rewritten.items())),
        "edits": sum(report.rewritten.values()),
        "written": report.written,
        "fixed": sum(finding.fixed for finding in report.findings),
        **{f"{severity}s" if severity != "info" else "info": n for severity, n in report.by_severity().items()},
        "effort": {effort.value: count for effort, count in report.by_effort().items()},
        "suppressed": report.suppressed,
        "baselined": report.baselined,
        "skipped": [
            {"path": skipped.rel, "reason": skipped.reason, "directory": skipped.directory, "failed": skipped.failed}
            for skipped in report.skipped
        ],
        "exit_code": report.exit_code,
        "next": report.next_command,
    }
