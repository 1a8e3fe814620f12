"""`v1-migrate plan`: how much there is to do in each file, the hardest first."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ..findings import Effort, Finding
from .report import Report, plural
from .text import Style, summary

# Hours, for ranking and for the total; nobody's measurement.
HOURS = {Effort.NONE: 0.0, Effort.MINUTES: 0.2, Effort.HOURS: 3.0, Effort.DAYS: 16.0}


@dataclass(slots=True)
class Row:
    """One file of the table."""

    path: str
    automatic: int = 0
    minutes: int = 0
    hours: int = 0
    days: int = 0
    notes: int = 0
    total: float = 0.0  # hours

    def add(self, finding: Finding) -> None:
        if finding.fixed:
            self.automatic += 1
        elif not finding.open:
            self.notes += 1
        elif finding.primary:
            self.minutes += finding.effort in (Effort.MINUTES, Effort.NONE)
            self.hours += finding.effort is Effort.HOURS
            self.days += finding.effort is Effort.DAYS
            self.total += HOURS[finding.effort]


def rows(report: Report) -> list[Row]:
    """Every file with a finding, most work first."""
    found: defaultdict[str, Row] = defaultdict(lambda: Row(""))
    for finding in report.findings:
        row = found[finding.path]
        row.path = finding.path
        row.add(finding)
    return sorted(found.values(), key=lambda row: (-row.total, -row.automatic, row.path))


def render(report: Report, style: Style) -> str:
    """The table, its total, and the summary."""
    table = rows(report)
    lines = []
    if table:
        lines.append(style("automatic  minutes  hours  days  notes  file", bold=True))
        for row in table:
            cells = f"{row.automatic:>9}{row.minutes:>9}{row.hours:>7}{row.days:>6}{row.notes:>7}"
            lines.append(f"{cells.replace(' 0', ' ·')}  {row.path}")
        work = duration(sum(row.total for row in table))
        edits = sum(row.automatic for row in table)
        lines += ["", f"By hand: {work}. By `v1-migrate rewrite`: {plural(edits, 'place')}.", ""]
    return "\n".join([*lines, *summary(report, style)]) + "\n"


def duration(hours: float) -> str:
    """A rough length of time in words; a day has eight hours."""
    if hours == 0:
        return "nothing"
    if hours < 1:
        return f"about {max(round(hours * 6), 1) * 10} minutes"
    return f"about {plural(round(hours), 'hour')}" if hours < 12 else f"about {plural(round(hours / 8), 'day')}"
