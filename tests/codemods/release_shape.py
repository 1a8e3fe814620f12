"""A pytest plugin that stands in for vllm of one release and for every package that is not installed.

    RELEASE_SHAPE="vllm=DIR|DIR:v1_cpu=DIR" COLLECTED=FILE.json python -m pytest -p release_shape --collect-only tests

A package of RELEASE_SHAPE has exactly the modules and the names that its source binds in one of the DIRs, so an import
of a name that the release lacks fails as it would with the real package. Nothing of it is executed. Packages that
cannot be found have every module and name; with RELEASE_STUBS="a,b" only those two, which suits a run with the real
vllm. What was collected, and what failed, is written to COLLECTED.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

_ONLY = frozenset(filter(None, os.environ.get("RELEASE_STUBS", "").split(",")))
_PLUGINS = frozenset(("pytestmark", "_pytestfixturefunction", "pytest_plugins"))


class Anything:
    """Takes part in every expression that a module may have on its top level."""

    def __init__(self, name: str = "anything") -> None:
        self.__dict__["_name"] = name

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or name in _PLUGINS or name.startswith("pytest_"):
            raise AttributeError(name)
        return Anything(f"{self._name}.{name}")

    def __repr__(self) -> str:
        return f"<{self.__dict__['_name']!s}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        decorates = len(args) == 1 and not kwargs and isinstance(args[0], FunctionType | type)
        return args[0] if decorates else Anything(f"{self._name}()")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (Base,) if next(each for each in bases if isinstance(each, Anything)) is self else ()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __getitem__(self, key: object) -> Any:
        return Anything(f"{self._name}[]")

    def __setitem__(self, key: object, value: object) -> None: ...

    def __contains__(self, key: object) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None: ...

    def __instancecheck__(self, instance: object) -> bool:
        return False

    __subclasscheck__ = __instancecheck__

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 1

    __index__ = __len__ = __int__

    def __float__(self) -> float:
        return 1.0

    def __fspath__(self) -> str:
        return str(self._name)

    def __lt__(self, other: object) -> bool:
        return True

    __le__ = __gt__ = __ge__ = __lt__

    def _binary(self, *others: object) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = __or__ = __ror__ = _binary
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __rpow__ = __and__ = __rand__ = _binary
    __neg__ = __invert__ = _binary


class Base:
    """What a class that inherits from one of those names gets."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None: ...

    def __class_getitem__(cls, key: object) -> type:
        return cls


class _Stub(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        if (name.startswith("__") and name.endswith("__")) or name in _PLUGINS or name.startswith("pytest_"):
            raise AttributeError(name)
        return Anything(f"{self.__name__}.{name}")


class _Loader(importlib.abc.Loader):
    def __init__(self, sources: list[Path] | None) -> None:
        self.sources = sources

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Stub(spec.name) if self.sources is None else ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        for source in self.sources or ():
            if source.is_file():
                fill(module, ast.parse(source.read_text("utf-8")))


def fill(module: ModuleType, tree: ast.Module) -> None:
    """Give the module the names that its source binds; those with literal values have them."""
    for name, value in bindings(tree.body):
        setattr(module, name, literal(value, f"{module.__name__}.{name}"))
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            other = importlib.import_module("." * node.level + (node.module or ""), package)
            names = getattr(other, "__all__", [name for name in vars(other) if not name.startswith("_")])
            vars(module).update({name: getattr(other, name) for name in names})


def literal(node: ast.expr | None, name: str) -> Any:
    """The value of a display or literal; parts that are something else can be anything."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Dict):
        keys = (literal(key, f"{name}.key") for key in node.keys)
        return {key: literal(value, name) for key, value in zip(keys, node.values, strict=True)}
    if isinstance(node, ast.List | ast.Tuple):
        found = [literal(item, name) for item in node.elts]
        return found if isinstance(node, ast.List) else tuple(found)
    return Anything(name)


def bindings(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.expr | None]]:
    """Names that statements of a module bind, in each arm, with the assigned expression."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name, None
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names = (a.asname or a.name.partition(".")[0] for a in statement.names)
            yield from ((name, None) for name in names if name != "*")
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                single = isinstance(target, ast.Name)
                parts = (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
                yield from ((name, statement.value if single else None) for name in parts)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from bindings(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from bindings(handler.body)


class Shapes(importlib.abc.MetaPathFinder):
    """Packages with the names of their source. Stands before every other finder."""

    def __init__(self, roots: dict[str, list[Path]]) -> None:
        self.roots = roots

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        parts = name.split(".")
        places = [root.joinpath(*parts) for root in self.roots.get(parts[0], ())]
        if any(place.is_dir() for place in places):
            sources = [place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places]
            return importlib.machinery.ModuleSpec(name, _Loader(sources), is_package=True)
        sources = [place.with_suffix(".py") for place in places]
        found = any(source.is_file() for source in sources)
        return importlib.machinery.ModuleSpec(name, _Loader(sources)) if found else None


class Missing(importlib.abc.MetaPathFinder):
    """Packages that no other finder knows."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        parent = name.rpartition(".")[0]
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or (_ONLY and top not in _ONLY):
            return None
        if parent and not isinstance(sys.modules.get(parent), _Stub):
            return None
        return importlib.machinery.ModuleSpec(name, _Loader(None), is_package=True)


class _Record:
    def __init__(self, file: Path) -> None:
        self.file = file
        self.failed: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = report.longreprtext

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        items = [item.nodeid for item in session.items]
        self.file.write_text(json.dumps({"items": items, "failed": self.failed}))


def pytest_configure(config: pytest.Config) -> None:
    if "COLLECTED" in os.environ:
        config.pluginmanager.register(_Record(Path(os.environ["COLLECTED"])))


def install(roots: dict[str, list[Path]]) -> None:
    """Put the finders in place; a package's version is the name of its first folder, that of a missing one is 0."""
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        if distribution_name in roots:
            return roots[distribution_name][0].name
        try:
            return real(distribution_name)
        except importlib.metadata.PackageNotFoundError:
            return "0"

    sys.meta_path.insert(0, Shapes(roots))
    sys.meta_path.append(Missing())
    importlib.metadata.version = version


if "RELEASE_SHAPE" in os.environ:  # before any conftest is imported
    _pairs = (pair.partition("=") for pair in os.environ["RELEASE_SHAPE"].split(os.pathsep))
    install({name: list(map(Path, folders.split("|"))) for name, _, folders in _pairs})
