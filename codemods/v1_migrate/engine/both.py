"""An import that serves two releases: `try: new / except ImportError: old`, in the place of the one import.

It is the form that plugins use. Where the new name comes from a package that is there with every vLLM (`v1_cpu`), the
old one is tried first: the new import would always succeed.
"""

from __future__ import annotations

import ast

from ..findings import Edit
from ..names.index import Index
from .bridge import is_bridged

_STEP = "    "
_ERRORS = frozenset(("ImportError", "ModuleNotFoundError"))


def needs_guard(index: Index, old: str, new: str, also: str) -> bool:
    """`also` has the old name and not the new one: neither import alone serves it and the target."""
    if is_bridged(new):
        return False
    return bool(also) and index.resolve(old, also).found is True and index.resolve(new, also).found is not True


def guarded(old: str, new: str, indent: str, newline: str) -> str:
    """The two statements, written without indentation, as one `try`; the first line is not indented."""
    first, second = (new, old) if _module(new).partition(".")[0] == "vllm" else (old, new)
    step = "\t" if indent.endswith("\t") else _STEP
    lines = [
        "try:",
        *_indented(first, indent, step),
        f"{indent}except ImportError:",
        *_indented(second, indent, step),
    ]
    return newline.join(lines)


def rewritten(statement: str, start: int, edits: tuple[Edit, ...]) -> str:
    """The statement's own text, which begins at `start` of the file, after edits of the file."""
    out, done = "", 0
    for edit in sorted(edits, key=lambda each: each.start):
        out += statement[done : edit.start - start] + edit.replacement
        done = edit.end - start
    return out + statement[done:]


def _module(statement: str) -> str:
    words = statement.split()
    return words[1] if len(words) > 1 else ""


def _indented(statement: str, indent: str, step: str) -> list[str]:
    """The statement's lines, one step deeper. Its first line has no indentation, the others have their own."""
    first, *rest = statement.splitlines()
    return [indent + step + first, *(step + line if line.strip() else line for line in rest)]


def is_guarded_import(node: ast.AST) -> bool:
    """`try` with nothing but imports in its two arms, which bind the same names."""
    if not isinstance(node, ast.Try) or len(node.handlers) != 1 or node.orelse or node.finalbody:
        return False
    handler = node.handlers[0]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if not all(isinstance(each, ast.Name) and each.id in _ERRORS for each in types):
        return False
    first, second = _imported(node.body), _imported(handler.body)
    return first is not None and first == second


def _imported(body: list[ast.stmt]) -> set[str] | None:
    """Local names that imports bind; None if there is anything else in the body."""
    names: set[str] = set()
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in statement.names}
        elif isinstance(statement, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
        else:
            return None
    return names
