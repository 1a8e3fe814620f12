"""Statements at the top of a function body, behind its docstring."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..findings import Edit
from .context import PythonFile


def prologue(
    file: PythonFile, function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Sequence[str]
) -> tuple[Edit, ...] | None:
    """Insert statements before the first one; None for a body on the line of its header."""
    if not lines:
        return ()
    body = function.body
    first = body[0]
    described = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    text, newline = file.source.text, file.source.newline
    if first.lineno == function.lineno or first.lineno <= _header_end(function):
        return None
    if described and len(body) == 1:
        return None
    following = body[1] if described else first
    decorators = getattr(following, "decorator_list", [])
    line = min([following.lineno, *(decorator.lineno for decorator in decorators)])
    at = file.source.offset(line, 0)
    start = file.source.offset(first.lineno, 0)
    indent = text[start : file.source.offset(first.lineno, first.col_offset)]
    if indent.strip() or text[at : at + len(indent)] != indent:
        return None
    inserted = "".join(f"{indent}{statement}{newline}" for statement in lines)
    return (Edit(at, at, "", inserted),)


def _header_end(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last line that the parameters and the return annotation reach."""
    nodes = [*ast.walk(function.args), *([function.returns] if function.returns else [])]
    ends = [getattr(node, "end_lineno", None) or 0 for node in nodes]
    return max(ends, default=function.lineno)
