"""Shell text as commands and words, each with its place: enough to cut words out, tolerant of what it cannot read.

This is no shell grammar. It knows quotes, continuations, comments, here-documents, operators and reserved words, in
`sh`, Make recipes, Dockerfile instructions and the fragments that documents show, and never fails: a quote that is
never closed is taken for an apostrophe.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

RESERVED = frozenset(("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "$"))
OPENERS = frozenset(("then", "do", "else", "{", "("))
CLOSERS = frozenset(("fi", "done", "elif", "else", "}", ")", ";;"))
EXPORTS = frozenset(("export", "declare", "typeset", "readonly", "local", "ENV", "ARG", "%env", "%set_env"))
_INSTRUCTIONS = frozenset(("RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL", "ONBUILD"))
_BLANK = re.compile(r"(?:[ \t\f]|\\\r?\n|\\\r)+")
_OPERATOR = re.compile(r"\r?\n|\r|;;&|;;|;&|;|&&|\|\||\|&|\||&(?!>)|\(|\)")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|<&|>&|&>>|&>|<>|>\||>>|<|>)")
_HEREDOC = re.compile(r"\d*<<(-?)[ \t]*(['\"\\]?)(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")


@dataclass(frozen=True, slots=True)
class Word:
    """One word as written, quotes included; `value` is what the shell makes of it, None if it has to expand it."""

    start: int
    end: int
    text: str

    @property
    def value(self) -> str | None:
        return unquoted(self.text)

    @property
    def assigns(self) -> str:
        """The variable that NAME=value gives a value; "" for other words."""
        match = _ASSIGNMENT.match(self.text.lstrip("\"'"))
        return match[1] if match else ""


@dataclass(frozen=True, slots=True)
class Operator:
    """A control operator, an end of line, or a reserved word."""

    start: int
    end: int
    text: str

    @property
    def blank(self) -> bool:
        """It separates commands and does nothing else."""
        return self.text in (";", "\n", "\r\n", "\r", "$")


@dataclass(slots=True)
class Command:
    """A simple command."""

    words: list[Word] = field(default_factory=list)

    @property
    def start(self) -> int:
        return self.words[0].start

    @property
    def end(self) -> int:
        return self.words[-1].end

    @property
    def assignments(self) -> int:
        """How many words stand before the command's name and only set variables for it."""
        count = 0
        while count < len(self.words) and _ASSIGNMENT.match(self.words[count].text):
            count += 1
        return count

    @property
    def name(self) -> str:
        """The word that is run; "" when there are assignments only."""
        rest = self.words[self.assignments :]
        return (rest[0].value or rest[0].text) if rest else ""


@dataclass(slots=True)
class Script:
    """Commands and what stands between them. `quoted`: the text is inside a string or a here-document."""

    start: int
    end: int
    items: list[Command | Operator] = field(default_factory=list)
    inner: list[tuple[int, int, str]] = field(default_factory=list)  # start, end, command it is an argument of
    quoted: bool = False
    host: str = ""  # quoted: the command it is an argument of
    comments: list[tuple[int, int]] = field(default_factory=list)

    @property
    def commands(self) -> list[tuple[int, Command]]:
        return [(at, item) for at, item in enumerate(self.items) if isinstance(item, Command)]

    def around(self, at: int) -> tuple[str, str]:
        """The operators before and after an item, ends of lines and semicolons left out where something follows."""
        before = next((o.text for o in self._operators(range(at - 1, -1, -1)) if not o.blank), "")
        after = next((o.text for o in self._operators(range(at + 1, len(self.items))) if not o.blank), "")
        return before, after

    def _operators(self, positions: range) -> Iterator[Operator]:
        for position in positions:
            item = self.items[position]
            if isinstance(item, Command):
                return
            yield item


def scripts(text: str, *, docker: bool = False) -> list[Script]:
    """The text as a script, then every script inside its quotes, substitutions and here-documents."""
    found = [_Lexer(text, 0, len(text), docker).run()]
    for script in found:  # grows while it is read
        for start, end, host in script.inner:
            inner = _Lexer(text, start, end, False).run()
            inner.quoted, inner.host = True, host
            found.append(inner)
    return found


def unquoted(text: str) -> str | None:
    """The word without its quotes; None if it holds an expansion."""
    if "$" in text or "`" in text:
        return None
    return re.sub(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", lambda m: m[1] or m[2] or m[3] or "", text)


class _Lexer:
    """One pass over text[start:end]."""

    def __init__(self, text: str, start: int, end: int, docker: bool) -> None:
        self.text, self.at, self.end, self.docker = text, start, end, docker
        self.script = Script(start, end)
        self.command = Command()
        self.heredocs: list[tuple[str, bool]] = []
        self.continued = False

    def run(self) -> Script:
        while self.at < self.end:
            self._step()
        self._finish()
        return self.script

    def _step(self) -> None:
        text, at = self.text, self.at
        if blank := _BLANK.match(text, at, self.end):
            self.at = blank.end()
            self.continued = blank.group().endswith(("\n", "\r"))
            return
        if text[at] == "#":
            self._comment()
            return
        in_test = bool(self.command.words) and self.command.words[0].text == "[["
        operator = _OPERATOR.match(text, at, self.end)
        if operator and not (in_test and operator.group()[0] not in "\r\n;"):
            self._operator(operator)
            return
        redirect = _REDIRECT.match(text, at, self.end)
        if redirect and not in_test:
            heredoc = _HEREDOC.match(text, at, self.end)
            if heredoc and not redirect.group().endswith("<<<"):
                self.heredocs.append((heredoc[3], heredoc[1] == "-"))
            self.command.words.append(Word(at, redirect.end(), redirect.group()))
            self.at = redirect.end()
            return
        end = operator.end() if operator else self._word(at)
        self._add(Word(at, max(end, at + 1), text[at : max(end, at + 1)]))
        self.at = max(end, at + 1)

    def _add(self, word: Word) -> None:
        first = not self.command.words
        reserved = word.text in RESERVED or (self.docker and word.text.upper() in _INSTRUCTIONS)
        if first and reserved:
            self.script.items.append(Operator(word.start, word.end, word.text))
        else:
            self.command.words.append(word)

    def _comment(self) -> None:
        """To the end of the line. Between continued lines of a Dockerfile a comment does not end the instruction."""
        stop = min((p for p in (self.text.find("\n", self.at), self.text.find("\r", self.at)) if p >= 0), default=-1)
        stop = self.end if stop < 0 or stop > self.end else stop
        self.script.comments.append((self.at, stop))
        if self.docker and self.continued and stop < self.end:
            newline = re.compile(r"\r?\n|\r").match(self.text, stop)
            stop = newline.end() if newline else stop
        self.at = stop

    def _operator(self, match: re.Match[str]) -> None:
        self._finish()
        self.script.items.append(Operator(match.start(), match.end(), match.group()))
        self.at = match.end()
        self.continued = False
        if self.heredocs and match.group()[-1] in "\r\n":
            for delimiter, tabs in self.heredocs:
                self._heredoc(delimiter, tabs)
            self.heredocs.clear()

    def _heredoc(self, delimiter: str, tabs: bool) -> None:
        body = re.compile(rf"^{chr(92)}t*{delimiter}\r?$" if tabs else rf"^{delimiter}\r?$", re.MULTILINE)
        match = body.search(self.text, self.at, self.end)
        if match:
            self.script.inner.append((self.at, match.start(), "<<"))
            self.at = match.end()

    def _finish(self) -> None:
        if self.command.words:
            self.script.items.append(self.command)
            self.command = Command()

    def _word(self, at: int) -> int:
        text = self.text
        while at < self.end:
            char = text[at]
            if char in " \t\r\n;|()<>&\f":
                return at
            if char == "\\":
                if text[at + 1 : at + 2] in ("\n", "\r", ""):
                    return at
                at += 2
            elif char in "'\"`":
                at = self._quoted(at, char)
            elif text.startswith(("$(", "${"), at):
                at = self._expansion(at)
            else:
                at += 1
        return min(at, self.end)

    def _quoted(self, at: int, quote: str) -> int:
        close = at + 1
        while close < self.end and self.text[close] != quote:
            close += 2 if self.text[close] == "\\" and quote != "'" else 1
        if close >= self.end:
            return at + 1  # an apostrophe
        self.script.inner.append((at + 1, close, self.command.name))
        return close + 1

    def _expansion(self, at: int) -> int:
        opening, closing = self.text[at + 1], ")" if self.text[at + 1] == "(" else "}"
        depth, close = 1, at + 2
        while close < self.end and depth:
            char = self.text[close]
            depth += (char == opening) - (char == closing)
            close += 2 if char == "\\" else 1
        if depth:
            return at + 2
        if opening == "(":
            self.script.inner.append((at + 2, close - 1, "$"))
        return close
