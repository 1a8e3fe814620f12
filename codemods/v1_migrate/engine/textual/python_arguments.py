"""Argument lists in Python code that reach vLLM's command line: commands for subprocess, servers of tests, parsers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..context import PythonFile
from ..scopes import Path, Scope, ancestors
from .arguments import vllm_arguments

_PARTS = ast.BinOp | ast.Starred | ast.List | ast.Tuple
_SERVER = re.compile(r"Remote\w*Server\Z")  # vLLM's tests, and those of plugins that copied them
_PARSERS = frozenset(("make_arg_parser", "add_cli_args"))
_SERVE_KEYWORDS = frozenset(("vllm_serve_args", "cli_args", "server_args"))
Key = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list display with options in it. `first`: elements before it are not vLLM's."""

    node: ast.List | ast.Tuple
    path: Path
    certain: bool
    first: int = 0


class PythonArguments:
    """Tells which lists of a file are vLLM's."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.parsers: set[str] = {  # names that vLLM's options were added to
            argument.id
            for found in file.model.every(ast.Call)
            if last_name(found.node.func) in _PARSERS
            for argument in found.node.args[:1]
            if isinstance(argument, ast.Name)
        }
        self.bound: dict[Key, list[ast.expr]] = {}
        for each in file.model.every(ast.Assign):
            for target in each.node.targets:
                if isinstance(target, ast.Name):
                    key = self._key(each.scope, target.id)
                    self.bound.setdefault(key, []).append(each.node.value)
        self.keys: set[Key] = {key for key, values in self.bound.items() if any(map(is_command, values))}
        self.fixtures: set[str] = set()
        for use in file.model.uses:
            if use.name and not use.attributes and isinstance(use.node, ast.Name):
                whole, path = outermost(use.node, use.path)
                if is_command(whole) or self._received(whole, path):
                    self.keys.add(self._key(use.scope, use.name))
                    if any(binding.kind == "argument" for binding in (use.scope.lookup(use.name) or ((), ()))[1]):
                        self.fixtures.add(use.name)

    def listed(self, node: ast.List | ast.Tuple, path: Path, scope: Scope) -> Listed:
        """What a display is for."""
        own = vllm_arguments(words(node))
        if own is not None:
            return Listed(node, path, True, own)
        return Listed(node, path, self.is_vllms(node, path, scope))

    def is_vllms(self, node: ast.expr, path: Path, scope: Scope) -> bool:
        """An expression that gives words (a text that is split), or is one, ends in vLLM's command line."""
        whole, outer = outermost(node, path)
        return is_command(whole) or self._received(whole, outer) or self._named(whole, outer, scope)

    def _key(self, scope: Scope, name: str) -> Key:
        found = scope.lookup(name)
        return id(found[0] if found else scope), name

    def _received(self, node: ast.expr, path: Path) -> bool:
        """It is handed to a server or to a parser of vLLM's options."""
        call = next((p for p, _ in ancestors(path) if not isinstance(p, ast.keyword)), None)
        if not isinstance(call, ast.Call) or call.func is node:
            return False
        name = last_name(call.func)
        keyword = next((k.arg for k in call.keywords if k.value is node), None)
        if _SERVER.match(name):
            return keyword in _SERVE_KEYWORDS or node in call.args[1:]
        parses = isinstance(call.func, ast.Attribute) and name in ("parse_args", "parse_known_args")
        return parses and self._is_parser(call.func.value)  # type: ignore[attr-defined]

    def _is_parser(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return last_name(node.func) in _PARSERS
        if not isinstance(node, ast.Name):
            return False
        assigned = [value for (_, name), values in self.bound.items() if name == node.id for value in values]
        return node.id in self.parsers or any(map(self._is_parser, (v for v in assigned if isinstance(v, ast.Call))))

    def _named(self, node: ast.expr, path: Path, scope: Scope) -> bool:
        """It becomes part of a name, or is what a fixture returns, that is used so."""
        parent = path[0]
        if isinstance(parent, ast.Assign | ast.AugAssign):
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            return isinstance(target, ast.Name) and self._key(scope, target.id) in self.keys
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute):
            owner = parent.func.value
            extends = parent.func.attr in ("extend", "append") and isinstance(owner, ast.Name)
            return extends and self._key(scope, owner.id) in self.keys  # type: ignore[attr-defined]
        if isinstance(parent, ast.Return | ast.Yield):
            function = next((p for p, _ in ancestors(path) if isinstance(p, ast.FunctionDef)), None)
            fixture = function is not None and any(last_name(d) == "fixture" for d in function.decorator_list)
            return fixture and function is not None and function.name in self.fixtures
        return False


def outermost(node: ast.expr, path: Path) -> tuple[ast.expr, Path]:
    """The whole of a list that the node is a part of: `["vllm", *x] + y`."""
    while isinstance(path[0], _PARTS) and path[2] is not None:
        node, path = path[0], path[2]
    return node, path


def is_command(node: ast.expr) -> bool:
    gives_words = isinstance(node, ast.List | ast.Tuple | ast.BinOp) or split_text(node) is not None
    return gives_words and vllm_arguments(words(node)) is not None


def words(node: ast.expr) -> list[str]:
    """The words of a list as far as they are literal; "" for others."""
    if isinstance(node, ast.BinOp):
        return [*words(node.left), *words(node.right)]
    if isinstance(node, ast.List | ast.Tuple):
        return [word for element in node.elts for word in _word(element)]
    text = split_text(node)
    return text.split() if text is not None else [""]


def split_text(node: ast.AST) -> str | None:
    """The text of `"a b".split()` and `shlex.split("a b")`; None for other expressions."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "split":
        return None
    owner = node.func.value
    text = node.args[0] if last_name(owner) == "shlex" and node.args else owner
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def _word(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Starred) or split_text(node) is not None:
        yield from words(node.value if isinstance(node, ast.Starred) else node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    else:
        yield "python" if last_name(node) == "executable" else ""


def last_name(node: ast.AST) -> str:
    """The last name of a chain, called or not."""
    inner = node.func if isinstance(node, ast.Call) else node
    return inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")
