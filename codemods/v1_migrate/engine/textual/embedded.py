"""Python inside other files: fences of documents and the code cells of a notebook, as one program each."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from ...kinds import Kind
from .cuts import Cut
from .pieces import Piece, pieces
from .view import View

_PROMPT = re.compile(r"[ \t>]*(?:>>>|\.\.\.)(?:[ ]|(?=\r?\n|\Z))")
_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+vllm[\w.]*[ \t]+import|import[ \t]+vllm)\b", re.MULTILINE)
_MAGIC = re.compile(
    r"^(?P<indent>[ \t]*(?:[\w., \t]+=[ \t]*)?)"  # `x = !ls`, too
    r"(?P<magic>[!%](?:[^\n]*\\\n)*[^\n]*|[\w.]+\?{1,2}[ \t]*)$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Program:
    """Python text of a file. `joints`: where one cell ends and the next begins; no edit may cross one."""

    text: str
    view: View
    joints: tuple[int, ...] = ()
    unreadable: tuple[tuple[int, int, str], ...] = ()  # start and end in the file, and why
    ranges: tuple[tuple[int, int], ...] = ()  # what it covers of the file, magics left out
    readonly: bool = False

    def cuts(self, new_text: str) -> tuple[Cut, ...] | None:
        """What turns `text` into `new_text`, line by line; None if it cannot be done within cells."""
        import difflib  # only documents with Python that changes pay for it

        old, new = self.text.splitlines(keepends=True), new_text.splitlines(keepends=True)
        starts = _starts(old)
        found = []
        for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                cut = Cut(starts[i1], starts[i2], "".join(new[j1:j2]))
                if any(cut.start < joint < cut.end for joint in self.joints):
                    return None
                found.append(self._within_cell(cut))
        return tuple(found)

    def _within_cell(self, cut: Cut) -> Cut:
        """A cut up to a cell's end leaves out the line end that only joins it to the next cell."""
        if cut.end in self.joints and self.view.elements:
            return Cut(cut.start, cut.end - 1, cut.replacement.removesuffix("\n"))
        return cut

    def place(self, line: int, column: int) -> int:
        """The offset in the file of a 1-based position in `text`."""
        starts = _starts(self.text.splitlines(keepends=True))
        line = min(max(line, 1), len(starts))
        end = starts[line] if line < len(starts) else len(self.text)
        return self.view.place(min(starts[line - 1] + column - 1, end))


@lru_cache(maxsize=4)
def programs(text: str, kind: Kind) -> tuple[Program, ...]:
    """The Python programs of a file that can be parsed; what cannot be is named in the first of a notebook."""
    found = [piece for piece in pieces(text, kind) if piece.language == "python"]
    if kind is Kind.NOTEBOOK:
        return (_joined(text, found),) if found else ()
    if kind not in (Kind.MARKDOWN, Kind.RST):
        return ()
    unnamed = [piece for piece in pieces(text, kind) if piece.language == "shell" and not piece.inline]
    found += [piece for piece in unnamed if _IMPORTS.search(piece.view.text)]
    fences = [program for program in map(_fence, found) if program is not None]
    return (*fences, *_doctests(text))


def _doctests(text: str) -> Iterator[Program]:
    """The examples of a text (`>>> ...`) as one program: what one binds, another reads. Nothing in it is edited."""
    lines: list[tuple[str, int]] = []  # what is behind the prompt, and where that stands
    at = 0
    for line in text.splitlines(keepends=True) if ">>>" in text else ():
        prompt = _PROMPT.match(line)
        lines.append((line[prompt.end() :] if prompt else "", at + (prompt.end() if prompt else len(line))))
        at += len(line)
    code = "".join(written.rstrip("\r\n") + "\n" for written, _ in lines)
    if not code.strip() or _parses(code):
        return
    offsets = [start + i for written, start in lines for i in range(len(written.rstrip("\r\n")) + 1)]
    ranges = tuple((start, start + len(written)) for written, start in lines if written)
    yield Program(code, View(text, code, 0, (*offsets, at)), ranges=ranges, readonly=True)


def in_program(text: str, kind: Kind) -> Callable[[int], bool]:
    """Whether an offset of the file is in Python that the other rules look at."""
    covered = [span for program in programs(text, kind) for span in program.ranges]
    return lambda offset: any(start <= offset < end for start, end in covered)


def _starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def _parses(text: str) -> str:
    """Why the text is no Python; "" if it is."""
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        return str(getattr(error, "msg", error))
    return ""


def _fence(piece: Piece) -> Program | None:
    """The fence without its indentation, if that is Python."""
    view = piece.view
    indents = [re.match(r"[ \t]*", line) for line in view.text.splitlines() if line.strip()]
    if view.offsets or not indents:
        return None
    indent = min((m.group() for m in indents if m), key=len)
    ranges = ((view.place(0), view.place(len(view.text))),)
    if not indent:
        return None if _parses(view.text) else Program(view.text, view, ranges=ranges)
    text: list[str] = []
    offsets: list[int] = []
    at = view.place(0)
    for line in view.text.splitlines(keepends=True):
        skip = len(indent) if line.startswith(indent) else 0
        if line.strip() and not skip:
            return None
        text.append(line[skip:])
        offsets.extend(range(at + skip, at + len(line)))
        at += len(line)
    offsets.append(at)
    joined = "".join(text)
    dedented = View(view.file, joined, 0, tuple(offsets), (), indent)
    return None if _parses(joined) else Program(joined, dedented, ranges=ranges)


def _joined(file: str, cells: list[Piece]) -> Program:
    """All cells as one program: what one binds, another reads. Magics count as statements that do nothing."""
    text: list[str] = []
    offsets: list[int] = []
    elements = []
    joints: list[int] = []
    unreadable: list[tuple[int, int, str]] = []
    ranges: list[tuple[int, int]] = []
    for cell in cells:
        view = cell.view
        code = _MAGIC.sub(_inert, view.text)
        why = _parses(code) if not code.lstrip().startswith("%%") else "cell magic"
        if why:
            if why != "cell magic" and "vllm" in code:
                unreadable.append((view.place(0), view.place_end(len(view.text)), why))
            continue
        shift = len(offsets)
        magics = [m.span("magic") for m in _MAGIC.finditer(view.text)]
        ranges += _without(view, magics)
        offsets.extend(view.offsets[: len(view.text)])
        elements += [replace(e, start=e.start + shift, end=e.end + shift) for e in view.elements]
        offsets.append(view.offsets[len(view.text)])  # the line end that joins it to the next cell
        text.append(code + "\n")
        joints.append(len(offsets))
    offsets.append(offsets[-1] if offsets else 0)
    joined = "".join(text)
    view = View(file, joined, 0, tuple(offsets), tuple(elements))
    return Program(joined, view, tuple(joints), tuple(unreadable), tuple(ranges))


def _without(view: View, holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The view's span in the file without some stretches of its text."""
    edges = [0, *(edge for hole in holes for edge in hole), len(view.text)]
    return [(view.place(edges[i]), view.place_end(edges[i + 1])) for i in range(0, len(edges), 2)]


def _inert(match: re.Match[str]) -> str:
    """A statement of the same length and the same number of lines that does nothing."""
    lines = match["magic"].split("\n")
    first = "..." + "#" * (len(lines[0]) - 3) if len(lines[0]) > 2 else "0" + "#" * (len(lines[0]) - 1)
    return match["indent"] + "\n".join([first, *("#" * len(line) for line in lines[1:])])
