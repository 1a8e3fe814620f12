"""What a function is to pytest, and what its parameters and calls are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..context import PythonFile

Function = ast.FunctionDef | ast.AsyncFunctionDef


def every_parameter(function: Function) -> list[ast.arg]:
    """Parameters that can be named in a call."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


def argument_of(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """The expression that a call passes for a parameter; None when it leaves it to the default."""
    positional = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if name in positional and positional.index(name) < len(call.args):
        return call.args[positional.index(name)]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def decorators(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Each decorator's last name, and the decorator."""
    for decorator in function.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield (inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "")), decorator


def is_fixture(function: Function) -> bool:
    return any(name.endswith("fixture") for name, _ in decorators(function))


def is_autouse(function: Function) -> bool:
    return any(
        keyword.arg == "autouse" and isinstance(keyword.value, ast.Constant) and bool(keyword.value.value)
        for _, decorator in decorators(function)
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def requests_fixtures(function: Function) -> bool:
    """pytest fills the parameters by their names."""
    return function.name.startswith("test") or is_fixture(function)


def is_conftest(file: PythonFile) -> bool:
    return file.source.rel.rpartition("/")[2] == "conftest.py"


def is_test_file(file: PythonFile) -> bool:
    """Nobody imports from it (a conftest's functions may be requested elsewhere)."""
    name = file.source.rel.rpartition("/")[2]
    return name.startswith("test_") or name.endswith("_test.py")


def has_spread(call: ast.Call) -> bool:
    """The call passes `*a` or `**k`."""
    return any(isinstance(argument, ast.Starred) for argument in call.args) or any(
        keyword.arg is None for keyword in call.keywords
    )
