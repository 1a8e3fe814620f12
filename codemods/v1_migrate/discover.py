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
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pathspec import GitIgnoreSpec


class Kind(StrEnum):
    """What a file is, as far as the rules care."""

    PYTHON = "python"
    STUB = "stub"
    NOTEBOOK = "notebook"
    PYPROJECT = "pyproject"
    REQUIREMENTS = "requirements"
    TOML = "toml"
    INI = "ini"
    SHELL = "shell"
    ENV = "env"
    MAKE = "make"
    DOCKER = "docker"
    YAML = "yaml"
    JSON = "json"
    MARKDOWN = "markdown"
    RST = "rst"
    PATCH = "patch"


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

_BY_SUFFIX = {
    **dict.fromkeys((".py", ".pyw"), Kind.PYTHON),
    ".pyi": Kind.STUB,
    ".ipynb": Kind.NOTEBOOK,
    ".toml": Kind.TOML,
    **dict.fromkeys((".cfg", ".ini", ".service"), Kind.INI),
    **dict.fromkeys((".sh", ".bash", ".zsh", ".slurm", ".sbatch"), Kind.SHELL),
    ".env": Kind.ENV,
    ".mk": Kind.MAKE,
    ".dockerfile": Kind.DOCKER,
    **dict.fromkeys((".yaml", ".yml"), Kind.YAML),
    ".json": Kind.JSON,
    **dict.fromkeys((".md", ".markdown"), Kind.MARKDOWN),
    ".rst": Kind.RST,
    **dict.fromkeys((".patch", ".diff"), Kind.PATCH),
}
_BY_NAME = (
    (re.compile(r"pyproject\.toml\Z"), Kind.PYPROJECT),
    (re.compile(r".*(requirements|constraints)[^/]*\.(txt|in)\Z"), Kind.REQUIREMENTS),
    (re.compile(r"(Dockerfile|Containerfile)(\..*|-.*|_.*)?\Z"), Kind.DOCKER),
    (re.compile(r"\.env(\..*)?\Z"), Kind.ENV),
    (re.compile(r"(GNUm|M|m)akefile\Z"), Kind.MAKE),
)
_REQUIREMENTS_FOLDER = frozenset({"requirements", "constraints"})
_SHEBANG = re.compile(rb"#!\s*\S*?(?:/|\benv\s+(?:-\S+\s+)*)?(?:(?P<python>python|pypy)[\d.]*|(?:ba|da|k|z)?sh)\b")


def kind_of(path: Path) -> Kind | None:
    """What `path` is by its name or, if it has no suffix, by its first line. None: of no interest."""
    name = path.name
    for pattern, kind in _BY_NAME:
        if pattern.match(name):
            return kind
    base, suffix = os.path.splitext(name)
    if suffix:
        if suffix in (".txt", ".in") and path.parent.name in _REQUIREMENTS_FOLDER:
            return Kind.REQUIREMENTS
        return _BY_SUFFIX.get(suffix.lower())
    return None if base.startswith(".") else _kind_of_script(path)


def _kind_of_script(path: Path) -> Kind | None:
    try:
        with open(path, "rb", buffering=0) as file:
            match = _SHEBANG.match(file.read(128))
    except OSError:
        return None
    if match is None:
        return None
    return Kind.PYTHON if match["python"] else Kind.SHELL


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


@dataclass(frozen=True, slots=True)
class _Ignore:
    """One set of gitignore patterns; they are relative to a folder above or below the root of the walk."""

    prefix: str  # the way from that folder down to the root
    strip: int  # or the length of the way from the root down to that folder
    spec: GitIgnoreSpec

    def verdict(self, rel: str) -> bool | None:
        return self.spec.check_file(self.prefix + rel[self.strip :]).include


class _Walk:
    """One walk over a folder; not reusable."""

    def __init__(self, root: Path, exclude: Sequence[tuple[Path, Sequence[str]]], gitignore: bool) -> None:
        self.root = root
        self.gitignore = gitignore
        self.found = Discovery(root)
        self.seen: set[str] = set()
        self.links: list[tuple[str, str]] = []  # rel, real path
        self.folders: set[str] = set()
        self.pending: list[tuple[str, str, list[_Ignore]]] = []
        self.user = [_outer(root, base.resolve(), GitIgnoreSpec.from_lines(lines)) for base, lines in exclude if lines]
        self.tracked, self.tracked_folders = _tracked_although_ignored(root) if gitignore else (set(), set())

    def run(self) -> Discovery:
        self.pending = [(str(self.root), "", _ignores_above(self.root) if self.gitignore else [])]
        while self.pending:
            self._folder(*self.pending.pop())
        for rel, real in self.links:
            self._link(rel, real)
        self.found.files.sort(key=lambda file: file.rel)
        self.found.skipped.sort(key=lambda skipped: skipped.rel)
        return self.found

    def _folder(self, folder: str, rel: str, ignores: list[_Ignore]) -> None:
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

    def _with_own_ignores(self, folder: str, rel: str, names: set[str], ignores: list[_Ignore]) -> list[_Ignore]:
        if rel and ".git" in names:
            ignores = []  # a repository of its own: the outer one's patterns do not reach into it
        if ".gitignore" in names:
            spec = _read_ignore_file(os.path.join(folder, ".gitignore"))
            if spec is not None:
                ignores = [*ignores, _Ignore("", len(rel), spec)]
        return ignores

    def _left_out_by_content(self, rel: str, names: set[str]) -> bool:
        if "pyvenv.cfg" in names or "conda-meta" in names:
            self._skip(rel, "virtual environment", directory=True)
            return True
        return False

    def _reason_to_skip_folder(self, name: str, rel: str, siblings: set[str], ignores: list[_Ignore]) -> str | None:
        if name in _SKIPPED_NAMES:
            return _SKIPPED_NAMES[name]
        if name.endswith(".egg-info"):
            return "installed packages"
        beside_project_file = name in _BUILT_NAMES and not siblings.isdisjoint(_PROJECT_FILES)
        if beside_project_file and rel not in self.tracked_folders and not (self.root / rel / "__init__.py").exists():
            return "build output"
        return self._ignored(rel, ignores)

    def _ignored(self, rel: str, ignores: list[_Ignore]) -> str | None:
        if any(user.verdict(rel) for user in self.user):
            return "excluded"
        for ignore in reversed(ignores):
            verdict = ignore.verdict(rel)
            if verdict is not None:
                tracked = rel in self.tracked or rel in self.tracked_folders
                return "git-ignored" if verdict and not tracked else None
        return None

    def _file(self, path: str, rel: str, ignores: list[_Ignore]) -> None:
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


def _outer(root: Path, base: Path, spec: GitIgnoreSpec) -> _Ignore:
    """Patterns relative to `base`, which is `root` or a folder above it."""
    return _Ignore("" if base == root else root.relative_to(base).as_posix() + "/", 0, spec)


def _read_ignore_file(path: str) -> GitIgnoreSpec | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line for line in file if line.strip() and not line.startswith("#")]
    except OSError:
        return None
    return GitIgnoreSpec.from_lines(lines) if lines else None


def _ignores_above(root: Path) -> list[_Ignore]:
    """The patterns of the repository that `root` lies in, from the folders above it, outermost first."""
    repository = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if repository is None:
        return []
    files = [(repository, repository / ".git" / "info" / "exclude")]
    files += [(folder, folder / ".gitignore") for folder in _between(repository, root)]
    specs = [(base, spec) for base, path in files if (spec := _read_ignore_file(str(path))) is not None]
    ignores = [_outer(root, base, spec) for base, spec in specs]
    # Whoever names an ignored folder as PATH means it: then the patterns that ignore it say nothing about its files.
    if root != repository and any(ignore.verdict("") for ignore in ignores):
        return []
    return ignores


def _between(top: Path, folder: Path) -> Iterator[Path]:
    """Folders from `top` down to the parent of `folder`."""
    if folder != top:
        yield from (parent for parent in reversed(folder.parents) if parent.is_relative_to(top))


def _tracked_although_ignored(root: Path) -> tuple[set[str], set[str]]:
    """Files, and the folders that lead to them, which git tracks although a pattern ignores them."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--ignored", "--exclude-standard"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return set(), set()
    files = {os.fsdecode(name) for name in done.stdout.split(b"\0") if name} if done.returncode == 0 else set()
    return files, {name[: i + 1] for name in files for i, char in enumerate(name) if char == "/"}
