"""A comparison of vLLM's version as a text, which goes another way on the target.

## What it does
Reports `vllm.__version__ >= "0.8.1"` and its like (`version("vllm")` of importlib.metadata, names that hold either)
where the order of the two texts is not that of the two releases on the target.

## Why
Texts are compared letter by letter: "0.32.0" and "0.10.0" come before "0.8.1". An `assert` fails at the start, an `if`
takes the arm that was written for an old release, and nobody says so.

## Example
```python
import vllm

assert vllm.__version__ >= "0.8.1"
```
Compare releases instead:
```python
from packaging.version import Version

assert Version(vllm.__version__) >= Version("0.8.1")
```

## Safety
*manual*. The comparison may be wanted elsewhere, too, and `packaging` has to be there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from ..engine.release_arms import RELATIONS
from ..engine.release_tests import ReleaseTests, release_tests_of
from ..findings import Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_HELD = ("vllm.__version__", "vllm.version.__version__")
_DEEP = 3


class VersionAsText(Rule):
    id = "V1M014"
    slug = "version-as-text"
    summary = "vLLM's version compared as a text, which goes another way on the target"

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if "version" not in file.source.text:
            return
        tests = release_tests_of(file)
        for found in file.model.nodes.get(ast.Compare, ()):
            node: ast.Compare = found.node
            for (left, right), relation in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
                finding = _compared(file, tests, left, right, type(relation), self.id)
                if finding is not None:
                    yield finding


def _compared(
    file: PythonFile, tests: ReleaseTests, left: ast.expr, right: ast.expr, relation: type[ast.cmpop], rule: str
) -> Finding | None:
    target = file.judge.target
    sides = [target if _is_version(file, tests, side) else _text(tests, side) for side in (left, right)]
    texts = [side for side in sides if side is not None]
    if len(texts) != 2 or relation not in RELATIONS or sides.count(target) != 1:
        return None
    try:
        by_release = RELATIONS[relation](Version(texts[0]), Version(texts[1]))
    except InvalidVersion:
        return None
    by_text = RELATIONS[relation](*texts)
    if by_text is by_release:
        return None
    start, end = file.span(left)[0], file.span(right)[1]
    written = " ".join(file.source.text[start:end].split())
    held, release = (left, texts[1]) if sides[0] == target else (right, texts[0])
    return file.finding(
        rule, start, end,
        f"`{written}` compares texts: on vLLM {target} it is {str(by_text).lower()}",
        Severity.ERROR,
        advice=f'Compare releases: `Version({ast.unparse(held)})` with `Version("{release}")`, of packaging.version.',
        name="vllm.__version__",
    )  # fmt: skip


def _is_version(file: PythonFile, tests: ReleaseTests, node: ast.expr, depth: int = 0) -> bool:
    """The text that says which vLLM is installed."""
    references = file.by_node.get(id(node), ())
    if references:
        return len(references) == 1 and references[0].certain and references[0].dotted in _HELD
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
        return node.args[0].value == "vllm" and tests.meaning(node.func) == "version"
    values = tests.values(node) if isinstance(node, ast.Name) and depth < _DEEP else []
    return len(values) == 1 and values[0] is not None and _is_version(file, tests, values[0], depth + 1)


def _text(tests: ReleaseTests, node: ast.expr) -> str | None:
    """A release that is written out, here or in the name's only assignment."""
    if isinstance(node, ast.Name):
        values = tests.values(node)
        node = values[0] if len(values) == 1 and values[0] is not None else node
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
