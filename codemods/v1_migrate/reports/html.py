"""The report as one page that needs nothing else: work per file, every finding, a filter by rule and state."""

from __future__ import annotations

from collections import Counter, defaultdict
from html import escape
from importlib.resources import files
from string import Template

from ..findings import Finding
from .plan import Row, duration, rows, work
from .report import Report, plural


def render(report: Report) -> str:
    """The whole page."""
    template = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
    table = rows(report)
    pins = f"; the tree asks for {', '.join(report.pins)}" if report.pins else ""
    return template.substitute(
        title=escape(report.path),
        heading=escape(f"{report.path} on the way to vLLM {report.target}"),
        lead=escape(f"Target: {report.target_origin}{pins}. CPU attention goes to {report.attention}."),
        tiles=_tiles(report, work(finding for row in table for finding in row.left)),
        rules=_rules(report),
        files=_files(report, table),
        skipped=_skipped(report),
    )


def _tiles(report: Report, hours: float) -> str:
    severities = report.by_severity()
    tiles = {
        "files looked at": f"{report.files:,}",
        "files rewritten" if report.written else "files to rewrite": f"{len(report.rewritten):,}",
        **{
            noun: f"{count:,}" for noun, count in zip(("errors", "warnings", "notes"), severities.values(), strict=True)
        },
        "of work by hand": duration(hours).removeprefix("about "),
    }
    return "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{noun}</span></div>' for noun, value in tiles.items()
    )


def _rules(report: Report) -> str:
    counts = Counter(finding.rule for finding in report.findings)
    return "".join(f'<option value="{rule}">{rule} ({count})</option>' for rule, count in sorted(counts.items()))


def _files(report: Report, table: list[Row]) -> str:
    by_file: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        by_file[finding.path].append(finding)
    most = max((row.total for row in table), default=0.0) or 1.0
    return "\n".join(_file(row, by_file[row.path], report, most) for row in table)


def _file(row: Row, findings: list[Finding], report: Report, most: float) -> str:
    path = escape(row.path)
    automatic = f"{plural(row.automatic, 'place')} by edits, " if row.automatic else ""
    body = "".join(_finding(finding, report) for finding in findings)
    return (
        f'<details class="file" data-path="{path}"><summary><span class="path">{path}</span>'
        f'<span class="work">{automatic}by hand: {escape(duration(row.total))}</span>'
        f'<span class="bar"><i style="width: {100 * row.total / most:.0f}%"></i></span></summary>{body}</details>'
    )


def _finding(finding: Finding, report: Report) -> str:
    state = "fixed" if finding.fixed else finding.severity.value
    label = "settled" if finding.fixed else finding.severity.value
    line = report.lines.get((finding.path, finding.line), "")
    code = f"<pre>{_marked(finding, line)}</pre>" if line.strip() else ""
    advice = f'<p class="advice">{escape(finding.advice)}</p>' if finding.advice else ""
    return (
        f'<div class="finding {state}" data-rule="{escape(finding.rule)}">'
        f'<p><span class="tag">{label} {escape(finding.rule)}</span> '
        f'<span class="place">line {finding.line}, effort: {finding.effort}</span></p>'
        f"<p>{escape(finding.message)}</p>{code}{advice}</div>"
    )


def _marked(finding: Finding, line: str) -> str:
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(line)
    return f"{escape(line[:start])}<mark>{escape(line[start:end])}</mark>{escape(line[end:])}"


def _skipped(report: Report) -> str:
    if not report.skipped:
        return ""
    items = "".join(f"<li><code>{escape(item.rel)}</code>: {escape(item.reason)}</li>" for item in report.skipped)
    return f"<h2>Not looked at</h2><ul>{items}</ul>"
