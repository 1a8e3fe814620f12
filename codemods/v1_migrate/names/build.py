"""Builds the generated index from released wheels or source trees: `python -m v1_migrate.names.build --help`."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from . import store
from .extract import ModuleNames, extract
from .index import INDEX_FILE, Index, sort_key, user_index_dir

PACKAGE = "vllm"
Files = Iterable[tuple[str, bytes]]  # ("vllm/a/b.py", content)
_WHEEL = re.compile(r"^vllm(?:_cpu)?-(?P<version>[^-]+)-.*\.whl$")
_EXTENSION = re.compile(r"\.(?:[\w-]+\.)*(?:so|pyd)$")
_UNREADABLE = ModuleNames(open=True)


def module_of(path: str) -> str:
    """ "vllm/a/__init__.py" -> "vllm.a"; "vllm/_C.abi3.so" -> "vllm._C"."""
    stem = path.removesuffix(".py") if path.endswith(".py") else _EXTENSION.sub("", path)
    return stem.replace("/", ".").removesuffix(".__init__")


class Builder:
    """Collects releases one by one, oldest first."""

    def __init__(self) -> None:
        self.releases: list[str] = []
        self.unparsed: list[str] = []
        self._modules: dict[str, tuple[int, dict[str, store.Versions]]] = {}
        self._phantoms: dict[str, int] = {}
        self._cache: dict[tuple[str, bytes], ModuleNames] = {}

    def add(self, release: str, files: Files) -> None:
        found: dict[str, ModuleNames] = {}
        for path, content in files:
            module = module_of(path)
            if path.endswith(".py"):
                found[module] = self._extracted(release, path, content)
            elif _EXTENSION.search(path):
                found.setdefault(module, ModuleNames(open=True))
        for module in list(found):  # a folder without __init__.py is a package too
            while module := module.rpartition(".")[0]:
                found.setdefault(module, ModuleNames())
        if PACKAGE not in found:
            raise ValueError(f"release {release}: no {PACKAGE}/ package with Python files found")
        bit = 1 << len(self.releases)
        self.releases.append(release)
        self._phantom(found, bit)
        for module, names in _with_stars(found).items():
            mask, versions = self._modules.setdefault(module, (0, {}))
            self._modules[module] = (mask | bit, versions)
            if found[module].open:
                names = {**names, "": "?"}
            for name, record in names.items():
                by_record = versions.setdefault(name, {})
                by_record[record] = by_record.get(record, 0) | bit

    def write(self, path: str | os.PathLike[str]) -> None:
        store.write(path, self.releases, self._modules, self._phantoms)

    def _extracted(self, release: str, path: str, content: bytes) -> ModuleNames:
        key = (path, hashlib.sha256(content).digest())
        if key not in self._cache:
            try:
                self._cache[key] = extract(content.decode("utf-8-sig"), module_of(path), path.endswith("/__init__.py"))
            except (SyntaxError, UnicodeDecodeError, RecursionError) as error:
                self.unparsed.append(f"{release}: {path}: {error}")
                self._cache[key] = _UNREADABLE
        return self._cache[key]

    def _phantom(self, found: Mapping[str, ModuleNames], bit: int) -> None:
        """Modules that this release's own source imports and no release so far ships: made by another build."""
        for names in found.values():
            for wanted in names.imports:
                shipped = wanted in found or wanted in self._modules
                while wanted.startswith(f"{PACKAGE}.") and not shipped and _is_module_name(wanted, found):
                    self._phantoms[wanted] = self._phantoms.get(wanted, 0) | bit
                    wanted = wanted.rpartition(".")[0]
                    shipped = wanted in found or wanted in self._modules


def _is_module_name(module: str, found: Mapping[str, ModuleNames]) -> bool:
    """`import vllm.a.b` of a name inside module vllm.a is no module of its own."""
    parent, _, last = module.rpartition(".")
    return not (parent in found and last in found[parent].names)


def _with_stars(found: Mapping[str, ModuleNames]) -> dict[str, dict[str, str]]:
    """The names of each module, star imports expanded."""
    done: dict[str, dict[str, str]] = {}

    def expand(module: str) -> dict[str, str]:
        if module in done:
            return done[module]
        own = found[module]
        done[module] = names = dict(own.names)  # stored first: star imports may be circular
        for source in own.stars:
            if source not in found:
                own.open = True
                continue
            public = found[source].exported
            offered = [
                n for n in expand(source) if "." not in n and (not n.startswith("_") if public is None else True)
            ]
            for name in offered if public is None else public:
                names.setdefault(name, f"={source}.{name}")
        return names

    for module in found:
        expand(module)
    return done


def wheel_files(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if name.startswith(f"{PACKAGE}/"):
                if name.endswith(".py"):
                    yield name, wheel.read(name)
                elif _EXTENSION.search(name):
                    yield name, b""


def tree_files(path: str | os.PathLike[str]) -> Iterator[tuple[str, bytes]]:
    """The files below PATH/vllm, or below PATH when it is the package itself."""
    root = os.fspath(path)
    package = (
        root if os.path.isfile(os.path.join(root, "model_executor", "__init__.py")) else os.path.join(root, PACKAGE)
    )
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(f for f in folders if f.isidentifier() and f != "__pycache__")
        inside = os.path.relpath(folder, package).replace(os.sep, "/")
        prefix = PACKAGE if inside == "." else f"{PACKAGE}/{inside}"
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    yield f"{prefix}/{name}", file.read()
            elif _EXTENSION.search(name):
                yield f"{prefix}/{name}", b""


def wheels_in(folder: str | os.PathLike[str]) -> dict[str, Path]:
    """release -> wheel."""
    found = {}
    for path in sorted(Path(folder).iterdir()):
        if match := _WHEEL.match(path.name):
            found[match["version"].partition("+")[0]] = path
    return found


def build(wheels: Mapping[str, Path], trees: Mapping[str, Path], out: str | os.PathLike[str]) -> Builder:
    """Reads every release, oldest first, and writes the index file."""
    builder = Builder()
    for release in sorted({*wheels, *trees}, key=sort_key):
        builder.add(release, tree_files(trees[release]) if release in trees else wheel_files(wheels[release]))
    builder.write(out)
    return builder


def label_of(path: str | os.PathLike[str]) -> str:
    """The version a tree says it has (vllm/_version.py), as a label for `add_tree`. Raises ValueError."""
    for folder in (os.path.join(path, PACKAGE), os.fspath(path)):
        version_file = os.path.join(folder, "_version.py")
        if os.path.isfile(version_file):
            with open(version_file, encoding="utf-8") as file:
                if match := re.search(
                    r"^(?:__version__\s*=\s*)?version\s*=\s*['\"]([^'\"]+)['\"]", file.read(), re.MULTILINE
                ):
                    return match[1]
    raise ValueError(f"{os.fspath(path)} does not say which version it is: name it with --release LABEL")


def add_tree(path: str | os.PathLike[str], label: str) -> Path:
    """Adds one source tree (a private fork) to the user's own index under `label`; returns the file written."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", label):
        raise ValueError(f"release label {label!r}: use letters, digits, '.', '_', '+' and '-' only")
    if label in Index.load(user=False).releases:
        raise ValueError(f"release label {label!r} is a release the index already has; choose another with --release")
    if not os.path.isdir(path):
        raise ValueError(f"{os.fspath(path)}: no such directory")
    folder = Path(user_index_dir())
    builder = Builder()
    builder.add(label, tree_files(path))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{label}.names"
    builder.write(target)
    Index.forget()
    return target


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", metavar="DIR", help="folder with released wheels")
    parser.add_argument("--tree", metavar="RELEASE=PATH", action="append", default=[], help="a release's source tree")
    parser.add_argument("--out", metavar="FILE", default=INDEX_FILE, help="the index file to write")
    options = parser.parse_args(arguments)
    trees = {}
    for item in options.tree:
        release, equals, path = item.partition("=")
        if not equals or not os.path.isdir(path):
            parser.error(f"--tree {item}: expected RELEASE=PATH with an existing folder")
        trees[release] = Path(path)
    wheels = wheels_in(options.wheels) if options.wheels else {}
    if not wheels and not trees:
        parser.error("nothing to read: give --wheels DIR that holds vllm wheels, or --tree RELEASE=PATH")
    builder = build(wheels, trees, options.out)
    for line in builder.unparsed:
        print(f"cannot be parsed, its names are unknown: {line}", file=sys.stderr)
    print(f"{len(builder.releases)} releases -> {options.out} ({os.path.getsize(options.out)} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
