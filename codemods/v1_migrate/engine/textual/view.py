"""A stretch of a file as plain text, and edits on it as edits of the file: a slice, or strings of a JSON document."""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass, field, replace

from ...findings import Edit
from .cuts import Cut


@dataclass(frozen=True, slots=True)
class Element:
    """One JSON string of a list of strings that make up a text: where it is in the text, and in the file with quotes."""

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
    elements: tuple[Element, ...] = field(default=(), repr=False)

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
        return element.raw_end - 1 if element and at + 1 == element.end else self.offsets[at + 1]

    def edit(self, cut: Cut) -> Edit:
        """The cut as an edit of the file."""
        start, end, replacement = self.place(cut.start), self.place_end(cut.end), cut.replacement
        if cut.start == cut.end:
            end = start
        if self.offsets:
            replacement = json.dumps(replacement, ensure_ascii=False)[1:-1]
            whole = self._whole_elements(self.shift + cut.start, self.shift + cut.end) if not replacement else None
            start, end = whole or (start, end)
        return Edit(start, end, self.file[start:end], replacement)

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
