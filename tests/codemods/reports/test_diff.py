"""Diffs, judged by `git apply`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from v1_migrate.reports.diff import coloured, diff
from v1_migrate.source import Source


def applied(folder: Path, rel: str, raw: bytes, patch: bytes) -> bytes:
    """The file after `git apply`."""
    file = folder / rel
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(raw)
    done = subprocess.run(
        ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"],
        input=patch,
        cwd=folder,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode() + patch.decode("latin-1")
    return file.read_bytes()


@pytest.mark.parametrize(
    ("rel", "raw", "new"),
    [
        pytest.param("a.py", b"a\nb\nc\n", "a\nB\nc\n", id="one line"),
        pytest.param("a.py", b"a\r\nb\r\n", "a\r\nB\r\n", id="CR LF"),
        pytest.param("a.py", b"a\r\nb\nc\r\n", "a\r\nB\nC\r\n", id="mixed line ends"),
        pytest.param("a.py", b"a\rb\rc", "a\rB\rc", id="CR only: one line for git"),
        pytest.param("a.py", b"a\nb", "a\nB", id="no newline at the end, before and after"),
        pytest.param("a.py", b"a\nb", "a\nb\n", id="a newline at the end is new"),
        pytest.param("a.py", b"a\nb\n", "a\nb", id="a newline at the end is gone"),
        pytest.param("a.py", b"a", "", id="emptied"),
        pytest.param("a.py", b"\xef\xbb\xbfa\nb\n", "A\nb\n", id="a byte order mark on the changed line"),
        pytest.param("a.py", b"# coding: latin-1\n'\xe9'\nx\n", "# coding: latin-1\n'é'\ny\n", id="latin-1"),
        pytest.param("a.py", b"a\x0cb\nc\n", "a\x0cB\nc\n", id="a form feed inside a line"),
        pytest.param("a b/c d.py", b"a\n", "b\n", id="blanks in the name"),
        pytest.param('naïve "q"\\.py', b"a\n", "b\n", id="quotes, backslash and accents in the name"),
        pytest.param("a.py", b"--- x\n+++ y\n", "--- z\n+++ y\n", id="text that looks like a header"),
    ],
)
def test_git_takes_it(tmp_path: Path, rel: str, raw: bytes, new: str) -> None:
    source = Source.from_bytes(raw, rel)
    assert applied(tmp_path, rel, raw, diff(source, new)) == source.encode(new)


def test_an_emptied_file_has_an_empty_range() -> None:
    assert b"@@ -1 +0,0 @@" in diff(Source.from_bytes(b"a\n", "a.py"), "")
    assert b"@@ -0,0 +1 @@" in diff(Source.from_bytes(b"", "a.py"), "a\n")


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", " x\n", "\\ No\n"]), max_size=25)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LINES, LINES, st.booleans(), st.booleans())
def test_git_takes_any_change(tmp_path: Path, old: list[str], new: list[str], cut_old: bool, cut_new: bool) -> None:
    before, after = "".join(old), "".join(new)
    before = before.rstrip("\n") if cut_old else before
    after = after.rstrip("\n") if cut_new else after
    source = Source.from_bytes(before.encode(), "a.py")
    patch = diff(source, after)
    if before == after:
        assert patch == b""
    elif before and after:  # an empty side would be a new or deleted file for git
        assert applied(tmp_path, "a.py", source.raw, patch) == after.encode()


def test_in_colour_nothing_reaches_the_terminal_unseen() -> None:
    patch = diff(Source.from_bytes(b"a = '\x1b[2J'\r\n", "a.py"), "b = '\x1b[2J'\r\n")
    shown = coloured(patch)
    assert "\x1b[2J" not in shown and "\r" not in shown
    assert "\x1b[31m-a = '�[2J'\x1b[0m" in shown
