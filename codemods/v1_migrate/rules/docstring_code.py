r'''Code in a docstring: examples, fences, literal blocks, commands and the paths of names.

## What it does
Reads a docstring as the document it is: Python in examples (`>>> ...`), fences and literal blocks goes through all
rules, commands are searched for options that are gone, and dotted paths are looked up. What they find is said here,
under one id, so that it can be left out as a whole.

## Why
A docstring is where people copy from. Doctests run it.

## Example
```python
def worker_class():
    """The class to derive from.

    >>> from vllm.worker.worker_base import WorkerWrapperBase
    """
```
Finding: `vllm.worker.worker_base.WorkerWrapperBase` is `vllm.v1.worker.worker_base.WorkerWrapperBase` on vLLM 0.32.0.

## Safety
*manual*, and information: no text of a docstring is edited.
'''

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from ..findings import Effort, Finding, Safety, Severity
from ..kinds import Kind
from ..source import Source
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_READERS = ("V1M013", "V1M402", "V1M405", "V1M409")  # what looks at documents
_OF_NO_USE = ("V1M007", "V1M501", "V1M901", "V1M902", "V1M905")


class DocstringCode(Rule):
    id = "V1M410"
    slug = "docstring-code"
    summary = "code in a docstring that the target refuses"
    severity = Severity.INFO
    phase = Phase.AFTER

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for found in file.model.every(ast.Expr):
            node = found.node.value
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "vllm" in node.value.lower():
                yield from self._document(file, *file.span(node))

    def _document(self, file: PythonFile, start: int, end: int) -> Iterator[Finding]:
        from ..engine.context import TextFile

        text = file.source.text[start:end]
        kind = Kind.MARKDOWN if "```" in text else Kind.RST
        source = Source.from_bytes(text.encode(), file.source.rel, python=False)
        if source.text != text:
            return  # line ends that are read otherwise: no place in it would be right
        document = TextFile(source, file.tree, kind, file.judge, file.settings)
        said: set[tuple[int, str]] = set()
        for rule in _readers():
            for finding in rule.check_text(document):
                if finding.rule in _OF_NO_USE or (finding.line, finding.message) in said:
                    continue
                said.add((finding.line, finding.message))
                yield self._placed(file, source, start, finding)

    def _placed(self, file: PythonFile, source: Source, start: int, finding: Finding) -> Finding:
        low = start + source.line_starts[finding.line - 1] + finding.column - 1
        high = start + source.line_starts[finding.end_line - 1] + finding.end_column - 1
        line, column = file.source.position(low)
        end_line, end_column = file.source.position(max(low, high))
        return replace(
            finding, rule=self.id, line=line, column=column, end_line=end_line, end_column=end_column,
            severity=Severity.INFO, safety=Safety.MANUAL, effort=Effort.MINUTES, primary=False, fixed=False, edits=(),
        )  # fmt: skip


@cache
def _readers() -> tuple[Rule, ...]:
    from . import all_rules

    return tuple(rule for rule in all_rules() if rule.id in _READERS)
