"""Hashes of vLLM's own modules, file by file and definition by definition: what did a fork change of a module?

`python -m v1_migrate.names.fork_hashes RELEASES` reads the Python source of releases (folders `RELEASE/vllm/...`) and
writes `data/fork_hashes.xz`: for every module that a later release lacks, which releases share which text, and the same
for each function, class (without its methods) and method. A hash is of the source text without indentation, trailing
blanks and empty lines, so it does not depend on the Python that computes it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import lzma
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .releases import sort_key

DATA = Path(__file__).parent / "data" / "fork_hashes.xz"
_LENGTH = 10  # hexadecimal digits: 40 bits, for some ten thousand texts
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Masks = dict[str, int]  # hash -> releases that have it, one bit each


@dataclass(frozen=True, slots=True)
class Definition:
    """A function, class or method of a module."""

    name: str  # "f", "C", "C.m"
    line: int
    hash: str


@dataclass(frozen=True, slots=True)
class Module:
    """What releases have of one module."""

    releases: tuple[str, ...]
    files: Masks
    definitions: dict[str, Masks]

    def same_file(self, file_hash: str) -> tuple[str, ...]:
        """Releases with exactly this file."""
        return self._named(self.files.get(file_hash, 0))

    def nearest(self, definitions: Sequence[Definition]) -> str:
        """The release that shares the most definitions; of several, the newest."""
        counts = [0] * len(self.releases)
        every = 0
        for mask in self.files.values():
            every |= mask
        for definition in definitions:
            mask = self.definitions.get(definition.name, {}).get(definition.hash, 0)
            for bit in range(len(self.releases)):
                counts[bit] += mask >> bit & 1
        having = [bit for bit in range(len(self.releases)) if every >> bit & 1]
        return self.releases[max(having, key=lambda bit: (counts[bit], bit))]

    def upstream(self, definition: Definition) -> bool:
        """Some release has this very text under this name."""
        return definition.hash in self.definitions.get(definition.name, {})

    def missing(self, definitions: Sequence[Definition], release: str) -> tuple[str, ...]:
        """Names that the release defines and the file does not."""
        bit = 1 << self.releases.index(release)
        here = {definition.name for definition in definitions}
        return tuple(
            name
            for name, masks in self.definitions.items()
            if name not in here and any(mask & bit for mask in masks.values())
        )

    def _named(self, mask: int) -> tuple[str, ...]:
        return tuple(release for bit, release in enumerate(self.releases) if mask >> bit & 1)


def digest(text: str) -> str:
    """The hash of a text, whatever its indentation and empty lines."""
    lines = (line.rstrip() for line in textwrap.dedent(text).splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()[:_LENGTH]


def definitions(text: str, tree: ast.Module) -> list[Definition]:
    """Functions, classes and methods, also of conditional blocks at the top level."""
    lines = text.splitlines(keepends=True)
    return list(_definitions(tree.body, lines, ""))


def _definitions(body: Sequence[ast.stmt], lines: list[str], prefix: str) -> Iterator[Definition]:
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield Definition(prefix + node.name, node.lineno, digest("".join(lines[_first(node) : node.end_lineno])))
        elif isinstance(node, ast.ClassDef) and not prefix:
            inner = [n for n in node.body if isinstance(n, _FUNCTIONS)]
            own = [
                line
                for number, line in enumerate(lines[_first(node) : node.end_lineno], _first(node))
                if not any(_first(n) <= number < (n.end_lineno or 0) for n in inner)
            ]
            yield Definition(node.name, node.lineno, digest("".join(own)))
            yield from _definitions(inner, lines, f"{node.name}.")
        elif isinstance(node, ast.If | ast.Try) and not prefix:
            for block in (node.body, node.orelse):
                yield from _definitions(block, lines, prefix)


def _first(node: ast.stmt) -> int:
    """Index of the first line, decorators included."""
    decorators = getattr(node, "decorator_list", [])
    return (decorators[0].lineno if decorators else node.lineno) - 1


@cache
def modules() -> dict[str, Module]:
    """Every module of the data, by its dotted name."""
    loaded = json.loads(lzma.decompress(DATA.read_bytes()))
    releases = tuple(loaded["releases"])
    return {name: Module(releases, files, found) for name, (files, found) in loaded["modules"].items()}


def build(folder: Path, since: str = "0.12.0") -> dict[str, object]:
    """The data: modules of releases before `since` that the newest release lacks."""
    releases = sorted((f.name for f in folder.iterdir() if (f / "vllm").is_dir()), key=sort_key)
    paths = {release: set(_paths(folder / release)) for release in releases}
    old = [release for release in releases if sort_key(release) < sort_key(since)]
    wanted = set().union(*(paths[release] for release in old)) - paths[releases[-1]]
    found: dict[str, tuple[Masks, dict[str, Masks]]] = {}
    for bit, release in enumerate(releases):
        for path in sorted(wanted & paths[release]):
            text = (folder / release / path).read_text("utf-8", "replace")
            files, named = found.setdefault(_module(path), ({}, {}))
            files[digest(text)] = files.get(digest(text), 0) | 1 << bit
            for definition in definitions(text, ast.parse(text)):
                masks = named.setdefault(definition.name, {})
                masks[definition.hash] = masks.get(definition.hash, 0) | 1 << bit
    return {"releases": releases, "modules": found}


def _paths(release: Path) -> Iterator[str]:
    return (path.relative_to(release).as_posix() for path in (release / "vllm").rglob("*.py"))


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", type=Path, help="folder with RELEASE/vllm/...")
    parser.add_argument("--output", type=Path, default=DATA)
    arguments = parser.parse_args()
    data = json.dumps(build(arguments.releases), separators=(",", ":")).encode()
    arguments.output.write_bytes(lzma.compress(data, preset=9))


if __name__ == "__main__":
    main()
