"""Which vLLM object a name of a user's file stands for: lexical scopes with their imports and plain aliases."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from guarantees.namespace import absolute, dotted

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one binding makes of a name: a dotted vllm name, an expression still to be looked up, or something else."""

    vllm: str = ""
    expression: str = ""


OTHER = Meaning()


@dataclass(slots=True)
class Scope:
    """One module, class body, function or comprehension."""

    node: ast.AST
    parent: Scope | None
    names: dict[str, list[Meaning]] = field(default_factory=dict)
    outer: dict[str, Scope] = field(default_factory=dict)  # `global` and `nonlocal` names

    def bind(self, name: str, meaning: Meaning = OTHER) -> None:
        self.outer.get(name, self).names.setdefault(name, []).append(meaning)

    def find(self, name: str) -> Scope | None:
        """The scope that gives `name` its value here."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.names:
                return scope
            scope = scope.parent
        return None

    def vllm_names(self, chain: str, depth: int = 0) -> list[tuple[str, str]]:
        """(dotted vllm name, the part of it that the root alone stands for) for each thing `chain` can be.

        Empty where it is, or may be, something that is not vLLM's.
        """
        root, *rest = chain.split(".")
        scope = self.find(root)
        if scope is None or depth > 8:
            return []
        found: list[tuple[str, str]] = []
        for meaning in scope.names[root]:
            if meaning.vllm:
                found.append((".".join([meaning.vllm, *rest]), meaning.vllm))
            elif meaning.expression and meaning.expression.split(".")[0] != root:
                inner = scope.vllm_names(meaning.expression, depth + 1)
                if not inner:
                    return []
                found += [(".".join([name, *rest]), name) for name, _ in inner]
            else:
                return []
        return found


def is_vllm(name: str) -> bool:
    return name == "vllm" or name.startswith("vllm.")


def imported_module(node: ast.expr | None) -> str:
    """The module that `import_module("vllm.x")`, `sys.modules["vllm.x"]` or `sys.modules.get("vllm.x")` hands out."""
    text: ast.expr | None = None
    if isinstance(node, ast.Call) and node.args:
        name = dotted(node.func)
        if name.split(".")[-1] == "import_module" or name == "sys.modules.get":
            text = node.args[0]
    elif isinstance(node, ast.Subscript) and dotted(node.value) == "sys.modules":
        text = node.slice
    if isinstance(text, ast.Constant) and isinstance(text.value, str) and is_vllm(text.value):
        return text.value
    return ""


class ScopeBuilder(ast.NodeVisitor):
    """Builds the scopes of a file; `scopes[node]` is the scope that `node` opens."""

    def __init__(self, tree: ast.Module, package: str) -> None:
        self.package = package
        self.module = Scope(tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.now = self.module
        for statement in tree.body:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            self.now.bind(alias.asname or name, Meaning(vllm=name) if is_vllm(name) else OTHER)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = absolute(node.module, node.level, self.package)
        for alias in node.names:
            meaning = Meaning(vllm=f"{source}.{alias.name}") if is_vllm(source) else OTHER
            self.now.bind(alias.asname or alias.name, meaning)

    def visit_Assign(self, node: ast.Assign) -> None:
        module, expression = imported_module(node.value), dotted(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and (module or expression):
                self.now.bind(target.id, Meaning(vllm=module, expression=expression))
            else:
                self.visit(target)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.now.bind(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        scope = self.now
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        scope.bind(node.target.id)
        self.visit(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.now.bind(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.now.bind(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.now.bind(node.name)

    def visit_Global(self, node: ast.Global) -> None:
        self.now.outer.update(dict.fromkeys(node.names, self.module))

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        for name in node.names:
            owner = self.now.parent.find(name) if self.now.parent else None
            if owner is not None:
                self.now.outer[name] = owner

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.now.bind(node.name)
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._enter(node, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.now.bind(node.name)
        for part in (*node.decorator_list, *outside(node)):
            self.visit(part)
        self._enter(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for part in outside(node):
            self.visit(part)
        self._enter(node, [node.body])

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        self._enter(node, list(ast.iter_child_nodes(node)))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _enter(self, node: ast.AST, body: list[ast.AST] | list[ast.stmt] | list[ast.expr]) -> None:
        outer, self.now = self.now, Scope(node, self.now)
        self.scopes[node] = self.now
        for argument in arguments(node):
            self.now.bind(argument.arg)
        for part in body:
            self.visit(part)
        self.now = outer


def arguments(node: ast.AST) -> Iterator[ast.arg]:
    if isinstance(node, FUNCTIONS):
        rules = node.args
        yield from (*rules.posonlyargs, *rules.args, *rules.kwonlyargs)
        yield from (extra for extra in (rules.vararg, rules.kwarg) if extra is not None)


def outside(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.expr]:
    """What a function evaluates in the scope around it: defaults and annotations."""
    yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None)
    yield from annotations_of(node)


def annotations_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.expr]:
    yield from (argument.annotation for argument in arguments(node) if argument.annotation is not None)
    if not isinstance(node, ast.Lambda) and node.returns is not None:
        yield node.returns
