"""Which decorator of `mock` is at work: told by what it patches, in the source of the function or class under it."""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

from .guards import parsed

MOCK = (f"{os.sep}unittest{os.sep}mock.py", f"{os.sep}mock{os.sep}mock.py")
_WRAPPERS = ("patched", "_inner")
_Decorated = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class _Target:
    """What a patch is of, as far as it can be told."""

    path: str  # "vllm.worker.worker.Worker" of patch("vllm.worker.worker.Worker.load_model"); "" of patch.object
    attribute: str  # "load_model"; "" of patch.dict


def decorated(frame: FrameType) -> FunctionType | None:
    """The function that `mock.patch` decorates, if this frame is its wrapper."""
    if frame.f_code.co_name not in _WRAPPERS or not frame.f_code.co_filename.endswith(MOCK):
        return None
    function: Callable[..., object] | None = frame.f_locals.get("func") or frame.f_locals.get("f")
    found = inspect.unwrap(function) if function is not None else None
    return found if isinstance(found, FunctionType) else None


def line_of(function: FunctionType, frame: FrameType | None) -> tuple[str, int, str]:
    """File, line and module of the decorator that is at work in the frames below the wrapper of `function`."""
    code, module = function.__code__, function.__globals__.get("__name__", "<unknown>")
    target, owner = _at_work(frame)
    if target is not None:
        for line in _matching(_at_line(code.co_filename, code.co_firstlineno), target):
            return code.co_filename, line, module
        for cls in type(owner).__mro__:  # a decorated class: each of its tests is wrapped, also those it inherits
            filename = getattr(sys.modules.get(cls.__module__), "__file__", None)
            for line in _matching(_class(filename, cls.__qualname__), target) if filename else ():
                return filename or "", line, cls.__module__
    return code.co_filename, code.co_firstlineno, module


def _at_work(frame: FrameType | None) -> tuple[_Target | None, Any]:
    """What the innermost patch is of, and the first argument of the call that it is made for."""
    target: _Target | None = None
    while frame is not None:
        if frame.f_code.co_filename.endswith(MOCK):
            target = target or _target(frame.f_locals.get("self"))
            if decorated(frame) is not None:
                given = frame.f_locals.get("args") or (None,)
                return target or _target(frame.f_locals.get("self")), given[0]
        frame = frame.f_back
    return target, None


def _target(patching: Any) -> _Target | None:
    in_dict = getattr(patching, "in_dict", None)
    if isinstance(in_dict, str):
        return _Target(in_dict, "")
    getter, attribute = getattr(patching, "getter", None), getattr(patching, "attribute", None)
    if getter is None or not isinstance(attribute, str):
        return None
    cells = [cell.cell_contents for cell in getattr(getter, "__closure__", None) or ()]  # before 3.12 a lambda
    path = next((each for each in (*getattr(getter, "args", ()), *cells) if isinstance(each, str)), "")
    return _Target(path, attribute)


def _matching(node: _Decorated | None, target: _Target) -> Iterator[int]:
    """The lines of the decorators that name the target."""
    for decorator in node.decorator_list if node is not None else ():
        nodes = list(ast.walk(decorator))
        texts = {each.value for each in nodes if isinstance(each, ast.Constant)}
        keywords = {each.arg for each in nodes if isinstance(each, ast.keyword)}
        whole = f"{target.path}.{target.attribute}".strip(".") in texts
        if whole or (target.path in texts and target.attribute in keywords):
            yield decorator.lineno


@lru_cache(maxsize=256)
def _at_line(filename: str, line: int) -> _Decorated | None:
    for node in ast.walk(parsed(filename)):
        if isinstance(node, _Decorated) and node.decorator_list and node.decorator_list[0].lineno == line:
            return node
    return None


@lru_cache(maxsize=256)
def _class(filename: str, qualname: str) -> ast.ClassDef | None:
    body: list[ast.stmt] = parsed(filename).body
    found: ast.ClassDef | None = None
    for name in qualname.split("."):
        found = next((n for n in body if isinstance(n, ast.ClassDef) and n.name == name), None)
        body = found.body if found is not None else []
    return found
