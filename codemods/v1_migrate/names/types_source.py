"""Reads from one module's source of which classes the members of its classes are, and what its functions return.

Nothing is looked up here: names stay as the module spells them out, and what is assigned stays an expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from .annotations import held_by, is_none, last_name, members_of, unquoted
from .classes_source import dotted_of, last_of
from .extract import names_in

Function = ast.FunctionDef | ast.AsyncFunctionDef
ATTRIBUTE, RESULT, AWAITED, CONTEXT = ":", "(", "~", "@"
ELEMENTS, VALUES, NOTHING = "[]", "{}", "None"


@dataclass(frozen=True, slots=True)
class Chain:
    """`parameter.a.b` or `self.a.b`, as a value: the types of what it starts from, and the attributes behind."""

    root: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(slots=True)
class ModuleTypes:
    """The types that one module writes down. Keys are names inside the module: "VllmConfig.model_config"."""

    declared: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # kind, alternatives
    assigned: dict[str, list[Chain | None]] = field(default_factory=dict)  # None: nobody can tell


class _Reader:
    def __init__(self, tree: ast.Module, module: str, is_package: bool) -> None:
        self.module = module
        self.scope = names_in(tree, module, is_package)
        self.found = ModuleTypes()

    def body(self, body: list[ast.stmt], owner: str = "") -> None:
        for statement in _flat(body):
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self.function(statement, owner)
                case ast.ClassDef():
                    self.body(statement.body, f"{owner}{statement.name}.")
                case ast.AnnAssign(target=ast.Name(id=name)) if owner:
                    self.declare(owner + name, ATTRIBUTE, statement.annotation)

    def function(self, node: Function, owner: str) -> None:
        decorators = {last_of(decorator) for decorator in node.decorator_list}
        if "overload" in decorators or decorators & {"setter", "deleter"}:
            return
        if node.returns is not None:
            self.declare(owner + node.name, _kind(node, decorators), node.returns)
        if owner and not decorators & {"staticmethod", "classmethod"} and node.args.args:
            self.attributes(node, owner)

    def attributes(self, node: Function, owner: str) -> None:
        """What a method sets on its object."""
        this = node.args.args[0].arg
        given, local = self.parameters(node), _bound_in(node)
        for inner in ast.walk(node):
            match inner:
                case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if name == this:
                    self.declare(owner + attribute, ATTRIBUTE, inner.annotation)
                case ast.Assign(targets=targets, value=value) if not is_none(value):
                    for attribute in _set_on(targets, this):
                        chain = self.chain(value, this, owner.removesuffix("."), given, local)
                        self.found.assigned.setdefault(owner + attribute, []).append(chain)
                case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if name == this:
                    self.found.assigned.setdefault(owner + attribute, []).append(None)

    def parameters(self, node: Function) -> dict[str, tuple[str, ...]]:
        """The types of the parameters that the function does not bind again."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        again = _bound_in(node, arguments=False)
        return {
            each.arg: self.alternatives(each.annotation)
            for each in arguments
            if each.annotation is not None and each.arg not in again
        }

    def chain(
        self, value: ast.expr, this: str, owner: str, given: dict[str, tuple[str, ...]], local: set[str]
    ) -> Chain | None:
        if isinstance(value, ast.Call):
            plain = (dotted_of(value.func) or "").partition(".")[0] not in local
            made = (self.scope.target(value.func) or "") if plain else ""
            first, _, last = made.rpartition(".")
            return Chain((first if last.startswith("from_") else made,), ()) if made else None
        attributes: list[str] = []
        while isinstance(value, ast.Attribute):
            attributes.insert(0, value.attr)
            value = value.value
        if not isinstance(value, ast.Name):
            return None
        if value.id == this and attributes:
            return Chain((f"{self.module}.{owner}",), tuple(attributes))
        return Chain(given[value.id], tuple(attributes)) if given.get(value.id) else None

    def declare(self, name: str, kind: str, annotation: ast.expr) -> None:
        alternatives = self.alternatives(annotation)
        if any(each not in ("", NOTHING) for each in alternatives):
            self.found.declared.setdefault(name, (kind, alternatives))

    def alternatives(self, annotation: ast.expr | None) -> tuple[str, ...]:
        """ "a.B", "[]a.B", "{}a.B", "None" at the end, and "" for what is nothing of the kind."""
        node = unquoted(annotation) if annotation is not None else None
        members = members_of(node) if node is not None else []
        said = dict.fromkeys(self.spelled(each) for each in members if not is_none(each))
        optional = (
            any(is_none(each) or last_name(each) == "Optional" for each in _written(node))
            if node is not None
            else False
        )
        return (*said, NOTHING) if said and optional else tuple(said)

    def spelled(self, node: ast.expr, *, inside: bool = False) -> str:
        node = unquoted(node) or node
        held = None if inside else held_by(node)
        if held is not None:
            only = [each for each in members_of(held[0]) if not is_none(each)]
            element = self.spelled(only[0], inside=True) if len(only) == 1 else ""
            return (VALUES if held[1] else ELEMENTS) + element if element else ""
        return self.scope.target(node) or ""


def module_types(tree: ast.Module, module: str, is_package: bool) -> ModuleTypes:
    """What one module says of types."""
    reader = _Reader(tree, module, is_package)
    reader.body(tree.body)
    return reader.found


def _written(node: ast.expr) -> Iterator[ast.expr]:
    """A union's own expressions: its members, and the `Optional[...]` that makes one."""
    yield node
    yield from members_of(node)
    if isinstance(node, ast.Subscript):
        yield node.value


def _kind(node: Function, decorators: set[str]) -> str:
    if any(each.endswith("property") for each in decorators):
        return ATTRIBUTE
    if decorators & {"contextmanager", "asynccontextmanager"}:
        return CONTEXT
    gives = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(node))
    return AWAITED if isinstance(node, ast.AsyncFunctionDef) and not gives else RESULT


def _set_on(targets: list[ast.expr], this: str) -> Iterator[str]:
    """The attributes of `this` among the targets of an assignment, those in tuples, too."""
    for target in targets:
        for node in ast.walk(target):
            match node:
                case ast.Attribute(value=ast.Name(id=owner), attr=attribute, ctx=ast.Store()) if owner == this:
                    yield attribute


def _bound_in(node: Function, *, arguments: bool = True) -> set[str]:
    """The names that a function binds itself."""
    found: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found.add(inner.id)
        elif isinstance(inner, ast.alias):
            found.add((inner.asname or inner.name).partition(".")[0])
        elif isinstance(inner, ast.arg) and arguments:
            found.add(inner.arg)
    return found


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body, those behind conditions included."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from _flat([*statement.body, *statement.orelse])
        elif isinstance(statement, ast.Try):
            yield from _flat([*statement.body, *statement.orelse, *statement.finalbody])
        else:
            yield statement
