"""The walk over a file's tree that collects its scopes, bindings, uses and nodes (scopes.py)."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from .scopes import Binding, Block, Model, Node, Path, Scope, Use

KEPT: Final = (
    ast.Assign,
    ast.AnnAssign,
    ast.Assert,
    ast.AsyncFunctionDef,
    ast.AsyncWith,
    ast.BoolOp,
    ast.Call,
    ast.ClassDef,
    ast.Compare,
    ast.Constant,
    ast.Delete,
    ast.Dict,
    ast.Expr,
    ast.FunctionDef,
    ast.If,
    ast.IfExp,
    ast.JoinedStr,
    ast.Subscript,
    ast.Try,
    ast.UnaryOp,
    ast.While,
    ast.With,
    ast.Yield,
    ast.YieldFrom,
)
_ASK: Final = ("is_", "has_", "can_", "check", "_is_", "_has_", "_can_", "_check")  # whether a module is there
_NO_NODES: Final = {
    "ctx",
    "op",
    "ops",
    "id",
    "attr",
    "kind",
    "type_comment",
    "conversion",
    "level",
    "module",
    "type_ignores",
}
_FIELDS: Final = {
    kind: tuple(name for name in kind._fields if name not in _NO_NODES and not (name == "name" or name == "names"))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def walk(tree: ast.Module, extra: list[ast.expr]) -> Model:
    """Collect a file's scopes, uses and nodes. `extra`: expressions that had to be parsed apart (see parse.py)."""
    walker = _Walker(tree)
    walker.block(tree.body, (tree, "body", None))
    for expression in extra:
        walker.visit(expression, (tree, "extra", None))
    walker.bind_nonlocals()
    walker.handlers.clear()  # they are bound to the walker, which would keep everything alive
    return Model(walker.module, walker.uses, walker.nodes, walker.imports, walker.scopes)


class _Walker:
    """The walk. Handlers by node type; everything else goes through `generic`."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = self.scope = Scope("module", tree, None)
        self.scopes = [self.module]
        self.uses: list[Use] = []
        self.nodes: dict[type[ast.AST], list[Node]] = defaultdict(list)
        self.imports: list[Node] = []
        self.nonlocals: list[Binding] = []
        for kind in KEPT:
            self.nodes[kind] = []
        self.handlers = {
            kind: getattr(self, "_" + kind.__name__) for kind in _FIELDS if hasattr(self, "_" + kind.__name__)
        }

    def visit(self, node: ast.AST, path: Path) -> None:
        handler = self.handlers.get(node.__class__)
        if handler is not None:
            handler(node, path)
        else:
            self.generic(node, path)

    def generic(self, node: ast.AST, path: Path) -> None:
        kind = node.__class__
        kept = self.nodes.get(kind)
        if kept is not None:
            kept.append(Node(node, path, self.scope))
        handlers = self.handlers
        for name in _FIELDS[kind]:
            value = getattr(node, name, None)
            if value.__class__ is list:
                inner = (node, name, path)
                for item in value:
                    if item is not None and item.__class__ in _FIELDS:
                        handler = handlers.get(item.__class__)
                        if handler is not None:
                            handler(item, inner)
                        else:
                            self.generic(item, inner)
            elif isinstance(value, ast.AST):
                self.visit(value, (node, name, path))

    def block(self, body: Block, path: Path) -> None:
        for statement in body:
            self.visit(statement, path)

    def bind(self, name: str, kind: str, node: ast.AST, path: Path, target: str = "", value: Use | None = None) -> None:
        scope = self.scope
        if kind == "walrus":
            kind = "assignment"
            while scope.kind == "comprehension" and scope.parent is not None:
                scope = scope.parent
        declared = scope.elsewhere.get(name)
        if declared == "nonlocal":  # the outer scope may bind the name further down
            self.nonlocals.append(Binding(name, kind, node, path, scope, target, value))
            return
        if declared == "global":
            scope = scope.module()
        scope.bindings.setdefault(name, []).append(Binding(name, kind, node, path, scope, target, value))

    def bind_nonlocals(self) -> None:
        """Give what was bound under `nonlocal` to the function whose name it is."""
        for binding in self.nonlocals:
            found = binding.scope.lookup(binding.name)
            if found is not None:
                binding.scope = found[0]
                found[1].append(binding)

    # names and chains

    def _Name(self, node: ast.Name, path: Path) -> None:
        if node.ctx.__class__ is ast.Load:
            self.uses.append(Use(self.scope, node.id, (), node, path))
        else:
            if node.ctx.__class__ is ast.Del:
                self.uses.append(Use(self.scope, node.id, (), node, path))
            self.bind(node.id, "assignment", node, path)

    def _Attribute(self, node: ast.Attribute, path: Path) -> None:
        attributes = [node.attr]
        base: ast.expr = node.value
        while base.__class__ is ast.Attribute:
            attributes.append(base.attr)
            base = base.value
        name = base.id if isinstance(base, ast.Name) else ""
        self.uses.append(Use(self.scope, name, tuple(reversed(attributes)), node, path))
        if not name:
            self.visit(base, (node, "value", path))

    def _Constant(self, node: ast.Constant, path: Path) -> None:
        if node.value.__class__ is str:
            self.nodes[ast.Constant].append(Node(node, path, self.scope))

    def _NamedExpr(self, node: ast.NamedExpr, path: Path) -> None:
        self.visit(node.value, (node, "value", path))
        self.bind(node.target.id, "walrus", node, path)

    # imports and other bindings

    def _Import(self, node: ast.Import, path: Path) -> None:
        self.imports.append(Node(node, path, self.scope))
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if alias.asname:
                self.bind(alias.asname, "import", node, path, alias.name)
            else:
                self.bind(top, "import", node, path, top)

    def _ImportFrom(self, node: ast.ImportFrom, path: Path) -> None:
        self.imports.append(Node(node, path, self.scope))
        module = "." * node.level + (node.module or "")
        joint = "" if module.endswith(".") else "."
        for alias in node.names:
            if alias.name != "*":
                self.bind(alias.asname or alias.name, "from", node, path, module + joint + alias.name)

    def _Assign(self, node: ast.Assign, path: Path) -> None:
        self.nodes[ast.Assign].append(Node(node, path, self.scope))
        before = len(self.uses)
        self.visit(node.value, (node, "value", path))
        first = node.targets[0]
        if len(node.targets) == 1 and isinstance(first, ast.Name):
            value = (
                self.uses[before]
                if isinstance(node.value, ast.Name | ast.Attribute) and len(self.uses) > before
                else None
            )
            if value is not None:
                self.bind(first.id, "alias", node, path, value=value)
                return
            target = _imported_module(node.value)
            if target:
                self.bind(first.id, "import_module", node, path, target)
                return
        for target_node in node.targets:
            self.visit(target_node, (node, "targets", path))

    def _Global(self, node: ast.Global, path: Path) -> None:
        if self.scope.kind != "module":
            self.scope.elsewhere.update(dict.fromkeys(node.names, "global"))

    def _Nonlocal(self, node: ast.Nonlocal, path: Path) -> None:
        self.scope.elsewhere.update(dict.fromkeys(node.names, "nonlocal"))

    def _ExceptHandler(self, node: ast.ExceptHandler, path: Path) -> None:
        if node.type is not None:
            self.visit(node.type, (node, "type", path))
        if node.name:
            self.bind(node.name, "assignment", node, path)
        self.block(node.body, (node, "body", path))

    def _MatchAs(self, node: ast.MatchAs, path: Path) -> None:
        if node.name:
            self.bind(node.name, "assignment", node, path)
        self.generic(node, path)

    def _MatchStar(self, node: ast.MatchStar, path: Path) -> None:
        if node.name:
            self.bind(node.name, "assignment", node, path)

    def _MatchMapping(self, node: ast.MatchMapping, path: Path) -> None:
        if node.rest:
            self.bind(node.rest, "assignment", node, path)
        self.generic(node, path)

    def _TypeAlias(self, node: Any, path: Path) -> None:  # Python 3.12
        self.bind(node.name.id, "assignment", node, path)
        self.generic(node, path)

    # scopes

    def _enter(self, kind: str, node: ast.AST) -> Scope:
        outer = self.scope
        self.scope = Scope(kind, node, outer)
        self.scopes.append(self.scope)
        return outer

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> None:
        self.nodes[node.__class__].append(Node(node, path, self.scope))
        for decorator in node.decorator_list:
            self.visit(decorator, (node, "decorator_list", path))
        self._signature(node.args, (node, "args", path))
        if node.returns is not None:
            self.visit(node.returns, (node, "returns", path))
        self.bind(node.name, "definition", node, path)
        outer = self._enter("function", node)
        self._arguments(node.args, (node, "args", path))
        self._declarations(node.body)
        self.block(node.body, (node, "body", path))
        self.scope = outer

    _AsyncFunctionDef = _FunctionDef

    def _Lambda(self, node: ast.Lambda, path: Path) -> None:
        self._signature(node.args, (node, "args", path))
        outer = self._enter("function", node)
        self._arguments(node.args, (node, "args", path))
        self.visit(node.body, (node, "body", path))
        self.scope = outer

    def _ClassDef(self, node: ast.ClassDef, path: Path) -> None:
        self.nodes[ast.ClassDef].append(Node(node, path, self.scope))
        for name, values in (
            ("decorator_list", node.decorator_list),
            ("bases", node.bases),
            ("keywords", node.keywords),
        ):
            for value in values:
                self.visit(value, (node, name, path))
        self.bind(node.name, "definition", node, path)
        outer = self._enter("class", node)
        self.block(node.body, (node, "body", path))
        self.scope = outer

    def _declarations(self, body: Block) -> None:
        """`global x` counts for the whole function, also before it: find those at the top level first."""
        for statement in body:
            if isinstance(statement, ast.Global):
                self.scope.elsewhere.update(dict.fromkeys(statement.names, "global"))

    def _signature(self, arguments: ast.arguments, path: Path) -> None:
        """Defaults and annotations, which belong to the enclosing scope."""
        for argument in _every_argument(arguments):
            if argument.annotation is not None:
                self.visit(argument.annotation, (argument, "annotation", (arguments, "args", path)))
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default, (arguments, "defaults", path))

    def _arguments(self, arguments: ast.arguments, path: Path) -> None:
        for argument in _every_argument(arguments):
            self.bind(argument.arg, "argument", argument, path)

    def _comprehension(self, node: Any, path: Path) -> None:
        first, *rest = node.generators
        self.visit(first.iter, (first, "iter", (node, "generators", path)))
        outer = self._enter("comprehension", node)
        self.visit(first.target, (first, "target", (node, "generators", path)))
        for condition in first.ifs:
            self.visit(condition, (first, "ifs", (node, "generators", path)))
        for generator in rest:
            self.generic(generator, (node, "generators", path))
        for name in ("elt", "key", "value"):
            value = getattr(node, name, None)
            if value is not None:
                self.visit(value, (node, name, path))
        self.scope = outer

    _ListComp = _SetComp = _DictComp = _GeneratorExp = _comprehension


def _every_argument(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from arguments.posonlyargs
    yield from arguments.args
    if arguments.vararg:
        yield arguments.vararg
    yield from arguments.kwonlyargs
    if arguments.kwarg:
        yield arguments.kwarg


def _imported_module(value: ast.expr) -> str:
    """The module of `import_module("a.b")`, of helpers like it (`try_import`, `importorskip`) and of a lazy loader."""
    if not isinstance(value, ast.Call):
        return ""
    function = value.func
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    literals = [each.value if isinstance(each, ast.Constant) else None for each in value.args]
    if name == "LazyLoader":  # (name, globals(), module)
        literals = literals[2:3]
    module = literals[0] if literals else None
    if not isinstance(module, str) or any(isinstance(other, str) for other in literals[1:]):
        return ""  # a second text may name what is taken from the module
    if name == "__import__":
        return module.partition(".")[0]
    imports = "import" in name.lower() and not name.lower().startswith(_ASK)
    return module if imports or name == "LazyLoader" else ""
