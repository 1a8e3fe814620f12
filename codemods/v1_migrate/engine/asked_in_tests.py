"""What the tests of a file ask for: names with their values, attributes and modules of vLLM, versions of packages."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from .context import PythonFile
from .instances import instances_of
from .scopes import Binding, Use

_TOOLS = re.compile(r"(?:packaging|importlib|importlib_metadata|pkg_resources|distutils|looseversion)\b")


class Asked:
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file, self.judge = file, file.judge

    def attribute_asked_for(self, call: ast.Call) -> str:
        """`vllm.config.LoadConfig.device` of `hasattr(LoadConfig, "device")`; "" for another object."""
        name = _attribute(call)
        references = [each for each in self.file.by_node.get(id(call.args[0]), ()) if each.certain] if name else []
        return f"{references[0].dotted}.{name}" if len(references) == 1 else ""

    def member_asked_for(self, call: ast.Call) -> str:
        """The same of an object whose class the file tells."""
        name = _attribute(call)
        use = self._uses.get(id(call.args[0])) if name else None
        instance = instances_of(self.file).of_expression(call.args[0], use.scope) if use is not None else None
        return f"{instance.dotted}.{name}" if instance is not None else ""

    @cached_property
    def _uses(self) -> dict[int, Use]:
        """Uses by their chain and by the name that it begins with."""
        found: dict[int, Use] = {}
        for use in self.file.model.uses:
            node = use.node
            found[id(node)] = use
            while isinstance(node, ast.Attribute):
                node = node.value
            found[id(node)] = use
        return found

    def bindings(self, node: ast.Name) -> list[Binding]:
        use = self._uses.get(id(node))
        found = use.scope.lookup(node.id) if use is not None else None
        return found[1] if found is not None else []

    def values(self, node: ast.Name) -> list[ast.expr | None]:
        """What its bindings give the name; None for one that is no assignment."""
        return [value_of(binding) for binding in self.bindings(node)]

    def meaning(self, function: ast.expr) -> str:
        """The last part of what is called, by the name that it was imported under."""
        targets = [binding.target for binding in self.bindings(function)] if isinstance(function, ast.Name) else []
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return (targets[0] if targets and targets[0] else str(name)).rpartition(".")[2]

    def of_a_tool(self, node: ast.Name) -> bool:
        """The name comes from what reads and compares the versions of any package."""
        bindings = self.bindings(node)
        return bool(bindings) and all(_TOOLS.match(binding.target) for binding in bindings)


def module_asked_for(node: ast.expr) -> str:
    """`vllm.worker` of `find_spec("vllm.worker")`. That vllm itself is there says nothing."""
    if not isinstance(node, ast.Call) or called(node) != "find_spec" or not node.args:
        return ""
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
    return name if isinstance(name, str) and name.startswith("vllm.") else ""


def value_of(binding: Binding) -> ast.expr | None:
    statement = binding.node if isinstance(binding.node, ast.Assign | ast.NamedExpr) else binding.path[0]
    return statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.NamedExpr) else None


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _attribute(call: ast.Call) -> str:
    """`name` of `hasattr(x, "name")`."""
    if called(call) != "hasattr" or len(call.args) != 2 or not isinstance(call.args[1], ast.Constant):
        return ""
    return str(call.args[1].value)
