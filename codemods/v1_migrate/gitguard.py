"""Refusing to write where git could not bring the old text back.

Only files of a kind that a run may write count, and only those below PATH; a changed notes.txt stops nobody.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .discover import kind_of

_SUBMODULE_MODE = b"160000"
_STATUS = "--literal-pathspecs status --porcelain -z --untracked-files=all --ignore-submodules=all --no-renames".split()
_TRACKED = "--literal-pathspecs ls-files --stage -z --full-name".split()
_TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class State:
    """What git says about PATH. `undo` is the command that takes a run back; empty where there is none."""

    dirty: tuple[str, ...] = ()  # relative to PATH's repository
    note: str = ""
    undo: str = ""


class GitError(Exception):
    """git could not answer, so nobody knows whether something would be lost."""


def check(path: Path) -> State:
    """The state of the work tree below `path`, a file or a folder. Raises GitError."""
    folder = path if path.is_dir() else path.parent
    if not any((parent / ".git").exists() for parent in (folder.resolve(), *folder.resolve().parents)):
        return State(note=f"{path} is not under version control: keep a copy, there is no undo")
    if shutil.which("git") is None:
        raise GitError("git is not installed, so uncommitted changes cannot be seen")
    if _ignored(path):
        return State(note=f"git ignores {path}: keep a copy, there is no undo")
    undo = shlex.join(("git", "-C", str(folder), "restore", "--", str(path.resolve())))
    return State(tuple(sorted(_dirty(path))), undo=undo)


def _dirty(path: Path) -> Iterator[str]:
    folder = path if path.is_dir() else path.parent
    top = Path(os.fsdecode(_git(folder, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    for entry in _git(folder, *_STATUS, "--", str(path.resolve())).split(b"\0"):
        state, name = entry[:2], os.fsdecode(entry[3:])
        if name.endswith("/"):  # a repository inside that this one does not know
            yield from (name + inner for inner in _dirty(top / name))
        elif name and b"D" not in state and kind_of(top / name) is not None:
            yield name
    if path.is_dir():
        for entry in _git(folder, *_TRACKED, "--", str(path.resolve())).split(b"\0"):
            if entry.startswith(_SUBMODULE_MODE):
                name = os.fsdecode(entry.split(b"\t", 1)[1])
                if (top / name / ".git").exists():
                    yield from (f"{name}/{inner}" for inner in _dirty(top / name))


def _ignored(path: Path) -> bool:
    folder = path if path.is_dir() else path.parent
    try:
        return bool(_git(folder, "check-ignore", "--", str(path.resolve())))
    except GitError:  # its exit code for "no"; whatever else is wrong, the next command will say
        return False


def _git(folder: Path, *arguments: str) -> bytes:
    # Inside a hook, git's own variables point at the outer repository's index.
    hidden = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, env=environment, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git could not be asked for uncommitted changes: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise GitError(f"git could not be asked for uncommitted changes: {said[0]}")
    return done.stdout
