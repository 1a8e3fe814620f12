"""What a name in a file stands for: `os.environ`, `vllm.envs`, a copy of the environment."""

from __future__ import annotations

import ast
from collections import defaultdict

from ..context import PythonFile
from ..scopes import Binding, Scope, Use
from ..tree import absolute

SWITCH = "VLLM_USE_V1"
_COPIES = {"os.environ.copy", "copy.copy", "copy.deepcopy"}


class Names:
    """Dotted paths of names and chains, as far as their imports say."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.uses: dict[int, Use] = {id(use.node): use for use in file.model.uses}
        self.readers: dict[tuple[int, str], list[Use]] = defaultdict(list)  # (scope, name) -> uses that reach it
        self.held: set[str] = set()  # names of the module that other files set: what they stand for is not certain
        self.scopes: dict[int, Scope] = {}  # node of a function, class or module -> its scope
        for use in file.model.uses:
            found = use.scope.lookup(use.name) if use.name else None
            if found is not None:
                self.readers[id(found[0]), use.name].append(use)
            self._remember(use.scope)
        for nodes in file.model.nodes.values():
            for node in nodes:
                self._remember(node.scope)

    def _remember(self, scope: Scope | None) -> None:
        while scope is not None and id(scope.node) not in self.scopes:
            self.scopes[id(scope.node)] = scope
            scope = scope.parent

    def lookup(self, node: ast.expr) -> tuple[Scope, list[Binding]] | None:
        """The scope and bindings a bare name refers to."""
        use = self.uses.get(id(node))
        return use.scope.lookup(use.name) if use is not None and not use.attributes else None

    def dotted(self, node: ast.AST) -> str:
        """The absolute dotted path a name or chain stands for; "" when it is not imported, or not for certain."""
        use = self.uses.get(id(node))
        if use is None or not use.name:
            return ""
        base = self._imported(use.scope, use.name, 0)
        return ".".join((base, *use.attributes)) if base else ""

    def _imported(self, scope: Scope, name: str, depth: int) -> str:
        found = scope.lookup(name)
        if found is None or depth > 3 or (name in self.held and found[0].kind == "module"):
            return ""
        targets = {self._target(binding, depth) for binding in found[1]}
        return targets.pop() if len(targets) == 1 else ""

    def _target(self, binding: Binding, depth: int) -> str:
        if binding.kind in ("import", "from"):
            return absolute(self.file.package, binding.target)
        if binding.kind == "alias" and binding.value is not None and binding.value.name:
            base = self._imported(binding.value.scope, binding.value.name, depth + 1)
            return ".".join((base, *binding.value.attributes)) if base else ""
        return ""

    def environment(self, node: ast.expr) -> bool:
        """The expression is the process's environment, its keys, or a copy of it under a local name."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys":
            return self.dotted(node.func) == "os.environ.keys" or self.environment(node.func.value)
        if self.dotted(node) == "os.environ":
            return True
        found = self.lookup(node)
        if found is None or len(found[1]) != 1:
            return False
        statement = found[1][0].path[0]
        return isinstance(statement, ast.Assign) and self._copies(statement.value)

    def _copies(self, value: ast.expr) -> bool:
        if isinstance(value, ast.Call):
            if self.dotted(value.func) == "os.environ.copy":
                return True
            named = isinstance(value.func, ast.Name) and value.func.id == "dict"
            copied = named or self.dotted(value.func) in _COPIES
            return copied and bool(value.args) and self.dotted(value.args[0]) == "os.environ"
        return isinstance(value, ast.Dict) and any(
            key is None and self.dotted(item) == "os.environ"
            for key, item in zip(value.keys, value.values, strict=True)
        )


def is_switch(node: ast.AST | None) -> bool:
    """The literal string "VLLM_USE_V1"."""
    return isinstance(node, ast.Constant) and node.value == SWITCH
