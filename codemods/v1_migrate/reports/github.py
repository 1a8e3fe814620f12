"""Workflow commands: GitHub shows each finding on its line of a pull request."""

from __future__ import annotations

import os
from pathlib import Path

from ..findings import Finding, Severity
from .report import Report

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report) -> str:
    """One command per line. Paths start at the workspace, where that is known, else at the current folder."""
    base = Path(os.environ.get("GITHUB_WORKSPACE") or os.getcwd()).resolve()
    return "".join(_command(finding, _below(base, report.root / finding.path)) + "\n" for finding in report.left)


def _below(base: Path, path: Path) -> str:
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def _command(finding: Finding, path: str) -> str:
    properties = {"file": path, "line": finding.line, "endLine": finding.end_line, "title": finding.rule}
    if finding.end_line == finding.line:  # columns of a range over several lines are refused
        properties |= {"col": finding.column, "endColumn": finding.end_column}
    listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
    message = f"{finding.message}\n{finding.advice}" if finding.advice else finding.message
    return f"::{_COMMANDS[finding.severity]} {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
