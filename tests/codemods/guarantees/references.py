"""Every place of a Python file that names something of vLLM's, in whatever syntactic form."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from guarantees.namespace import absolute, dotted, is_type_checking
from guarantees.scopes import COMPREHENSIONS, FUNCTIONS, Scope, ScopeBuilder, annotations_of, is_vllm, outside

PATH = re.compile(
    r"(?:[\w.-]+\s*=\s*)?(vllm(?:\.[A-Za-z_]\w*)+)(?::([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*))?\s*(?:\[[\w,\s]*\])?"
)
TYPE_COMMENT = re.compile(r"#\s*type:(?!\s*ignore\b)\s*(.+)")


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a vllm name."""

    name: str  # dotted, absolute
    line: int
    end_line: int
    form: str  # "from" | "import" | "star" | "chain" | "setattr" | "getattr" | "string" | "use"
    root: str = ""  # of a chain or use: the dotted name its first identifier stands for
    store: bool = False  # written to, not read
    typing: bool = False  # only a type checker runs it


def parse(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def references(source: bytes, package: str = "") -> list[Reference]:
    """All references in a file; `package` is that of the file where it lies inside a tree that defines `vllm`.

    Raises SyntaxError, ValueError or RecursionError where the running Python cannot read the file.
    """
    tree = parse(source)
    walker = _Walker(tree, package)
    found = [*walker.found, *_type_comments(source, walker)]
    return sorted(set(found), key=lambda r: (r.line, r.end_line, r.name, r.form))


class _Walker(ast.NodeVisitor):
    def __init__(self, tree: ast.Module, package: str) -> None:
        builder = ScopeBuilder(tree, package)
        self.scopes = builder.scopes
        self.package = package
        self.now: Scope = builder.module
        self.typing = False
        self.found: list[Reference] = []
        self.visit_body(tree.body)

    def add(self, name: str, node: ast.AST, form: str, root: str = "", store: bool = False) -> None:
        line, end = node.lineno, node.end_lineno or node.lineno  # type: ignore[attr-defined]
        self.found.append(Reference(name, line, end, form, root, store, self.typing))

    def visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.visit(statement)

    def visit_If(self, node: ast.If) -> None:
        outer = self.typing
        self.visit(node.test)
        self.typing = outer or is_type_checking(node.test)
        self.visit_body(node.body)
        self.typing = outer
        self.visit_body(node.orelse)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if is_vllm(alias.name):
                self.add(alias.name, alias, "import")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = absolute(node.module, node.level, self.package)
        for alias in node.names if is_vllm(source) else ():
            if alias.name == "*":
                self.add(source, alias, "star")
            else:
                self.add(f"{source}.{alias.name}", alias, "from")

    def visit_Name(self, node: ast.Name) -> None:
        self.chain(node.id, node, node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = dotted(node)
        if name:
            self.chain(name, node, node.ctx)
        else:
            self.generic_visit(node)

    def chain(self, name: str, node: ast.AST, context: ast.expr_context | None = None) -> None:
        store = isinstance(context, ast.Store)
        if store and "." not in name:
            return
        for full, root in self.now.vllm_names(name):
            self.add(full, node, "use" if full == root else "chain", root, store)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "vllm." in node.value:
            match = PATH.fullmatch(node.value.strip())
            if match:
                self.add(".".join(part for part in match.groups() if part), node, "string")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if not isinstance(part, ast.Constant):
                self.visit(part)

    def visit_Call(self, node: ast.Call) -> None:
        self._attribute_by_name(node)
        called = dotted(node.func).split(".")[-1]
        if called == "cast" and node.args:
            self.annotation(node.args[0])
        for keyword in node.keywords:
            if called == "TypeVar" and keyword.arg == "bound":
                self.annotation(keyword.value)
        self.generic_visit(node)

    def _attribute_by_name(self, node: ast.Call) -> None:
        called = dotted(node.func).split(".")[-1]
        reads = (called == "getattr" and len(node.args) == 2) or called in {"object", "delattr"}
        if not (reads or called == "setattr") or len(node.args) < 2:
            return
        attribute = node.args[1]
        if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str) and attribute.value.isidentifier():
            owner = dotted(node.args[0])
            for full, root in self.now.vllm_names(owner) if owner else ():
                self.add(f"{full}.{attribute.value}", node, "getattr" if reads else "setattr", root, store=not reads)

    def annotation(self, node: ast.expr | None) -> None:
        """Names inside the strings of an annotation; the rest is visited like any other code."""
        if node is None or (isinstance(node, ast.Subscript) and dotted(node.value).split(".")[-1] == "Literal"):
            return
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                self.names_in(node.value, node)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.annotation(child)

    def names_in(self, text: str, place: ast.AST) -> None:
        try:
            expression = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            return
        for name in maximal_chains(expression):
            self.chain(name, place)
        self.annotation(None if isinstance(expression, ast.Constant) else expression)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for part in node.decorator_list:
            self.visit(part)
        for part in outside(node):
            self.visit(part)
        for part in annotations_of(node):
            self.annotation(part)
        self._enter(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._enter(node, node.body)

    def _enter(self, node: ast.AST, body: list[ast.stmt]) -> None:
        outer, self.now = self.now, self.scopes[node]
        self.visit_body(body)
        self.now = outer

    def generic_visit(self, node: ast.AST) -> None:
        opens = isinstance(node, COMPREHENSIONS) or (isinstance(node, FUNCTIONS) and node in self.scopes)
        outer = self.now
        if opens:
            self.now = self.scopes[node]
        super().generic_visit(node)
        self.now = outer

    def scope_at(self, line: int) -> Scope:
        """The innermost function or class around a line."""
        best = self.now
        for node, scope in self.scopes.items():
            first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
            if first <= line <= last and first >= getattr(best.node, "lineno", 0):
                best = scope
        return best


def maximal_chains(node: ast.AST) -> Iterator[str]:
    name = dotted(node)
    if name:
        yield name
        return
    for child in ast.iter_child_nodes(node):
        yield from maximal_chains(child)


def _type_comments(source: bytes, walker: _Walker) -> Iterator[Reference]:
    if b"type:" not in source:
        return
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        match = TYPE_COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        if not match:
            continue
        text = match.group(1).split("#")[0].strip()
        for part in text.split("->"):
            try:
                expression = ast.parse(part.strip(" *"), mode="eval").body
            except (SyntaxError, ValueError):
                continue
            scope = walker.scope_at(token.start[0])
            for name in maximal_chains(expression):
                for full, root in scope.vllm_names(name) or ([(name, "vllm")] if is_vllm(name) else []):
                    form = "use" if full == root else "chain"
                    yield Reference(full, token.start[0], token.start[0], form, root, typing=True)
