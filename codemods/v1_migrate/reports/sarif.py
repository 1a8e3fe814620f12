"""SARIF 2.1.0, for code scanning services and editors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import quote

from .. import __version__
from ..findings import Finding, Severity
from .report import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_BASE = "PATH"


class Rule(Protocol):
    """What is needed of a rule."""

    @property
    def id(self) -> str: ...
    @property
    def slug(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def doc(self) -> str: ...


def render(report: Report, rules: Iterable[Rule]) -> str:
    """One run; only what is left is a result, with places of the files as they stand after the run."""
    described = [_rule(rule) for rule in sorted(rules, key=lambda rule: rule.id)]
    known = {rule["id"]: index for index, rule in enumerate(described)}
    run = {
        "tool": {"driver": {"name": "v1-migrate", "version": __version__, "rules": described}},
        "originalUriBaseIds": {_BASE: {"uri": report.root.as_uri() + "/"}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(report)}],
        "results": [_result(finding, known, report) for finding in report.left],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.slug,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.doc, "markdown": rule.doc},
    }


def _result(finding: Finding, known: dict[str, int], report: Report) -> dict[str, Any]:
    message = f"{finding.message}\n\n{finding.advice}" if finding.advice else finding.message
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    location = {"uri": quote(finding.path, errors="surrogateescape"), "uriBaseId": _BASE}
    index = {"ruleIndex": known[finding.rule]} if finding.rule in known else {}
    return {
        "ruleId": finding.rule,
        **index,
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [{"physicalLocation": {"artifactLocation": location, "region": region}}],
        "partialFingerprints": {"v1migrate/v1": _fingerprint(finding, report)},
        "properties": {"name": finding.name, "safety": finding.safety.value, "effort": finding.effort.value},
    }


def _fingerprint(finding: Finding, report: Report) -> str:
    """Stays the same when lines move."""
    line = " ".join(report.lines.get((finding.path, finding.line), "").split())
    identity = "\0".join((finding.path, finding.rule, finding.name, line))
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _notifications(report: Report) -> list[dict[str, Any]]:
    return [
        {"level": "warning", "message": {"text": f"{skipped.rel}: {skipped.reason}"}}
        for skipped in report.skipped
        if skipped.failed
    ]
