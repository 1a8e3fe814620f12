"""What a test of vLLM's release gives on the target, and the places that the target does not get to."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from packaging.version import InvalidVersion, Version

from .asked_in_tests import Asked, module_asked_for, value_of
from .context import PythonFile
from .scopes import Path

NEVER = "only another release of vLLM runs it, by the test of the release before it"

_OF_VLLM = re.compile(r"vllm\w*[._]_*version|version\w*vllm", re.IGNORECASE)
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
DEEP = 3  # names that stand for names
RELATIONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


class Arms(Asked):
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        super().__init__(file)
        try:
            self.target: Version | None = Version(file.judge.target)
        except InvalidVersion:  # a private fork's label has no order
            self.target = None

    def outcome(self, test: ast.expr, depth: int = 0) -> bool | None:
        """What the test gives on the target; None where that cannot be told."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.outcome(test.operand, depth)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            deciding = isinstance(test.op, ast.Or)
            found = [self.outcome(value, depth) for value in test.values]
            return deciding if deciding in found else None if None in found else not deciding
        if isinstance(test, ast.Compare):
            return self._compared(test)
        if isinstance(test, ast.Call):
            asked = self.attribute_asked_for(test)
            return self._there(asked) if asked else None
        values = self.values(test) if isinstance(test, ast.Name) and depth < DEEP else []
        return self.outcome(values[0], depth + 1) if len(values) == 1 and values[0] is not None else None

    def _compared(self, test: ast.Compare) -> bool | None:
        """A comparison of vLLM's version with a release, or `find_spec("vllm...") is None`."""
        if len(test.ops) != 1:
            return None
        left, right, relation = test.left, test.comparators[0], type(test.ops[0])
        if isinstance(right, ast.Constant) and right.value is None and relation in (ast.Is, ast.IsNot):
            there = self._there(module_asked_for(left))
            return None if there is None else there is (relation is ast.IsNot)
        if _release(left) is not None:
            left, right, relation = right, left, _TURNED.get(relation, relation)
        release = _release(right)
        if self.target is None or release is None or relation not in RELATIONS:
            return None
        return RELATIONS[relation](self.target, release) if self._is_vllms_version(left) else None

    def _is_vllms_version(self, node: ast.expr) -> bool:
        """By its words, or those of what its names stand for."""
        texts = [ast.unparse(node)]
        for name in ast.walk(node):
            bindings = self.bindings(name) if isinstance(name, ast.Name) else []
            if len(bindings) == 1:
                value = value_of(bindings[0])
                texts.append(ast.unparse(value) if value is not None else bindings[0].target)
        text = " ".join(texts)
        return _OF_VLLM.search(text) is not None or ("'vllm'" in text and "version" in text)

    def _there(self, dotted: str) -> bool | None:
        """The target has the name; None where the owner is not there either, or nobody knows."""
        owner = dotted.rpartition(".")[0]
        if not owner or self.judge.judge(owner).status != "present":
            return None
        return {"present": True, "missing": False}.get(self.judge.judge(dotted).status)

    def never_runs(self, node: ast.AST) -> bool:
        """The target does not get to the place: by a test before it."""
        if not hasattr(node, "lineno"):
            return False
        start, _ = self.file.span(node)
        return any(low <= start < high for low, high in self.other_arms)

    @cached_property
    def other_arms(self) -> list[tuple[int, int]]:
        """Spans of what the target never runs: an arm, what follows one that ends the block, an operand."""
        return list(self._other_arms())

    def _other_arms(self) -> Iterator[tuple[int, int]]:
        for found in self.file.model.every(ast.BoolOp):
            yield from self._other_operands(found.node)
        for found in self.file.model.every(ast.If, ast.IfExp):
            node = found.node
            taken = self.outcome(node.test)
            if taken is None:
                continue
            never = node.orelse if taken else node.body
            if isinstance(never, ast.expr):
                yield self.file.span(never)
                continue
            assert isinstance(node, ast.If)
            if never:
                yield self.file.span(never[0])[0], self.file.span(never[-1])[1]
            if taken and isinstance(node.body[-1], _EXITS) and (rest := _after(node, found.path)):
                yield self.file.span(rest[0])[0], self.file.span(rest[-1])[1]

    def _other_operands(self, node: ast.BoolOp) -> Iterator[tuple[int, int]]:
        deciding = isinstance(node.op, ast.Or)
        for position, value in enumerate(node.values[:-1]):
            if self.outcome(value) is deciding:
                yield self.file.span(node.values[position + 1])[0], self.file.span(node.values[-1])[1]
                return


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
