"""Deliberate compatibility code: an old name in a `try` whose other arm has the new one, or behind a test of its own.

Such code already serves two releases. It is spoken of at most, never rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from .callshape import own_name
from .references import Imported
from .scopes import Path
from .tree import absolute

_FAILED_IMPORT = {"ImportError", "ModuleNotFoundError"}
_BROAD = {"Exception", "BaseException"}
_IMPORT_ERRORS = _FAILED_IMPORT | _BROAD | {"AttributeError"}
_SUPPRESSORS = {"suppress", "raises"}  # contextlib's; pytest's, which expects the failure
_TRIES = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Pass)


def keyword_guard(path: Path | None, call: ast.Call) -> ast.AST | None:
    """The `if "task" in inspect.signature(LLM).parameters:` around a call that gives `task=`."""
    given = {keyword.arg for keyword in call.keywords if keyword.arg}
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.If | ast.IfExp) and field_name == "body" and _asks_for(parent.test, given):
            return parent
    return None


def _asks_for(test: ast.expr, names: set[str]) -> bool:
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In)
        and isinstance(node.left, ast.Constant)
        and node.left.value in names
        for node in ast.walk(test)
    )


def import_trial(path: Path | None) -> tuple[ast.Try, str] | None:
    """The innermost `try` around a node whose handlers catch a failed import, and the arm that the node is in."""
    while path is not None:
        parent, field_name, outer = path
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return None  # a definition in a try is no trial of what its body does later
        if isinstance(parent, ast.ExceptHandler) and outer is not None and isinstance(outer[0], ast.Try):
            if _catches_import_error(outer[0]):
                return outer[0], "handler"
            path = outer[2]
            continue
        if isinstance(parent, ast.Try) and field_name in ("body", "orelse") and _catches_import_error(parent):
            return parent, field_name
        path = outer
    return None


def _catches_import_error(trial: ast.Try) -> bool:
    for handler in trial.handlers:
        if handler.type is None:
            return True
        for node in ast.walk(handler.type):
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name in _IMPORT_ERRORS:
                return True
    return False


def goes_on_without(path: Path | None) -> bool:
    """An import at this place may fail, and the code around it has an answer: it takes its way without V0's names.

    A handler that raises again is none. One that catches everything is meant for it where nothing else is tried.
    """
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return False
        if isinstance(parent, ast.Try | ast.With) and field_name == "body" and _answers(parent):
            return True
    return False


def swallowed(path: Path | None) -> bool:
    """A failure of the import at this place ends in a handler that does not raise again, whatever else it is for."""
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return False
        if isinstance(parent, ast.Try) and field_name == "body":
            for names, goes_on in _caught(parent):
                if names & _IMPORT_ERRORS - {"AttributeError"}:
                    if goes_on:
                        return True
                    break  # what it raises goes on outwards
    return False


def _answers(node: ast.Try | ast.With) -> bool:
    only_tries = all(isinstance(statement, _TRIES) for statement in node.body)
    for names, goes_on in _caught(node):
        if names & _FAILED_IMPORT or (names & _BROAD and only_tries):
            return goes_on
    return False


def _caught(node: ast.Try | ast.With) -> Iterator[tuple[set[str], bool]]:
    """The names of the errors that are caught, in their order, and whether the code goes on then."""
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            names = _BROAD if handler.type is None else _names_in(handler.type)
            yield names, not isinstance(handler.body[-1], ast.Raise)
        return
    for item in node.items:
        call = item.context_expr
        called = call.func if isinstance(call, ast.Call) else call
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if isinstance(call, ast.Call) and name in _SUPPRESSORS:
            yield set().union(*map(_names_in, call.args)), True


def _names_in(expression: ast.expr) -> set[str]:
    return {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(expression)}


def has_living_twin(imported: Imported, package: str, exists: Callable[[str], bool]) -> bool:
    """The name's `try` has another arm that imports something of vLLM which the target has.

    Either the same local name is imported there, or a handler of the `try` does the work with other names. A fallback
    may try further names: its own `try` stands in the handler of another one.
    """
    path: Path | None = imported.path
    innermost = True
    while (trial := import_trial(path)) is not None:
        top, arm = trial
        others: list[ast.stmt] = []
        if arm == "handler":
            others = list(top.body)
        elif innermost:
            others = [statement for handler in top.handlers for statement in handler.body]
        if any(name != imported.dotted and exists(name) for name in imports_in(others, package)):
            return True
        path, innermost = _around(path, top), False
    return False


def tried_before(imported: Imported, package: str, exists: Callable[[str], bool]) -> bool:
    """A `try` before it in the same function returns with what vLLM has there: it is reached where that fails alone."""
    inner: ast.AST | None = imported.statement
    path: Path | None = imported.path
    while path is not None:
        parent, field_name, path = path
        block = getattr(parent, field_name, None)
        if isinstance(block, list) and inner in block:
            for earlier in block[: block.index(inner)]:
                if isinstance(earlier, ast.Try) and _catches_import_error(earlier) and _returns(earlier):
                    return any(name != imported.dotted and exists(name) for name in imports_in(earlier.body, package))
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return False
        inner = parent
    return False


def _returns(trial: ast.Try) -> bool:
    """What succeeds ends the function; what fails goes on behind the `try`."""
    ends = isinstance([*trial.body, *trial.orelse][-1], ast.Return)
    return ends and all(not isinstance(handler.body[-1], ast.Raise | ast.Return) for handler in trial.handlers)


def _around(path: Path | None, node: ast.AST) -> Path | None:
    """The path of `node`, which is one of the parents on `path`."""
    while path is not None:
        parent, path = path[0], path[2]
        if parent is node:
            break
    return path


def succeeded(
    imported: Imported, others: Iterable[Imported], exists: Callable[[str], bool], replaces: Callable[[str], bool]
) -> bool:
    """The name may fail to be imported, and another import of the scope takes its place then.

    That one stands in a `try` of its own, or behind a test of the name, and binds the same name, or one that `replaces`
    what is missing; behind a test of the name (`if X is None:`) whatever vLLM has.
    """
    if not goes_on_without(imported.path):
        return False
    for other in others:
        if other.scope is not imported.scope or other.statement is imported.statement or not exists(other.dotted):
            continue
        if _asks_whether(other.path, imported.local):
            return True
        tried = import_trial(other.path) is not None
        if tried and (other.local == imported.local or replaces(other.dotted)):
            return True
    return False


def asks_for_none(path: Path | None) -> bool:
    """The name at this place is only asked whether it is something: `x is None`, `if x:`, `not x`."""
    parent, field_name = (path[0], path[1]) if path is not None else (None, "")
    if isinstance(parent, ast.Compare):
        plain = all(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)
        return plain and all(isinstance(each, ast.Constant) and each.value is None for each in parent.comparators)
    return isinstance(parent, ast.BoolOp | ast.UnaryOp) or (
        isinstance(parent, ast.If | ast.IfExp | ast.While | ast.Assert) and field_name == "test"
    )


def _asks_whether(path: Path | None, name: str) -> bool:
    """The place is behind a test of the name."""
    while path is not None:
        parent, field_name, path = path
        asked = ast.walk(parent.test) if isinstance(parent, ast.If) and field_name in ("body", "orelse") else ()
        if any(isinstance(node, ast.Name) and node.id == name for node in asked):
            return True
    return False


def imports_in(body: list[ast.stmt], package: str) -> Iterator[str]:
    """Names of vLLM, or of v1_cpu, that statements import."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.ImportFrom):
                module = absolute(package, "." * node.level + (node.module or ""))
                if module.partition(".")[0] in ("vllm", "v1_cpu"):
                    yield from (f"{module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name.startswith("vllm."))


def probed(use_path: Path | None, attributes: tuple[str, ...]) -> bool:
    """The use stands behind a `hasattr(x, "attribute")` (or where AttributeError is caught)."""
    path = use_path
    while path is not None:
        parent, field_name, outer = path
        if (
            isinstance(parent, ast.If | ast.IfExp)
            and field_name in ("body", "orelse")
            and _probes(parent.test, attributes)
        ):
            return True
        if isinstance(parent, ast.BoolOp) and any(_probes(value, attributes) for value in parent.values):
            return True
        if isinstance(parent, ast.Try) and field_name == "body" and _catches_import_error(parent):
            return True
        suppressed = _caught(parent) if isinstance(parent, ast.With) and field_name == "body" else ()
        if any("AttributeError" in names for names, _ in suppressed):
            return True
        path = outer
    return False


def asks_for_presence(call: ast.Call) -> bool:
    """`hasattr(x, "name")`, or `getattr` with a default. Without one it fails like the attribute itself."""
    name = own_name(call.func)
    return name == "hasattr" or (name == "getattr" and len(call.args) == 3)


def _probes(test: ast.expr, attributes: tuple[str, ...]) -> bool:
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and asks_for_presence(node) and len(node.args) > 1:
            literal = node.args[1]
            if isinstance(literal, ast.Constant) and literal.value in attributes:
                return True
    return False


def for_type_checkers(path: Path | None) -> bool:
    """The node stands in the body of `if TYPE_CHECKING:`, which never runs."""
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.If) and field_name == "body":
            test = parent.test
            name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
            if name == "TYPE_CHECKING":
                return True
    return False


def same_block(first: Path | None, second: Path | None) -> bool:
    """Two statements stand in one list of statements."""
    return first is not None and second is not None and first[0] is second[0] and first[1] == second[1]
