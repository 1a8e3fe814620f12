"""What one walk over a file's tree finds (walk.py): who binds which name in which scope, and each place that reads one.

All rules share it, so that a file is walked once however many rules there are. Resolution does not follow the flow of
control: a name with several bindings in one scope has several meanings, and the rules are told so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Path = tuple[ast.AST, str, Any]  # (parent node, field of the parent, the parent's own Path or None)
Block = list[ast.stmt]


@dataclass(slots=True, eq=False)
class Scope:
    """A module, class, function, lambda or comprehension, and what it binds."""

    kind: str  # "module" "class" "function" "comprehension"
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope a read of `name` here reaches, and all it may find there; None for a builtin or a star import's."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if first or scope.kind != "class":
                declared = scope.elsewhere.get(name)
                if declared == "global":
                    scope = scope.module()
                    return (scope, scope.bindings[name]) if name in scope.bindings else None
                if name in scope.bindings and declared is None:
                    return scope, scope.bindings[name]
            first = False  # what stands deeper does not see a class body's names
            scope = scope.parent
        return None

    def module(self) -> Scope:
        """The module's own scope."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass(slots=True, eq=False)
class Binding:
    """One place that gives a name a value."""

    name: str
    kind: str  # "import" "from" "import_module" "alias" "definition" "argument" "assignment"
    node: ast.AST
    path: Path
    scope: Scope
    target: str = ""  # import kinds: the dotted path it stands for, as written (relative ones begin with dots)
    value: Use | None = None  # alias: the chain on the right-hand side


class Use(NamedTuple):
    """A name that is read, written through or deleted, with the attributes that follow it."""

    scope: Scope
    name: str  # "" when the chain starts with something that is no name: `f().a.b`
    attributes: tuple[str, ...]
    node: ast.expr  # the whole chain
    path: Path


class Node(NamedTuple):
    """A node that some rule asked for, with where it stands."""

    node: Any
    path: Path
    scope: Scope


@dataclass(slots=True)
class Model:
    """What one walk found."""

    module: Scope
    uses: list[Use]
    nodes: dict[type[ast.AST], list[Node]]
    imports: list[Node]  # Import and ImportFrom statements, in the order of the text
    scopes: list[Scope]

    def forget(self) -> None:
        """Let go of what refers back to itself, so that the memory is free without a search for garbage."""
        for scope in self.scopes:
            scope.bindings.clear()

    def every(self, *types: type[ast.AST]) -> Iterator[Node]:
        """All nodes of these types, type by type."""
        for wanted in types:
            yield from self.nodes.get(wanted, ())


def ancestors(path: Path | None) -> Iterator[tuple[ast.AST, str]]:
    """(node, field) from the direct parent outwards."""
    while path is not None:
        yield path[0], path[1]
        path = path[2]


def class_around(scope: Scope) -> Scope | None:
    """The class whose method (or a function inside it) the scope is."""
    inner: Scope | None = scope
    while inner is not None and inner.kind != "class":
        inner = inner.parent
    return inner
