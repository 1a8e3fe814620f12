"""The report for a person at a terminal: place, line, caret, message, advice, and what to run next."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click

from ..findings import Effort, Finding, Severity
from .report import Report, plural

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_GUTTER = 6


@dataclass(frozen=True, slots=True)
class Style:
    """How wide, and whether in colour."""

    colour: bool = False
    width: int = 100

    def __call__(self, text: str, fg: str | None = None, *, bold: bool = False, dim: bool = False) -> str:
        return click.style(text, fg=fg, bold=bold or None, dim=dim or None) if self.colour else text


def render(report: Report, style: Style) -> str:
    """Findings in order of place, then the summary."""
    parts = []
    advised: dict[tuple[str, str], str] = {}
    for finding, more in fold(report.left):
        parts.append("\n".join(_finding(finding, more, report, style, advised)))
    if report.rewritten and not report.written:
        edits = sorted(report.rewritten.items())
        parts.append("\n".join(f"{report.shown(rel)}: {plural(n, 'edit')} to write" for rel, n in edits))
    parts.append("\n".join(summary(report, style)))
    return "\n\n".join(parts) + "\n"


def fold(findings: Sequence[Finding]) -> list[tuple[Finding, list[int]]]:
    """First places only, each with the lines of the further uses of its name in the same file."""
    heads: dict[tuple[str, str], int] = {}
    folded: list[tuple[Finding, list[int]]] = []
    for finding in sorted(findings, key=lambda f: (f.path, not f.primary, f.line, f.column)):
        key = (finding.path, finding.name or f"{finding.rule} {finding.message}")
        if not finding.primary and key in heads:
            lines = folded[heads[key]][1]
            if finding.line not in lines:
                lines.append(finding.line)
            continue
        heads.setdefault(key, len(folded))
        folded.append((finding, []))
    return sorted(folded, key=lambda item: (item[0].path, item[0].line, item[0].column))


def _finding(
    finding: Finding, more: list[int], report: Report, style: Style, advised: dict[tuple[str, str], str]
) -> Iterator[str]:
    place = f"{report.shown(finding.path)}:{finding.line}:{finding.column}"
    label = style(f"{finding.severity} {finding.rule}", _COLOURS[finding.severity], bold=True)
    yield f"{style(place, bold=True)}: {label} {finding.message}"
    line = report.lines.get((finding.path, finding.line), "")
    if line.strip():
        yield from _caret(finding, line, style)
    if more:
        listed = ", ".join(map(str, more[:12])) + (f" and {len(more) - 12} more" if len(more) > 12 else "")
        yield from _note(f"also used on {'line' if len(more) == 1 else 'lines'} {listed}", style)
    before = advised.setdefault((finding.rule, finding.advice), place)
    if finding.advice and before != place:
        yield from _note(f"what to do: as at {before}", style)
        return
    if finding.advice:
        yield from _note(finding.advice, style)
    yield from _note(f"docs/rules/{finding.rule}.md, or: v1-migrate explain {finding.rule}", style, dim=True)


def _note(text: str, style: Style, *, dim: bool = False) -> Iterator[str]:
    margin = " " * _GUTTER + " = "
    for paragraph in text.splitlines():
        wrapped = textwrap.wrap(
            paragraph,
            max(style.width, 40),
            initial_indent=margin,
            subsequent_indent=" " * len(margin),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in wrapped:
            yield style(line, dim=True) if dim else line
        margin = " " * len(margin)


def _caret(finding: Finding, line: str, style: Style) -> Iterator[str]:
    """The line, and carets under the place, also with tabs, wide characters and very long lines."""
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(line.rstrip())
    room = max(style.width, 40) - _GUTTER - 3
    shown, start, end = _window(line, start, max(end, start + 1), room)
    before, marked = _visible(shown[:start]), _visible(shown[start:end])
    yield style(f"{finding.line:>{_GUTTER - 1}}", dim=True) + " | " + (before + marked + _visible(shown[end:])).rstrip()
    carets = "^" * max(_cells(marked), 1)
    yield " " * _GUTTER + "| " + " " * _cells(before) + style(carets, _COLOURS[finding.severity], bold=True)


def _window(line: str, start: int, end: int, room: int) -> tuple[str, int, int]:
    if len(line) <= room:
        return line, start, end
    first = max(0, min(start - room // 4, len(line) - room))
    piece = line[first : first + room]
    if first:
        piece = "…" + piece[1:]
    if first + room < len(line):
        piece = piece[:-1] + "…"
    return piece, start - first, min(end - first, room)


def _visible(text: str) -> str:
    """No tab, no control character, nothing that a terminal would obey."""
    return "".join(char if char.isprintable() else "    " if char == "\t" else "�" for char in text)


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def summary(report: Report, style: Style) -> Iterator[str]:
    """The closing lines: the target, the files, what is left, what was passed over, what to run next."""
    pins = f"; the tree asks for {', '.join(report.pins[:3])}" if report.pins else ""
    yield f"{style('Target', bold=True)}  vLLM {report.target} ({report.target_origin}{pins})"
    yield f"{style('Files', bold=True)}   {plural(report.files, 'file')} looked at{_rewritten(report)}"
    counts = report.by_severity()
    if any(counts.values()):
        said = [plural(n, name) for name, n in zip(("error", "warning", "note"), counts.values(), strict=True) if n]
        yield f"{style('For you', bold=True)} {', '.join(said)}{_efforts(report.by_effort())}"
    else:
        found = f": every vllm name found exists on {report.target}" if report.command == "verify" else ""
        yield f"{style('For you', bold=True)} nothing{found}"
    hidden = [f"{report.suppressed} suppressed"] * bool(report.suppressed)
    hidden += [f"{report.baselined} in the baseline"] * bool(report.baselined)
    if hidden:
        yield f"{style('Hidden', bold=True)}  {', '.join(hidden)}"
    if report.skipped:
        reasons = ", ".join(f"{reason} {count}" for reason, count in report.skipped_reasons().items())
        yield f"{style('Skipped', bold=True)} {len(report.skipped)} files and folders: {reasons}"
    for skipped in report.skipped:
        if skipped.failed:
            yield style(f"        {skipped.rel}: {skipped.reason}", "red")
    for note in report.notes:
        yield f"{style('Note', bold=True)}    {note}"
    if report.next_command:
        yield f"{style('Next', bold=True)}    {style(report.next_command, 'green')}"


def _rewritten(report: Report) -> str:
    if report.command != "rewrite":
        return ""
    if not report.rewritten:
        return ", none to rewrite"
    verb = "rewritten" if report.written else "to rewrite"
    return f", {len(report.rewritten)} {verb} ({plural(sum(report.rewritten.values()), 'edit')})"


def _efforts(efforts: dict[Effort, int]) -> str:
    said = [f"{count} of {effort}" for effort, count in efforts.items() if count]
    return f"; to decide: {', '.join(said)}" if said else ""
