"""Findings at the places they have after edits, and where the edits themselves came to stand."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace

from ..findings import Edit, Finding, Span
from ..source import Source


def fixed(finding: Finding, source: Source) -> Finding:
    """The finding with its edits made, and the places of them in the text before."""
    places = sorted({(*source.position(edit.start), *source.position(edit.end)) for edit in finding.edits})
    return replace(finding, fixed=True, edited=tuple(places))


def inverse(edits: list[Edit]) -> list[Edit]:
    """The edits that undo these, which are sorted by place."""
    undone, shift = [], 0
    for edit in edits:
        start = edit.start + shift
        undone.append(Edit(start, start + len(edit.replacement), edit.replacement, edit.expected))
        shift += len(edit.replacement) - len(edit.expected)
    return undone


def moved(findings: list[Finding], edits: list[Edit], source: Source, new_text: str) -> list[Finding]:
    """The findings at the places they have in the new text."""
    starts = [edit.start for edit in edits]
    ends: dict[Edit, int] = {}  # where what an edit writes ends in the new text
    written: dict[tuple[int, int], tuple[int, int]] = {}  # its span before and after
    shifts = [0]
    for edit in edits:
        ends[edit] = edit.start + shifts[-1] + len(edit.replacement)
        written[edit.start, edit.end] = edit.start + shifts[-1], ends[edit]
        shifts.append(shifts[-1] + len(edit.replacement) - (edit.end - edit.start))
    target = Source(source.rel, b"", new_text, source.encoding, source.bom, source.newline)

    def place_of(offset: int, end: bool) -> int:
        index = bisect_right(starts, offset)
        if index and offset < edits[index - 1].end:  # inside an edit: its start, or its end
            edit = edits[index - 1]
            return edit.start + shifts[index - 1] + (len(edit.replacement) if end else 0)
        return offset + shifts[index]

    def found_again(start: int, end: int) -> tuple[int, int] | None:
        """A name in an edited statement: where the edit writes it anew, or from there to where the next one does."""
        index = bisect_right(starts, start)
        if not index or start >= edits[index - 1].end or end <= start:
            return None
        word = re.compile(rf"(?<!\w){re.escape(source.text[start:end])}(?!\w)")
        here = edits[index - 1].start + shifts[index - 1]
        match = word.search(edits[index - 1].replacement)
        if match:
            return here + match.start(), here + match.end()
        following = word.search(edits[index].replacement) if index < len(edits) else None
        return (here, edits[index].start + shifts[index] + following.end()) if following else None

    out = []
    for finding in findings:
        start = source.line_starts[finding.line - 1] + finding.column - 1
        end = source.line_starts[finding.end_line - 1] + finding.end_column - 1
        new_start, new_end = found_again(start, end) or (place_of(start, False), place_of(end, True))
        if finding.fixed:  # it spans what was written for it
            own = [ends[edit] for edit in finding.edits if edit in ends and edit.end >= start]
            new_end = max([new_end, *own])
        line, column = target.position(new_start)
        end_line, end_column = target.position(max(new_start, new_end))
        places = tuple(_place(span, source, target, written, place_of) for span in finding.edited)
        out.append(replace(finding, line=line, column=column, end_line=end_line, end_column=end_column, edited=places))
    return out


def _place(
    span: Span,
    source: Source,
    target: Source,
    written: dict[tuple[int, int], tuple[int, int]],
    moved: Callable[[int, bool], int],
) -> Span:
    """The place of an edit in the new text."""
    start = source.line_starts[span[0] - 1] + span[1] - 1
    end = source.line_starts[span[2] - 1] + span[3] - 1
    start, end = written.get((start, end)) or (moved(start, False), moved(end, True))
    return (*target.position(start), *target.position(max(start, end)))
