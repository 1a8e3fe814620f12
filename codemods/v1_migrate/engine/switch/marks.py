"""pytest marks that speak of an engine: where they stand, and what becomes of them with V1 alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..context import PythonFile
from ..scopes import Path, ancestors
from .draft import Draft
from .expressions import Expressions, Report
from .functions import Function, every_parameter, is_autouse, is_fixture
from .statements import Statements
from .unused import Unused
from .values import Values

SKIP_V1, CONTRADICTION, BOTH_ENGINES, V0_ONLY, SKIPS = "V1M301", "V1M302", "V1M303", "V1M305", "V1M307"
BOTH = "run_with_both_engines"
_REASON = "ran only on vLLM's former engine"


@dataclass(slots=True)
class Mark:
    """One mark, in one of the places where a mark can stand."""

    name: str
    node: ast.expr  # the whole mark, with its call
    group: int  # marks of one test or one parameter share it
    holder: ast.AST  # the list, the keyword, the assignment or the definition that has it
    outer: ast.AST | None = None  # of a list: what holds the list
    param: ast.Call | None = None  # pytest.param(...)
    owner: Function | None = None
    above: frozenset[int] = frozenset()  # groups of the definitions around it
    gone: bool = field(default=False)


class Marks:
    """Finds the marks of a file and plans their edits."""

    def __init__(
        self,
        file: PythonFile,
        values: Values,
        draft: Draft,
        expressions: Expressions,
        statements: Statements,
        unused: Unused,
        report: Report,
    ) -> None:
        self.file = file
        self.values = values
        self.draft = draft
        self.expressions = expressions
        self.statements = statements
        self.unused = unused
        self.report = report
        self.marks = list(self._find())
        self.lists: dict[int, tuple[Mark, set[int]]] = {}  # list display -> a mark of it, positions that go

    # where they stand

    def _find(self) -> Iterator[Mark]:
        for found in self.file.model.every(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            node = found.node
            owner = None if isinstance(node, ast.ClassDef) else node
            for decorator in node.decorator_list:
                name = mark_name(decorator)
                if name:
                    yield Mark(name, decorator, id(node), node, owner=owner, above=_around(found.path))
        for found in self.file.model.every(ast.Assign):
            target = found.node.targets[0]
            if isinstance(target, ast.Name) and target.id == "pytestmark":
                for mark in self._held(found.node.value, found.node, None):
                    yield replace(mark, group=id(found.path[0]), above=_around(found.path[2]))
        for found in self.file.model.every(ast.Call):
            for keyword in found.node.keywords:
                if keyword.arg == "marks":
                    for mark in self._held(keyword.value, keyword, found.node):
                        yield replace(mark, above=_around(found.path))

    def _held(self, value: ast.expr, holder: ast.AST, param: ast.Call | None) -> Iterator[Mark]:
        if isinstance(value, ast.List | ast.Tuple):
            for element in value.elts:
                if mark_name(element):
                    yield Mark(mark_name(element), element, id(holder), value, holder, param)
        elif mark_name(value):
            yield Mark(mark_name(value), value, id(holder), holder, param=param)

    # what becomes of them

    def plan(self, allowed: set[str]) -> None:
        """Plan the edits of all marks; `allowed` are the rules that take part."""
        honoured = self._honoured()
        for mark in self.marks:
            if self.statements.gone(mark.node) or self.values.withheld(mark.node):
                continue
            if mark.name == "cpu_model" and CONTRADICTION in allowed:
                self._cpu_model(mark)
            elif mark.name in ("skip_v1", "skip_v0") and SKIP_V1 in allowed:
                self._engine_mark(mark, honoured)
            elif mark.name == "skipif" and SKIPS in allowed:
                self._skipif(mark)
            elif mark.name == "usefixtures" and BOTH_ENGINES in allowed:
                self._usefixtures(mark)
        if BOTH_ENGINES in allowed and SKIP_V1 in allowed:
            self._both_engines()
        for mark, doomed in self.lists.values():
            self._shrink(mark, doomed)

    def _cpu_model(self, mark: Mark) -> None:
        if self._also(mark, "skip_v1"):
            self.report(CONTRADICTION, mark.node, True, "")
            self._drop(mark)

    def _also(self, mark: Mark, name: str) -> bool:
        """Whatever has the mark has the other one, too: itself, or from its class or module."""
        return any(o.name == name and (o.group == mark.group or o.group in mark.above) for o in self.marks)

    def _engine_mark(self, mark: Mark, honoured: bool) -> None:
        if mark.name == "skip_v0":
            self.report(SKIP_V1, mark.node, True, "the test runs on V1, as it did")
            self._drop(mark)
            return
        asked = mark.owner is not None and any(argument.arg == BOTH for argument in every_parameter(mark.owner))
        edited = honoured or asked or self.file.settings.unsafe
        remark = "" if edited else "no fixture in this file honours it"
        if not edited and self._also(mark, "cpu_model"):
            remark += ", and the `cpu_model` above it is for runs on CPUs, which have only V1"
        self.report(SKIP_V1, mark.node, edited, remark)
        if edited:
            inner = mark.node.func if isinstance(mark.node, ast.Call) else mark.node
            start = self.file.span(inner)[1] - len("skip_v1")
            self.draft.replace(start, self.file.span(mark.node)[1], f'skip(reason="{_REASON}")')

    def _skipif(self, mark: Mark) -> None:
        if not isinstance(mark.node, ast.Call) or not mark.node.args:
            return
        known = self.values.truth(mark.node.args[0])
        if known is None or not known.switched:
            return
        if known.value:
            self.report(V0_ONLY, mark.node, False, "it is always skipped on V1")
        else:
            self.report(SKIPS, mark.node, True, "")
            self._drop(mark)

    def _usefixtures(self, mark: Mark) -> None:
        if isinstance(mark.node, ast.Call):
            names = [argument.value for argument in mark.node.args if isinstance(argument, ast.Constant)]
            if names == [BOTH]:
                self.report(BOTH_ENGINES, mark.node, True, "")
                self._drop(mark)
            elif BOTH in names:
                self.report(BOTH_ENGINES, mark.node, False, "it is one of several fixtures")

    # fixtures that run a test on both engines

    def _honoured(self) -> bool:
        """Some autouse fixture of the file asks for both engines, and so honours the marks of its tests."""
        return any(
            is_autouse(function) and any(argument.arg == BOTH for argument in every_parameter(function))
            for function in self.unused.functions
        )

    def _both_engines(self) -> None:
        self.unused.removable.add(BOTH)
        for function in self.unused.functions:
            if function.name == BOTH and is_fixture(function):
                self.report(BOTH_ENGINES, function.decorator_list[0], False, "remove it when no test requests it")
            for argument in every_parameter(function):
                if argument.arg == BOTH and not self.statements.gone(function):
                    self.report(BOTH_ENGINES, argument, True, "")

    # taking a mark out

    def _drop(self, mark: Mark) -> None:
        if isinstance(mark.holder, ast.List | ast.Tuple):
            position = mark.holder.elts.index(mark.node)
            self.lists.setdefault(id(mark.holder), (mark, set()))[1].add(position)
        elif isinstance(mark.holder, ast.Assign):
            self.statements.doom(mark.holder)
        elif isinstance(mark.holder, ast.keyword):
            self._drop_keyword(mark.holder, mark.param)
        else:
            start, end = self.file.span(mark.node)
            first = self.draft.line_of(start)
            self.draft.delete_lines(first - self._remarks(first), self.draft.line_of(end))

    def _remarks(self, line: int) -> int:
        return self.draft.remarks_above(line)

    def _shrink(self, mark: Mark, doomed: set[int]) -> None:
        display = mark.holder
        assert isinstance(display, ast.List | ast.Tuple)
        if len(doomed) == len(display.elts):
            if isinstance(mark.outer, ast.Assign):
                self.statements.doom(mark.outer)
            elif isinstance(mark.outer, ast.keyword):
                self._drop_keyword(mark.outer, mark.param)
            return
        tokens = self.draft.tokens
        opening = tokens.at(self.file.span(display)[0])
        closing = tokens.closing(opening)
        inner = (tokens.table[opening].end, tokens.table[closing].start)
        self.draft.drop_items(tokens.items(opening + 1, closing), doomed, inner)

    def _drop_keyword(self, keyword: ast.keyword, call: ast.Call | None) -> None:
        """`param(x, marks=...)` becomes `param(x)`, and that `x` where nothing else is said of it."""
        assert call is not None
        if len(call.args) == 1 and len(call.keywords) == 1:
            start, end = self.file.span(call)
            inner_start, inner_end = self.file.span(call.args[0])
            self.draft.delete(start, inner_start)
            self.draft.delete(inner_end, end)
            return
        tokens = self.draft.tokens
        opening = tokens.before(self.file.span(call.func)[1]) + 1
        closing = tokens.closing(opening)
        items = tokens.items(opening + 1, closing)
        start, _ = self.file.span(keyword)
        doomed = {position for position, item in enumerate(items) if item.start == start}
        self.draft.drop_items(items, doomed, (tokens.table[opening].end, tokens.table[closing].start))


def _around(path: Path | None) -> frozenset[int]:
    return frozenset(
        id(parent) for parent, _ in ancestors(path) if isinstance(parent, Function | ast.ClassDef | ast.Module)
    )


def mark_name(node: ast.expr) -> str:
    """The name of `pytest.mark.x` or `mark.x`, called or not; "" for anything else."""
    inner = node.func if isinstance(node, ast.Call) else node
    if not isinstance(inner, ast.Attribute):
        return ""
    base = inner.value
    of_pytest = isinstance(base, ast.Attribute) and base.attr == "mark" and getattr(base.value, "id", "") == "pytest"
    return inner.attr if of_pytest or getattr(base, "id", "") == "mark" else ""
