"""Counts per rule and name: what most of the work is."""

from __future__ import annotations

from collections import Counter

from .report import Report, plural


def render(report: Report) -> str:
    """One line per rule, by number of places, then the names it is about."""
    by_rule = Counter(finding.rule for finding in report.findings)
    lines = []
    for rule, count in sorted(by_rule.items(), key=lambda item: (-item[1], item[0])):
        findings = [finding for finding in report.findings if finding.rule == rule]
        fixed = sum(finding.fixed for finding in findings)
        files = len({finding.path for finding in findings})
        lines.append(f"{count:>6}  {rule}  in {plural(files, 'file')}, {fixed} settled by edits")
        names = Counter(finding.name for finding in findings if finding.name)
        lines += [f"{n:>14}  {name}" for name, n in sorted(names.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(lines) + "\n" if lines else "no findings\n"
