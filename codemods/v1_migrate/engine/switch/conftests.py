"""What the conftest.py files above a test do to the engine switch, without a hint in the test itself."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

from ..context import PythonFile
from .names import is_switch


def pinning_conftest(file: PythonFile) -> str:
    """The conftest above a test file whose autouse fixture chooses V0, relative to the tree; "" without one."""
    parts = file.source.rel.split("/")
    if not parts[-1].startswith("test_") and not parts[-1].endswith("_test.py"):
        return ""
    for depth in range(len(parts) - 1, -1, -1):
        rel = "/".join([*parts[:depth], "conftest.py"])
        if _pins(file.tree.root / rel):
            return rel
    return ""


@lru_cache(maxsize=4096)
def _pins(path: Path) -> bool:
    try:
        text = path.read_text("utf-8", "replace")
        tree = ast.parse(text) if "VLLM_USE_V1" in text and "autouse" in text else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] if tree is not None else []
    return any(_autouse(function) and any(map(_chooses_v0, ast.walk(function))) for function in functions)


def _autouse(function: ast.FunctionDef) -> bool:
    return any(
        keyword.arg == "autouse" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def _chooses_v0(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and len(node.args) >= 2 and is_switch(node.args[0]):
        value = node.args[1]
        return isinstance(value, ast.Constant) and str(value.value) == "0"
    return False
