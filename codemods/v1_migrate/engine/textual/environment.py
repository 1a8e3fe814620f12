"""Every place of a file, whatever its language, that sets an environment variable or speaks of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ...findings import Edit
from ...kinds import Kind
from . import jsontree
from .cuts import Part, cuts, line_start
from .embedded import in_program
from .entries import Entry, ini_entries, json_entries, toml_entries
from .pieces import Piece, pieces
from .shell import Script, scripts
from .variables import Use, uses
from .view import View
from .yaml_entries import yaml_entries

_USAGE = re.compile(
    r"^[ \t]*(?:\$ )?(?:[A-Za-z_]\w*=[^\s\\]*(?:[ \t]|\\\r?\n)+)+"
    r"(?:python[\d.]*|vllm|pytest|torchrun|bash|sh|ray|uv|accelerate)\b"
    r"(?:[^\r\n\\]|\\\r?\n|\\.)*",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One occurrence of a variable's name. Offsets are those of the file.

    `form`: "set", "unset", "pass" (handed on without a value), "read" (`$NAME`), "comment", "text".
    """

    name: str
    form: str
    value: str | None
    start: int
    end: int
    why_not: str = ""  # set by an entry that cannot be taken out
    inline: bool = False  # in a sentence of a document
    _use: tuple[View, Script, Use] | None = field(default=None, repr=False)
    _entry: tuple[View, Entry] | None = field(default=None, repr=False)


class Environment:
    """The places of one file for the variables that `wanted` matches."""

    def __init__(self, text: str, kind: Kind, wanted: re.Pattern[str], *, usage: bool = False) -> None:
        """`usage`: lines of the text that are commands count as such, as in a docstring that says how to call it."""
        self.text, self.kind, self.wanted = text, kind, wanted
        self.places: list[Place] = []
        for piece in pieces(text, kind):
            self._piece(piece)
        if usage:
            self._usage()
        self._rest()
        self.places.sort(key=lambda place: (place.start, place.end))

    def edits(self, picked: Iterable[Place]) -> dict[Place, Edit]:
        """Edits that take the picked places out; a place without one has to stay."""
        found: dict[Place, Edit] = {}
        grouped: dict[int, list[Place]] = {}
        for place in picked:
            if place._entry is not None:
                view, entry = place._entry
                if entry.cut is not None:
                    found[place] = view.edit(entry.cut)
            elif place._use is not None:
                grouped.setdefault(id(place._use[1]), []).append(place)
        for group in grouped.values():
            found.update(self._script_edits(group))
        return found

    @staticmethod
    def _script_edits(group: list[Place]) -> Iterator[tuple[Place, Edit]]:
        listed = [(place, place._use) for place in group if place._use is not None]
        view, script, _ = listed[0][1]
        parts: list[Part] = [use.part for _, (_, _, use) in listed if use.part is not None]
        made = cuts(view.text, script, parts)
        for place, (_, _, use) in listed:
            cut = use.cut if use.part is None else made.get(use.part)
            if cut is not None:
                yield place, view.edit(cut)

    # finding

    def _piece(self, piece: Piece) -> None:
        if self.wanted.search(piece.view.text) is None:
            return
        view, language = piece.view, piece.language
        if language in ("shell", "docker"):
            self._scripts(view, docker=language == "docker", quoted=piece.inline, inline=piece.inline)
        elif language == "json":
            self._json(view)
        elif language == "yaml":
            self._yaml(view)
        elif language == "toml":
            self._entries(view, toml_entries(view.text, self.wanted))
        elif language == "ini":
            self._entries(view, ini_entries(view.text, self.wanted))

    def _scripts(self, view: View, *, docker: bool = False, quoted: bool = False, inline: bool = False) -> None:
        taken: list[tuple[int, int]] = []
        for number, script in enumerate(scripts(view.text, docker=docker)):
            if number == 0 and quoted:
                script.quoted = True
            if self.wanted.search(view.text, script.start, script.end) is None:
                continue
            if any(start <= script.start and script.end <= end for start, end in taken):
                continue
            if view.text[script.start : script.end].lstrip().startswith("{") and not view.offsets:
                self._json(view.part(script.start, script.end))
                continue
            for use in uses(script, self.wanted):
                taken.append((use.start, use.end))
                form = "set" if use.form == "inside" else use.form
                start, end = view.place(use.start), view.place_end(use.end)
                self.places.append(Place(use.name, form, use.value, start, end, "", inline, (view, script, use)))

    def _usage(self) -> None:
        """Lines that begin with assignments and go on with a program."""
        covered = [(place.start, place.end) for place in self.places]
        for line in _USAGE.finditer(self.text):
            at = self.wanted.search(self.text, *line.span())
            if at and not any(start <= at.start() < end for start, end in covered):
                self._scripts(View.whole(self.text).part(line.start(), line.end()), quoted=True)

    def _json(self, view: View) -> None:
        if view.offsets:
            return
        entries, strings = json_entries(view.text, self.wanted)
        self._entries(view, entries)
        for node in strings:
            if self.wanted.search(node.value):
                self._scripts(jsontree.string_view(view, [node]), quoted=True)

    def _yaml(self, view: View) -> None:
        found = yaml_entries(view.text, self.wanted)
        self._entries(view, found.entries)
        for scalar in found.scalars:
            if self.wanted.search(view.text, scalar.start, scalar.end):
                self._scripts(view.part(scalar.start, scalar.end), quoted=True)

    def _entries(self, view: View, entries: Iterable[Entry]) -> None:
        for entry in entries:
            start, end = view.place(entry.start), view.place_end(entry.end)
            self.places.append(
                Place(entry.name, "set", entry.value, start, end, entry.why_not, False, None, (view, entry))
            )

    def _rest(self) -> None:
        """What no language accounts for: comments, tests, sentences. Python has rules of its own."""
        covered = sorted((place.start, place.end) for place in self.places)
        python = in_program(self.text, self.kind)
        for match in self.wanted.finditer(self.text):
            if python(match.start()):
                continue
            if not any(start <= match.start() < end for start, end in covered):
                self.places.append(Place(match.group(), self._form(match), None, *match.span()))

    def _form(self, match: re.Match[str]) -> str:
        before = self.text[line_start(self.text, match.start()) : match.start()]
        if re.search(r"\$\{?\Z|%\Z|\$env:\Z", before):
            return "read"
        marks = ("#", ";", "//", "<!--") if self.kind is not Kind.MARKDOWN else ("<!--",)
        return "comment" if before.lstrip().startswith(marks) or re.search(r"\s#", before) else "text"
