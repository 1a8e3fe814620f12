"""What a file is, by its name or its first line."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from pathlib import Path


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
