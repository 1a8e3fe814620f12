"""The guard against losing uncommitted work, against real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from v1_migrate.gitguard import GitError, check


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def repository(folder: Path) -> Path:
    """Two committed modules and a note."""
    (folder / "pkg").mkdir(parents=True)
    for name in ("a.py", "pkg/b.py", "notes.txt"):
        (folder / name).write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo with space")


def test_a_clean_tree_passes_and_knows_its_undo(repo: Path) -> None:
    state = check(repo)
    assert (state.dirty, state.note) == ((), "")
    assert "restore" in state.undo


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        pytest.param("a.py", ("a.py",), id="a changed module"),
        pytest.param("new.py", ("new.py",), id="a new module"),
        pytest.param("new/deep/c.py", ("new/deep/c.py",), id="a new module in a new folder"),
        pytest.param("naïve file.sh", ("naïve file.sh",), id="an odd name"),
        pytest.param("notes.txt", (), id="not a file that we would write"),
        pytest.param("__pycache__/a.pyc", (), id="not a compiled module"),
    ],
)
def test_a_change_is_listed(repo: Path, name: str, dirty: tuple[str, ...]) -> None:
    path = repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("changed\n")
    assert check(repo).dirty == dirty


def test_staged_and_renamed_files_count_and_deleted_ones_do_not(repo: Path) -> None:
    git(repo, "mv", "a.py", "z.py")
    (repo / "pkg" / "b.py").unlink()
    assert check(repo).dirty == ("z.py",)


def test_ignored_files_do_not_count(repo: Path) -> None:
    (repo / ".gitignore").write_text("build/\n")
    (repo / "build").mkdir()
    (repo / "build" / "c.py").write_text("")
    assert check(repo).dirty == ()
    ignored = check(repo / "build")
    assert (ignored.dirty, ignored.undo) == ((), "")
    assert "git ignores" in ignored.note


def test_only_what_lies_below_path_counts(repo: Path) -> None:
    (repo / "a.py").write_text("changed\n")
    assert check(repo / "pkg").dirty == ()
    assert check(repo / "pkg" / "b.py").dirty == ()
    assert check(repo / "a.py").dirty == ("a.py",)
    (repo / "pkg" / "b.py").write_text("changed\n")
    assert check(repo / "pkg").dirty == ("pkg/b.py",)


def test_submodules_and_repositories_inside_are_asked_too(repo: Path, tmp_path: Path) -> None:
    git(repo, "submodule", "add", "-q", str(repository(tmp_path / "library")), "third_party/library")
    git(repo, "commit", "-qm", "second")
    inner = repository(repo / "inner")
    assert check(repo).dirty == ()
    (repo / "third_party" / "library" / "a.py").write_text("changed\n")
    (inner / "a.py").write_text("changed\n")
    assert check(repo).dirty == ("inner/a.py", "third_party/library/a.py")
    assert check(repo / "third_party" / "library").dirty == ("a.py",)


def test_a_git_hook_does_not_mislead_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "a.py").write_text("changed\n")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent/index")
    assert check(repo).dirty == ("a.py",)


def test_without_version_control_there_is_a_note(tmp_path: Path) -> None:
    state = check(tmp_path)
    assert (state.dirty, state.undo) == ((), "")
    assert "not under version control" in state.note


def test_a_machine_without_git_cannot_tell(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitError, match="git is not installed"):
        check(repo)


def test_a_broken_repository_cannot_tell(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(GitError, match="not a git repository"):
        check(tmp_path)


def test_a_repository_without_a_commit_is_all_new(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("")
    assert check(tmp_path).dirty == ("a.py",)


def test_a_link_to_the_repository_is_the_repository(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repo)
    (repo / "a.py").write_text("changed\n")
    assert check(tmp_path / "link").dirty == ("a.py",)
    assert check(tmp_path / "link" / "a.py").dirty == ("a.py",)
