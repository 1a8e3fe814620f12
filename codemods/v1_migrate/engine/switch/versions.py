"""Arms that the target never takes, as they stand behind a test of vLLM's version: code for other releases."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator

from packaging.version import InvalidVersion, Version

from ..context import PythonFile
from ..scopes import Path

NEVER = "only another release of vLLM runs it, by the test of the version before it"

_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_RELATIONS: dict[type[ast.cmpop], Callable[[Version, Version], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_OF_VLLM = re.compile(r"vllm\w*[._]_*version|version\w*vllm", re.IGNORECASE)


def other_arms(file: PythonFile) -> Iterator[tuple[int, int]]:
    """Spans of what the target never runs: an arm, or what follows one that ends the block."""
    try:
        target = Version(file.judge.target)
    except InvalidVersion:
        return
    for found in file.model.every(ast.If, ast.IfExp):
        node = found.node
        taken = holds(node.test, target)
        if taken is None:
            continue
        never = node.orelse if taken else node.body
        if isinstance(never, ast.expr):
            yield file.span(never)
            continue
        assert isinstance(node, ast.If)
        if never:
            yield file.span(never[0])[0], file.span(never[-1])[1]
        if taken and isinstance(node.body[-1], _EXITS) and (rest := _after(node, found.path)):
            yield file.span(rest[0])[0], file.span(rest[-1])[1]


def holds(test: ast.expr, target: Version) -> bool | None:
    """What a comparison of vLLM's version with a release gives on the target; None where it is no such comparison."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, relation = test.left, test.comparators[0], type(test.ops[0])
    if _release(left) is not None:
        left, right, relation = right, left, _TURNED.get(relation, relation)
    release = _release(right)
    if release is None or relation not in _RELATIONS or not _OF_VLLM.search(ast.unparse(left)):
        return None
    return _RELATIONS[relation](target, release)


def _release(node: ast.expr) -> Version | None:
    """`"0.11.0"`, `(0, 11)`, or such a one in a call (`Version("0.11.0")`)."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        return _release(node.args[0])
    if isinstance(node, ast.Tuple):
        parts = [part.value for part in node.elts if isinstance(part, ast.Constant) and isinstance(part.value, int)]
        text = ".".join(map(str, parts)) if len(parts) == len(node.elts) else ""
    else:
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _after(node: ast.If, path: Path) -> list[ast.stmt]:
    parent, arm, _ = path
    block = getattr(parent, arm, None)
    return block[block.index(node) + 1 :] if isinstance(block, list) and node in block else []
