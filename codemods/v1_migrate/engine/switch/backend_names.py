"""The name of the CPU attention backend, which changed with the releases."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from ..context import PythonFile

_NAMES = (("0.11.0", "TORCH_SDPA_VLLM_V1"), ("0.11.1", "TORCH_SDPA"))  # up to, exclusive
_NEWEST = "CPU_ATTN"
KNOWN = frozenset({"TORCH_SDPA", "TORCH_SDPA_VLLM_V1", _NEWEST})


def cpu_backend_name(target: str) -> str:
    """What `get_name()` of the CPU backend answers on a release."""
    try:
        version = Version(target)
    except InvalidVersion:
        return _NEWEST
    return next((name for release, name in _NAMES if version < Version(release)), _NEWEST)


def expected_names(file: PythonFile) -> Iterator[tuple[ast.Constant, bool]]:
    """Literals that code compares with a backend's `get_name()`, and whether vision may be meant."""
    for found in file.model.every(ast.Compare):
        node = found.node
        sides = [node.left, *node.comparators]
        if not any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops) or not any(map(_asks_name, sides)):
            continue
        for side in sides:
            if isinstance(side, ast.Constant) and side.value in KNOWN:
                yield side, any(word in ast.unparse(node).lower() for word in ("vit", "vision", "mm_encoder"))


def _asks_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_name"
