"""Compiles the hand-written table: data/*.toml -> data/curated.json (`python -m v1_migrate.names.curated_source`).

The TOML files are what people edit; parsing them takes longer than the whole start-up budget of the command line, so
what is read at run time is one JSON file. A test fails when it is stale. The format of a row is described in
docs/decisions/0011-curated-table.md.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from itertools import product
from typing import Any

from .curated import COMPILED, gone_in
from .index import Index

DATA = os.path.dirname(COMPILED)
_FATES = {"moved", "contract", "gone"}
_SCOPES = {"cpu", "v0", "other-hw", "other"}
_ACTIONS = {"remove", "replace", "manual", "keep"}
_NAME_KEYS = {"old", "also", "fate", "scope", "to", "v1_cpu", "v1_cpu_fate", "difference", "advice", "checked"}
_GROUP_KEYS = {"from", "to", "names", "fate", "scope", "advice", "difference"}


class TableError(ValueError):
    """A row that cannot be understood; the message names file and row."""


def compile_tables(folder: str, index: Index) -> dict[str, Any]:
    """Reads every TOML file of a folder. Raises TableError."""
    names: dict[str, list[Any]] = {}
    also: dict[str, str] = {}
    modules: dict[str, str] = {}
    settings: dict[str, list[Any]] = {}
    for file in sorted(f for f in os.listdir(folder) if f.endswith(".toml")):
        with open(os.path.join(folder, file), "rb") as handle:
            content = tomllib.load(handle)
        for row in _rows(file, content, index):
            old = row["old"]
            if old in names:
                raise TableError(f"{file}: {old} has a row already")
            names[old] = _packed(file, row, index)
            for place in row.get("also", ()):
                _once(file, also, place, old)
        for row in content.get("module", ()):
            for prefix in row["prefix"] if isinstance(row["prefix"], list) else [row["prefix"]]:
                _once(file, modules, prefix, row["advice"])
        for row in content.get("setting", ()):
            _check(file, row["name"], row.get("action"), _ACTIONS, "action")
            packed = [row.get("gone_in", ""), row.get("to", []), row["action"], row["advice"]]
            _once(file, settings, row["name"], packed)
    _follow_destinations(names, also)
    return {"names": names, "also": also, "modules": modules, "settings": settings}


def _once(file: str, table: dict[str, Any], key: str, value: Any) -> None:
    if table.setdefault(key, value) is not value:
        raise TableError(f"{file}: {key} is there already")


def _check(file: str, name: str, value: object, allowed: set[str], what: str) -> None:
    if value not in allowed:
        raise TableError(f"{file}: {name}: {what} {value!r}; one of {', '.join(sorted(allowed))}")


def _rows(file: str, content: dict[str, Any], index: Index) -> Iterator[dict[str, Any]]:
    """Single rows, and groups of names of one or several modules or classes that share a fate."""
    for row in content.get("name", ()):
        if unknown := set(row) - _NAME_KEYS:
            raise TableError(f"{file}: {row.get('old')}: unknown key {', '.join(sorted(unknown))}")
        yield row
    for group in content.get("group", ()):
        if unknown := set(group) - _GROUP_KEYS:
            raise TableError(f"{file}: group from {group.get('from')}: unknown key {', '.join(sorted(unknown))}")
        shared = {key: value for key, value in group.items() if key not in {"from", "names"}}
        for home, name in _olds(group, index):
            to = [[first, f"{module}.{name}" if module else ""] for first, module in group.get("to", ())]
            yield {**shared, "old": f"{home}.{name}", "to": to}


def _olds(group: dict[str, Any], index: Index) -> list[tuple[str, str]]:
    """Each name at its module or class; of several, those that ever had the name."""
    homes = group["from"]
    if isinstance(homes, str):
        return [(homes, name) for name in group["names"]]
    return [(home, name) for home, name in product(homes, group["names"]) if index.known(f"{home}.{name}")]


def _packed(file: str, row: dict[str, Any], index: Index) -> list[Any]:
    old = row["old"]
    _check(file, old, row.get("fate"), _FATES, "fate")
    _check(file, old, row.get("scope"), _SCOPES, "scope")
    if row["fate"] == "gone" and not row.get("advice"):
        raise TableError(f"{file}: {old}: a name that is gone needs advice")
    to = [[index.release(first), dotted] for first, dotted in row.get("to", ())]
    v1_cpu = row.get("v1_cpu", "")
    return [
        row.get("also", []),
        row["fate"],
        row["scope"],
        to,
        v1_cpu,
        row.get("v1_cpu_fate", row["fate"]),
        row.get("difference", ""),
        row.get("advice", ""),
        gone_in(index, old),
    ]


def _follow_destinations(names: dict[str, list[Any]], also: dict[str, str]) -> None:
    """A destination that was left again is one more place of its name."""
    for old, row in names.items():
        for _, dotted in row[3][:-1]:
            if dotted and dotted not in names:
                also.setdefault(dotted, old)


def dump(content: dict[str, Any]) -> str:
    """The text of the compiled file."""
    return json.dumps(content, indent=0, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    try:
        text = dump(compile_tables(DATA, Index.load(user=False)))
    except (TableError, tomllib.TOMLDecodeError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with open(COMPILED, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{COMPILED}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
