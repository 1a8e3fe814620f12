"""Tests in the code that tell vLLM's releases or engines apart, and what they give on the target.

A test of the version, of what a module or class of vLLM has, of what could be imported. That some other object has an
attribute, that some other package is there, says nothing about vLLM's release.
"""

from __future__ import annotations

import ast
import re

from .asked_in_tests import module_asked_for, value_of
from .context import PythonFile
from .guards import import_trial, imports_in
from .release_arms import DEEP, Arms
from .scopes import Binding, Path

_ENGINE = re.compile(r"version|use_(?:vllm_)?v1|is_(?:vllm_)?v1(?![a-z0-9])|vllm_v\d+_\d", re.IGNORECASE)
_OF_OTHERS = re.compile(
    r"torch|cuda|cann|rocm|hip_|python|sys\b|platform\b|transformers|hf_|ray\b|ray_|numpy|triton|unsloth|peft|accelerate"
    r"|deepspeed|xformers|flash|api_|schema|protocol|driver|model_version|config_version|file_version",
    re.IGNORECASE,
)
_OF_PACKAGE = re.compile(r"vllm(?:-\w+)?\Z")
_READERS = frozenset({"version", "distribution", "get_distribution", "metadata"})


class ReleaseTests(Arms):
    """Answers for one file."""

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
            of_others = root is not None and (self.of_a_tool(root) or _OF_OTHERS.search(root.id) is not None)
            return not _OF_OTHERS.search(node.attr) and not of_others
        return False

    def _call_tells(self, call: ast.Call) -> bool:
        first = call.args[0] if call.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and _OF_PACKAGE.match(first.value):
            return self.meaning(call.func) in _READERS
        asked = self.attribute_asked_for(call) or self.member_asked_for(call) or module_asked_for(call)
        return bool(asked) and self._differs(asked)

    def _name_tells(self, node: ast.Name, depth: int) -> bool:
        if self.of_a_tool(node):
            return False
        if _ENGINE.search(node.id):
            texts = [ast.unparse(value) for value in self.values(node) if value is not None]
            foreign = texts and all(_OF_OTHERS.search(text) and "vllm" not in text.lower() for text in texts)
            return not _OF_OTHERS.search(node.id) and not foreign
        if depth >= DEEP:
            return False
        return any(
            self._of_trial(binding) or ((value := value_of(binding)) is not None and self.tells(value, depth + 1))
            for binding in self.bindings(node)
        )

    def _of_trial(self, binding: Binding) -> bool:
        """The name says what a `try` could import of vLLM: `X = None` in its handler, `HAS_X = True` in its body."""
        trial = import_trial(binding.path)
        return trial is not None and any(map(self._differs, imports_in([trial[0]], self.file.package)))

    def _differs(self, dotted: str) -> bool:
        """Some releases have the name, others do not."""
        return any(self.judge.index.resolve(dotted, release).found is False for release in self.judge.index.releases)


def release_tests_of(file: PythonFile) -> ReleaseTests:
    """The tests of a file; kept for the last file asked about, since several rules ask."""
    global _last
    if _last is None or _last.file is not file:
        _last = ReleaseTests(file)
    return _last


_last: ReleaseTests | None = None


def version_guard(file: PythonFile, path: Path | None, node: ast.AST) -> bool:
    """The node stands where a test of the release or the engine put it: an arm, or a later operand of `and` or `or`.

    A package that is called after an older release is such an arm: something chooses it by the release.
    Not where the target is known to take that arm: what it runs must be right there.
    """
    tests = release_tests_of(file)
    if file.for_release or tests.never_runs(node):
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
