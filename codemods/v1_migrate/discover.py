"""Which files a run looks at: PATH in, each real file once out, everything left out by name and reason.

Only what is certain is left out: version control, caches, virtual environments (any folder with a `pyvenv.cfg`),
installed and built copies, generated protobuf modules, what git ignores (unless it is tracked), what the user
excludes. A folder called `third_party` or `vendor` is somebody's own code more often than not, and a file that says
`@generated` still breaks on import: both are read.

Hard links are files of their own: a write replaces the name, so each name gets its own rewrite.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from .ignores import Ignore, above, outer, read_file, tracked_although_ignored
from .kinds import Kind, kind_of

__all__ = ["Discovery", "File", "Kind", "PathError", "Skipped", "discover", "kind_of"]


@dataclass(frozen=True, slots=True)
class File:
    """A file to look at. `path` is the real file, `rel` how it is called below PATH, with forward slashes."""

    path: Path
    rel: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something left out. `failed` marks what was meant to be read and could not be."""

    rel: str
    reason: str
    directory: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Discovery:
    """`root` is the folder that every `rel` is relative to."""

    root: Path
    files: list[File] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


class PathError(Exception):
    """PATH itself cannot be used; the message says why."""


_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".bzr", ".jj"})
_SKIPPED_NAMES = {
    **dict.fromkeys(_VERSION_CONTROL, "version control"),
    **dict.fromkeys((".venv", "site-packages", "node_modules"), "installed packages"),
    **dict.fromkeys((".tox", ".nox", ".eggs"), "virtual environment"),
    **dict.fromkeys(
        ("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".ipynb_checkpoints"), "cache"
    ),
}
_BUILT_NAMES = ("build", "dist")
_PROJECT_FILES = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_GENERATED = re.compile(r".*_pb2(_grpc)?\.pyi?\Z")


def discover(path: Path, *, exclude: Sequence[tuple[Path, Sequence[str]]] = (), gitignore: bool = True) -> Discovery:
    """All files below `path`, sorted. Raises PathError if `path` is missing, unreadable or of no known kind.

    `exclude` holds pairs of a folder, which is `path` or above it, and gitignore-style patterns relative to it.
    """
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise PathError(f"{path}: no such file or directory") from None
    if real.is_dir():
        return _Walk(real, exclude, gitignore).run()
    if not real.is_file():
        raise PathError(f"{path}: not a regular file or directory")
    kind = kind_of(real)
    if kind is None:
        raise PathError(f"{path}: not a kind of file that v1-migrate reads")
    return Discovery(real.parent, [File(real, path.name, kind)])


class _Walk:
    """One walk over a folder; not reusable."""

    def __init__(self, root: Path, exclude: Sequence[tuple[Path, Sequence[str]]], gitignore: bool) -> None:
        self.root = root
        self.gitignore = gitignore
        self.found = Discovery(root)
        self.seen: set[str] = set()
        self.links: list[tuple[str, str]] = []  # rel, real path
        self.folders: set[str] = set()
        self.pending: list[tuple[str, str, list[Ignore]]] = []
        self.user = [outer(root, base.resolve(), GitIgnoreSpec.from_lines(lines)) for base, lines in exclude if lines]
        self.tracked, self.tracked_folders = tracked_although_ignored(root) if gitignore else (set(), set())

    def run(self) -> Discovery:
        self.pending = [(str(self.root), "", above(self.root) if self.gitignore else [])]
        while self.pending:
            self._folder(*self.pending.pop())
        for rel, real in self.links:
            self._link(rel, real)
        self.found.files.sort(key=lambda file: file.rel)
        self.found.skipped.sort(key=lambda skipped: skipped.rel)
        return self.found

    def _folder(self, folder: str, rel: str, ignores: list[Ignore]) -> None:
        try:
            with os.scandir(folder) as entries:
                listing = list(entries)
        except OSError as error:
            self._skip(rel or ".", f"unreadable folder: {error.strerror}", directory=True, failed=True)
            return
        self.folders.add(folder)
        names = {entry.name for entry in listing}
        if rel and self._left_out_by_content(rel, names):
            return
        if self.gitignore:
            ignores = self._with_own_ignores(folder, rel, names, ignores)
        for entry in listing:
            if entry.is_symlink():
                self.links.append((rel + entry.name, os.path.realpath(entry.path)))
            elif entry.is_dir(follow_symlinks=False):
                child = f"{rel}{entry.name}/"
                reason = self._reason_to_skip_folder(entry.name, child, names, ignores)
                if reason:
                    self._skip(child, reason, directory=True)
                else:
                    self.pending.append((entry.path, child, ignores))
            elif entry.is_file(follow_symlinks=False):
                self._file(entry.path, rel + entry.name, ignores)

    def _with_own_ignores(self, folder: str, rel: str, names: set[str], ignores: list[Ignore]) -> list[Ignore]:
        if rel and ".git" in names:
            ignores = []  # a repository of its own: the outer one's patterns do not reach into it
        if ".gitignore" in names:
            spec = read_file(os.path.join(folder, ".gitignore"))
            if spec is not None:
                ignores = [*ignores, Ignore.of(spec, strip=len(rel))]
        return ignores

    def _left_out_by_content(self, rel: str, names: set[str]) -> bool:
        if "pyvenv.cfg" in names or "conda-meta" in names:
            self._skip(rel, "virtual environment", directory=True)
            return True
        return False

    def _reason_to_skip_folder(self, name: str, rel: str, siblings: set[str], ignores: list[Ignore]) -> str | None:
        if name in _SKIPPED_NAMES:
            return _SKIPPED_NAMES[name]
        if name.endswith(".egg-info"):
            return "installed packages"
        beside_project_file = name in _BUILT_NAMES and not siblings.isdisjoint(_PROJECT_FILES)
        if beside_project_file and rel not in self.tracked_folders and not (self.root / rel / "__init__.py").exists():
            return "build output"
        return self._ignored(rel, ignores)

    def _ignored(self, rel: str, ignores: list[Ignore]) -> str | None:
        if any(user.verdict(rel) for user in self.user):
            return "excluded"
        for ignore in reversed(ignores):
            verdict = ignore.verdict(rel)
            if verdict is not None:
                tracked = rel in self.tracked or rel in self.tracked_folders
                return "git-ignored" if verdict and not tracked else None
        return None

    def _file(self, path: str, rel: str, ignores: list[Ignore]) -> None:
        file = Path(path)
        kind = kind_of(file)
        if kind is None:
            return
        reason = "generated code" if _GENERATED.match(file.name) else self._ignored(rel, ignores)
        if reason:
            self._skip(rel, reason)
        else:
            self.seen.add(path)
            self.found.files.append(File(file, rel, kind))

    def _link(self, rel: str, real: str) -> None:
        """A link is only a second name, unless it is the only way to a file below PATH."""
        if real in self.seen or real in self.folders or any(user.verdict(rel) for user in self.user):
            return
        target = Path(real)
        if not target.exists():
            if kind_of(target) or kind_of(Path(rel)):
                self._skip(rel, "broken link")
        elif not target.is_relative_to(self.root):
            if target.is_dir() or kind_of(target):
                self._skip(rel, "link that leads out of PATH", directory=target.is_dir())
        elif target.is_file():
            kind = kind_of(target)
            if kind is not None and not _GENERATED.match(target.name):
                self.seen.add(real)
                self.found.files.append(File(target, rel, kind))
        else:
            self._skip(rel, "link to a folder that was left out", directory=True)

    def _skip(self, rel: str, reason: str, *, directory: bool = False, failed: bool = False) -> None:
        self.found.skipped.append(Skipped(rel, reason, directory, failed))
