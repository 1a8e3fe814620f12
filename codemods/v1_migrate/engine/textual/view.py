"""A stretch of a file as plain text, and edits on it as edits of the file: a slice, or strings of a JSON document."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from ...findings import Edit
from .cuts import Cut


@dataclass(frozen=True, slots=True)
class Element:
    """One JSON string of those that make up a text: where it is in the text and, with its quotes, in the file."""

    start: int
    end: int
    raw_start: int
    raw_end: int


@dataclass(frozen=True, slots=True)
class View:
    """`text[i]` stands in the file at `place(i)`."""

    file: str = field(repr=False)
    text: str = field(repr=False)
    shift: int = 0  # where `text` begins: in the file or, with offsets, in the decoded text
    offsets: tuple[int, ...] = field(default=(), repr=False)  # place of each decoded character; () for a slice
    elements: tuple[Element, ...] = field(default=(), repr=False)  # of a JSON document; the text is decoded
    indent: str = ""  # taken off every line of the text

    @classmethod
    def whole(cls, file: str) -> View:
        return cls(file, file)

    def part(self, start: int, end: int) -> View:
        """A stretch of this view as a view."""
        return replace(self, text=self.text[start:end], shift=self.shift + start)

    def place(self, position: int) -> int:
        """Where text[position] stands in the file."""
        at = self.shift + position
        return self.offsets[min(at, len(self.offsets) - 1)] if self.offsets else at

    def place_end(self, position: int) -> int:
        """Where text[:position] ends in the file."""
        if not self.offsets or self.shift + position == 0:
            return self.place(position)
        at = self.shift + position - 1
        element = self._element(at)
        if element is not None and at + 1 == element.end:
            return element.raw_end - 1
        return self.offsets[at + 1]

    def edit(self, cut: Cut) -> Edit:
        """The cut as an edit of the file."""
        start, end, replacement = self.place(cut.start), self.place_end(cut.end), cut.replacement
        if cut.start == cut.end:
            end = start
        if self.elements:
            replacement = self._separator.join(map(_encoded, replacement.splitlines(keepends=True)))
            whole = self._whole_elements(self.shift + cut.start, self.shift + cut.end) if not replacement else None
            start, end = whole or (start, end)
        elif self.indent:
            replacement = replacement.replace("\n", "\n" + self.indent)
            if self.file[end - 1 : end] in ("\r", "\n") or self.file[end : end + 1] in ("\r", "\n", ""):
                replacement = replacement.removesuffix(self.indent)
        return Edit(start, end, self.file[start:end], replacement)

    @property
    def _separator(self) -> str:
        """What stands between two lines of the text in the file: the end of one string and the start of the next."""
        if len(self.elements) < 2:
            return ""
        return self.file[self.elements[0].raw_end - 1 : self.elements[1].raw_start + 1]

    def _element(self, at: int) -> Element | None:
        index = bisect_right([element.start for element in self.elements], at) - 1
        return self.elements[index] if index >= 0 else None

    def _whole_elements(self, start: int, end: int) -> tuple[int, int] | None:
        """The span in the file of list elements that go altogether, with the comma that goes with them."""
        gone = [i for i, e in enumerate(self.elements) if e.start >= start and e.end <= end and e.end > e.start]
        if not gone or self.elements[gone[0]].start != start or self.elements[gone[-1]].end != end:
            return None
        first, last = gone[0], gone[-1]
        if last + 1 < len(self.elements):
            return self.elements[first].raw_start, self.elements[last + 1].raw_start
        if first > 0:
            return self.elements[first - 1].raw_end, self.elements[last].raw_end
        return None


def _encoded(line: str) -> str:
    return json.dumps(line, ensure_ascii=False)[1:-1]
