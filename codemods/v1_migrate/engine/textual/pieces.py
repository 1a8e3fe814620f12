"""What language each stretch of a file is in: a script whole, the fences of a document, the cells of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ...kinds import Kind
from . import jsontree
from .view import View

_LANGUAGES = {
    **dict.fromkeys(("sh", "bash", "shell", "zsh", "console", "terminal", "shell-session", "shellscript"), "shell"),
    **dict.fromkeys(("", "text", "txt", "none", "plaintext", "code"), "shell"),
    **dict.fromkeys(("python", "py", "python3", "ipython", "ipython3", "pycon"), "python"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **dict.fromkeys(("dockerfile", "docker"), "docker"),
    **dict.fromkeys(("make", "makefile"), "shell"),
    **{name: name for name in ("json", "toml", "ini")},
    **dict.fromkeys(("env", "dotenv"), "shell"),
}
_BY_KIND = {
    **dict.fromkeys((Kind.SHELL, Kind.ENV), "shell"),
    Kind.DOCKER: "docker",
    Kind.YAML: "yaml",
    Kind.JSON: "json",
    **dict.fromkeys((Kind.TOML, Kind.PYPROJECT), "toml"),
    Kind.INI: "ini",
}
_FENCE = re.compile(
    r"^(?P<indent>[ \t>]*(?:[-*+][ \t]+)?)(?P<fence>`{3,}|~{3,})[ \t]*"
    r"(?:\{(?:code-block|code|code-cell|sourcecode|prompt)\}[ \t]*|\{?[.]?)(?P<lang>[\w+-]*)[^\r\n`]*\r?\n",
    re.MULTILINE,
)
_DIRECTIVE = re.compile(
    r"^(?P<indent>[ \t]*)\.\.[ \t]+(?:code-block|code|sourcecode|prompt)::[ \t]*(?P<lang>[\w+-]*)[^\r\n]*\r?\n"
    r"(?:[ \t]+:[\w-]+:[^\r\n]*\r?\n)*",
    re.MULTILINE,
)
_LITERAL = re.compile(r"^(?P<indent>[ \t]*)(?!\.\.)[^\r\n]*::[ \t]*\r?\n(?=[ \t]*\r?\n)", re.MULTILINE)
_INLINE = re.compile(r"(?<!`)(?P<ticks>`{1,2})(?!`)(?P<code>[^`\r\n]+)(?P=ticks)(?!`)")
_RECIPE = re.compile(r"^\t[ \t]*[@+-][@+\- \t]*(?=\S)(?P<command>(?:[^\n]*\\\r?\n)*[^\n]*)", re.MULTILINE)
_MAGIC_COMMAND = re.compile(r"^[ \t]*(?:!|%(?:sx|system)[ \t])(?P<rest>(?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_MAGIC_ENV = re.compile(r"^%(?:set_)?env[ \t][^\n]*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a file in one language; `inline`: a few words within a sentence."""

    language: str  # "shell" | "docker" | "python" | "yaml" | "json" | "toml" | "ini"
    view: View
    inline: bool = False


@lru_cache(maxsize=4)
def pieces(text: str, kind: Kind) -> tuple[Piece, ...]:
    """The pieces of a file that is not Python. What is in none of them is prose."""
    view = View.whole(text)
    if kind is Kind.MAKE:
        return tuple(_makefile(view))
    language = _BY_KIND.get(kind)
    if language is not None:
        return (Piece(language, view),)
    if kind is Kind.NOTEBOOK:
        return tuple(_notebook(view))
    if kind is Kind.MARKDOWN:
        return tuple(_document(view, _fences(view.text)))
    if kind is Kind.RST:
        return tuple(_document(view, _directives(view.text)))
    return ()


def _makefile(view: View) -> Iterator[Piece]:
    """The recipes whose marks (`@`, `-`, `+`) make takes off before the shell reads them, and what is between them."""
    done = 0
    for recipe in _RECIPE.finditer(view.text):
        yield Piece("shell", view.part(done, recipe.start()))
        yield Piece("shell", view.part(*recipe.span("command")))
        done = recipe.end()
    yield Piece("shell", view.part(done, len(view.text)))


def _document(view: View, blocks: list[tuple[str, int, int]]) -> Iterator[Piece]:
    done = 0
    for language, start, end in [*blocks, ("", len(view.text), len(view.text))]:
        for match in _INLINE.finditer(view.text, done, start):
            yield Piece("shell", view.part(*match.span("code")), inline=True)
        if language:
            yield Piece(language, view.part(start, end))
        done = max(done, end)


def _fences(text: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    at = 0
    while opening := _FENCE.search(text, at):
        fence = opening["fence"]
        closing = re.compile(rf"^[ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*\r?$", re.MULTILINE).search(
            text, opening.end()
        )
        end = closing.start() if closing else len(text)
        found.append((_LANGUAGES.get(opening["lang"].lower(), "other"), opening.end(), end))
        at = closing.end() if closing else len(text)
    return found


def _directives(text: str) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = []
    for pattern in (_DIRECTIVE, _LITERAL):
        for opening in pattern.finditer(text):
            lang = opening.groupdict().get("lang") or ""
            end = _indented_end(text, opening.end(), len(opening["indent"].expandtabs()))
            if not any(start < end and opening.end() < stop for _, start, stop in found):
                found.append((_LANGUAGES.get(lang.lower(), "other"), opening.end(), end))
    return sorted(found, key=lambda block: block[1])


def _indented_end(text: str, start: int, indent: int) -> int:
    """Where the block that is indented deeper than `indent` ends."""
    end = at = start
    while at < len(text):
        stop = text.find("\n", at)
        stop = len(text) if stop < 0 else stop + 1
        line = text[at:stop]
        if line.strip():
            if len(line.expandtabs()) - len(line.expandtabs().lstrip()) <= indent:
                break
            end = stop
        at = stop
    return end


def _notebook(view: View) -> Iterator[Piece]:
    try:
        root = jsontree.parse(view.text)
    except (jsontree.NotJson, RecursionError):
        return
    language = _kernel_language(root)
    for cell in _member(root, "cells", "array").members:
        kind = _member(cell[1], "cell_type", "string").value
        source = _member(cell[1], "source", "")
        strings = [source] if source.kind == "string" else [item for _, item in source.members]
        if not strings or any(item.kind != "string" for item in strings):
            continue
        text = jsontree.string_view(view, strings)
        if kind == "markdown":
            yield from _document(text, _fences(text.text))
        elif kind == "code":
            yield from _cell(text, language)


def _cell(view: View, language: str) -> Iterator[Piece]:
    text = view.text
    magic = re.match(r"\s*%%(?:bash|sh|script)\b[^\n]*\n", text)
    if magic:
        yield Piece("shell", view.part(magic.end(), len(text)))
        return
    if language != "python":
        yield Piece("shell", view)
        return
    yield Piece("python", view)
    for line in _MAGIC_COMMAND.finditer(text):
        yield Piece("shell", view.part(*line.span("rest")), inline=True)
    for line in _MAGIC_ENV.finditer(text):
        yield Piece("shell", view.part(*line.span()))


def _kernel_language(root: jsontree.Node) -> str:
    metadata = _member(root, "metadata", "object")
    name = _member(_member(metadata, "kernelspec", "object"), "language", "string").value
    return "shell" if name.lower() in ("bash", "sh", "shell") else "python"


def _member(node: jsontree.Node, name: str, kind: str) -> jsontree.Node:
    """The member of that name and kind; an empty node if there is none."""
    for key, value in node.members:
        if key is not None and key.value == name and kind in ("", value.kind):
            return value
    return jsontree.Node(node.start, node.start, "none")
