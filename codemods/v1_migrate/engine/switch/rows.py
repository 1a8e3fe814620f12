"""What parametrisations and fixtures with parameters say: names, rows, and for which engine a value stands."""

from __future__ import annotations

import ast

from .functions import Function, decorators, is_fixture
from .values import Known

_FLAGS: tuple[tuple[str, ...], tuple[str, ...]] = (("1", "true", "v1"), ("0", "false", "v0"))
_VERSIONS: tuple[tuple[str, ...], tuple[str, ...]] = (("v1", "1"), ("v0", "0"))


def is_parametrize(node: ast.Call) -> bool:
    """`pytest.mark.parametrize(...)`."""
    return isinstance(node.func, ast.Attribute) and node.func.attr == "parametrize"


def names_of(node: ast.expr) -> list[str]:
    """The names of a parametrisation: one text, or a list of them."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [name.strip() for name in node.value.split(",") if name.strip()]
    if isinstance(node, ast.List | ast.Tuple):
        return [str(item.value) for item in node.elts if isinstance(item, ast.Constant)]
    return []


def cell_of(row: ast.expr, position: int, width: int) -> Known | None:
    """The literal of a row at a position."""
    if isinstance(row, ast.Call) and getattr(row.func, "attr", getattr(row.func, "id", "")) == "param":
        cells: list[ast.expr] = row.args
    elif width > 1:
        cells = row.elts if isinstance(row, ast.Tuple | ast.List) else []
    else:
        cells = [row]
    if len(cells) != width or not isinstance(cells[position], ast.Constant):
        return None
    return Known(cells[position].value)  # type: ignore[attr-defined]


def side_of(name: str, cell: Known | None) -> bool | None:
    """True: V1, False: V0, None: neither for certain."""
    if cell is None:
        return None
    text = str(cell.value).lower()
    versioned = "version" in name.lower() or name.lower() == "engine"
    on, off = _VERSIONS if versioned else _FLAGS
    if "version" in name.lower() and "vllm" not in name.lower() and "engine" not in name.lower():
        on, off = ("v1", "v1"), ("v0", "v0")
    side = True if text in on else False if text in off else None
    return side if side is None or not name.lower().endswith("v0") else not side


def fixture_rows(function: Function) -> list[ast.expr] | None:
    """The `params` of a fixture."""
    if not is_fixture(function):
        return None
    for _, decorator in decorators(function):
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "params" and isinstance(keyword.value, ast.List | ast.Tuple) and keyword.value.elts:
                return list(keyword.value.elts)
    return None


def hands_out_parameter(function: Function) -> bool:
    """The fixture does nothing but return or yield `request.param`."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(body) != 1:
        return False
    value = body[0].value if isinstance(body[0], ast.Return | ast.Expr) else None
    value = value.value if isinstance(value, ast.Yield) else value
    return value is not None and is_request_param(value)


def is_request_param(node: ast.expr) -> bool:
    """`request.param`."""
    return isinstance(node, ast.Attribute) and node.attr == "param" and getattr(node.value, "id", "") == "request"
