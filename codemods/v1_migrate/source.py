"""One file's text, as it is on disk: decoding, positions, and edits that change nothing else.

The text is kept exactly as decoded: no newline is translated, a byte order mark is remembered and put back.
Positions come from `ast` (line, UTF-8 byte column) or from libcst (line, character column); an edit counts characters
from the start of the text. Lines end at CR LF, LF and CR only, as in the Python tokenizer; a form feed ends none.
"""

from __future__ import annotations

import bisect
import codecs
import io
import itertools
import os
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from .findings import Edit

MAX_BYTES = 5_000_000
_LINE_END = re.compile(r"\r\n|\n|\r")
_TWO_LINES = re.compile(rb"([^\r\n]*)(?:\r\n|\n|\r)?([^\r\n]*)")
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# Every other codec is checked by encoding the text again: stateful ones do not always give the same bytes back.
_ALWAYS_ROUND_TRIP = frozenset({"utf-8", "utf-8-sig", "iso-8859-1", "ascii"})


class Reason(StrEnum):
    """Why a file could not be read as text."""

    MISSING = "missing"
    PERMISSION = "permission"
    IO_ERROR = "io-error"
    TOO_BIG = "too-big"
    UTF16 = "utf-16"
    NUL = "nul-bytes"
    COOKIE = "unknown-cookie"
    ENCODING = "encoding"


class Unreadable(Exception):
    """The file cannot be read as text; `reason` is for programs, `str()` for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class EditError(Exception):
    """An edit cannot be applied to this text."""


class EditMismatch(EditError):
    """The text at the place of an edit is not what the edit expects."""


class EditOverlap(EditError):
    """Two different edits claim the same text."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text with everything needed to write it back: `encode(text) == raw`."""

    rel: str
    raw: bytes = field(repr=False)
    text: str = field(repr=False)
    encoding: str = "utf-8"  # a codec name without the mark: "utf-8", "iso-8859-1", "shift_jis", ...
    bom: bool = False
    newline: str = "\n"  # the first one in the file; "\n" if there is none
    mixed_newlines: bool = False
    _starts: list[int] = field(default_factory=list, repr=False, compare=False)  # filled on first use

    @classmethod
    def read(cls, path: Path, rel: str, *, python: bool = True, max_bytes: int = MAX_BYTES) -> Source:
        """Read `path`. Raises Unreadable. `python=False` ignores PEP 263 cookies: other files are UTF-8."""
        return cls.from_bytes(read_bytes(path, max_bytes), rel, python=python)

    @classmethod
    def from_bytes(cls, raw: bytes, rel: str, *, python: bool = True) -> Source:
        """Decode `raw` by the rules of the Python tokenizer. Raises Unreadable."""
        encoding, bom, text = _decode(raw, python=python)
        newline, mixed = _newlines(text)
        return cls(rel, raw, text, encoding, bom, newline, mixed)

    @property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line; there is always at least one line."""
        if not self._starts:
            self._starts.extend(_line_starts(self.text))
        return self._starts

    def line(self, lineno: int) -> str:
        """Line `lineno` (1-based) without its line end; empty past the end of the file."""
        starts = self.line_starts
        if not 1 <= lineno <= len(starts):
            return ""
        end = starts[lineno] if lineno < len(starts) else len(self.text)
        return self.text[starts[lineno - 1] : end].rstrip("\r\n")

    def offset(self, lineno: int, utf8_column: int) -> int:
        """Character offset of a position from `ast`: 1-based line, 0-based column in UTF-8 bytes."""
        start = self.line_starts[lineno - 1]
        if self.text.isascii():
            return start + utf8_column
        piece = self.text[start : start + utf8_column]
        if piece.isascii():
            return start + utf8_column
        return start + len(piece.encode()[:utf8_column].decode(errors="ignore"))

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and 1-based column, in characters, of an offset."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def apply(self, edits: Iterable[Edit]) -> str:
        """The text after `edits`, in any order; the same edit twice counts once. Raises EditMismatch or EditOverlap."""
        pieces: list[str] = []
        done = 0
        previous: Edit | None = None
        for edit in sorted(set(edits), key=lambda e: (e.start, e.end)):
            if not 0 <= edit.start <= edit.end <= len(self.text):
                raise EditMismatch(f"{self.rel}: edit {edit.start}:{edit.end} lies outside the text")
            found = self.text[edit.start : edit.end]
            if found != edit.expected:
                line, column = self.position(edit.start)
                raise EditMismatch(f"{self.rel}:{line}:{column}: expected {edit.expected!r}, found {found!r}")
            if previous is not None and (edit.start < done or (edit.start, edit.end) == (previous.start, previous.end)):
                line, column = self.position(edit.start)
                raise EditOverlap(f"{self.rel}:{line}:{column}: {edit.expected!r} is edited twice, differently")
            pieces += (self.text[done : edit.start], edit.replacement)
            done, previous = edit.end, edit
        return "".join((*pieces, self.text[done:]))

    def encode(self, text: str) -> bytes:
        """The bytes of `text`, in this file's encoding and with its mark. Raises EditError for a character it lacks."""
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise EditError(f"{self.rel}: {error.object[error.start]!r} does not exist in {self.encoding}") from None
        return codecs.BOM_UTF8 + data if self.bom else data


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """The file's bytes. Raises Unreadable for a missing, forbidden, broken or oversized file."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size > max_bytes:
                raise Unreadable(Reason.TOO_BIG, f"{size:,} bytes; files above {max_bytes:,} are not read")
            return file.readall()
    except FileNotFoundError:
        raise Unreadable(Reason.MISSING, "no such file") from None
    except PermissionError:
        raise Unreadable(Reason.PERMISSION, "permission denied") from None
    except OSError as error:
        raise Unreadable(Reason.IO_ERROR, error.strerror or str(error)) from None


def _decode(raw: bytes, *, python: bool) -> tuple[str, bool, str]:
    if raw.startswith(_UTF16):
        raise Unreadable(Reason.UTF16, "the file is UTF-16; save it as UTF-8")
    if b"\0" in raw:
        raise Unreadable(Reason.NUL, "the file holds NUL bytes: it is not text")
    bom = raw.startswith(codecs.BOM_UTF8)
    encoding = _declared(raw) if python else "utf-8"
    body = raw[3:] if bom else raw
    try:
        text = body.decode(encoding)
    except LookupError:
        raise Unreadable(Reason.COOKIE, f"the declared encoding {encoding!r} is not one Python can read") from None
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        hint = "; declare its encoding on the first line (PEP 263) or save it as UTF-8" if python else ""
        raise Unreadable(Reason.ENCODING, f"line {line} is not valid {encoding}{hint}") from None
    if encoding not in _ALWAYS_ROUND_TRIP and text.encode(encoding, "replace") != body:
        raise Unreadable(Reason.ENCODING, f"the bytes do not survive decoding and encoding as {encoding}")
    return encoding, bom, text


def _declared(raw: bytes) -> str:
    """The encoding that PEP 263 gives the file, without regard to a byte order mark."""
    match = _TWO_LINES.match(raw)
    assert match is not None  # both groups may be empty
    if b"coding" not in match[0]:
        return "utf-8"
    header = match[1] + b"\n" + match[2] + b"\n"  # detect_encoding knows LF only; the compiler takes CR, too
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(header).readline)[0]
    except SyntaxError as error:
        reason = Reason.COOKIE if "unknown encoding" in str(error) else Reason.ENCODING
        raise Unreadable(reason, f"{error}; correct the encoding declared on the first two lines") from None
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _newlines(text: str) -> tuple[str, bool]:
    if "\r" not in text:
        return "\n", False
    kinds = dict.fromkeys(_LINE_END.findall(text))
    return next(iter(kinds)), len(kinds) > 1


def _line_starts(text: str) -> Iterable[int]:
    if "\r" in text:
        return [0, *(match.end() for match in _LINE_END.finditer(text))]
    lengths = (len(line) + 1 for line in text.split("\n"))
    return list(itertools.accumulate(lengths, initial=0))[:-1]
