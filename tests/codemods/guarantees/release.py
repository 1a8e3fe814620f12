"""One vLLM release as its own source tells it: does a dotted name exist there? Yes, no, or not to be known."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path

from guarantees.namespace import Binding, Namespace, dotted, read

# Built or vendored for devices other than the CPU, or written at build time: a CPU wheel cannot tell what they hold.
UNKNOWABLE = (
    "vllm.vllm_flash_attn",
    "vllm.third_party",
    "vllm.cumem_allocator",
    "vllm.commit_id",
    "vllm._version",
    "vllm._moe_C",
    "vllm._rocm_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
)
# Bases that add no class member a migration could care about.
PLAIN_BASES = {"object", "ABC", "abc.ABC", "Generic", "typing.Generic", "Protocol", "typing.Protocol"}
PLAIN_DECORATORS = {"dataclass", "dataclasses.dataclass", "final", "runtime_checkable", "total_ordering"}

GLOBAL = re.compile(rb"^\s*global\s|\bglobals\(\)", re.MULTILINE)


class Has(StrEnum):
    """Whether a release has a name."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def any_of(answers: Iterable[Has]) -> Has:
    found = set(answers)
    return Has.YES if Has.YES in found else Has.UNKNOWN if Has.UNKNOWN in found else Has.NO


class Release:
    """A folder that holds the package `vllm`, read module by module when asked."""

    def __init__(self, root: Path, package: str = "vllm") -> None:
        if not (root / package).is_dir():
            raise FileNotFoundError(f"{root} holds no package {package!r}")
        self.root = root
        self.package = package
        self.listing = cache(self._listing)
        self.module_kind = cache(self._module_kind)
        self.namespace = cache(self._namespace)
        self.class_space = cache(self._class_space)
        self.has = cache(self._has_dotted)

    def _module_kind(self, name: str) -> str:
        """ "module", "package", "opaque" or ""."""
        if name.startswith(tuple(f"{prefix}." for prefix in UNKNOWABLE)) or name in UNKNOWABLE:
            return "opaque"
        parent, _, leaf = name.rpartition(".")
        files = self.listing(parent)
        if leaf in files and self._holds_python(name):
            return "package"
        if f"{leaf}.py" in files:
            return "module"
        return "opaque" if any(file.endswith(".so") and file.split(".")[0] == leaf for file in files) else ""

    def _listing(self, package: str) -> frozenset[str]:
        folder = self.root.joinpath(*package.split(".")) if package else self.root
        return frozenset(os.listdir(folder)) if folder.is_dir() else frozenset()

    def _holds_python(self, name: str) -> bool:
        files = self.listing(name)
        return any(file.endswith(".py") for file in files) or any(
            "." not in file and self._holds_python(f"{name}.{file}") for file in files
        )

    def modules(self) -> Iterator[str]:
        """Every module and package of the release, in alphabetical order."""
        for file in sorted((self.root / self.package).rglob("*.py")):
            parts = file.relative_to(self.root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def _file(self, name: str) -> Path:
        path = self.root.joinpath(*name.split("."))
        return path / "__init__.py" if self.module_kind(name) == "package" else path.with_name(path.name + ".py")

    def _namespace(self, name: str) -> Namespace:
        file = self._file(name)
        if not file.is_file():
            return Namespace()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                source = file.read_bytes()
                tree = ast.parse(source)
        except SyntaxError:
            return Namespace(open=True)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        return read(tree, package, writes_globals=bool(GLOBAL.search(source)))

    def _class_space(self, node: ast.ClassDef) -> Namespace:
        return read(node, "")

    def _has_dotted(self, name: str, typing: bool = False) -> Has:
        """Does `vllm.a.b.C.m` exist? `typing`: asked by code that only a type checker runs."""
        head, *rest = name.split(".")
        if head != self.package:
            return Has.UNKNOWN
        return self._in_module(head, tuple(rest), typing, frozenset())

    def _in_module(self, module: str, parts: tuple[str, ...], typing: bool, seen: frozenset[str]) -> Has:
        kind = self.module_kind(module)
        if kind == "opaque":
            return Has.UNKNOWN
        if not kind:
            return Has.NO
        if not parts:
            return Has.YES
        part, rest = parts[0], parts[1:]
        key = f"{module}:{'.'.join(parts)}"
        if key in seen:
            return Has.NO  # names that only lead to each other bind nothing
        seen = seen | {key}
        space = self.namespace(module)
        answers = [
            self._through(module, space, binding, part, rest, typing, seen)
            for binding in space.bindings.get(part, ())
            if typing or not binding.typing_only
        ]
        if self.module_kind(f"{module}.{part}"):
            answers.append(self._in_module(f"{module}.{part}", rest, typing, seen))
        if part in space.lazy:
            answers.append(Has.UNKNOWN if rest else Has.YES)
        answers += [self._in_star(star, parts, typing, seen) for star in space.stars]
        if space.open or (part.startswith("__") and part.endswith("__")):
            answers.append(Has.UNKNOWN)
        return any_of(answers)

    def _in_star(self, source: str, parts: tuple[str, ...], typing: bool, seen: frozenset[str]) -> Has:
        if source.split(".")[0] != self.package:
            return Has.UNKNOWN
        exported = self.namespace(source).exported
        hidden = parts[0] not in exported if exported is not None else parts[0].startswith("_")
        return Has.NO if hidden else self._in_module(source, parts, typing, seen)

    def _through(
        self, module: str, space: Namespace, binding: Binding, name: str, rest: tuple[str, ...], typing: bool,
        seen: frozenset[str],
    ) -> Has:  # fmt: skip
        if not rest:
            return Has.YES
        if binding.kind == "class" and binding.node is not None:
            if rest[0] in space.patched.get(name, ()):
                return Has.YES
            return self._in_class(module, binding.node, rest, typing, seen)
        if binding.kind == "import":
            return self._follow(binding, rest, typing, seen)
        if binding.kind == "alias":
            answer = self._in_module(module, (*binding.target.split("."), *rest), typing, seen)
            return Has.UNKNOWN if answer is Has.NO else answer
        return Has.UNKNOWN

    def _follow(self, binding: Binding, rest: tuple[str, ...], typing: bool, seen: frozenset[str]) -> Has:
        if binding.module.split(".")[0] != self.package or not self.module_kind(binding.module):
            return Has.UNKNOWN  # another package, or a guarded import of something this release lacks
        names = (binding.target,) if binding.target else ()
        return self._in_module(binding.module, (*names, *rest), typing, seen)

    def _in_class(
        self, module: str, node: ast.ClassDef, parts: tuple[str, ...], typing: bool, seen: frozenset[str]
    ) -> Has:
        part, rest = parts[0], parts[1:]
        space = self.class_space(node)
        if part in space.bindings:
            nested = [b.node for b in space.bindings[part] if b.node is not None]
            if not rest:
                return Has.YES
            return any_of(self._in_class(module, n, rest, typing, seen) for n in nested) if nested else Has.UNKNOWN
        if part.startswith("__") and part.endswith("__"):
            return Has.UNKNOWN
        certain = not (space.open or node.keywords)
        certain &= all(_decorator(d) in PLAIN_DECORATORS for d in node.decorator_list)
        answers = [self._in_base(module, base, parts, typing, seen) for base in node.bases]
        return any_of([*answers, Has.NO if certain else Has.UNKNOWN])

    def _in_base(self, module: str, base: ast.expr, parts: tuple[str, ...], typing: bool, seen: frozenset[str]) -> Has:
        name = dotted(base.value if isinstance(base, ast.Subscript) else base)
        if name in PLAIN_BASES:
            return Has.NO
        names = tuple(name.split(".")) if name else ()
        if not names or self._in_module(module, names, typing, frozenset()) is not Has.YES:
            return Has.UNKNOWN
        return self._in_module(module, (*names, *parts), typing, seen)


def _decorator(node: ast.expr) -> str:
    return dotted(node.func if isinstance(node, ast.Call) else node)
