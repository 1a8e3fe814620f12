"""`v1-migrate plan`: how much there is to do in each file, the hardest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..findings import Effort, Finding
from ..usage import Usage
from .report import Report, plural
from .text import Style, summary

# Hours, for ranking and for a rough total; nobody's measurement.
HOURS = {Effort.NONE: 0.0, Effort.MINUTES: 0.2, Effort.HOURS: 3.0, Effort.DAYS: 16.0}
_LISTED = 20  # uses shown
_AGAIN = HOURS[Effort.MINUTES]  # what is decided once for a name is only applied in further places


@dataclass(slots=True)
class Row:
    """One file of the table."""

    path: str
    automatic: int = 0
    minutes: int = 0
    hours: int = 0
    days: int = 0
    notes: int = 0
    uses: int = 0  # at run time
    left: list[Finding] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Hours of work in this file, taken by itself."""
        return work(self.left)

    def add(self, finding: Finding) -> None:
        if finding.fixed:
            self.automatic += 1
        elif not finding.open:
            self.notes += 1
        elif finding.primary:
            self.minutes += finding.effort in (Effort.MINUTES, Effort.NONE)
            self.hours += finding.effort is Effort.HOURS
            self.days += finding.effort is Effort.DAYS
            self.left.append(finding)


def work(findings: Iterable[Finding]) -> float:
    """Hours to settle them: each name costs its full effort once."""
    total = 0.0
    decided: set[str] = set()
    for finding in findings:
        key = finding.name or f"{finding.rule} {finding.message}"
        total += min(HOURS[finding.effort], _AGAIN) if key in decided else HOURS[finding.effort]
        decided.add(key)
    return total


def rows(report: Report) -> list[Row]:
    """Every file with a finding, most work first; with a usage report, most used first."""
    uses = report.usage.of_file if report.usage else {}
    found: defaultdict[str, Row] = defaultdict(lambda: Row(""))
    for finding in report.findings:
        row = found[finding.path]
        row.path = finding.path
        row.add(finding)
        row.uses = uses.get(finding.path, 0)
    return sorted(found.values(), key=lambda row: (-row.uses, -row.total, -row.automatic, row.path))


def render(report: Report, style: Style) -> str:
    """The table, its total, and the summary."""
    table = rows(report)
    lines = []
    if table:
        used = report.usage is not None
        lines.append(style(f"{'     uses  ' if used else ''}automatic  minutes  hours  days  notes  file", bold=True))
        for row in table:
            cells = f"{row.automatic:>9}{row.minutes:>9}{row.hours:>7}{row.days:>6}{row.notes:>7}"
            cells = f"{row.uses:>9}  {cells}" if used else cells
            lines.append(f"{cells.replace(' 0', ' ·')}  {report.shown(row.path)}")
        hours = work([finding for row in table for finding in row.left])
        edits = sum(row.automatic for row in table)
        lines += ["", f"By hand: {duration(hours)}. By `v1-migrate rewrite`: {plural(edits, 'place')}.", ""]
    if report.usage is not None:
        lines += _usage(report, report.usage, style)
    return "\n".join([*lines, *summary(report, style)]) + "\n"


def _usage(report: Report, usage: Usage, style: Style) -> list[str]:
    """What was used most, and what was used without having been found."""
    lines: list[str] = []
    used = sorted((f for f in report.findings if usage.uses(f)), key=lambda f: (-usage.uses(f), f.path, f.line))
    if used:
        lines.append(style("Used at run time, most first:", bold=True))
        lines += [f"{usage.uses(f):>9}  {report.shown(f.path)}:{f.line}: {f.rule} {f.name}" for f in used[:_LISTED]]
        lines += _more(used)
    if usage.unseen:
        lines.append(style("Used at run time, and not found by reading (look at these yourself):", bold=True))
        lines += [f"{u.count:>9}  {report.shown(u.file)}:{u.line}: {u.rule} {u.name}" for u in usage.unseen[:_LISTED]]
        lines += _more(usage.unseen)
    if usage.elsewhere:
        lines.append(style(f"Used in files that are not below {report.path}:", bold=True))
        lines += [f"{u.count:>9}  {u.file}:{u.line}: {u.rule} {u.name}" for u in usage.elsewhere[:_LISTED]]
        lines += _more(usage.elsewhere)
    idle = sum(1 for f in report.open if f.primary and not usage.uses(f))
    lines.append(f"{plural(idle, 'finding')} of errors and warnings did not come up in that run.")
    return [*lines, ""]


def _more(listed: Sequence[object]) -> list[str]:
    return [f"           and {len(listed) - _LISTED} more"] if len(listed) > _LISTED else []


def duration(hours: float) -> str:
    """A rough length of time in words; a day has eight hours."""
    if hours == 0:
        return "nothing"
    if hours < 1:
        return f"about {max(round(hours * 6), 1) * 10} minutes"
    return f"about {plural(round(hours), 'hour')}" if hours < 12 else f"about {plural(round(hours / 8), 'day')}"
