"""Deletions, replacements and de-indented lines of one file, turned into edits that do not touch each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...findings import Edit
from ...source import Source
from .tokens import Item, Tokens

_BLANKS = re.compile(r"[ \t\f]*")
_WORDS = re.compile(r"[a-z]+")
# What a comment must speak of to go with the code below it.
_OF_THE_SWITCH = re.compile(r"\bv[01]\b|VLLM_USE_V1|use_v1|environment variable|env var|monkeypatch", re.IGNORECASE)


def of_the_switch(comment: str) -> bool:
    """The comment speaks of the engines, and means nothing once there is one."""
    return _OF_THE_SWITCH.search(comment) is not None


@dataclass(slots=True)
class Draft:
    """What shall happen to a text. Lines are counted from 1, offsets in characters."""

    source: Source
    tokens: Tokens
    spans: list[tuple[int, int]] = field(default_factory=list)
    replacements: dict[tuple[int, int], str] = field(default_factory=dict)
    lines: set[int] = field(default_factory=set)  # deleted whole
    tight: set[int] = field(default_factory=set)  # deleted lines behind which no blank line shall stay
    shifts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # line -> (outer, inner) indentation

    # what shall happen

    def delete(self, start: int, end: int) -> None:
        """Take text[start:end] out."""
        if start < end:
            self.spans.append((start, end))

    def replace(self, start: int, end: int, text: str) -> None:
        """Write `text` for text[start:end]."""
        self.replacements[start, end] = text

    def delete_lines(self, first: int, last: int, *, tight: bool = False) -> None:
        """Take whole lines out, and surplus blank lines around them."""
        self.lines.update(range(first, last + 1))
        if tight:
            self.tight.update(range(first, last + 1))

    def shift(self, first: int, last: int, outer: int, inner: int) -> None:
        """De-indent lines from `inner` to `outer` characters, never inside a string literal."""
        for line in range(first, last + 1):
            if line not in self.tokens.literal_lines:
                self.shifts.setdefault(line, []).append((outer, inner))

    def drop_items(self, items: list[Item], doomed: set[int], inner: tuple[int, int]) -> None:
        """Take parts out of a comma-separated list; `inner` is the span between its brackets."""
        if len(doomed) == len(items):
            self.delete(*inner)
            return
        position = 0
        while position < len(items):
            if position not in doomed:
                position += 1
                continue
            last = position
            while last + 1 in doomed:
                last += 1
            self._drop_run(items, position, last)
            position = last + 1

    def _drop_run(self, items: list[Item], first: int, last: int) -> None:
        text = self.source.text
        start, end = items[first].start, items[last].end
        behind = items[last].comma + 1 if items[last].comma >= 0 else end
        own_lines = self.blank_before(start) and self.blank_behind(behind)
        if own_lines and (items[last].comma >= 0 or self._comment_between(items[first - 1].end, start)):
            first_line, last_line = self.line_of(start), self.line_of(end)
            self.lines.update(range(first_line - self.remarks_above(first_line), last_line + 1))
            self.tight.update(range(first_line, last_line + 1))
        elif last + 1 < len(items):
            following = items[last + 1].start
            self.delete(start, behind if self._comment_between(behind, following) else following)
        elif items[first - 1].comma >= 0 and self._comment_between(items[first - 1].end, start):
            self.delete(len(text[:start].rstrip(" \t")), end)
        else:
            self.delete(items[first - 1].end, end)

    # questions

    def gone(self, start: int, end: int) -> bool:
        """Nothing of text[start:end] will be left."""
        if any(low <= start and end <= high for low, high in self.spans):
            return True
        if any(low <= start and end <= high for low, high in self.replacements):
            return True
        return all(line in self.lines for line in range(self.line_of(start), self.line_of(max(start, end - 1)) + 1))

    def line_of(self, offset: int) -> int:
        return self.source.position(offset)[0]

    def line_start(self, line: int) -> int:
        starts = self.source.line_starts
        return starts[line - 1] if line <= len(starts) else len(self.source.text)

    def indentation(self, line: int) -> int:
        match = _BLANKS.match(self.source.line(line))
        return match.end() if match else 0

    def blank(self, line: int) -> bool:
        return line not in self.tokens.literal_lines and not self.source.line(line).strip()

    def comment_only(self, line: int) -> bool:
        return line not in self.tokens.literal_lines and self.source.line(line).lstrip().startswith("#")

    def blank_before(self, offset: int) -> bool:
        """Only blanks stand before the offset in its line."""
        return not self.source.text[self.line_start(self.line_of(offset)) : offset].strip()

    def blank_behind(self, offset: int) -> bool:
        """Only blanks and a comment follow in the line of the offset."""
        line = self.line_of(offset)
        start = self.line_start(line)
        rest = self.source.line(line)[offset - start :].strip()
        return not rest or rest.startswith("#")

    def remarks_above(self, line: int) -> int:
        """How many lines of comment directly above a line speak of the switch, and so go with it."""
        count = 0
        while self.comment_only(line - count - 1) and self.indentation(line - count - 1) == self.indentation(line):
            count += 1
        block = "\n".join(self.source.line(line - above) for above in range(1, count + 1))
        return count if of_the_switch(block) else 0

    def _comment_between(self, start: int, end: int) -> bool:
        return any(start <= span[0] < end for span in self.tokens.comments.values())

    # the edits

    def edits(self) -> tuple[Edit, ...]:
        """Everything above as edits, sorted, none touching another's text."""
        self._drop_empty_brackets()
        lines = self._line_spans()
        spans = _merged([*(span for span in self.spans if not self._overwritten(*span)), *lines])
        text = self.source.text
        found = [Edit(start, end, text[start:end], "") for start, end in spans]
        for (start, end), new in self.replacements.items():
            if not self._overwritten(start, end) and not any(low <= start and end <= high for low, high in spans):
                found.append(Edit(start, end, text[start:end], new))
        found += self._dedents(found)
        return tuple(sorted(set(found), key=lambda edit: (edit.start, edit.end)))

    def _overwritten(self, start: int, end: int) -> bool:
        """Something else is written for a text that holds text[start:end] and more."""
        return any(low <= start and end <= high and high - low > end - start for low, high in self.replacements)

    def _drop_empty_brackets(self) -> None:
        """`# begin of the hack` and `# end of the hack` go with all that stood between them."""
        for first, last in self._runs():
            above, below = first - 1, last + 1
            while self.blank(above) and above > 1:
                above -= 1
            while self.blank(below) and below < len(self.source.line_starts):
                below += 1
            if above >= 1 and self.comment_only(above) and self.comment_only(below):
                opening, closing = (set(_WORDS.findall(self.source.line(line).lower())) for line in (above, below))
                if "end" in closing and closing - {"end", "of", "the"} and closing - {"end", "of", "the"} <= opening:
                    self.lines.update((above, below))

    def _line_spans(self) -> list[tuple[int, int]]:
        spans = []
        for first, last in self._runs():
            above = below = 0
            while self.blank(first - above - 1) and first - above - 1 >= 1:
                above += 1
            count = len(self.source.line_starts)
            while last + below + 1 <= count and self.blank(last + below + 1):
                below += 1
            wanted = above if first in self.tight else max(above, below)
            if last + below >= count or first - above == 1:
                wanted = 0
            surplus = above + below - wanted
            below_too = min(below, surplus)
            start = self.line_start(first - (surplus - below_too))
            spans.append((start, self.line_start(last + below_too + 1)))
        return spans

    def _runs(self) -> list[tuple[int, int]]:
        """Deleted lines as (first, last), joined across blank lines; not where a block ends, whose distance stays."""
        runs: list[tuple[int, int]] = []
        for line in sorted(self.lines):
            ends = runs and line > runs[-1][1] + 1 and self.indentation(line) < self.indentation(runs[-1][1])
            if runs and not ends and all(self.blank(between) for between in range(runs[-1][1] + 1, line)):
                runs[-1] = (runs[-1][0], line)
            else:
                runs.append((line, line))
        return runs

    def _dedents(self, taken: list[Edit]) -> list[Edit]:
        found = []
        for line, moves in self.shifts.items():
            text = self.source.line(line)
            leading = self.indentation(line)
            outer = min(move[0] for move in moves)
            size = min(sum(inner - least for least, inner in moves), max(0, leading - outer))
            start = self.line_start(line) + (outer if leading >= outer + size else leading - size)
            if line in self.lines or not size or any(edit.start < start + size and start < edit.end for edit in taken):
                continue
            found.append(Edit(start, start + size, text[:leading][start - self.line_start(line) :][:size], ""))
        return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
