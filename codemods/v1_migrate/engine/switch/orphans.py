"""Paths of the tree's own objects that stood in folded code alone: nothing refers to the object any more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..context import PythonFile

if TYPE_CHECKING:
    from .statements import Statements

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Orphan:
    """A path that stands at text[start:end], in code that goes."""

    start: int
    end: int
    dotted: str


def orphans(file: PythonFile, statements: Statements) -> Iterator[Orphan]:
    """Each object of the tree that the file named in code which goes, and that nothing else refers to.

    A path counts as the tree's where one of its Python files is the module that it begins with. The object is referred
    to where its own name occurs, but for the line that defines it.
    """
    found: dict[str, Orphan] = {}
    for constant in file.model.every(ast.Constant):
        value = constant.node.value
        if isinstance(value, str) and _DOTTED.fullmatch(value) and statements.gone(constant.node):
            dotted = value.replace(":", ".")
            found.setdefault(dotted, Orphan(*file.span(constant.node), dotted))
    if not found:
        return
    modules = {file.tree.module(path) for path in file.tree.files}
    for orphan in found.values():
        module, _, name = orphan.dotted.rpartition(".")
        if module in modules and not _referred_to(name, file, statements):
            yield orphan


def _referred_to(name: str, file: PythonFile, statements: Statements) -> bool:
    """Some line of the tree's Python files that stays has the name, beside its definition."""
    word, definition = re.compile(rf"\b{name}\b"), re.compile(rf"\s*(?:class|def|async\s+def)\s+{name}\b")
    for path in file.tree.files:
        if file.tree.module(path) == file.module:
            continue
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if name in text and any(word.search(line) and not definition.match(line) for line in text.splitlines()):
            return True
    text = file.source.text
    return any(
        not statements.gone_text(*match.span()) and not definition.match(text, text.rfind("\n", 0, match.start()) + 1)
        for match in word.finditer(text)
    )
