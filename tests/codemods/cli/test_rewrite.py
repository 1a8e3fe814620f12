"""`v1-migrate rewrite` with a stand-in for the engine: what is written, what is said, which exit code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Tree = Callable[..., Path]
Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "options", "code", "after"),
    [
        pytest.param("x = 1\n", (), 0, "x = 1\n", id="nothing to do"),
        pytest.param("OLD\n", (), 0, "NEWER\n", id="all settled"),
        pytest.param("OLD GONE\n", (), 1, "NEWER GONE\n", id="an error left"),
        pytest.param("LATER\n", (), 1, "LATER\n", id="a warning left"),
        pytest.param("NOTE\n", (), 0, "NOTE\n", id="advice does not count"),
        pytest.param("OLD GONE\n", ("--exit-zero",), 0, "NEWER GONE\n", id="exit zero on request"),
        pytest.param("OLD\n", ("--check",), 1, "OLD\n", id="check writes nothing and fails if it would"),
        pytest.param("OLD\n", ("--diff",), 1, "OLD\n", id="diff writes nothing and fails if it would"),
        pytest.param("x\n", ("--check",), 0, "x\n", id="check passes where there is nothing"),
        pytest.param("RISKY\n", (), 1, "RISKY\n", id="unsafe edits are not made"),
        pytest.param("RISKY\n", ("--unsafe",), 0, "NEWER\n", id="unless asked for"),
        pytest.param("OLD GONE\n", ("--select", "V1M001"), 0, "NEWER GONE\n", id="select by id"),
        pytest.param("OLD GONE\n", ("--select", "moved-name"), 0, "NEWER GONE\n", id="select by slug"),
        pytest.param("OLD GONE\n", ("--select", "V1M"), 1, "NEWER GONE\n", id="select by the beginning of ids"),
        pytest.param("OLD GONE\n", ("--ignore", "v1m004,V1M001"), 0, "OLD GONE\n", id="ignore several"),
        pytest.param("OLD\n", ("--exclude", "a.*"), 0, "OLD\n", id="an excluded file"),
    ],
)
def test_what_is_written_and_the_exit_code(
    cli: Run, tree: Tree, text: str, options: tuple[str, ...], code: int, after: str
) -> None:
    root = tree(a=text)
    assert cli("rewrite", root, *options).code == code
    assert (root / "a.py").read_text() == after


def test_the_report_says_what_a_person_needs(cli: Run, tree: Tree) -> None:
    root = tree(a="import OLD\nx = GONE\n", sub__b="NOTE\n")
    done = cli("rewrite", root, "--target", "0.10.0")
    assert done.err == ""
    for piece in (
        f"{root}/a.py:2:5: error V1M004 `GONE` is not on vLLM 0.10.0",
        "    2 | x = GONE\n      |     ^^^^",
        "= Do without GONE.",
        "docs/rules/V1M004.md",
        f"{root}/sub/b.py:1:1: info V1M006",
        "vLLM 0.10.0 (--target)",
        "2 files looked at, 1 rewritten (1 edit)",
        "1 error, 1 note; to decide: 1 of hours",
        "not under version control",
        f"v1-migrate verify {root} --target 0.10.0",
    ):
        assert piece in done.out
    assert "V1M001" not in done.out  # settled: the diff shows it


def written(path: Path) -> tuple[bytes, int, int, int]:
    """What a write would change: content, inode, mode, time."""
    stat = path.stat()
    return path.read_bytes(), stat.st_ino, stat.st_mode, stat.st_mtime_ns


def test_a_second_run_changes_nothing(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n")
    cli("rewrite", root)
    before = written(root / "a.py")
    assert cli("rewrite", root).code == 0
    assert written(root / "a.py") == before


def test_json_has_the_documented_fields(cli: Run, tree: Tree) -> None:
    done = cli("rewrite", tree(a="OLD\nGONE\n"), "--format", "json", "--check")
    document = json.loads(done.out)
    assert [(f["path"], f["line"], f["rule"], f["fixed"]) for f in document["findings"]] == [
        ("a.py", 1, "V1M001", True),
        ("a.py", 2, "V1M004", False),
    ]
    summary = document["summary"]
    assert (summary["files"], summary["edits"], summary["written"], summary["exit_code"]) == (1, 1, False, 1)
    assert (summary["errors"], summary["warnings"], summary["fixed"]) == (1, 0, 1)


def test_diff_goes_to_standard_output_and_the_rest_does_not(cli: Run, tree: Tree) -> None:
    done = cli("rewrite", tree(a="OLD\r\nGONE"), "--diff")
    assert done.out.startswith(
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-OLD\r\n+NEWER\r\n GONE\n"
    )
    assert "error V1M004" in done.err


def test_configuration_suppresses_rules_in_some_files(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n", tests__b="OLD GONE\n")
    (root / "pyproject.toml").write_text(
        '[tool.v1-migrate]\ntarget = "0.10.0"\n[tool.v1-migrate.per-file-ignores]\n"tests/" = ["V1M001"]\n'
    )
    done = cli("rewrite", root, "--format", "json")
    assert (root / "a.py").read_text() == "NEWER\n"
    assert (root / "tests" / "b.py").read_text() == "OLD GONE\n"
    assert [finding["rule"] for finding in json.loads(done.out)["findings"]] == ["V1M001", "V1M004"]
    assert json.loads(done.out)["summary"]["target"] == "0.10.0"


def test_a_baseline_hides_what_is_known_and_shows_what_is_new(cli: Run, tree: Tree, tmp_path: Path) -> None:
    root = tree(a="GONE\nLATER\n")
    file = tmp_path / "baseline.json"
    assert cli("rewrite", root, "--write-baseline", file).code == 0
    assert cli("rewrite", root, "--baseline", file).code == 0
    (root / "a.py").write_text("# moved down\nGONE\nLATER\nGONE\n")
    done = cli("rewrite", root, "--baseline", file, "--format", "json")
    assert [finding["line"] for finding in json.loads(done.out)["findings"]] == [4]
    assert json.loads(done.out)["summary"]["baselined"] == 2
    assert done.code == 1


def test_standard_input_to_standard_output(tree: Tree) -> None:
    import sys

    root = tree(pkg____init__="", pkg__a="on disk\n")
    command = [sys.executable, str(Path(__file__).with_name("fake_engine.py")), "rewrite", str(root), "--stdin"]
    done = subprocess.run([*command, "--stdin-filename", "pkg/a.py"], input=b"OLD\r\nGONE", capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"NEWER\r\nGONE")
    assert b"pkg/a.py:2:1: error V1M004" in done.stderr
    assert (root / "pkg" / "a.py").read_text() == "on disk\n"
    untouched = subprocess.run([*command, "--stdin-filename", "new.py"], input=b"\xef\xbb\xbfx\r", capture_output=True)
    assert (untouched.returncode, untouched.stdout) == (0, b"\xef\xbb\xbfx\r")
    outside = subprocess.run([*command, "--stdin-filename", "../x.py"], input=b"x", capture_output=True)
    assert (outside.returncode, outside.stdout) == (2, b"")


def test_plan_ranks_files_and_writes_nothing(cli: Run, tree: Tree) -> None:
    root = tree(easy="OLD\n", hard="GONE\nGONE LATER\n", free="x\n")
    done = cli("plan", root)
    assert done.code == 1
    assert (root / "easy.py").read_text() == "OLD\n"
    assert done.out.index("hard.py") < done.out.index("easy.py")
    assert "free.py" not in done.out
    assert f"v1-migrate rewrite {root} --diff" in done.out
    assert "By hand: about 6 hours. By `v1-migrate rewrite`: 1 place." in done.out


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        pytest.param("GONE\n", (), 1, id="something is left"),
        pytest.param("GONE\n", ("--exit-zero",), 0, id="zero is asked for"),
        pytest.param("NOTE\n", (), 0, id="nothing is left"),
    ],
)
def test_plan_explains_its_exit_code(cli: Run, tree: Tree, text: str, options: tuple[str, ...], code: int) -> None:
    done = cli("plan", tree(a=text), *options)
    assert done.code == code
    assert done.out.count("exit code 1: something is left to do") == code


@pytest.mark.parametrize(
    ("text", "undo"), [pytest.param("OLD\n", 1, id="a file is written"), pytest.param("GONE\n", 0, id="none is")]
)
def test_the_way_back_is_named_where_something_was_written(cli: Run, tree: Tree, text: str, undo: int) -> None:
    root = tree(a=text)
    git = ("git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run([*git, *command], check=True)
    assert cli("rewrite", root).out.count("to undo: git") == undo


@pytest.mark.parametrize(
    ("command", "column", "line"),
    [
        pytest.param(("rewrite",), 11, "x = NEWER GONE", id="as it stands after the run"),
        pytest.param(("rewrite", "--check"), 9, "x = OLD GONE", id="as it is, where nothing is written"),
        pytest.param(("rewrite", "--diff"), 9, "x = OLD GONE", id="with a diff, too"),
        pytest.param(("verify",), 9, "x = OLD GONE", id="verify"),
    ],
)
def test_places_are_those_of_the_file_on_disk(
    cli: Run, tree: Tree, command: tuple[str, ...], column: int, line: str
) -> None:
    root = tree(a="x = OLD GONE\n")
    done = cli(command[0], root, *command[1:])
    assert f"{root}/a.py:1:{column}: error V1M004" in done.out + done.err
    assert f"    1 | {line}\n" in done.out + done.err


def test_verify_lists_errors_only_and_counts_what_an_edit_would_settle(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\nLATER\nNOTE\n")
    done = cli("verify", root)
    assert done.code == 1
    assert "V1M001" in done.out and "V1M003" not in done.out and "V1M006" not in done.out
    clean = cli("verify", tree(a="LATER\n"))
    assert clean.code == 0
    assert "nothing: every vllm name found exists on 0.32.0" in clean.out


def test_verify_lists_members_that_are_lost_though_a_subclass_may_have_them(
    capfd: pytest.CaptureFixture[str], tree: Tree
) -> None:
    from v1_migrate.__main__ import run

    lost = "from vllm.v1.worker.gpu_worker import Worker\n\n\nclass W(Worker):\n"
    bodies = {
        "reads": "def f(self):\n        return self.gpu_cache",
        "overrides": "def initialize_cache(self):\n        pass",
    }
    root = tree(**{name: f"{lost}    {body}\n" for name, body in bodies.items()})
    code = run(["verify", str(root), "--target", "0.32.0"])
    out = capfd.readouterr().out
    assert code == 1
    assert "reads.py:6:21: warning V1M102" in out
    assert "overrides.py:5:5: warning V1M111" in out


def test_statistics_count_rules_and_names(cli: Run, tree: Tree) -> None:
    done = cli("rewrite", tree(a="OLD OLD GONE\n", b="OLD\n"), "--statistics")
    assert done.out.splitlines()[0] == "     3  V1M001  in 2 files, 3 settled by edits"
    assert "             3  vllm.OLD" in done.out


def test_rules_and_explain(cli: Run) -> None:
    assert "V1M001  moved-name" in cli("rules").out
    for name in ("V1M001", "v1m001", "moved-name"):
        assert cli("explain", name).out.startswith("# V1M001: a rule\n\nWhat it does.")


def test_html_report(cli: Run, tree: Tree, tmp_path: Path) -> None:
    done = cli("rewrite", tree(a="OLD\n<b>GONE\n"), "--check", "--report", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert done.code == 1
    assert "&lt;b&gt;<mark>GONE</mark>" in page and "<b>GONE" not in page
    assert 'data-rule="V1M004"' in page


def test_dirty_work_tree_is_refused_before_anything_is_read(cli: Run, tree: Tree) -> None:
    root = tree(a="OLD\n")
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    done = cli("rewrite", root)
    assert done.code == 2
    assert "1 file below" in done.err and "\n  a.py\n" in done.err and "--allow-dirty" in done.err
    assert (root / "a.py").read_text() == "OLD\n"
    assert cli("rewrite", root, "--check").code == 1
    assert cli("rewrite", root, "--allow-dirty").code == 0
    assert (root / "a.py").read_text() == "NEWER\n"


def test_colour_is_for_terminals_only(cli: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    import pty
    import sys

    root = tree(a="GONE\n")
    assert "\x1b" not in cli("rewrite", root).out
    command = [sys.executable, str(Path(__file__).with_name("fake_engine.py")), "rewrite", str(root)]
    for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        leader, follower = pty.openpty()
        environment = {"TERM": "xterm", **{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")}}
        subprocess.run(command, stdout=follower, stderr=subprocess.DEVNULL, env={**environment, **variables})
        os.close(follower)
        assert (b"\x1b[" in os.read(leader, 65536)) == coloured
        os.close(leader)


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_a_file_name_that_is_no_utf8_is_a_name(cli: Run, tree: Tree, tmp_path: Path, form: str) -> None:
    root = tree(a="x\n")
    odd = os.fsencode(root) + b"/caf\xe9.py"
    with open(odd, "w") as file:
        file.write("OLD GONE\n")
    page, baseline = tmp_path / "page.html", tmp_path / "baseline.json"
    done = cli("rewrite", root, "--format", form, "--report", page)
    assert done.code == 1
    with open(odd) as file:
        assert file.read() == "NEWER GONE\n"
    assert "caf" in done.out and "caf" in page.read_text()
    assert cli("rewrite", root, "--write-baseline", baseline).code == 0
    assert cli("rewrite", root, "--baseline", baseline).code == 0
