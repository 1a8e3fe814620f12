"""Tests in the code that tell vLLM's releases or engines apart, and what they give on the target.

A test of the version, of what a module or class of vLLM has, of what could be imported. That some other object has an
attribute, that some other package is there, says nothing about vLLM's release.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from functools import cached_property

from packaging.version import InvalidVersion, Version

from .context import PythonFile
from .guards import import_trial, imports_in
from .instances import instances_of
from .scopes import Binding, Path, Use

NEVER = "only another release of vLLM runs it, by the test of the release before it"

_ENGINE = re.compile(r"version|use_(?:vllm_)?v1|is_(?:vllm_)?v1(?![a-z0-9])|vllm_v\d+_\d", re.IGNORECASE)
_OF_OTHERS = re.compile(
    r"torch|cuda|cann|rocm|hip_|python|sys\b|platform\b|transformers|hf_|ray\b|ray_|numpy|triton|unsloth|peft|accelerate"
    r"|deepspeed|xformers|flash|api_|schema|protocol|driver|model_version|config_version|file_version",
    re.IGNORECASE,
)
_OF_VLLM = re.compile(r"vllm\w*[._]_*version|version\w*vllm", re.IGNORECASE)
_OF_PACKAGE = re.compile(r"vllm(?:-\w+)?\Z")
_TOOLS = re.compile(r"(?:packaging|importlib|importlib_metadata|pkg_resources|distutils|looseversion)\b")
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEEP = 3
_RELATIONS: dict[type[ast.cmpop], Callable[[Version, Version], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


class ReleaseTests:
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file, self.judge = file, file.judge
        try:
            self.target: Version | None = Version(file.judge.target)
        except InvalidVersion:  # a private fork's label has no order
            self.target = None

    # what a test gives on the target

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
            asked = self._attribute_asked_for(test)
            return self._there(asked) if asked else None
        values = self._values(test) if isinstance(test, ast.Name) and depth < _DEEP else []
        return self.outcome(values[0], depth + 1) if len(values) == 1 and values[0] is not None else None

    def _compared(self, test: ast.Compare) -> bool | None:
        """A comparison of vLLM's version with a release, or `find_spec("vllm...") is None`."""
        if len(test.ops) != 1:
            return None
        left, right, relation = test.left, test.comparators[0], type(test.ops[0])
        if isinstance(right, ast.Constant) and right.value is None and relation in (ast.Is, ast.IsNot):
            there = self._there(_module_asked_for(left))
            return None if there is None else there is (relation is ast.IsNot)
        if _release(left) is not None:
            left, right, relation = right, left, _TURNED.get(relation, relation)
        release = _release(right)
        if self.target is None or release is None or relation not in _RELATIONS:
            return None
        return _RELATIONS[relation](self.target, release) if self._is_vllms_version(left) else None

    def _is_vllms_version(self, node: ast.expr) -> bool:
        """By its words, or those of what its names stand for."""
        texts = [ast.unparse(node)]
        for name in ast.walk(node):
            bindings = self._bindings(name) if isinstance(name, ast.Name) else []
            if len(bindings) == 1:
                value = _value(bindings[0])
                texts.append(ast.unparse(value) if value is not None else bindings[0].target)
        text = " ".join(texts)
        return _OF_VLLM.search(text) is not None or ("'vllm'" in text and "version" in text)

    def _there(self, dotted: str) -> bool | None:
        """The target has the name; None where the owner is not there either, or nobody knows."""
        owner = dotted.rpartition(".")[0]
        if not owner or self.judge.judge(owner).status != "present":
            return None
        return {"present": True, "missing": False}.get(self.judge.judge(dotted).status)

    # whether it tells releases apart

    def tells(self, test: ast.expr, depth: int = 0) -> bool:
        """Something in the test depends on vLLM's release or engine."""
        return any(self._node_tells(node, depth) for node in ast.walk(test))

    def _node_tells(self, node: ast.AST, depth: int) -> bool:
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str) and "VLLM_USE_V1" in node.value
        if isinstance(node, ast.Call):
            return self._call_tells(node)
        if isinstance(node, ast.Name):
            return self._name_tells(node, depth)
        if isinstance(node, ast.Attribute) and _ENGINE.search(node.attr):
            root = next((inner for inner in ast.walk(node.value) if isinstance(inner, ast.Name)), None)
            of_others = root is not None and (self._of_a_tool(root) or _OF_OTHERS.search(root.id) is not None)
            return not _OF_OTHERS.search(node.attr) and not of_others
        return False

    def _call_tells(self, call: ast.Call) -> bool:
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and _OF_PACKAGE.match(first.value):
            return any(isinstance(inner, ast.Name) and self._of_a_tool(inner) for inner in ast.walk(call.func))
        asked = self._attribute_asked_for(call) or self._member_asked_for(call) or _module_asked_for(call)
        return bool(asked) and self._differs(asked)

    def _name_tells(self, node: ast.Name, depth: int) -> bool:
        if self._of_a_tool(node):
            return False
        if _ENGINE.search(node.id):
            texts = [ast.unparse(value) for value in self._values(node) if value is not None]
            foreign = texts and all(_OF_OTHERS.search(text) and "vllm" not in text.lower() for text in texts)
            return not _OF_OTHERS.search(node.id) and not foreign
        if depth >= _DEEP:
            return False
        return any(
            self._of_trial(binding) or ((value := _value(binding)) is not None and self.tells(value, depth + 1))
            for binding in self._bindings(node)
        )

    def _of_a_tool(self, node: ast.Name) -> bool:
        """The name comes from what reads and compares the versions of any package."""
        bindings = self._bindings(node)
        return bool(bindings) and all(_TOOLS.match(binding.target) for binding in bindings)

    def _of_trial(self, binding: Binding) -> bool:
        """The name says what a `try` could import of vLLM: `X = None` in its handler, `HAS_X = True` in its body."""
        trial = import_trial(binding.path)
        return trial is not None and any(map(self._differs, imports_in([trial[0]], self.file.package)))

    def _differs(self, dotted: str) -> bool:
        """Some releases have the name, others do not."""
        return any(self.judge.index.resolve(dotted, release).found is False for release in self.judge.index.releases)

    def _attribute_asked_for(self, call: ast.Call) -> str:
        """`vllm.config.LoadConfig.device` of `hasattr(LoadConfig, "device")`; "" for another object."""
        name = _attribute(call)
        references = [each for each in self.file.by_node.get(id(call.args[0]), ()) if each.certain] if name else []
        return f"{references[0].dotted}.{name}" if len(references) == 1 else ""

    def _member_asked_for(self, call: ast.Call) -> str:
        """The same of an object whose class the file tells."""
        name = _attribute(call)
        use = self._uses.get(id(call.args[0])) if name else None
        instance = instances_of(self.file).of_expression(call.args[0], use.scope) if use is not None else None
        return f"{instance.dotted}.{name}" if instance is not None else ""

    # names and places

    @cached_property
    def _uses(self) -> dict[int, Use]:
        """Uses by their chain and by the name that it begins with."""
        found: dict[int, Use] = {}
        for use in self.file.model.uses:
            node = use.node
            found[id(node)] = use
            while isinstance(node, ast.Attribute):
                node = node.value
            found[id(node)] = use
        return found

    def _bindings(self, node: ast.Name) -> list[Binding]:
        use = self._uses.get(id(node))
        found = use.scope.lookup(node.id) if use is not None else None
        return found[1] if found is not None else []

    def _values(self, node: ast.Name) -> list[ast.expr | None]:
        """What its bindings give the name; None for one that is no assignment."""
        return [_value(binding) for binding in self._bindings(node)]

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


def release_tests_of(file: PythonFile) -> ReleaseTests:
    """The tests of a file; kept for the last file asked about, since several rules ask."""
    global _last
    if _last is None or _last.file is not file:
        _last = ReleaseTests(file)
    return _last


_last: ReleaseTests | None = None


def version_guard(file: PythonFile, path: Path | None, node: ast.AST) -> bool:
    """The node stands where a test of the release or the engine put it: an arm, or a later operand of `and` or `or`.

    Not where the target is known to take that arm: what it runs must be right there.
    """
    tests = release_tests_of(file)
    if tests.never_runs(node):
        return True
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.If | ast.IfExp) and field_name in ("body", "orelse"):
            if tests.tells(parent.test) and tests.outcome(parent.test) is not (field_name == "body"):
                return True
        elif isinstance(parent, ast.BoolOp) and hasattr(node, "lineno"):
            start = (node.lineno, node.col_offset)  # type: ignore[attr-defined]
            earlier = [value for value in parent.values if (value.end_lineno or 0, value.end_col_offset or 0) <= start]
            if any(tests.tells(value) and tests.outcome(value) is None for value in earlier):
                return True
    return False


def taken_arm(file: PythonFile, path: Path | None) -> bool:
    """The place is in an arm for the target and for other releases: a test of the release leads there."""
    tests = release_tests_of(file)
    while path is not None:
        parent, field_name, path = path
        if isinstance(parent, ast.If | ast.IfExp) and field_name in ("body", "orelse") and tests.tells(parent.test):
            return True
    return False


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


def _attribute(call: ast.Call) -> str:
    """`name` of `hasattr(x, "name")`."""
    if _called(call) != "hasattr" or len(call.args) != 2 or not isinstance(call.args[1], ast.Constant):
        return ""
    return str(call.args[1].value)


def _module_asked_for(node: ast.expr) -> str:
    """`vllm.worker` of `find_spec("vllm.worker")`. That vllm itself is there says nothing."""
    if not isinstance(node, ast.Call) or _called(node) != "find_spec" or not node.args:
        return ""
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
    return name if isinstance(name, str) and name.startswith("vllm.") else ""


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _value(binding: Binding) -> ast.expr | None:
    statement = binding.node if isinstance(binding.node, ast.Assign | ast.NamedExpr) else binding.path[0]
    return statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.NamedExpr) else None


def _after(node: ast.If, path: Path) -> list[ast.stmt]:
    parent, arm, _ = path
    block = getattr(parent, arm, None)
    return block[block.index(node) + 1 :] if isinstance(block, list) and node in block else []
