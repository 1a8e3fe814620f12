"""Where in the user's code something happens, and how an import was asked for: read from the stack.

Frames of importlib, of the standard library, of vLLM and of this package are nobody's line to change.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FrameType

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_FIND_SPEC = ("<frozen importlib.util>", f"importlib{os.sep}util.py")
_BETWEEN = (  # what calls an operator that is written in Python; what imports modules under pytest
    f"{os.sep}torch{os.sep}_ops.py",
    f"{os.sep}_pytest{os.sep}assertion{os.sep}rewrite.py",
)
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})
_STRICT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file."""

    filename: str
    line: int
    module: str  # the module's name, for warning filters


@dataclass(frozen=True, slots=True)
class Request:
    """How a module is being imported."""

    last: bool  # the user named this module itself, it is not a parent on the way to another
    names: tuple[str, ...]  # of `from module import names`
    probing: bool  # importlib.util.find_spec: a question, not an import
    statement: bool  # an import statement, not importlib.import_module and its like
    guarded: bool  # stands in a `try` that goes on without it
    by_vllm: bool  # vLLM's own source asks


def user_place(vllm_folder: str = "") -> Place:
    """The innermost line that belongs to somebody else than the machinery."""
    frame = _user_frame(sys._getframe(1), vllm_folder) or sys._getframe(1)
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__", "<unknown>"))


def request_for(fullname: str, vllm_folder: str = "") -> Request:
    """What the stack says about the import of `fullname` that is going on."""
    asked, through_list, probing = fullname, False, False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _machinery(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_filename.startswith("<frozen importlib"):
            if code.co_name == "_handle_fromlist":
                through_list = True
            elif code.co_name == "_find_and_load" and not through_list:
                asked = frame.f_locals.get("name", asked)
        if code.co_name == "find_spec" and code.co_filename.endswith(_FIND_SPEC):
            probing = True
        frame = frame.f_back
    nearest = frame
    statement, names = _import_statement(nearest) if nearest is not None else (False, ())
    by_vllm = nearest is not None and _within(nearest.f_code.co_filename, vllm_folder)
    user = _user_frame(nearest, vllm_folder) or nearest
    return Request(
        last=asked == fullname,
        names=() if through_list else names,
        probing=probing,
        statement=statement,
        guarded=guarded(nearest) or guarded(user),
        by_vllm=by_vllm,
    )


def nearest_frame() -> FrameType | None:
    """The innermost frame that is neither ours nor Python's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def asked_for_a_list() -> bool:
    """importlib asks whether a package has a name of a from-import; the import itself takes it next."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_handle_fromlist"


def probed(frame: FrameType, name: str) -> bool:
    """The line asks whether there is such a name: hasattr(x, "name"), getattr(x, "name", default)."""
    return (frame.f_lineno, name) in _probes(frame.f_code.co_filename)


@lru_cache(maxsize=256)
def _probes(filename: str) -> frozenset[tuple[int, str]]:
    found = set()
    for node in ast.walk(_tree(filename)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("hasattr", "getattr"):
            wanted = 2 if getattr(node.func, "id", "") == "hasattr" else 3
            name = node.args[1] if len(node.args) == wanted else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found |= {(line, name.value) for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return frozenset(found)


@lru_cache(maxsize=64)
def _tree(filename: str) -> ast.Module:
    """The source of a file; empty where there is none to be had."""
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def guarded(frame: FrameType | None) -> bool:
    """The line stands in a `try` that has an answer to an import that fails; so do lines that import its module."""
    outermost = True
    package = frame.f_globals.get("__name__", "").partition(".")[0] if frame is not None else ""
    while frame is not None:
        if not _machinery(frame.f_code.co_filename):
            if frame.f_globals.get("__name__", "").partition(".")[0] != package:
                return False
            ranges = _guards(frame.f_code.co_filename, not outermost)
            if any(first <= frame.f_lineno <= last for first, last in ranges):
                return True
            if frame.f_code.co_name != "<module>":
                return False
            outermost = False
        frame = frame.f_back
    return False


def _machinery(filename: str) -> bool:
    if filename.startswith(("<frozen ", _OURS)) or filename.endswith(_BETWEEN):
        return True
    return filename.startswith(_STDLIB) and "site-packages" not in filename and "dist-packages" not in filename


def _within(filename: str, folder: str) -> bool:
    return bool(folder) and filename.startswith(folder)


def _user_frame(frame: FrameType | None, vllm_folder: str) -> FrameType | None:
    fallback = None
    while frame is not None:
        filename = frame.f_code.co_filename
        if not _machinery(filename) and not frame.f_globals.get("__name__", "").startswith("v1_compat."):
            if not _within(filename, vllm_folder):
                return frame
            fallback = fallback or frame
        frame = frame.f_back
    return fallback


def _import_statement(frame: FrameType) -> tuple[bool, tuple[str, ...]]:
    """Whether the frame stands at an import statement, and the names after its `import` if it is a from-import."""
    return _imports(frame.f_code).get(frame.f_lasti, (False, ()))


@lru_cache(maxsize=256)
def _imports(code: CodeType) -> dict[int, tuple[bool, tuple[str, ...]]]:
    found: dict[int, tuple[bool, tuple[str, ...]]] = {}
    constant: object = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            names = constant if isinstance(constant, tuple) else ()
            found[instruction.offset] = (True, names)
        elif instruction.opname.startswith("LOAD_CONST") or instruction.opname == "LOAD_SMALL_INT":
            constant = instruction.argval
        elif instruction.opname == "IMPORT_FROM":
            found[instruction.offset] = (True, ())
    return found


@lru_cache(maxsize=256)
def _guards(filename: str, strict: bool) -> tuple[tuple[int, int], ...]:
    """The lines of a file that may fail to import. `strict`: only where the handler names an import error."""
    errors = _STRICT_ERRORS if strict else _IMPORT_ERRORS
    return tuple(_guarded_ranges(_tree(filename), errors, strict))


def _guarded_ranges(node: ast.AST, errors: frozenset[str], strict: bool) -> Iterator[tuple[int, int]]:
    for child in ast.walk(node):
        caught = isinstance(child, ast.Try) and any(_answers(handler, errors, strict) for handler in child.handlers)
        caught = caught or (isinstance(child, ast.With) and any(_suppresses(item, errors) for item in child.items))
        if caught and isinstance(child, ast.Try | ast.With):
            yield from _own_lines(child.body)


def _own_lines(body: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """What runs there and then: a function's body runs later."""
    for statement in body:
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.lineno, statement.end_lineno or statement.lineno


def _answers(handler: ast.ExceptHandler, errors: frozenset[str], strict: bool) -> bool:
    """It catches a failed import, and does something else than to raise again."""
    if isinstance(handler.body[-1], ast.Raise):
        return False
    return not strict if handler.type is None else _names(handler.type, errors)


def _suppresses(item: ast.withitem, errors: frozenset[str]) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return False
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return called == "suppress" and any(_names(argument, errors) for argument in call.args)


def _names(expression: ast.expr, errors: frozenset[str]) -> bool:
    parts = (getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(expression))
    return any(part in errors for part in parts)
