"""Builds the types of members from released wheels: `python -m v1_migrate.names.types_build --wheels DIR`.

What the sources say (types_source.py) is looked up in the names index, release by release, and written in its format.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import store
from .build import module_of, wheel_files, wheels_in
from .index import Index, sort_key
from .member_types import SUBCLASSES, TYPES_FILE
from .release_names import ReleaseNames
from .types_source import ATTRIBUTE, ELEMENTS, NOTHING, RESULT, VALUES, Chain, ModuleTypes, module_types

_LEAVES = ("vllm.model_executor.models.", "vllm.models.", "vllm.transformers_utils.", "vllm.third_party.")
_DEEP = 8
_MANY = 200  # subclasses that are written down; a class with more has any member
Typed = tuple[str, tuple[str, ...]]  # kind, alternatives


class Release:
    """The types of one release."""

    def __init__(self, names: ReleaseNames, modules: Mapping[str, ModuleTypes]) -> None:
        self.names, self.modules = names, modules
        self._known: dict[tuple[str, str], Typed | None] = {}

    def every(self) -> dict[tuple[str, str], str]:
        """(module, name inside it) -> record."""
        found: dict[tuple[str, str], str] = {}
        for module, types in self.modules.items():
            for name in (*types.declared, *types.assigned):
                typed = self.of(module, name)
                if typed is not None:
                    found[module, name] = typed[0] + "|".join(typed[1])
        return found

    def of(self, module: str, name: str, depth: int = 0) -> Typed | None:
        """What a member or a function of a module is or gives."""
        key = module, name
        if key not in self._known and depth <= _DEEP:
            self._known[key] = None  # cuts a cycle
            self._known[key] = self._of(module, name, depth)
        return self._known.get(key)

    def _of(self, module: str, name: str, depth: int) -> Typed | None:
        types = self.modules.get(module)
        if types is None:
            return None
        if name in types.declared:
            kind, alternatives = types.declared[name]
            classes = tuple(dict.fromkeys(map(self.class_of, alternatives)))
            return (kind, classes) if any(name not in ("", NOTHING) for name in classes) else None
        given = {self._chain(chain, depth) if chain is not None else "" for chain in types.assigned.get(name, ())}
        return (ATTRIBUTE, (given.pop(),)) if len(given) == 1 and "" not in given else None

    def class_of(self, spelled: str) -> str:
        """The class that a name means, where it is defined; "" for what is none of vLLM's."""
        if spelled == NOTHING:
            return NOTHING
        mark = spelled[:2] if spelled.startswith((ELEMENTS, VALUES)) else ""
        found = self.names.resolve(spelled[len(mark) :]) if spelled else None
        is_class = found is not None and found.found and found.kind.endswith("class")
        return mark + found.canonical if found is not None and is_class and found.canonical.startswith("vllm.") else ""

    def _chain(self, chain: Chain, depth: int) -> str:
        root = _something(chain.root)
        if len(root) != 1:
            return ""
        only = self.class_of(root[0]) or self._result(root[0], depth)
        for attribute in chain.attributes:
            typed = self.member(only, attribute, depth + 1) if only.startswith("vllm.") else None
            if typed is None or typed[0] != ATTRIBUTE or len(_something(typed[1])) != 1:
                return ""
            only = _something(typed[1])[0]
        return only

    def _result(self, function: str, depth: int) -> str:
        found = self.names.resolve(function)
        place = self.names.place(found.canonical) if found.found and found.kind.endswith("function") else None
        typed = self.of(*place, depth + 1) if place is not None else None
        given = _something(typed[1]) if typed is not None and typed[0] == RESULT else ()
        return given[0] if len(given) == 1 else ""

    def member(self, dotted: str, attribute: str, depth: int) -> Typed | None:
        place = self.names.class_place(dotted)
        for cls in self.names.hierarchy.lineage(*place).classes if place is not None else ():
            name = f"{cls.place[1]}.{attribute}"
            typed = self.of(cls.place[0], name, depth)
            if typed is not None or self.names.record(cls.place[0], name) is not None:
                return typed
        return None

    def subclasses(self, wanted: Iterable[str]) -> dict[tuple[str, str], str]:
        """Of each class, what derives from it, however far."""
        below: dict[str, set[str]] = defaultdict(set)
        for module in self.names.modules():
            for name in self.names.names(module):
                record = self.names.record(module, name) or ""
                if record.lstrip("!?").startswith("c"):
                    for cls in self.names.hierarchy.lineage(module, name).classes[1:]:
                        below[".".join(cls.place)].add(f"{module}.{name}")
        found: dict[tuple[str, str], str] = {}
        for dotted in wanted:
            place = self.names.place(dotted)
            if place is not None and below[dotted]:
                listed = ",".join(sorted(below[dotted])) if len(below[dotted]) <= _MANY else "?"
                found[place[0], f"{place[1]}.{SUBCLASSES}"] = "+" + listed
        return found


def _something(alternatives: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in alternatives if name != NOTHING)


class Builder:
    """Collects releases one by one, oldest first."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.releases: list[str] = []
        self._modules: dict[str, tuple[int, dict[str, store.Versions]]] = {}
        self._read: dict[tuple[str, bytes], ModuleTypes] = {}

    def add(self, release: str, files: Iterable[tuple[str, bytes]]) -> None:
        """The types of one release."""
        modules = {
            module_of(path): self._types(path, content)
            for path, content in files
            if path.endswith(".py") and not module_of(path).startswith(_LEAVES)
        }
        found = Release(self.index.of(release), modules)
        records = found.every()
        classes = {
            name.removeprefix(ELEMENTS).removeprefix(VALUES)
            for record in records.values()
            for name in record[1:].split("|")
        }
        records |= found.subclasses(sorted(classes - {"", NOTHING}))
        bit = 1 << len(self.releases)
        self.releases.append(release)
        for (module, name), record in records.items():
            mask, versions = self._modules.get(module, (0, {}))
            by_record = versions.setdefault(name, {})
            by_record[record] = by_record.get(record, 0) | bit
            self._modules[module] = (mask | bit, versions)

    def _types(self, path: str, content: bytes) -> ModuleTypes:
        key = path, hashlib.sha256(content).digest()
        if key not in self._read:
            try:
                tree = ast.parse(content.decode("utf-8-sig"))
                self._read[key] = module_types(tree, module_of(path), path.endswith("/__init__.py"))
            except (SyntaxError, UnicodeDecodeError, RecursionError):
                self._read[key] = ModuleTypes()
        return self._read[key]

    def write(self, path: str | os.PathLike[str]) -> None:
        store.write(path, self.releases, self._modules, {})


def build(wheels: Mapping[str, Path], out: str | os.PathLike[str]) -> Builder:
    """Reads every release, oldest first, and writes the file."""
    builder = Builder(Index.load(user=False))
    for release in sorted(wheels, key=sort_key):
        if ".post" not in release:  # the same source, built again
            builder.add(release, wheel_files(wheels[release]))
    builder.write(out)
    return builder


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", metavar="DIR", required=True, help="folder with released wheels")
    parser.add_argument("--out", metavar="FILE", default=TYPES_FILE, help="the file to write")
    options = parser.parse_args(arguments)
    builder = build(wheels_in(options.wheels), options.out)
    print(f"{len(builder.releases)} releases -> {options.out} ({os.path.getsize(options.out)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
