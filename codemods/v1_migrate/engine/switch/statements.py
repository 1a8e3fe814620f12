"""Decides what becomes of each statement: goes, stays, or gives way to one of its arms; and plans the lines for it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..context import PythonFile
from .actions import Action, Actions
from .draft import Draft
from .expressions import READ, SET_TO_V0, Expressions
from .fates import Fates
from .lines import BLOCKS, Block
from .values import Values

_UNREACHED = (
    "V1 leaves the block before this: nothing from here to its end runs. It stays, since more than reading it may hang "
    "on it (a `yield`, a name that is local by it), or it is long; delete it by hand"
)


class Statements(Fates):
    """The walk over a file's blocks. Nothing is planned for code that is dead on V1."""

    def __init__(
        self, file: PythonFile, values: Values, draft: Draft, expressions: Expressions, actions: Actions
    ) -> None:
        super().__init__(file, draft)
        self.values = values
        self.expressions = expressions
        self.actions = actions
        self.may_go: Callable[[Block], bool] = lambda rest: False
        self.stops: list[ast.stmt] = []  # `pytest.skip(...)` that is now always reached

    # decisions

    def block(self, body: Block) -> None:
        for position, statement in enumerate(body):
            self.statement(statement)
            if self._returns(statement) and position + 1 < len(body):
                self._unreached(body[position + 1 :])
                return

    def _returns(self, statement: ast.stmt) -> bool:
        """A folded statement whose remaining arm always leaves the function."""
        arm = self.arms.get(id(statement))
        return bool(arm) and isinstance(arm[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)  # type: ignore[index]

    def _unreached(self, rest: Block) -> None:
        """What stands behind a folded early return goes, unless it makes the function what it is."""
        if self.may_go(rest):
            for statement in rest:
                self.doom(statement)
        else:
            self.expressions.report(READ, rest[0], False, _UNREACHED)
            self.block(rest)

    def statement(self, statement: ast.stmt) -> None:
        if id(statement) not in self.expressions.concerned:
            return
        action = self.actions.of(statement)
        if action is not None:
            self._act(statement, action)
        elif isinstance(statement, ast.If):
            self._chain(statement)
        elif isinstance(statement, ast.While):
            self._while(statement)
        elif isinstance(statement, ast.Assert):
            self._assert(statement)
        elif isinstance(statement, ast.Expr) and self._superfluous(statement.value):
            self.doom(statement)
            self.expressions.folded(statement.value)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._definition(statement)
        else:
            self._expressions_of(statement)
            self._inner_blocks(statement)

    def _inner_blocks(self, statement: ast.stmt) -> None:
        for name in BLOCKS:
            self.block(getattr(statement, name, []) or [])
        for handler in getattr(statement, "handlers", ()):
            self.block(handler.body)
        for case in getattr(statement, "cases", ()):
            if case.guard is not None:
                self.expressions.fold(case.guard, True)
            self.block(case.body)

    def _expressions_of(self, statement: ast.stmt) -> None:
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                self.expressions.fold(child)
            elif isinstance(child, ast.withitem | ast.keyword | ast.arguments):
                self.expressions.children(child)

    def _definition(self, statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in statement.decorator_list:
            self.expressions.fold(decorator)
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr) and child not in statement.decorator_list:
                self.expressions.fold(child)
            elif isinstance(child, ast.keyword | ast.arguments):
                self.expressions.children(child)
        self._inner_blocks(statement)

    def _act(self, statement: ast.stmt, action: Action) -> None:
        self.expressions.acted(action)
        if action.deletes:
            self.doom(statement)
        elif action.setting == "unknown":
            self._expressions_of(statement)

    def _superfluous(self, value: ast.expr) -> bool:
        known = self.values.known(value)
        return known is not None and known.switched

    def _assert(self, statement: ast.Assert) -> None:
        known, kept = self.values.truth(statement.test), self._before_the_answer(statement.test)
        if known is None and kept is not None and kept[0]:
            self.draft.replace(*self.file.span(statement), kept[1])
            self.expressions.folded(kept[2])
        elif known is None or not known.switched:
            self.expressions.fold(statement.test, True)
            if statement.msg is not None:
                self.expressions.fold(statement.msg)
        elif known.value:
            self.doom(statement)
            self.expressions.folded(statement.test, known.raw)
        else:
            for place in list(self.expressions.reads(statement.test)) or [statement.test]:
                self.expressions.report(
                    "V1M305", place, False, "the assertion fails on V1: what follows was for V0 only"
                )

    def _while(self, statement: ast.While) -> None:
        known = self.values.truth(statement.test)
        if known is not None and known.switched and not known.value:
            self.expressions.folded(statement.test, known.raw)
            self._give_way(statement, statement.orelse)
        else:
            self.expressions.fold(statement.test, True)
            self._inner_blocks(statement)

    # if, elif, else

    def _chain(self, root: ast.If) -> None:
        """Fold an if-elif-else: arms that are never taken go, the first that always is ends the chain."""
        if self._effect_first(root):
            return
        chain = self.links(root)
        last = chain[-1]
        kept: list[ast.If] = []
        settled: Block | None = None  # what runs when no kept test holds
        for link in chain:
            known = self.values.truth(link.test)
            if known is None or not known.switched:
                kept.append(link)
                self.expressions.fold(link.test, True)
                continue
            self.expressions.folded(link.test, known.raw)
            if self.values.asks_whether_set(link.test):
                self._say_defaults(link.orelse if known.value else link.body)
            if known.value:
                settled = link.body
                break
        tail = last.orelse if settled is None else settled
        if not kept:
            self._give_way(root, tail)
            return
        self._keep(chain, kept, settled, tail)
        for link in kept:
            self.block(link.body)
        self.block(tail)

    def _effect_first(self, root: ast.If) -> bool:
        """`if f() or V1: a` becomes the statement `f()` and `a`; False where that is not certain, or not tidy."""
        kept = self._before_the_answer(root.test)
        chained = self._is_elif(root) or (root.orelse and self._is_elif(root.orelse[0]))
        colon = self.tokens.colon(self.file.span(root.test)[1])
        start, _ = self.file.span(root)
        one_line = self.draft.line_of(start) == self.draft.line_of(colon.start)
        if kept is None or chained or not one_line or not self.draft.blank_behind(colon.end):
            return False
        outcome, text, read = kept
        arm = root.body if outcome else root.orelse
        if arm and (not isinstance(arm[0], ast.Expr | ast.Return | ast.Raise) or self._concerned(arm[0])):
            return False
        self.expressions.folded(read)
        if arm:
            self.unwrap(root, arm, (start, colon.end, text))
            self.block(arm)
            return True
        self.draft.replace(start, colon.end, text)
        self.draft.delete_lines(self.draft.line_of(start) + 1, self.last_line(root), tight=True)
        self.doomed_spans.append((self.start(root.body[0]), self.file.span(root)[1]))
        return True

    def _before_the_answer(self, test: ast.expr) -> tuple[bool, str, ast.expr] | None:
        """Of `f() or V1`: its truth, the text `f()` and the operand that decides."""
        decided = self.values.decided(test)
        if decided is None or not isinstance(test, ast.BoolOp):
            return None
        before = test.values[: decided[1]]
        low, high = self.expressions.span(before[0], test)[0], self.expressions.span(before[-1], test)[1]
        text = self.draft.source.text[low:high]
        return (
            None if any(map(self._concerned, before)) or "\n" in text else (decided[0], text, test.values[decided[1]])
        )

    def _concerned(self, node: ast.AST) -> bool:
        return id(node) in self.expressions.concerned

    def _say_defaults(self, arm: Block) -> None:
        """What an arm for a switch that is not set chose; it goes only with unsafe edits."""
        for statement in arm:
            for node in ast.walk(statement):
                action = self.actions.of(node) if isinstance(node, ast.stmt) else None
                if action is not None and action.setting == "off":
                    self.expressions.report(SET_TO_V0, action.place, True, "")

    def links(self, root: ast.If) -> list[ast.If]:
        """The `if` and every `elif` of a chain."""
        links = [root]
        while len(links[-1].orelse) == 1 and self._is_elif(links[-1].orelse[0]):
            links.append(links[-1].orelse[0])  # type: ignore[arg-type]
        return links

    def _is_elif(self, statement: ast.stmt) -> bool:
        start, _ = self.file.span(statement)
        return isinstance(statement, ast.If) and self.draft.source.text.startswith("elif", start)

    def _keep(self, chain: list[ast.If], kept: list[ast.If], settled: Block | None, tail: Block) -> None:
        """Plan the lines of a chain that keeps some of its arms."""
        draft = self.draft
        self.chains[id(chain[0])] = (kept, tail)
        if kept[0] is not chain[0]:
            start, _ = self.file.span(kept[0])
            draft.delete(start, start + 2)  # "elif" becomes "if"
        for link in chain:
            if link in kept:
                continue
            start, _ = self.file.span(link)
            if link.body is settled:
                colon = self.tokens.colon(self.file.span(link.test)[1])
                draft.replace(start, colon.start, "else")
                if link.orelse:
                    draft.delete_lines(self.arm_end(link.body) + 1, self._chain_end(chain))
                return
            draft.delete_lines(draft.line_of(start), self.arm_end(link.body))

    def _chain_end(self, chain: list[ast.If]) -> int:
        return self.arm_end(chain[-1].orelse or chain[-1].body)

    def _give_way(self, statement: ast.If | ast.While, arm: Block) -> None:
        """The statement goes and one of its arms takes its place."""
        if not arm:
            self.doom(statement)
            return
        self.unwrap(statement, arm)
        self.block(arm)
        self.stops += [each for each in arm if _skips(each)]


def _skips(statement: ast.stmt) -> bool:
    """`pytest.skip(...)` as a statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "skip"
