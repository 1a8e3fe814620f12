"""Whatever cannot be done: one clear line, exit code 2, nothing half-written, no traceback."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tree = Callable[..., Path]
Run = Callable[..., Any]
FAKE = Path(__file__).with_name("fake_engine.py")


def refused(done: Any, *words: str) -> None:
    """Exit code 2 and one line on standard error that holds the words."""
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("v1-migrate: ") and done.err.count("\n") == 1, done.err
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("command", ["rewrite", "plan", "verify"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(("none",), ("none: no such file or directory",), id="a missing path"),
        pytest.param((), ("which PATH?",), id="no path"),
        pytest.param((".", "--target", "0.77"), ("unknown vLLM release '0.77'", "0.32.0"), id="an unknown target"),
        pytest.param((".", "--target", "0.77"), ("in all 0.10.0 ... 0.32.0",), id="the targets that there are"),
        pytest.param(
            (".", "--target", "0.9.2"), ("still has V0 on CPUs", "0.10.0 to 0.32.0", "--also"), id="no target"
        ),
        pytest.param((".", "--select", "V1M999"), ("unknown rule 'V1M999'", "v1-migrate rules"), id="an unknown rule"),
        pytest.param((".", "--ignore", "moved-nam"), ("unknown rule", "did you mean moved-name"), id="a rule near one"),
        pytest.param((".", "--baseline", "none.json"), ("none.json", "--write-baseline"), id="a missing baseline"),
        pytest.param((".", "--baseline", "bad.json"), ("bad.json: not a baseline",), id="no baseline"),
        pytest.param((".", "--report", "none/x.html"), ("none/x.html: No such file",), id="nowhere to put the report"),
        pytest.param((".", "--jobs", "0"), ("--jobs",), id="no process at all"),
        pytest.param(("notes.txt",), ("not a kind of file",), id="a file of no known kind"),
        pytest.param(("pipe.py",), ("not a regular file",), id="a pipe"),
    ],
)
def test_each_mistake_is_one_line(
    cli: Run,
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    options: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    root = tree(a="OLD\n")
    (root / "bad.json").write_text("[1]")
    (root / "notes.txt").write_text("OLD")
    os.mkfifo(root / "pipe.py")
    monkeypatch.chdir(root)
    done = cli(command, *options)
    if "--report" in options:  # the run itself is done and said by then
        assert done.code == 2 and all(word in done.err for word in words)
    else:
        refused(done, *words)
        assert (root / "a.py").read_text() == "OLD\n"


def test_a_broken_configuration_is_one_line(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n")
    (root / "pyproject.toml").write_text("[tool.v1-migrate]\ntargte = '1'\n")
    refused(cli("rewrite", root), "pyproject.toml", "did you mean 'target'")


def test_diff_and_another_format_exclude_each_other(cli: Run, tree: Tree) -> None:
    refused(cli("rewrite", tree(a="OLD\n"), "--diff", "--format", "json"), "--diff")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ["CPUWroker"], ("neither a rule nor a name", "vllm.worker.cpu_worker.CPUWorker"), id="a bare name"
        ),
        pytest.param(["vllm.no.such.thing_at_all"], ("neither a rule nor a name", "lists the rules"), id="a path"),
        pytest.param(["CPUWorker", "--target", "0.77"], ("0.77", "0.32.0"), id="a release"),
    ],
)
def test_explain_knows_what_it_does_not_know(arguments: list[str], words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "v1_migrate", "explain", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert [word for word in words if word not in done.stderr] == []


def test_an_unreadable_file_is_a_finding_and_the_others_are_done(
    cli: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(a="OLD\n", b="OLD\n")
    (root / "a.py").write_bytes(b"# OLD \xff\n")
    done = cli("rewrite", root)
    assert done.code == 1
    assert "a.py:1:1: error V1M901 not read: line 1 is not valid utf-8" in done.out
    assert (root / "b.py").read_text() == "NEWER\n"


@pytest.mark.parametrize(
    ("locked", "words"),
    [
        pytest.param("c", ("nothing was written", "1 file to change", "c.py (the file is read-only)"), id="the last"),
        pytest.param("ac", ("2 files to change", "a.py (the", "c.py (the", "chmod u+w"), id="two, both named"),
    ],
)
def test_a_read_only_file_is_noticed_before_anything_is_written(
    cli: Run, tree: Tree, locked: str, words: tuple[str, ...]
) -> None:
    root = tree(a="OLD\n", b="OLD\n", c="OLD\n")
    for name in locked:
        (root / f"{name}.py").chmod(0o444)
    refused(cli("rewrite", root), *words)
    assert [(root / f"{name}.py").read_text() for name in "abc"] == ["OLD\n"] * 3


def test_a_read_only_file_without_changes_is_no_hindrance(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n", b="NEWER\n")
    (root / "b.py").chmod(0o444)
    assert cli("rewrite", root).code == 0
    assert (root / "a.py").read_text() == "NEWER\n"


def test_a_folder_called_like_a_module_is_descended(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n")
    (root / "x.py").mkdir()
    (root / "x.py" / "b.py").write_text("OLD\n")
    assert cli("rewrite", root / "x.py").code == 0
    assert (root / "x.py" / "b.py").read_text() == "NEWER\n"


def test_a_full_disk_leaves_whole_files(cli: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(a="OLD\n", b="OLD\n", c="OLD\n")
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)
    refused(cli("rewrite", root), "b.py: no space left on the disk", "1 of 3 files rewritten")
    assert [(root / f"{name}.py").read_text() for name in "abc"] == ["NEWER\n", "OLD\n", "OLD\n"]
    assert sorted(entry.name for entry in root.iterdir()) == ["a.py", "b.py", "c.py"]
    monkeypatch.undo()


def test_a_really_full_disk(tree: Tree, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    try:
        (disk / "a.py").write_text("OLD\n" + "#" * 30_000)
        (disk / "filler").write_bytes(b"x" * 24_000)
        before = (disk / "a.py").read_bytes()
        done = subprocess.run([sys.executable, str(FAKE), "rewrite", str(disk)], capture_output=True, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "no space left on the disk" in done.stderr
        assert (disk / "a.py").read_bytes() == before
        assert sorted(entry.name for entry in disk.iterdir()) == ["a.py", "filler"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_control_c_while_looking_writes_nothing(tree: Tree) -> None:
    root = tree(a="OLD\n", b="SLOW\n")
    process = subprocess.Popen(
        [sys.executable, str(FAKE), "rewrite", str(root)],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background has it ignored
    )
    deadline = time.monotonic() + 60
    while not (root / "b.started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    said = process.stderr.read()
    assert (process.wait(60), said.strip()) == (2, "v1-migrate: interrupted")
    assert (root / "a.py").read_text() == "OLD\n"


def test_control_c_while_writing_leaves_whole_files(cli: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(a="OLD\n", b="OLD\n")
    real = os.replace

    def replace(source: str, target: Path) -> None:
        if target.name == "b.py":
            raise KeyboardInterrupt
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    refused(cli("rewrite", root), "interrupted; every file is whole (1 of 2 files rewritten)")
    assert [(root / f"{name}.py").read_text() for name in "ab"] == ["NEWER\n", "OLD\n"]
    assert sorted(entry.name for entry in root.iterdir()) == ["a.py", "b.py"]


def test_a_fault_of_our_own_is_no_finding(cli: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(a="OLD\n")

    def broken(*_: object) -> None:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(sys.modules["v1_migrate.engine.run"], "run", broken)
    done = cli("rewrite", root)
    assert done.code == 2
    assert "ZeroDivisionError: on purpose" in done.err and "please report" in done.err.splitlines()[-1]
    assert (root / "a.py").read_text() == "OLD\n"


def test_a_missing_index_is_one_line_with_the_real_index(tree: Tree) -> None:
    command = [sys.executable, "-m", "v1_migrate", "plan", str(tree(a="x\n")), "--index", "none.names"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "v1-migrate: none.names: No such file or directory\n"


def test_a_closed_pipe_is_no_accident(tree: Tree) -> None:
    root = tree(**{f"m{n}": "GONE\n" * 200 for n in range(20)})
    command = f"{sys.executable} {FAKE} rewrite {root} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith(f"{root}/m0.py:1:1: error")
    assert done.stderr == ""


def test_a_pipe_that_was_never_read_is_none_either(tree: Tree) -> None:
    command = f"{sys.executable} {FAKE} rewrite {tree(a='GONE')} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_terminal_without_the_character_gets_another(tree: Tree) -> None:
    root = tree(a="GONE = 'é…'\n")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, str(FAKE), "rewrite", str(root)]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (1, b"")
    assert b"GONE = '\xe9\\u2026'" in done.stdout
