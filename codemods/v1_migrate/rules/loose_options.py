"""Options of a command line in a Python string that is split, or stands alone: whose they are, and what to edit."""

from __future__ import annotations

import ast
import re
import shlex
from dataclasses import dataclass

from ..engine.context import PythonFile
from ..engine.scopes import Node, Path, Scope
from ..engine.textual.python_arguments import PythonArguments, last_name, outermost

_DEFINE = ("add_arg", "add_option", "addoption", "getoption", "option", "flag", "define")  # a parser of one's own


@dataclass(frozen=True, slots=True)
class Loose:
    """A string with options. `certain`: it ends in vLLM's command line. `editable`: words may be cut out of it."""

    certain: bool
    editable: bool


def loose(found: Node, arguments: PythonArguments) -> Loose | None:
    """What a string is for that holds options and names no command; None where they are not given to anything."""
    parent = found.path[0]
    if isinstance(parent, ast.Compare) or defines(parent):
        return None
    split = _split_around(found.node, found.path)
    if split is None:
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "append":
            return Loose(arguments.is_vllms(found.node, found.path, found.scope), False)
        return Loose(False, False)
    call, path = split
    text = _text(found.node)
    if re.search(r"""["'\\]""", text):  # a word may hold what looks like options
        return Loose(_are_words(text) and arguments.is_vllms(call, path, found.scope), False)
    told_how = call.keywords or any(argument is not found.node for argument in call.args)  # `"".split(" ")` is [""]
    return Loose(arguments.is_vllms(call, path, found.scope), not told_how and not counted(call, path, found.scope))


def counted(node: ast.expr, path: Path, scope: Scope, before: int = 0) -> bool:
    """A list is kept under a name that is read by place or measured; places below `before` do not count."""
    _, (parent, _, _) = outermost(node, path)
    targets = parent.targets if isinstance(parent, ast.Assign) else ()
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return bool(names) and any(_counts(each, names, before) for each in ast.walk(scope.node))


def _counts(node: ast.AST, names: set[str], before: int) -> bool:
    """`words[3]`, `len(words)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in names:
        place = node.slice.value if isinstance(node.slice, ast.Constant) else None
        return not (isinstance(place, int) and 0 <= place < before)
    if isinstance(node, ast.Call) and last_name(node.func) == "len":
        return any(isinstance(each, ast.Name) and each.id in names for each in node.args)
    return False


def _text(node: ast.AST) -> str:
    return "".join(
        each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )


def _are_words(text: str) -> bool:
    """Every option in the text is a word of its own, or begins one with its value."""
    try:
        words = {word.partition("=")[0] for word in shlex.split(text)}
    except ValueError:
        return False
    return words.issuperset(re.findall(r"(?<!\S)--[\w-]+", text))


def defines(node: ast.AST) -> bool:
    """`parser.add_argument("--swap-space")`: an option of the file's own."""
    return isinstance(node, ast.Call) and last_name(node.func).lower().startswith(_DEFINE)


def own_options(file: PythonFile) -> frozenset[str]:
    """The options that the file's own parsers take."""
    calls = (found.node for found in file.model.every(ast.Call) if defines(found.node))
    named = (each.value for call in calls for each in call.args if isinstance(each, ast.Constant))
    return frozenset(name.replace("_", "-") for name in named if isinstance(name, str) and name.startswith("--"))


def _split_around(node: ast.expr, path: Path) -> tuple[ast.Call, Path] | None:
    """The call of `"...".split()` or `shlex.split("...")` around a string, and where it stands."""
    parent, field_name, outer = path
    if isinstance(parent, ast.Attribute) and parent.attr == "split" and outer is not None:
        call, _, around = outer
        if isinstance(call, ast.Call) and call.func is parent and around is not None:
            return call, around
    if isinstance(parent, ast.Call) and field_name == "args" and outer is not None and parent.args[0] is node:
        function = parent.func
        if isinstance(function, ast.Attribute) and function.attr == "split" and last_name(function.value) == "shlex":
            return parent, outer
    return None
