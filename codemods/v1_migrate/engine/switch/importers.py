"""What the files of a tree do with each other's names: an import nobody uses in its file may serve another one.

A name of a module that another file sets, as tests do, is no constant of that module.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from ..tree import Tree, absolute

_FROM = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\r\n]*)", re.MULTILINE)
_DOTTED = re.compile(r"\b(?:\w+\.){2,}\w+")
_PATCHES = re.compile(r"\b(?:setattr|patch)\b")
_NAMED = re.compile(r"""["'](?:\w+\.)*([^\W\d]\w*)["']""")
_ATTRIBUTE_SET = re.compile(r"^[ \t]*(?!(?:self|cls)\.)(?:\w+\.)+(\w+)[ \t]*=(?!=)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\r\n]*")


def imported_names(tree: Tree) -> frozenset[str]:
    """Dotted names that some file of the tree imports from a module, or spells out in full."""
    return _names(tree.root, tuple(tree.files))


def patched_names(tree: Tree) -> frozenset[str]:
    """Names that some file of the tree sets as an attribute, or that a text names in a file that patches anything."""
    return _patched(tuple(tree.files))


@lru_cache(maxsize=2)
def _patched(files: tuple[Path, ...]) -> frozenset[str]:
    found: set[str] = set()
    for path in files:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found.update(_ATTRIBUTE_SET.findall(text))
        if _PATCHES.search(text):
            found.update(_NAMED.findall(text))
    return frozenset(found)


@lru_cache(maxsize=2)
def _names(root: Path, files: tuple[Path, ...]) -> frozenset[str]:
    tree = Tree(root)
    found: set[str] = set()
    for path in files:
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        found.update(_DOTTED.findall(text))
        for module, names in _FROM.findall(text):
            base = absolute(tree.package(path), module)
            listed = _COMMENT.sub("", names).strip("()").split(",")
            found.update(f"{base}.{name.split()[0]}" for name in listed if name.split())
    return frozenset(found)
