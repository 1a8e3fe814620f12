"""What one module or class body binds, told from its syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

BLOCKS = ("body", "orelse", "finalbody")
Place = ast.Module | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Binding:
    """One way in which a name comes to be bound."""

    kind: str  # "class" | "function" | "import" | "alias" | "value"
    node: ast.ClassDef | None = None
    module: str = ""  # import: the module named
    target: str = ""  # import: the name taken from it ("" for the module itself); alias: the expression as written
    typing_only: bool = False  # bound under `if TYPE_CHECKING:` alone, so not there at run time


@dataclass(slots=True)
class Namespace:
    """All names of one module or class."""

    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    lazy: set[str] = field(default_factory=set)  # served by the module's __getattr__
    exported: set[str] | None = None  # __all__, where it is a literal
    open: bool = False  # names may appear that the source does not spell out
    patched: dict[str, set[str]] = field(default_factory=dict)  # `Class.attribute = ...` at module level

    def add(self, name: str, binding: Binding) -> None:
        self.bindings.setdefault(name, []).append(binding)


def absolute(module: str | None, level: int, package: str) -> str:
    """The module an import statement names, for code that lives in `package`; "" if it climbs out of it."""
    if not level:
        return module or ""
    parts = package.split(".") if package else []
    if level - 1 >= len(parts):
        return ""
    base = parts[: len(parts) - (level - 1)]
    return ".".join([*base, module] if module else base)


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def is_type_checking(test: ast.expr) -> bool:
    return dotted(test).split(".")[-1] == "TYPE_CHECKING"


def statements(body: Iterable[ast.stmt], typing_only: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement that runs in this scope, with whether only a type checker sees it."""
    for statement in body:
        yield statement, typing_only
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        guard = isinstance(statement, ast.If) and is_type_checking(statement.test)
        for name in BLOCKS:
            yield from statements(getattr(statement, name, ()), typing_only or (guard and name == "body"))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from statements(part.body, typing_only)


def target_names(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def read(place: Place, package: str, writes_globals: bool = True) -> Namespace:
    """The namespace of a module (or class) whose relative imports start from `package`.

    `writes_globals=False` spares the search for `global` statements where the source has no such word.
    """
    space = Namespace()
    for statement, typing_only in statements(place.body):
        _bind(space, statement, package, typing_only)
    if isinstance(place, ast.ClassDef):
        _instance_attributes(space, place)
    else:
        if writes_globals:
            _globals_of_functions(space, place)
        _module_getattr(space, place)
    return space


def _bind(space: Namespace, node: ast.stmt, package: str, typing_only: bool) -> None:
    if isinstance(node, ast.ClassDef):
        space.add(node.name, Binding("class", node=node, typing_only=typing_only))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        space.add(node.name, Binding("function", typing_only=typing_only))
    elif isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            module = alias.name if alias.asname else name
            space.add(name, Binding("import", module=module, typing_only=typing_only))
    elif isinstance(node, ast.ImportFrom):
        source = absolute(node.module, node.level, package)
        for alias in node.names:
            if alias.name == "*":
                space.stars.append(source)
            else:
                binding = Binding("import", module=source, target=alias.name, typing_only=typing_only)
                space.add(alias.asname or alias.name, binding)
    else:
        _bind_targets(space, node, typing_only)


def _bind_targets(space: Namespace, node: ast.stmt, typing_only: bool) -> None:
    targets: list[ast.expr] = []
    alias = ""
    if isinstance(node, ast.Assign):
        targets, alias = node.targets, dotted(node.value)
        _exports(space, node)
        for target in targets:
            owner, _, attribute = dotted(target).rpartition(".")
            if owner:
                space.patched.setdefault(owner, set()).add(attribute)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        targets = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        targets = [item.optional_vars for item in node.items if item.optional_vars]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.NamedExpr):
        targets = [node.value.target]
    for target in targets:
        for name in target_names(target):
            simple = alias and isinstance(target, ast.Name)
            kind = "alias" if simple else "value"
            space.add(name, Binding(kind, target=alias if simple else "", typing_only=typing_only))


def _exports(space: Namespace, node: ast.Assign) -> None:
    if dotted(node.targets[0]) == "__all__" and isinstance(node.value, ast.List | ast.Tuple):
        space.exported = {part.value for part in node.value.elts if _is_string(part)}  # type: ignore[attr-defined]


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _instance_attributes(space: Namespace, place: ast.ClassDef) -> None:
    """`self.x = ...` counts as a member: to be sure that a name is missing, err on the side of having it."""
    for node in ast.walk(place):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            space.add(node.attr, Binding("value"))
    if {"__getattr__", "__getattribute__"} & space.bindings.keys():
        space.open = True


def _globals_of_functions(space: Namespace, place: ast.Module) -> None:
    for node in ast.walk(place):
        if isinstance(node, ast.Global):
            for name in node.names:
                space.add(name, Binding("value"))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Call) and dotted(node.value.func) == "globals":
                if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                    space.add(node.slice.value, Binding("value"))
                else:
                    space.open = True
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "globals().update":
            space.open = True


def _module_getattr(space: Namespace, place: ast.Module) -> None:
    """The names a module's `__getattr__` can serve: its own strings and the keys of the literal tables it looks in.

    Where it looks in anything else, the module is open: nothing is known to be missing from it.
    """
    for statement, _ in statements(place.body):
        if not (isinstance(statement, ast.FunctionDef) and statement.name == "__getattr__"):
            continue
        tables = _literal_tables(place)
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        strings = {node.value for node in ast.walk(statement) if _is_string(node)}  # type: ignore[attr-defined]
        space.lazy |= {text for text in strings if text.isidentifier()}
        for name in used & tables.keys():
            space.lazy |= tables[name]
        closed = used & tables.keys() or "globals" in used or space.lazy
        space.open = not closed


def _literal_tables(place: ast.Module) -> dict[str, set[str]]:
    tables: dict[str, set[str]] = {}
    for statement, _ in statements(place.body):
        if isinstance(statement, ast.Assign):
            name, value = dotted(statement.targets[0]), statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            name, value = dotted(statement.target), statement.value
        else:
            continue
        parts: list[ast.expr | None] = []
        if isinstance(value, ast.Dict):
            parts = list(value.keys)
        elif isinstance(value, ast.List | ast.Tuple | ast.Set):
            parts = list(value.elts)
        keys = {part.value for part in parts if part is not None and _is_string(part)}  # type: ignore[attr-defined]
        if name and keys:
            tables.setdefault(name, set()).update(keys)
    return tables
