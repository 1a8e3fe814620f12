"""Folds the switch inside expressions: what is constant becomes a constant, what it makes superfluous goes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from ..context import PythonFile
from .actions import Action, Actions, entries
from .draft import Draft
from .tokens import Tokens
from .values import Known, Values

Report = Callable[[str, ast.AST, bool, str], None]  # (rule, place, edited, remark)
_EFFECT = "the test has one answer now; what stands before it stays because the call may do something else as well"
_PLAIN = re.compile(r"""(['"])(?P<text>[\w./: -]*)\1""")  # means the same inside a text as in quotes
_STRING = re.compile(r"""(?P<f>[fF]?)(?P<quote>['"])(?:(?!(?P=quote))[^\\\n])*(?P=quote)""")
READ, SET, SET_TO_V0 = "V1M201", "V1M202", "V1M203"


class Expressions:
    """Plans the edits of expressions of one file."""

    def __init__(self, file: PythonFile, values: Values, actions: Actions, draft: Draft, report: Report) -> None:
        self.file = file
        self.values = values
        self.actions = actions
        self.draft = draft
        self.tokens: Tokens = draft.tokens
        self.report = report
        self.concerned: set[int] = set()  # nodes that hold something of the switch; nothing else is looked at
        self.compared: set[int] = set()  # dict displays that are only compared
        self.left: dict[int, tuple[int, ...]] = {}  # dict displays without the switch: positions of what is left

    def fold(self, node: ast.expr, boolean: bool = False) -> None:
        """Plan the edits of one expression. `boolean`: only its truth counts where it stands."""
        if id(node) not in self.concerned:
            return
        known = self.values.truth(node) if boolean else self.values.known(node)
        if known is not None and known.switched and not self._chooses_literal(node):
            self.constant(node, known)
        elif isinstance(node, ast.BoolOp):
            self._bool_op(node, boolean)
        elif isinstance(node, ast.IfExp):
            self._if_exp(node, boolean)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.fold(node.operand, True)
        elif isinstance(node, ast.JoinedStr):
            self._joined_str(node)
        elif isinstance(node, ast.comprehension):
            self._comprehension(node)
        else:
            if isinstance(node, ast.Dict | ast.Call) and not self._entries(node):
                return
            if isinstance(node, ast.Compare):  # `env == {"VLLM_USE_V1": "1"}` speaks of what others set
                self.compared.update(id(part) for part in (node.left, *node.comparators))
            self.children(node)

    def children(self, node: ast.AST) -> None:
        """Fold the expressions directly inside a node."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.fold(child)
            elif isinstance(child, ast.comprehension):
                self._comprehension(child)
            elif isinstance(child, ast.keyword | ast.arguments | ast.arg | ast.withitem | ast.TypeIgnore):
                self.children(child)

    def constant(self, node: ast.expr, known: Known, remark: str = "") -> None:
        """Write the value in place of the expression."""
        start, end = self.file.span(node)
        self.draft.replace(start, end, known.text)
        self.folded(node, known.raw and isinstance(known.value, bool), remark)

    def folded(self, node: ast.expr, raw: bool = False, remark: str = "") -> None:
        """Report every read of the switch in an expression that is folded."""
        reads = list(self.reads(node))
        remark = remark or ("the text was tested for being set, which the text 0 passes, too" if raw else "")
        for place in reads or [node]:
            self.report(READ, place, True, remark)

    def acted(self, action: Action) -> None:
        """Report a place that sets or clears the switch."""
        if action.setting == "off":
            self.report(SET_TO_V0, action.place, action.deletes, "")
        else:
            remark = "it is set to a value that only the running program knows" if action.setting == "unknown" else ""
            self.report(SET, action.place, action.deletes, remark)

    def _entries(self, node: ast.Dict | ast.Call) -> bool:
        """Take the switch out of a dict display or `dict(...)`; False when the rest has been folded with it."""
        found = list(entries(node))
        if not found:
            return True
        index = self.tokens.at(self.file.span(node if isinstance(node, ast.Dict) else node.func)[0])
        if isinstance(node, ast.Call):
            index = self.tokens.before(self.file.span(node.func)[1]) + 1
        closing = self.tokens.closing(index)
        items = self.tokens.items(index + 1, closing)
        doomed: set[int] = set()
        for position, value in found:
            setting = self.actions.setting(value)
            goes = self._goes(node, value, setting)
            self.acted(Action(value, setting, goes))
            if goes:
                doomed.add(position)
            else:
                self.fold(value)
        if doomed:
            table = self.tokens.table
            self.draft.drop_items(items, doomed, (table[index].end, table[closing].start))
            self.left[id(node)] = tuple(position for position in range(len(items)) if position not in doomed)
        self._others(node, {id(value) for _, value in found})
        return False

    def _goes(self, node: ast.Dict | ast.Call, value: ast.expr, setting: str) -> bool:
        if id(node) in self.compared or self.actions.read_elsewhere or self.values.withheld(node):
            return False
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in ("dict", "update"):
                return False
        return self.actions.goes(setting)

    def _others(self, node: ast.Dict | ast.Call, done: set[int]) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.value if isinstance(child, ast.keyword) else child
            if isinstance(inner, ast.expr) and id(inner) not in done:
                self.fold(inner)

    def reads(self, node: ast.AST) -> Iterator[ast.expr]:
        """Direct reads of the switch inside a node."""
        if isinstance(node, ast.expr) and self.values.read(node) is not None:
            yield node
            return
        for child in ast.iter_child_nodes(node):
            yield from self.reads(child)

    def span(self, node: ast.expr, outer: ast.expr) -> tuple[int, int]:
        """The span with its own parentheses."""
        return self.tokens.parenthesized(*self.file.span(node), self.file.span(outer))

    def _bool_op(self, node: ast.BoolOp, boolean: bool) -> None:
        stop = not isinstance(node.op, ast.And)
        dropped: set[int] = set()
        count = len(node.values)
        for position, value in enumerate(node.values):
            known = self.values.truth(value) if boolean else self.values.known(value)
            if known is None or not known.switched:
                self.fold(value, boolean)
            elif bool(known.value) is stop:  # nothing behind it is ever looked at
                self.constant(value, known, _EFFECT if boolean and position else "")
                dropped.update(range(position + 1, count))
                break
            elif boolean or position < count - 1:
                self.folded(value, known.raw)
                dropped.add(position)
            else:
                self.constant(value, known)
        self._drop_operands(node, dropped)

    def _drop_operands(self, node: ast.BoolOp, dropped: set[int]) -> None:
        spans = [self.span(value, node) for value in node.values]
        kept = [position for position in range(len(spans)) if position not in dropped]
        for position in dropped:
            later = [other for other in kept if other > position]
            if later:
                self.draft.delete(spans[position][0], spans[later[0]][0])
            else:
                self.draft.delete(spans[kept[-1]][1], spans[-1][1])

    def _chooses_literal(self, node: ast.expr) -> bool:
        """A conditional expression whose arm is a literal, which stays as it is written."""
        test = self.values.truth(node.test) if isinstance(node, ast.IfExp) else None
        if not isinstance(node, ast.IfExp) or test is None or not test.switched:
            return False
        return isinstance(node.body if test.value else node.orelse, ast.Constant)

    def _if_exp(self, node: ast.IfExp, boolean: bool) -> None:
        test = self.values.truth(node.test)
        if test is None or not test.switched:
            self.fold(node.test, True)
            self.fold(node.body, boolean)
            self.fold(node.orelse, boolean)
            return
        chosen = node.body if test.value else node.orelse
        start, end = self.file.span(node)
        inner_start, inner_end = self.span(chosen, node)
        self.draft.delete(start, inner_start)
        self.draft.delete(inner_end, end)
        self.folded(node.test, test.raw)
        self.fold(chosen, boolean)

    def _comprehension(self, node: ast.comprehension) -> None:
        self.fold(node.iter)
        for condition in node.ifs:
            known = self.values.truth(condition)
            if known is None or not known.switched or not known.value:
                self.fold(condition, True)
                continue
            start, end = self.tokens.parenthesized(*self.file.span(condition))
            keyword = self.tokens.table[self.tokens.before(start)]
            before = self.tokens.table[self.tokens.before(keyword.start)]
            self.draft.delete(before.end, end)
            self.folded(condition, known.raw)

    def _joined_str(self, node: ast.JoinedStr) -> None:
        parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        plain = [self._formatted(part, node) for part in parts]
        start, end = self.file.span(node)
        text = self.draft.source.text[start:end]
        if not plain or not all(plain) or "{{" in text or "}}" in text or _STRING.sub("", text).strip(" \t\r\n\\"):
            return
        for found in _STRING.finditer(text):  # plain texts now
            self.draft.delete(start + found.start("f"), start + found.end("f"))

    def _formatted(self, part: ast.FormattedValue, whole: ast.JoinedStr) -> bool:
        """Fold a part of an f-string; True where it became a piece of its text."""
        if not self._foldable(part.value):
            return False
        start, end = self.file.span(part.value)
        text = self.draft.source.text
        new = self._text(part.value)
        quoted = text[end : end + 3].lstrip().startswith("=")  # f"{x=}" prints the expression's own text
        if new is None or quoted or not _same(text[start:end], part.value):
            self.report(READ, part.value, False, "it stands in an f-string whose text would change")
            return False
        quote = self._quote(whole)
        if quote in new and quote not in text[start:end]:
            new = new.replace(quote, "'" if quote == '"' else '"')
        self.folded(part.value)
        literal = _PLAIN.fullmatch(new)
        if literal and text[start - 1] == "{" and text[end : end + 1] == "}":
            self.draft.replace(start - 1, end + 1, literal["text"])
            return True
        self.draft.replace(start, end, new)
        return False

    def _text(self, node: ast.expr) -> str | None:
        """The folded text of an expression inside an f-string, where tokens are of no help."""
        known = self.values.known(node)
        if known is not None and known.switched:
            return known.text
        test = self.values.truth(node.test) if isinstance(node, ast.IfExp) else None
        if isinstance(node, ast.IfExp) and test and test.switched:
            chosen = node.body if test.value else node.orelse
            start, end = self.file.span(chosen)
            text = self.draft.source.text[start:end]
            return text if not self._foldable(chosen) and _same(text, chosen) else None
        return None

    def _foldable(self, node: ast.expr) -> bool:
        return any(
            (known := self.values.known(child)) is not None and known.switched
            for child in ast.walk(node)
            if isinstance(child, ast.expr)
        )

    def _quote(self, node: ast.JoinedStr) -> str:
        start, _ = self.file.span(node)
        text = self.draft.source.text
        while start < len(text) and text[start] not in "\"'":
            start += 1
        return text[start : start + 1]


def _same(text: str, node: ast.expr) -> bool:
    """Where an f-string's parts stand is not always known truly: the text must read as the node."""
    try:
        return ast.dump(ast.parse(f"({text})", mode="eval").body) == ast.dump(node)
    except (SyntaxError, ValueError):
        return False
