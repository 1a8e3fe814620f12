"""Every place of a file that names something of vLLM: imports, chains on what they bind, and what a use is for."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from .bridge import is_bridged, unbridged
from .scopes import Binding, Model, Node, Path, Scope, Use, ancestors
from .stand_ins import stands_in
from .tree import absolute

Role = Literal[
    "call",
    "base",
    "annotation",
    "isinstance",
    "decorator",
    "except",
    "patch",
    "delete",
    "rebind",
    "member",
    "value",
    "export",
]


@dataclass(slots=True, eq=False)
class Imported:
    """One name of one import statement."""

    dotted: str  # what it names: "vllm.worker.worker.Worker"; for `import a.b` the module "a.b"
    local: str  # the name it binds
    alias: ast.alias
    statement: ast.Import | ast.ImportFrom
    path: Path
    scope: Scope
    uses: list[Reference] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Reference:
    """A use of an imported name, with the attributes behind it."""

    dotted: str
    use: Use
    bindings: list[Binding]
    certain: bool  # all bindings of the name mean the same thing
    meant: bool  # all but those that stand in for it where it is not there (`X = None`)
    through_alias: bool = False  # the name was assigned from another (`W = Worker`): its text says nothing about vllm

    @property
    def node(self) -> ast.expr:
        return self.use.node

    @property
    def role(self) -> Role:
        return role_of(self.use)


class References:
    """All imports and uses of one file that lead to the package `vllm`."""

    def __init__(self, model: Model, package: str, *, bridged: bool = True) -> None:
        """`bridged`: names of `v1_compat.bridge` are read as the names of vllm that they stand for."""
        self.package, self.bridged = package, bridged
        self.imports: list[Imported] = []
        self.stars: list[tuple[Node, str]] = []  # star imports, with their module
        self.uses: list[Reference] = []
        self._imported: dict[tuple[int, str], list[Imported]] = defaultdict(list)
        for statement in model.imports:
            self._collect(statement)
        self._resolve_uses(model)

    def _collect(self, found: Node) -> None:
        statement = found.node
        if isinstance(statement, ast.ImportFrom):
            module = absolute(self.package, "." * statement.level + (statement.module or ""))
            module = unbridged(module) if self.bridged else module
            if not _is_vllm(module):
                return
            for alias in statement.names:
                if alias.name == "*":
                    self.stars.append((found, module))
                else:
                    self._add(f"{module}.{alias.name}", alias.asname or alias.name, alias, found)
        else:
            for alias in statement.names:
                if self.bridged and is_bridged(alias.name) and alias.asname:
                    self._add(unbridged(alias.name), alias.asname, alias, found)
                if _is_vllm(alias.name):
                    self._add(alias.name, alias.asname or "vllm", alias, found)

    def _add(self, dotted: str, local: str, alias: ast.alias, found: Node) -> None:
        imported = Imported(dotted, local, alias, found.node, found.path, found.scope)
        self.imports.append(imported)
        self._imported[id(found.node), local].append(imported)

    def _resolve_uses(self, model: Model) -> None:
        interesting = self._interesting_names(model)
        for use in (*model.uses, *_quoted_uses(model, interesting)):
            if use.name not in interesting:
                continue
            found = use.scope.lookup(use.name)
            if found is None:
                continue
            targets = {self._target(binding, 0) for binding in found[1]}
            vllm = sorted(target for target in targets if target)
            if not vllm:
                continue
            meant = len(targets) == 1 or (len(vllm) == 1 and all(self._target(b, 0) or stands_in(b) for b in found[1]))
            through_alias = all(binding.kind == "alias" for binding in found[1] if self._target(binding, 0))
            for target in vllm:
                dotted = ".".join((target, *_until_dunder(use.attributes)))
                reference = Reference(dotted, use, found[1], len(targets) == 1, meant, through_alias)
                self.uses.append(reference)
                for binding in found[1]:
                    for imported in self._imported.get((id(binding.node), use.name), ()):
                        imported.uses.append(reference)

    def _interesting_names(self, model: Model) -> set[str]:
        """Names that some binding anywhere in the file ties to vllm."""
        names: set[str] = set()
        for scope in model.scopes:
            for name, bindings in scope.bindings.items():
                if name not in names and any(self._target(binding, 0) for binding in bindings):
                    names.add(name)
        names.update(imported.local for imported in self.imports)
        return names

    def _target(self, binding: Binding, depth: int) -> str:
        """The vllm path a binding stands for, or ""."""
        if binding.target:
            target = absolute(self.package, binding.target)
            target = unbridged(target) if self.bridged else target
            return target if _is_vllm(target) else ""
        if binding.value is not None and depth < 3:
            found = binding.value.scope.lookup(binding.value.name)
            if found is None or any(other is binding for other in found[1]):
                return ""
            targets = {self._target(other, depth + 1) for other in found[1]}
            if len(targets) == 1:
                target = targets.pop()
                return ".".join((target, *_until_dunder(binding.value.attributes))) if target else ""
        return ""


def _quoted_uses(model: Model, interesting: set[str]) -> Iterator[Use]:
    """Names in annotations that are written as strings. A whole path in quotes is a string's business, not a name's."""
    if not interesting:
        return
    for found in model.nodes.get(ast.Constant, ()):
        text: str = found.node.value
        if not text.isascii() or "vllm." in text or not any(name in text for name in interesting):
            continue
        if role_of(Use(found.scope, "", (), found.node, found.path)) != "annotation":
            continue
        try:
            expression = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError):
            continue
        for name, attributes in _chains(expression):
            yield Use(found.scope, name, attributes, found.node, found.path)


def _chains(node: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every name in an expression with the attributes behind it."""
    attributes: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        attributes.append(inner.attr)
        inner = inner.value
    if isinstance(inner, ast.Name):
        yield inner.id, tuple(reversed(attributes))
        return
    for child in ast.iter_child_nodes(node):
        yield from _chains(child)


def role_of(use: Use) -> Role:
    """What the use is for, from the nodes around it."""
    context = getattr(use.node, "ctx", None)
    if isinstance(context, ast.Store):
        return "patch" if use.attributes else "rebind"
    if isinstance(context, ast.Del):
        return "delete"
    child: ast.AST = use.node
    for parent, field_name in ancestors(use.path):
        if isinstance(parent, ast.Call):
            return _call_role(parent, field_name, child)
        if isinstance(parent, ast.ClassDef):
            return "base" if field_name == "bases" else "decorator" if field_name == "decorator_list" else "value"
        if isinstance(parent, ast.arg | ast.AnnAssign) and field_name == "annotation":
            return "annotation"
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return {"returns": "annotation", "decorator_list": "decorator"}.get(field_name, "value")  # type: ignore[return-value]
        if isinstance(parent, ast.ExceptHandler) and field_name == "type":
            return "except"
        if isinstance(parent, ast.Assign) and field_name == "value" and child is use.node:
            return "rebind"
        if isinstance(parent, ast.MatchClass) and field_name == "cls":
            return "isinstance"
        if not isinstance(parent, ast.Subscript | ast.Tuple | ast.List | ast.BinOp | ast.Starred):
            return "value"
        child = parent
    return "value"


def _call_role(call: ast.Call, field_name: str, child: ast.AST) -> Role:
    if field_name == "func":
        return "call"
    function = call.func
    name = function.id if isinstance(function, ast.Name) else ""
    if name in ("isinstance", "issubclass") and len(call.args) == 2 and call.args[1] is child:
        return "isinstance"
    if name == "cast" and call.args and call.args[0] is child:
        return "annotation"
    return "value"


def _is_vllm(dotted: str) -> bool:
    return dotted == "vllm" or dotted.startswith("vllm.")


def _until_dunder(attributes: tuple[str, ...]) -> Iterator[str]:
    """Attributes up to the first special name: every module and class has `__name__`, `__file__`, `__dict__`."""
    for attribute in attributes:
        if attribute.startswith("__") and attribute.endswith("__") and attribute != "__version__":
            return
        yield attribute
