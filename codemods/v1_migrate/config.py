"""`[tool.v1-migrate]` in the nearest pyproject.toml at or above PATH that has such a table."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

ATTENTIONS = ("auto", "v1_cpu", "vllm")


class ConfigError(Exception):
    """The table cannot be used; the message names the file, the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a project. `folder` is where its pyproject.toml lies; patterns and paths are relative to it."""

    file: Path | None = None
    target: str | None = None
    attention: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    baseline: Path | None = None
    indexes: tuple[Path, ...] = ()
    unsafe: bool = False

    def ignored_in(self, path: Path) -> frozenset[str]:
        """Rules (or prefixes of rules) that `per-file-ignores` turns off in this file."""
        if self.file is None or not self.per_file_ignores or not path.is_relative_to(self.file.parent):
            return frozenset()
        rel = path.relative_to(self.file.parent).as_posix()
        matching = (
            rules for pattern, rules in self.per_file_ignores if GitIgnoreSpec.from_lines([pattern]).match_file(rel)
        )
        return frozenset(rule for rules in matching for rule in rules)


def load(path: Path) -> Config:
    """The configuration for PATH; the defaults if no file has the table. Raises ConfigError."""
    start = path.resolve()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        table = _table(file)
        if table is not None:
            return _config(file, table)
    return Config()


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        raw = file.read_bytes()
    except OSError:
        return None
    if b"v1-migrate" not in raw:
        return None
    try:
        table = tomllib.loads(raw.decode()).get("tool", {}).get("v1-migrate")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from None
    if table is not None and not isinstance(table, dict):
        raise ConfigError(f"{file}: [tool.v1-migrate] is a table, not a {type(table).__name__}")
    return table


def _config(file: Path, table: Mapping[str, Any]) -> Config:
    values: dict[str, Any] = {"file": file}
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(_KEYS)}"
            raise ConfigError(f"{file}: [tool.v1-migrate] has no key {key!r}; {hint}")
        try:
            values[key.replace("-", "_")] = _KEYS[key](value, file.parent)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{file}: [tool.v1-migrate] {key}: {error}") from None
    return Config(**values)


def _string(value: Any, _: Path) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r}")
    return value


def _strings(value: Any, _: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"expected a list of strings, got {value!r}")
    return tuple(value)


def _patterns(value: Any, folder: Path) -> tuple[str, ...]:
    patterns = _strings(value, folder)
    GitIgnoreSpec.from_lines(patterns)  # a pattern that makes no sense is a ValueError
    return patterns


def _rules(value: Any, folder: Path) -> tuple[str, ...]:
    return tuple(rule.upper() for rule in _strings(value, folder))


def _per_file(value: Any, folder: Path) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a table from patterns to lists of rules, got {value!r}")
    _patterns(list(value), folder)
    return tuple((pattern, _rules(rules, folder)) for pattern, rules in value.items())


def _attention(value: Any, _: Path) -> str:
    if value not in ATTENTIONS:
        raise ValueError(f"expected one of {', '.join(ATTENTIONS)}, got {value!r}")
    return str(value)


def _flag(value: Any, _: Path) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r}")
    return value


_KEYS: dict[str, Callable[[Any, Path], Any]] = {
    "target": _string,
    "attention": _attention,
    "select": _rules,
    "ignore": _rules,
    "exclude": _patterns,
    "per-file-ignores": _per_file,
    "baseline": lambda value, folder: folder / _string(value, folder),
    "indexes": lambda value, folder: tuple(folder / item for item in _strings(value, folder)),
    "unsafe": _flag,
}
