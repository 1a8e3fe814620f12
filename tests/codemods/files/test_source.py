"""Reading a file, positions in it, and edits, over every encoding and line end we know of."""

from __future__ import annotations

import ast
import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from v1_migrate.findings import Edit
from v1_migrate.source import EditError, EditMismatch, EditOverlap, Reason, Source, Unreadable


@pytest.mark.parametrize(
    ("raw", "encoding", "text"),
    [
        pytest.param(b"", "utf-8", "", id="an empty file"),
        pytest.param("x = 'é'\n".encode(), "utf-8", "x = 'é'\n", id="UTF-8 without a cookie"),
        pytest.param(codecs.BOM_UTF8 + b"x = 1\r\n", "utf-8", "x = 1\r\n", id="the mark is not part of the text"),
        pytest.param(b"# coding: latin-1\nx = '\xe9'\n", "iso-8859-1", "# coding: latin-1\nx = 'é'\n", id="a cookie"),
        pytest.param(
            b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'",
            "cp1252",
            "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'€'",
            id="an editor's cookie on line two",
        ),
        pytest.param(b"# coding: latin-1\r'\xe9'\r", "iso-8859-1", "# coding: latin-1\r'é'\r", id="a cookie before CR"),
        pytest.param(
            b"# a\r# b\r# coding: latin-1\r", "utf-8", "# a\r# b\r# coding: latin-1\r", id="CR counts as a line"
        ),
        pytest.param(
            b"# coding: shift_jis\n# \x83\x5c\n", "shift_jis", "# coding: shift_jis\n# ソ\n", id="a multi-byte encoding"
        ),
        pytest.param(
            b"x\n\n# coding: latin-1\n", "utf-8", "x\n\n# coding: latin-1\n", id="line three declares nothing"
        ),
    ],
)
def test_reads_what_the_compiler_reads(raw: bytes, encoding: str, text: str) -> None:
    source = Source.from_bytes(raw, "f.py")
    assert (source.encoding, source.text) == (encoding, text)
    assert source.bom == raw.startswith(codecs.BOM_UTF8)
    assert source.encode(source.text) == raw


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        pytest.param(b"x = '\xe9'\n", Reason.ENCODING, id="latin-1 that nothing declares"),
        pytest.param(b"# coding: utf-9000\n", Reason.COOKIE, id="an encoding that does not exist"),
        pytest.param(b"# coding: rot13\n", Reason.COOKIE, id="a codec that is not for text"),
        pytest.param("x = 1\n".encode("utf-16"), Reason.UTF16, id="UTF-16"),
        pytest.param(b"x = 1\0\n", Reason.NUL, id="a NUL byte"),
        pytest.param(codecs.BOM_UTF8 + b"# coding: latin-1\n", Reason.ENCODING, id="mark and cookie contradict"),
        pytest.param(b"# coding: utf-7\nx = '+AGE-'\n", Reason.ENCODING, id="bytes that encoding again would change"),
    ],
)
def test_refuses_what_is_not_text(raw: bytes, reason: Reason) -> None:
    with pytest.raises(Unreadable) as caught:
        Source.from_bytes(raw, "f.py")
    assert caught.value.reason is reason
    if reason not in (Reason.UTF16,) and not raw.endswith(b"'+AGE-'\n") and b"rot13" not in raw:
        with pytest.raises((SyntaxError, ValueError)):
            compile(raw, "f.py", "exec")


def test_a_cookie_means_nothing_outside_python() -> None:
    raw = b"# Vibe coding: an introduction\n"
    assert Source.from_bytes(raw, "README.md", python=False).encoding == "utf-8"
    with pytest.raises(Unreadable):
        Source.from_bytes(raw, "README.py")


def test_missing_and_oversized_files_have_their_own_reasons(tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    big.write_bytes(b"#" * 101)
    for path, reason in ((big, Reason.TOO_BIG), (tmp_path / "none.py", Reason.MISSING), (tmp_path, Reason.IO_ERROR)):
        with pytest.raises(Unreadable) as caught:
            Source.read(path, "f.py", max_bytes=100)
        assert caught.value.reason is reason
    assert len(Source.read(big, "f.py", max_bytes=101).text) == 101


@pytest.mark.parametrize(
    ("text", "newline", "mixed", "lines"),
    [
        pytest.param("a\nb", "\n", False, ["a", "b"], id="LF, no line end at the end"),
        pytest.param("a\r\nb\r\n", "\r\n", False, ["a", "b", ""], id="CR LF"),
        pytest.param("a\rb\r", "\r", False, ["a", "b", ""], id="CR only"),
        pytest.param("a\r\nb\nc\rd", "\r\n", True, ["a", "b", "c", "d"], id="all three"),
        pytest.param(
            "a\x0cb\x0b\x85\u2028c\n", "\n", False, ["a\x0cb\x0b\x85\u2028c", ""], id="a form feed ends no line"
        ),
    ],
)
def test_lines_end_where_the_tokenizer_ends_them(text: str, newline: str, mixed: bool, lines: list[str]) -> None:
    source = Source.from_bytes(text.encode(), "f.py")
    assert (source.newline, source.mixed_newlines) == (newline, mixed)
    assert [source.line(n + 1) for n in range(len(source.line_starts))] == lines
    assert source.line(0) == source.line(99) == ""


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_positions_from_ast_lead_to_the_same_text(newline: str) -> None:
    text = newline.join(("\x0cx = 'é', name", "𝒳 = '日本'; name", "def f():", "\t'\u2028'; return name", ""))
    source = Source.from_bytes(text.encode(), "f.py")
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "name"]
    assert len(names) == 3
    for node in names:
        assert node.end_col_offset is not None
        start = source.offset(node.lineno, node.col_offset)
        assert text[start : source.offset(node.lineno, node.end_col_offset)] == "name"
        line, column = source.position(start)
        assert line == node.lineno
        assert source.line(line)[column - 1 :].startswith("name")


def edit(start: int, expected: str, replacement: str) -> Edit:
    return Edit(start, start + len(expected), expected, replacement)


def test_edits_change_nothing_else() -> None:
    source = Source.from_bytes(b"a = old\r\nb = old \x0c\r\n# old", "f.py")
    edits = [edit(13, "old", "much_newer"), edit(4, "old", "new"), edit(4, "", "("), edit(4, "old", "new")]
    assert source.apply(edits) == "a = (new\r\nb = much_newer \x0c\r\n# old"
    assert source.apply([]) == source.text


@pytest.mark.parametrize(
    ("edits", "error"),
    [
        pytest.param([edit(0, "b", "x")], EditMismatch, id="the text is another"),
        pytest.param([edit(5, "f", "x"), edit(6, "g", "x")], EditMismatch, id="past the end"),
        pytest.param([Edit(3, 1, "", "x")], EditMismatch, id="end before start"),
        pytest.param([edit(0, "abc", "x"), edit(2, "cd", "y")], EditOverlap, id="two that overlap"),
        pytest.param([edit(0, "abc", "x"), edit(0, "abc", "y")], EditOverlap, id="one place, two texts"),
        pytest.param([edit(2, "", "x"), edit(2, "", "y")], EditOverlap, id="two insertions whose order is open"),
        pytest.param([edit(0, "abc", "x"), edit(1, "", "y")], EditOverlap, id="an insertion inside a replacement"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit], error: type[EditError]) -> None:
    with pytest.raises(error):
        Source.from_bytes(b"abcdef", "f.py").apply(edits)


def test_a_character_the_encoding_lacks_is_an_edit_error() -> None:
    source = Source.from_bytes(b"# coding: latin-1\n", "f.py")
    with pytest.raises(EditError):
        source.encode("\N{SNOWMAN}")


LINES = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8), max_size=6)


@settings(deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_offset_and_position_are_inverse(lines: list[str], newline: str, bom: bool) -> None:
    text = newline.join(lines).replace("\0", "")
    if text.startswith("\ufeff"):
        return  # that would be a second mark
    source = Source.from_bytes(codecs.BOM_UTF8 * bom + text.encode(), "f.txt", python=False)
    assert source.text == text
    for offset in range(len(text) + 1):
        line, column = source.position(offset)
        if newline == "\r\n" and text[offset - 1 : offset + 1] == "\r\n":
            continue  # between CR and LF stands nobody
        before = source.text[source.line_starts[line - 1] : offset]
        assert len(before) == column - 1
        assert source.offset(line, len(before.encode())) == offset
