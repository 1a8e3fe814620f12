"""Reads the names of one module from its source: everything `from module import name` could find there.

Records are short strings, so that 55 releases of a tree stay small (docs/decisions/0010-names-index.md):

    f(sig)  F(sig)      function, async function
    c(spec)             class: flags|bases|fields
    v                   value
    =dotted             import or alias
    m M k s p           method, async method, classmethod, staticmethod (with signature), property
    a A i               class attribute, annotated field, attribute set on self

A leading `?` means that branches bind different things, `!` that only type checkers see the name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .classes_source import class_records, dotted_of, last_of, signature

Branch = tuple[int, ...]
_RANK = {"c": 2, "f": 2, "F": 2, "=": 2, "v": 1}  # of two arms that bind a name, the more telling one is kept


@dataclass(slots=True)
class ModuleNames:
    """What one source file binds, independent of the release it came from."""

    names: dict[str, str] = field(default_factory=dict)  # "Class.method" -> record
    stars: list[str] = field(default_factory=list)  # modules named by `from x import *`
    exported: list[str] | None = None  # __all__, when it is a literal
    imports: set[str] = field(default_factory=set)  # absolute modules imported anywhere in the file
    open: bool = False  # a __getattr__ or star import that cannot be followed


@dataclass(slots=True)
class _Bound:
    record: str
    branch: Branch
    typing_only: bool
    members: dict[str, str]
    ambiguous: bool = False


class _Scope:
    """Binds the top-level names of one module."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.module = module
        self.package = module if is_package else module.rpartition(".")[0]
        self.bound: dict[str, _Bound] = {}
        self.result = ModuleNames()
        self.literals: dict[str, ast.expr] = {}
        self.getattr: ast.FunctionDef | None = None
        self._branches = 0

    def absolute(self, level: int, module: str | None) -> str:
        if not level:
            return module or ""
        base = self.package.split(".")
        base = base[: len(base) - (level - 1)]
        return ".".join([*base, module] if module else base)

    def bind(
        self, name: str, record: str, branch: Branch, typing_only: bool, members: dict[str, str] | None = None
    ) -> None:
        new = _Bound(record, branch, typing_only, members or {})
        old = self.bound.get(name)
        straight_line = old is not None and old.branch[: len(branch)] == branch and old.typing_only == typing_only
        if old is None or straight_line:
            self.bound[name] = new
            return
        keep, drop = (old, new) if _RANK[old.record[0]] >= _RANK[new.record[0]] else (new, old)
        keep.ambiguous |= drop.ambiguous or (drop.record != keep.record and drop.record != "v")
        keep.typing_only = old.typing_only and new.typing_only
        keep.branch = min(old.branch, new.branch, key=len)
        self.bound[name] = keep

    def target(self, expr: ast.expr) -> str | None:
        """The absolute dotted name of `a.b.c`, when `a` is an import, a class or a function of this module."""
        dotted = dotted_of(expr)
        if dotted is None:
            return None
        head, _, rest = dotted.partition(".")
        known = self.bound.get(head)
        if known is None or known.record[0] == "v":
            return None
        start = known.record[1:] if known.record[0] == "=" else f"{self.module}.{head}"
        return f"{start}.{rest}" if rest else start

    def base(self, expr: ast.expr) -> str:
        """The absolute dotted name of a base class; "?" when it is computed."""
        if isinstance(expr, ast.Subscript):
            expr = expr.value
        found = self.target(expr)
        if found is not None:
            return found
        dotted = dotted_of(expr)
        if dotted is None:
            return "?"
        return f"{self.module}.{dotted}" if dotted.partition(".")[0] in self.bound else f"builtins.{dotted}"

    def block(self, body: Iterable[ast.stmt], branch: Branch = (), typing_only: bool = False) -> None:
        for statement in body:
            self.statement(statement, branch, typing_only)

    def arm(self, body: list[ast.stmt], branch: Branch, typing_only: bool) -> None:
        self._branches += 1
        self.block(body, (*branch, self._branches), typing_only)

    def statement(self, node: ast.stmt, branch: Branch, typing_only: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node, branch, typing_only)
            case ast.ClassDef():
                record, members = class_records(node, self.base)
                self.bind(node.name, record, branch, typing_only, members)
            case ast.Import() | ast.ImportFrom():
                self.imports(node, branch, typing_only)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self.assign(node, branch, typing_only)
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__")), orelse=orelse):
                self.block(orelse, branch, typing_only)  # never run on import
            case ast.If(test=test, body=body, orelse=orelse):
                checking = ast.unparse(test).endswith("TYPE_CHECKING") and not isinstance(test, ast.UnaryOp)
                self.arm(body, branch, typing_only or checking)
                self.block(orelse, branch, typing_only) if checking else self.arm(orelse, branch, typing_only)
            case ast.Try() | ast.TryStar():
                self.block(node.body + node.orelse, branch, typing_only)
                for handler in node.handlers:
                    self.arm(handler.body, (*branch, 0), typing_only)
                self.block(node.finalbody, branch, typing_only)
            case ast.With(items=items, body=body):
                for item in items:
                    self.values(item.optional_vars, branch, typing_only)
                self.block(body, branch, typing_only)
            case ast.For(target=target, body=body, orelse=orelse):
                self.values(target, branch, typing_only)
                self.arm(body + orelse, branch, typing_only)
            case ast.While(body=body, orelse=orelse):
                self.arm(body + orelse, branch, typing_only)
            case ast.Match(cases=cases):
                for case in cases:
                    self.arm(case.body, branch, typing_only)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name) and not branch:
                        self.bound.pop(target.id, None)
            case ast.Expr(value=value):
                self.expression(value)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, branch: Branch, typing_only: bool) -> None:
        decorators = {last_of(d) for d in node.decorator_list}
        if "overload" in decorators:
            return
        if node.name == "__getattr__" and isinstance(node, ast.FunctionDef):
            self.getattr = node
        letter = "F" if isinstance(node, ast.AsyncFunctionDef) else "f"
        self.bind(node.name, letter + signature(node.args), branch, typing_only)

    def imports(self, node: ast.Import | ast.ImportFrom, branch: Branch, typing_only: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound, target = (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
                self.bind(bound, f"={target}", branch, typing_only)
            return
        module = self.absolute(node.level, node.module)
        for alias in node.names:
            if alias.name == "*":
                self.result.stars.append(module)
            else:
                self.bind(alias.asname or alias.name, f"={module}.{alias.name}", branch, typing_only)

    def assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, branch: Branch, typing_only: bool) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        for target in targets:
            if not isinstance(target, ast.Name):
                self.values(target, branch, typing_only)
                continue
            if isinstance(node, ast.AugAssign):
                self.exported_more(target.id, value)
                continue
            if value is not None:
                self.literals[target.id] = value
            if target.id == "__all__":
                self.result.exported = _strings(value)
            arms = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value] if value else []
            aliases = [found for arm in arms if (found := self.target(arm)) is not None]
            self.bind(target.id, f"={aliases[0]}" if aliases else "v", branch, typing_only)
            if len(arms) > 1:
                self.bound[target.id].ambiguous = True

    def values(self, target: ast.expr | None, branch: Branch, typing_only: bool) -> None:
        for node in ast.walk(target) if target is not None else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bind(node.id, "v", branch, typing_only)

    def exported_more(self, name: str, value: ast.expr | None) -> None:
        if name == "__all__" and self.result.exported is not None:
            more = _strings(value)
            self.result.exported = None if more is None else self.result.exported + more

    def expression(self, value: ast.expr) -> None:
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="__all__"), attr="extend"), args=[more]):
                self.exported_more("__all__", more)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=table), attr="update"), args=[ast.Dict() as more]):
                known = self.literals.get(table)
                if isinstance(known, ast.Dict):
                    self.literals[table] = ast.Dict(known.keys + more.keys, known.values + more.values)


def _strings(value: ast.expr | None) -> list[str] | None:
    """The strings of a literal list, tuple or set (or of sums of such); None when it is computed."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        left, right = _strings(value.left), _strings(value.right)
        return None if left is None or right is None else left + right
    if isinstance(value, ast.Call) and len(value.args) == 1 and not value.keywords:
        return _strings(value.args[0])
    if not isinstance(value, ast.List | ast.Tuple | ast.Set):
        return None
    items = [e.value for e in value.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)]
    return items if len(items) == len(value.elts) else None


def names_in(tree: ast.Module, module: str, is_package: bool) -> _Scope:
    """The names at the top level of a module, for looking up what its expressions mean."""
    scope = _Scope(module, is_package)
    scope.block(tree.body)
    return scope


def extract(source: str, module: str, is_package: bool) -> ModuleNames:
    """Every name of one module. Raises SyntaxError as `ast.parse` does."""
    from .lazy_names import lazy_records  # the two modules share the scope's type

    tree = ast.parse(source)
    scope = names_in(tree, module, is_package)
    result = scope.result
    result.imports = set(_imported_modules(tree, scope))
    lazy: dict[str, str] | None = {}
    if scope.getattr is not None:
        lazy = lazy_records(scope.getattr, scope.literals, scope.absolute, scope.target)
        if lazy is None:
            result.open = True
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            for name in node.names:
                if name not in scope.bound:
                    scope.bind(name, "v", (), False)
    for name, bound in scope.bound.items():
        if bound.typing_only and lazy and name not in lazy:
            continue
        prefix = ("!" if bound.typing_only and name not in (lazy or ()) else "") + ("?" if bound.ambiguous else "")
        result.names[name] = prefix + bound.record
        result.names.update({f"{name}.{member}": record for member, record in bound.members.items()})
    for name, record in (lazy or {}).items():
        result.names.setdefault(name, record)
    return result


def _imported_modules(tree: ast.Module, scope: _Scope) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield scope.absolute(node.level, node.module)
