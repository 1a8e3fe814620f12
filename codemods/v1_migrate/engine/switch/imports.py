"""Imports that only the folded code used: whole statements, or single names of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..context import PythonFile
from ..names_list import without
from ..scopes import Node, Scope, ancestors
from .draft import Draft
from .expressions import READ
from .functions import is_test_file
from .importers import imported_names
from .statements import Statements

if TYPE_CHECKING:
    from .unused import Unused

_OF_THE_SWITCH = ("VLLM_USE_V1", "set_vllm_use_v1")


class Imports:
    """Takes them out. An import in a `try` stays, and so does what another file takes from this one."""

    def __init__(self, file: PythonFile, draft: Draft, statements: Statements, unused: Unused) -> None:
        self.file = file
        self.draft = draft
        self.statements = statements
        self.unused = unused
        self.left_out: set[int] = set()  # names of import statements

    def drop(self) -> bool:
        """One round; True when something went."""
        changed = False
        for found in self.file.model.imports:
            node = found.node
            if self.statements.gone(node) or any(isinstance(parent, ast.Try) for parent, _ in ancestors(found.path)):
                continue
            if found.scope.kind == "module" and self.file.source.rel.endswith("__init__.py"):
                continue
            leaving = {position for position, alias in enumerate(node.names) if self._import_unused(alias, found)}
            if leaving:
                changed |= self._drop_import(node, leaving)
        return changed

    def _import_unused(self, alias: ast.alias, found: Node) -> bool:
        if alias.name == "*" or id(alias) in self.left_out:
            return False
        local = alias.asname or alias.name.partition(".")[0]
        if self.unused.now_unused(found.scope, local):
            return not self.unused.mentioned(local) and not self._imported_elsewhere(local, found.scope)
        node = found.node
        switch = isinstance(node, ast.ImportFrom) and node.module == "vllm.envs" and alias.name in _OF_THE_SWITCH
        if (
            not switch
            or self.unused.uses(found.scope, local)
            or self.unused.mentioned(local)
            or self.statements.values.withheld(node)
        ):
            return False
        self.statements.expressions.report(READ, alias, True, "")  # nothing used it, and it cannot be imported
        return True

    def _imported_elsewhere(self, name: str, scope: Scope) -> bool:
        """Another file of the tree takes the name from this module."""
        if scope.kind != "module" or is_test_file(self.file):
            return False
        return f"{self.file.module}.{name}" in imported_names(self.file.tree)

    def _drop_import(self, node: ast.Import | ast.ImportFrom, leaving: set[int]) -> bool:
        self.left_out.update(id(node.names[position]) for position in leaving)
        leaving = {position for position, alias in enumerate(node.names) if id(alias) in self.left_out}
        if len(leaving) == len(node.names):
            self.statements.doom(node)
            return True
        start, end = self.file.span(node)
        if isinstance(node, ast.ImportFrom):
            code = without(self.draft.source.text[start:end], leaving, {})
            if code is not None:
                self.draft.replace(start, end, code)
            return True
        tokens = self.draft.tokens
        first = tokens.at(start) + 1
        items = tokens.items(first, tokens.before(end) + 1)
        self.draft.drop_items(items, leaving, (tokens.table[first].start, end))
        return True
