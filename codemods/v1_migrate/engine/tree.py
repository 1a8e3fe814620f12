"""What the tree under PATH is: which file is which module, and whether it is vLLM itself (a fork, a vendored copy)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_VLLM_SIGNS = ("envs.py", "engine", "sampling_params.py")  # two of these beside __init__.py: vLLM's own package
_VLLM_PARTS = (  # one of these: a part of it, vendored
    *_VLLM_SIGNS,
    *("attention", "distributed", "entrypoints", "executor", "lora", "model_executor", "multimodal"),
    *("prompt_adapter", "sequence.py", "spec_decode", "transformers_utils", "v1", "worker"),
    *("_custom_ops.py", "_ipex_ops.py"),
)
_COMMON_PARTS = ("config", "config.py", "core", "inputs", "outputs.py", "platforms", "plugins", "utils", "utils.py")
"""Names that any package may have: two of these, as well."""
_SETS = re.compile(
    r"^[ \t]*(?!self\.|cls\.)(?:\w+\.)+(\w+)[ \t]*(?::[^=\n]+)?=(?!=)"
    r"|(?<![\w.])setattr\(\s*[\w.]+\s*,\s*[\"'](\w+)[\"']",
    re.MULTILINE,
)
_ANOTHER = "another"  # stands before a package that is called vllm, and is not vLLM


@dataclass(slots=True)
class Tree:
    """Module names of files, and the modules of the package `vllm` that the tree defines itself."""

    root: Path
    vllm_roots: tuple[Path, ...] = ()  # folders that *are* the package vllm
    own: dict[str, Path] = field(default_factory=dict)  # dotted module of the tree's own vllm -> file
    files: tuple[Path, ...] = ()  # the Python files of the tree
    _texts: dict[str, str] = field(default_factory=dict, repr=False)
    _packages: dict[Path, str] = field(default_factory=dict, repr=False)
    _attributes: frozenset[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, root: Path, files: Iterable[Path]) -> Tree:
        """Look at the files (absolute paths) that were found under `root`."""
        listed = list(files)
        candidates = {parent for path in listed for parent in _vllm_parents(path)}
        roots = tuple(sorted(path for path in candidates if _is_vllm(path)))
        tree = cls(root, roots, files=tuple(listed))
        for path in listed:
            module = tree.module(path)
            if module.partition(".")[0] == "vllm":
                tree.own[module] = path
        return tree

    @property
    def is_vllm(self) -> bool:
        """The tree defines the package vllm."""
        return bool(self.vllm_roots)

    def module(self, path: Path) -> str:
        """The dotted name under which `path` is imported ("pkg.mod"; a package's own name for its __init__.py)."""
        package = self.package(path)
        stem = path.name.rpartition(".")[0] or path.name
        if stem == "__init__":
            return package
        return f"{package}.{stem}" if package else stem

    def package(self, path: Path) -> str:
        """The dotted package that relative imports in `path` start from; "" outside any package."""
        folder = path.parent
        if folder not in self._packages:
            self._packages[folder] = self._package(folder)
        return self._packages[folder]

    def _package(self, folder: Path) -> str:
        for root in self.vllm_roots:
            if folder == root or root in folder.parents:
                return ".".join(("vllm", *folder.relative_to(root).parts))
        parts: list[str] = []
        top = folder
        while (folder / "__init__.py").is_file() and folder.name.isidentifier():
            parts.append(folder.name)
            top, folder = folder, folder.parent
        if parts and parts[-1] == "vllm" and not _part_of_vllm(top):
            parts.append(_ANOTHER)  # copied out of another package: its relative imports are not vLLM's
        return ".".join(reversed(parts))

    def defines(self, dotted: str) -> bool:
        """The tree's own vllm has this module, or a module of it mentions the name (a fork's own addition)."""
        module, _, name = dotted.rpartition(".")
        if dotted in self.own:
            return True
        while module:
            if module in self.own:
                return re.search(rf"\b{re.escape(name)}\b", self._text(module)) is not None
            module, _, name = module.rpartition(".")
        return False

    def sets(self, attribute: str) -> bool:
        """Some file of the tree that speaks of vllm sets an attribute of this name, on something else than self."""
        if self._attributes is None:
            texts = (path.read_text("utf-8", "replace") for path in self.files if path.is_file())
            self._attributes = frozenset().union(*(attributes_set(text) for text in texts if "vllm" in text))
        return attribute in self._attributes

    def _text(self, module: str) -> str:
        if module not in self._texts:
            self._texts[module] = self.own[module].read_text("utf-8", "replace")
        return self._texts[module]


def attributes_set(text: str) -> frozenset[str]:
    """The attributes that a text sets on modules, classes and objects: `a.b.NAME = 1`, `setattr(a.b, "NAME", 1)`."""
    return frozenset(match[1] or match[2] for match in _SETS.finditer(text))


def absolute(package: str, written: str) -> str:
    """`..a.b` as seen from `package`; "" when it climbs out. A path without leading dots comes back as it is."""
    name = written.lstrip(".")
    level = len(written) - len(name)
    if not level:
        return written
    parts = package.split(".") if package else []
    if level > len(parts):
        return ""
    base = parts[: len(parts) - level + 1]
    return ".".join([*base, name] if name else base)


def _part_of_vllm(folder: Path) -> bool:
    common = sum((folder / part).exists() for part in _COMMON_PARTS)
    return common >= 2 or any((folder / part).exists() for part in _VLLM_PARTS)


def _vllm_parents(path: Path) -> Iterable[Path]:
    return (parent for parent in path.parents if parent.name == "vllm")


def _is_vllm(folder: Path) -> bool:
    if not (folder / "__init__.py").is_file():
        return False
    return sum((folder / sign).exists() for sign in _VLLM_SIGNS) >= 2
