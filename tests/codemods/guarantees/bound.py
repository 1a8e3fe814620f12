"""Which names each scope and each arm of a block binds, and which of them a rewrite lost."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from guarantees.namespace import target_names

SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
COMPOUND = (
    ast.If | ast.Try | ast.TryStar | ast.With | ast.AsyncWith | ast.For | ast.AsyncFor | ast.While | ast.Match
)  # fmt: skip


@dataclass(slots=True)
class Block:
    """One suite of statements: what it binds itself, and the blocks inside it."""

    where: str
    line: int
    names: dict[str, int] = field(default_factory=dict)  # name -> line that binds it
    imported: set[str] = field(default_factory=set)  # names bound by import statements alone
    inner: list[tuple[str, str, list[Block]]] = field(default_factory=list)  # (kind, identity, arms)

    def all_names(self) -> set[str]:
        return set(self.names).union(*(arm.all_names() for _, _, arms in self.inner for arm in arms))


@dataclass(frozen=True, slots=True)
class Lost:
    """A name that a block bound before the rewrite and does not bind after it."""

    name: str
    where: str
    line: int  # in the file before
    imported: bool
    why: str


def by_scope(made: Block) -> dict[str, set[str]]:
    """What each module, class and function binds, whichever arm of it does."""
    found: dict[str, set[str]] = {}
    _by_scope(made, found)
    return found


def _by_scope(made: Block, found: dict[str, set[str]]) -> None:
    found.setdefault(re.sub(r"/[a-z-]+@\d+", "", made.where), set()).update(made.names)
    for _, _, arms in made.inner:
        for arm in arms:
            _by_scope(arm, found)


def block(where: str, body: list[ast.stmt], line: int) -> Block:
    made = Block(where, line)
    for statement in body:
        _own_names(made, statement)
        if isinstance(statement, SCOPES):
            inner = block(f"{where}.{statement.name}", statement.body, statement.lineno)
            made.inner.append((type(statement).__name__, statement.name, [inner]))
        elif isinstance(statement, COMPOUND):
            arms = [block(f"{where}/{kind}@{at}", stmts, at) for kind, stmts, at in _arms(statement)]
            made.inner.append(
                (type(statement).__name__, ",".join(sorted(set().union(*(a.all_names() for a in arms)))), arms)
            )
    return made


def _arms(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt], int]]:
    kind = type(node).__name__.lower()
    for name, label in (("body", kind), ("orelse", f"{kind}-else"), ("finalbody", "finally")):
        stmts = getattr(node, name, [])
        if stmts:
            yield label, stmts, stmts[0].lineno
    for handler in getattr(node, "handlers", []):
        yield "except", handler.body, handler.lineno
    for case in getattr(node, "cases", []):
        yield "case", case.body, case.pattern.lineno


def _own_names(made: Block, node: ast.stmt) -> None:
    line = node.lineno
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            name = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0])
            if name not in made.names:
                made.imported.add(name)
            made.names.setdefault(name, line)
        return
    for name in _bound_by(node):
        made.names.setdefault(name, line)
        made.imported.discard(name)


def _bound_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, SCOPES):
        yield node.name
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield from target_names(node.target)
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            yield from target_names(item.optional_vars) if item.optional_vars else ()
    elif isinstance(node, ast.Try | ast.TryStar):
        yield from (handler.name for handler in node.handlers if handler.name)
    elif isinstance(node, ast.Match):
        for case in node.cases:
            names = (getattr(part, "name", None) for part in ast.walk(case.pattern))
            yield from (name for name in names if isinstance(name, str))
    elif not isinstance(node, COMPOUND):
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def lost(before: Block, after: Block, folded: bool = True) -> Iterator[Lost]:
    """Names of `before` that the matching block of `after` no longer binds.

    A block that is gone is looked for in its parent (`folded`): one arm, whole, must have taken its place.
    """
    for name in before.names.keys() - after.names.keys():
        yield Lost(name, before.where, before.names[name], name in before.imported, "not bound here any more")
    for (_, _, arms), match in _pairs(before, after):
        if match is None:
            taken_over = folded and any(arm.all_names() <= after.all_names() for arm in arms)
            if not taken_over:
                for name in sorted(arms[0].all_names()):
                    yield Lost(name, arms[0].where, arms[0].line, name in arms[0].imported, "its block is gone")
            continue
        for arm, twin in _arm_pairs(arms, match):
            if twin is None:
                for name in sorted(arm.all_names()):
                    yield Lost(name, arm.where, arm.line, name in arm.imported, "its arm is gone")
            else:
                yield from lost(arm, twin, folded)


Inner = tuple[str, str, list[Block]]


def _pairs(before: Block, after: Block) -> Iterator[tuple[Inner, list[Block] | None]]:
    """Each inner block of `before` with its counterpart: same kind, in the same order, by what it binds."""
    left = [(kind, names) for kind, names, _ in before.inner]
    right = [(kind, names) for kind, names, _ in after.inner]
    matched: dict[int, int] = {}
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag in {"equal", "replace"}:
            free = list(range(j1, j2))
            for i in range(i1, i2):
                twin = next((j for j in free if left[i][0] == right[j][0] and _alike(left[i], right[j])), None)
                if twin is not None:
                    matched[i] = twin
                    free = [j for j in free if j > twin]
    for i, inner in enumerate(before.inner):
        yield inner, after.inner[matched[i]][2] if i in matched else None


def _alike(left: tuple[str, str], right: tuple[str, str]) -> bool:
    is_scope = left[0] in {"FunctionDef", "AsyncFunctionDef", "ClassDef"}
    return left[1] == right[1] if is_scope else True


def _arm_pairs(before: list[Block], after: list[Block]) -> Iterator[tuple[Block, Block | None]]:
    free = list(after)
    for arm in before:
        label = arm.where.rpartition("/")[2].split("@")[0]
        twin = next((other for other in free if other.where.rpartition("/")[2].split("@")[0] == label), None)
        if arm.where.rpartition("/")[2] == arm.where:  # a scope, not an arm
            twin = free[0] if free else None
        if twin is not None:
            free.remove(twin)
        yield arm, twin
