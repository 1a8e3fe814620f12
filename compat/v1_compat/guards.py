"""What the source around a line says: whether it is ready to go on without the name that it asks for.

A handler that names the very error means so. A broad one (`except Exception`) may be there for anything else, and means
so only where nothing else is tried: imports, and assignments of what they gave.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache

IMPORT = frozenset({"ImportError", "ModuleNotFoundError"})
ATTRIBUTE = frozenset({"AttributeError"})
TYPE = frozenset({"TypeError"})
ANY = "*"  # a name that is not written in the line

_BROAD = frozenset({"Exception", "BaseException"})
_ASKING_CALLS = frozenset({"import_module", "__import__", "getattr", "hasattr"})
_ASKING = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr, ast.Pass, ast.If, ast.Try)


@lru_cache(maxsize=512)
def guarded_lines(filename: str, errors: frozenset[str], strict: bool) -> tuple[tuple[int, int], ...]:
    """The lines of a file that have an answer to one of `errors`. `strict`: only where the handler names it."""
    found: list[tuple[int, int]] = []
    for node in ast.walk(parsed(filename)):
        if isinstance(node, ast.Try | ast.With) and _answered(node, errors, strict):
            found.extend(_own_lines(node.body))
    return tuple(found)


@lru_cache(maxsize=256)
def probes(filename: str) -> frozenset[tuple[int, str]]:
    """(line, name) of each hasattr(x, "name") and getattr(x, "name", default); `ANY` for a name that is computed."""
    found: set[tuple[int, str]] = set()
    for node in ast.walk(parsed(filename)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
            wanted = 2 if getattr(node.func, "id", "") == "hasattr" else 3
            if len(node.args) == wanted:
                name = node.args[1].value if isinstance(node.args[1], ast.Constant) else ANY
                found |= {(line, str(name)) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return frozenset(found)


@lru_cache(maxsize=256)
def words(filename: str) -> frozenset[str]:
    """The keywords of all calls of a file, and its texts."""
    nodes = list(ast.walk(parsed(filename)))
    keywords = {node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg is not None}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(keywords | texts)


@lru_cache(maxsize=64)
def parsed(filename: str) -> ast.Module:
    """The source of a file; empty where there is none to be had."""
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _own_lines(body: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """What runs there and then: a function's body runs later."""
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.lineno, statement.end_lineno or statement.lineno


def _answered(node: ast.Try | ast.With, errors: frozenset[str], strict: bool) -> bool:
    """The first that catches the error decides: it does something else than to raise again."""
    caught = _handlers(node) if isinstance(node, ast.Try) else _suppressed(node)
    for names, goes_on in caught:
        if names & errors:
            return goes_on
        if names & _BROAD:
            return goes_on and not strict and _only_asks(node.body)
    return False


def _handlers(node: ast.Try) -> Iterator[tuple[frozenset[str], bool]]:
    for handler in node.handlers:
        names = _BROAD if handler.type is None else _names(handler.type)
        yield names, not isinstance(handler.body[-1], ast.Raise)


def _suppressed(node: ast.With) -> Iterator[tuple[frozenset[str], bool]]:
    for item in node.items:
        if isinstance(item.context_expr, ast.Call) and _called(item.context_expr) == "suppress":
            yield frozenset().union(*map(_names, item.context_expr.args)), True


def _only_asks(body: list[ast.stmt]) -> bool:
    """Imports, and assignments of what was imported: a call of anything is work that may fail for other reasons."""
    for node in (node for statement in body for node in ast.walk(statement)):
        if isinstance(node, ast.stmt) and not isinstance(node, _ASKING):
            return False
        if isinstance(node, ast.Call) and _called(node) not in _ASKING_CALLS:
            return False
    return True


def _called(call: ast.Call) -> str:
    found: str = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return found


def _names(expression: ast.expr) -> frozenset[str]:
    return frozenset(getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(expression))
