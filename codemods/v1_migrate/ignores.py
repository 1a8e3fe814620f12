"""What git ignores, read from the .gitignore files themselves, so that it holds without a repository, too."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

_NAMED_GROUP = re.compile(r"\(\?P<\w+>")


@dataclass(frozen=True, slots=True)
class Ignore:
    """One set of gitignore patterns; they are relative to a folder above or below the root of the walk."""

    prefix: str  # the way from that folder down to the root
    strip: int  # or the length of the way from the root down to that folder
    spec: GitIgnoreSpec

    anything: re.Pattern[str]  # matches what any of the patterns matches: most files meet none of many

    @classmethod
    def of(cls, spec: GitIgnoreSpec, prefix: str = "", strip: int = 0) -> Ignore:
        regexes = [regex.pattern for pattern in spec.patterns if (regex := getattr(pattern, "regex", None))]
        return cls(prefix, strip, spec, re.compile("|".join(_NAMED_GROUP.sub("(", regex) for regex in regexes)))

    def verdict(self, rel: str) -> bool | None:
        path = self.prefix + rel[self.strip :]
        return self.spec.check_file(path).include if self.anything.match(path) else None


def outer(root: Path, base: Path, spec: GitIgnoreSpec) -> Ignore:
    """Patterns relative to `base`, which is `root` or a folder above it."""
    return Ignore.of(spec, "" if base == root else root.relative_to(base).as_posix() + "/")


def read_file(path: str) -> GitIgnoreSpec | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line for line in file if line.strip() and not line.startswith("#")]
    except OSError:
        return None
    return GitIgnoreSpec.from_lines(filter(_makes_sense, lines)) if lines else None


def _makes_sense(line: str) -> bool:
    """git passes over a pattern like "!" in silence; pathspec raises."""
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def above(root: Path) -> list[Ignore]:
    """The patterns of the repository that `root` lies in, from the folders above it, outermost first."""
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if repository is None:
        return []
    files = [(repository, repository / ".git" / "info" / "exclude")]
    files += [(folder, folder / ".gitignore") for folder in _between(repository, root)]
    specs = [(base, spec) for base, path in files if (spec := read_file(str(path))) is not None]
    ignores = [outer(root, base, spec) for base, spec in specs]
    # Whoever names an ignored folder as PATH means it: then the patterns that ignore it say nothing about its files.
    if root != repository and any(ignore.verdict("") for ignore in ignores):
        return []
    return ignores


def _between(top: Path, folder: Path) -> Iterator[Path]:
    """Folders from `top` down to the parent of `folder`."""
    if folder != top:
        yield from (parent for parent in reversed(folder.parents) if parent.is_relative_to(top))


def tracked_although_ignored(root: Path) -> tuple[set[str], set[str]]:
    """Files, and the folders that lead to them, which git tracks although a pattern ignores them."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set(), set()
    files = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name} if done.returncode == 0 else set()
    return files, {name[: i + 1] for name in files for i, char in enumerate(name) if char == "/"}
