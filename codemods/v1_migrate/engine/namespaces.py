"""What vLLM's own argument parser gives: names of a file that hold its parsed arguments, and what is read from them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .asked_in_tests import value_of
from .callshape import own_name
from .context import PythonFile
from .scopes import Binding, Scope, Use

_FILLS = (".add_cli_args", ".make_arg_parser")  # of vLLM: they add its options to the parser that they are given
_PARSES = ("parse_args", "parse_known_args")
_DEEP = 3


class Namespaces:
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self._calls = file.model.nodes.get(ast.Call, ())
        self._filled = {
            id(bindings)
            for found in self._calls
            if self._fills(found.node) and isinstance(found.node.args[0], ast.Name)
            if (bindings := _bindings(found.node.args[0], found.scope)) is not None
        }

    def reads(self) -> Iterator[tuple[Use, str]]:
        """Uses that read an option from parsed arguments, with the option's name."""
        for use in self.file.model.uses:
            if use.attributes and use.name and self.is_parsed(use.name, use.scope):
                yield use, "--" + use.attributes[0].replace("_", "-")

    def is_parsed(self, name: str, scope: Scope, depth: int = 0) -> bool:
        """The name holds what vLLM's parser gave, and nothing else."""
        found = scope.lookup(name)
        return found is not None and depth < _DEEP and all(self._is_parsed(each, depth) for each in found[1])

    def _is_parsed(self, binding: Binding, depth: int) -> bool:
        if binding.kind == "argument":
            return self._is_handed(binding, depth)
        value = binding.path[0].value if isinstance(binding.path[0], ast.Assign) else value_of(binding)
        if isinstance(binding.path[0], ast.Tuple):  # `args, rest = parser.parse_known_args()`
            outer = binding.path[2]
            first = binding.path[0].elts[0] is binding.node
            value = outer[0].value if first and outer is not None and isinstance(outer[0], ast.Assign) else None
        if not isinstance(value, ast.Call) or own_name(value.func) not in _PARSES:
            return False
        return isinstance(value.func, ast.Attribute) and self._is_filled(value.func.value, binding.scope)

    def _is_filled(self, node: ast.expr, scope: Scope, depth: int = 0) -> bool:
        """A parser that has vLLM's options."""
        if isinstance(node, ast.Call):
            return self._fills(node)
        bindings = _bindings(node, scope)
        if bindings is None or depth > _DEEP:
            return False
        values = [value_of(binding) for binding in bindings]
        return id(bindings) in self._filled or any(isinstance(v, ast.Call) and self._fills(v) for v in values)

    def _fills(self, call: ast.Call) -> bool:
        references = self.file.by_node.get(id(call.func), ())
        return bool(call.args) and len(references) == 1 and references[0].dotted.endswith(_FILLS)

    def _is_handed(self, binding: Binding, depth: int) -> bool:
        """A parameter that every call of the function in this file gives parsed arguments."""
        function = binding.scope.node
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or not isinstance(binding.node, ast.arg):
            return False
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        at = names.index(binding.name) if binding.name in names else len(names)
        given = [
            (found.node.args[at], found.scope)
            for found in self._calls
            if own_name(found.node.func) == function.name and at < len(found.node.args)
        ]
        parsed = (isinstance(node, ast.Name) and self.is_parsed(node.id, scope, depth + 1) for node, scope in given)
        return bool(given) and all(parsed)


def _bindings(node: ast.expr, scope: Scope) -> list[Binding] | None:
    found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
    return found[1] if found is not None else None
