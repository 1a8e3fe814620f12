"""What nothing needs once the switch is gone: `with` items, parameters, fixtures, assignments, imports."""

from __future__ import annotations

import ast
import re

from ..context import PythonFile
from ..scopes import Binding, Scope, Use, ancestors
from .containers import Containers, idle_patch, touches_environment
from .draft import Draft
from .functions import (
    Function,
    argument_of,
    every_parameter,
    has_spread,
    is_autouse,
    is_conftest,
    is_fixture,
    is_test_file,
    requests_fixtures,
)
from .imports import Imports
from .names import Names
from .statements import Statements
from .tokens import Item

_ANNOTATION = re.compile(r"[\w.\[\], |\"']+")
_TYPE_COMMENT = re.compile(r"#\s*type:[^\r\n]*")
_MAX_ROUNDS = 20
_MOST_UNREACHED = 3


class Unused:
    """Takes out what only the folded code used. Nothing that was unused before is touched."""

    def __init__(self, file: PythonFile, names: Names, draft: Draft, statements: Statements) -> None:
        self.file = file
        self.names = names
        self.draft = draft
        self.statements = statements
        self.dropped: set[tuple[int, str]] = set()  # (function, parameter)
        self.axes: set[tuple[int, str]] = set()  # parameters whose parametrisation is gone
        self.removable: set[str] = set()  # fixtures without an effect of their own
        statements.may_go = self.may_go
        self.calls = {id(found.node.func): found.node for found in file.model.every(ast.Call)}
        self.functions: list[Function] = [
            found.node for found in file.model.every(ast.FunctionDef, ast.AsyncFunctionDef)
        ]

    def run(self) -> None:
        """Repeat until nothing more becomes unused."""
        body = self.file.parsed.tree.body
        imports = Imports(self.file, self.draft, self.statements, self)
        containers = Containers(self.file, self.names, self.draft, self.statements)
        steps = (
            self._withs, self._tries, containers.drop, self._parameters, self._fixtures, self._assignments, imports.drop
        )  # fmt: skip
        for _ in range(_MAX_ROUNDS):
            changed = self.statements.settle(body)
            for step in steps:
                changed |= step()
            if not changed:
                return

    # who uses what

    def gone(self, node: ast.AST) -> bool:
        return self.statements.gone(node)

    def uses(self, scope: Scope, name: str) -> list[Use]:
        return self.names.readers.get((id(scope), name), [])

    def now_unused(self, scope: Scope, name: str) -> bool:
        """The name was read before, and every place that read it goes."""
        uses = self.uses(scope, name)
        return bool(uses) and all(self.gone(use.node) for use in uses)

    def may_go(self, rest: list[ast.stmt]) -> bool:
        """Unreachable statements that can be left out: a plain early return was folded before them.

        A `yield` makes the function a generator even if it is never reached, a binding makes a name local, and a long
        stretch of code behind a folded `raise` is for its owner to delete.
        """
        start, end = self.file.span(rest[0])[0], self.file.span(rest[-1])[1]
        for statement in rest:
            for node in ast.walk(statement):
                if isinstance(node, ast.Yield | ast.YieldFrom | ast.Global | ast.Nonlocal | ast.Await):
                    return False
        for scope in self.names.scopes.values():
            for name, bindings in scope.bindings.items():
                if any(start <= self.file.span(b.node)[0] < end for b in bindings if hasattr(b.node, "lineno")) and any(
                    not start <= self.file.span(use.node)[0] < end for use in self.uses(scope, name)
                ):
                    return False
        return len(rest) <= _MOST_UNREACHED

    # with

    def _withs(self) -> bool:
        changed = False
        for found in self.file.model.every(ast.With, ast.AsyncWith):
            node = found.node
            if id(node) in self.statements.arms or self.gone(node):
                continue
            doomed = {
                position
                for position, item in enumerate(node.items)
                if not self.gone(item.context_expr) and self._idle(item, node, found.scope)
            }
            if not doomed:
                continue
            changed = True
            if len(doomed) == len([item for item in node.items if not self.gone(item.context_expr)]):
                self.statements.unwrap(node, node.body)
            else:
                self._drop_with_items(node, doomed)
        return changed

    def _tries(self) -> bool:
        """`try: ... finally: pass` of which nothing is left goes."""
        changed = False
        for found in self.file.model.every(ast.Try):
            node, remaining = found.node, self.statements.remaining
            hollow = not node.handlers and not node.orelse and not remaining(node.body)
            idle = all(isinstance(each, ast.Pass) for each in remaining(node.finalbody))
            if hollow and idle and not self.gone(node):
                self.statements.doom(node)
                changed = True
        return changed

    def _idle(self, item: ast.withitem, node: ast.With | ast.AsyncWith, scope: Scope) -> bool:
        """`monkeypatch.context() as m` whose `m` only set the switch, or `patch.dict(os.environ, {})`."""
        call = item.context_expr
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        if call.func.attr == "dict" and len(call.args) == 2:
            left = self.statements.expressions.left.get(id(call.args[1]))
            idle = left == () and item.optional_vars is None and idle_patch(call, call.args[1])
            return idle and not touches_environment(self.statements.remaining(node.body))
        if call.func.attr != "context" or call.args or not isinstance(item.optional_vars, ast.Name):
            return False
        name = item.optional_vars.id
        found = scope.lookup(name)
        if found is None:
            return False
        start, end = self.file.span(node)
        inside = [use for use in self.uses(found[0], name) if start <= self.file.span(use.node)[0] < end]
        outside = [use for use in self.uses(found[0], name) if use not in inside and not self.gone(use.node)]
        others = [spot for spot in map(self._with_of, found[1]) if spot is not None and spot is not node]
        covered = all(any(self._within(use.node, other) for other in others) for use in outside)
        return bool(inside) and all(self.gone(use.node) for use in inside) and covered

    def _with_of(self, binding: Binding) -> ast.AST | None:
        return next((node for node, _ in ancestors(binding.path) if isinstance(node, ast.With | ast.AsyncWith)), None)

    def _within(self, node: ast.AST, outer: ast.AST) -> bool:
        (start, end), (low, high) = self.file.span(node), self.file.span(outer)
        return low <= start and end <= high

    def _drop_with_items(self, node: ast.With | ast.AsyncWith, doomed: set[int]) -> None:
        tokens = self.draft.tokens
        first = tokens.at(self.file.span(node)[0])
        while tokens.table[first].text != "with":
            first += 1
        start, stop = first + 1, tokens.at(tokens.colon(self.file.span(node.items[-1].context_expr)[1]).start)
        if (
            tokens.table[start].text == "("
            and tokens.closing(start) == stop - 1
            and len(tokens.items(start, stop)) == 1
        ):
            start, stop = start + 1, stop - 1
        items = tokens.items(start, stop)
        self.draft.drop_items(items, doomed, (tokens.table[start].start, tokens.table[stop].start))
        line = self.draft.line_of(self.file.span(node)[0])
        self.draft.delete_lines(line - self.draft.remarks_above(line), line - 1)

    # parameters

    def _parameters(self) -> bool:
        changed = False
        for function in self.functions:
            scope = self.names.scopes.get(id(function))
            if self.gone(function):
                continue
            for argument in every_parameter(function):
                if (id(function), argument.arg) in self.dropped or not self._superfluous(argument, function, scope):
                    continue
                changed |= self._drop_parameter(function, argument)
        return changed

    def _superfluous(self, argument: ast.arg, function: Function, scope: Scope | None) -> bool:
        name = argument.arg
        known = name in self.removable or (id(function), name) in self.axes
        if known and (scope is None or not self.uses(scope, name)):
            return requests_fixtures(function)  # requested for its effect alone, and it has none
        return scope is not None and self.now_unused(scope, name)

    def _drop_parameter(self, function: Function, argument: ast.arg) -> bool:
        name = argument.arg
        if requests_fixtures(function):
            known = "monkeypatch" in name or name in self.removable or (id(function), name) in self.axes
            if not known:
                return False
        elif not self._drop_arguments(function, argument):
            return False
        tokens = self.draft.tokens
        opening = tokens.at(self.file.span(function)[0])
        while tokens.table[opening].text != "(":
            opening = tokens.closing(opening) + 1 if tokens.table[opening].text == "[" else opening + 1
        closing = tokens.closing(opening)
        items = tokens.items(opening + 1, closing)
        self.dropped.add((id(function), name))
        doomed = {position for position, item in enumerate(items) if self._dropped_item(function, item)}
        self._drop_marks(items, doomed)
        self.draft.drop_items(items, doomed, (tokens.table[opening].end, tokens.table[closing].start))
        return True

    def _dropped_item(self, function: Function, item: Item) -> bool:
        return any(
            self.file.span(argument)[0] == item.start
            for argument in every_parameter(function)
            if (id(function), argument.arg) in self.dropped
        )

    def _drop_marks(self, items: list[Item], doomed: set[int]) -> None:
        """A `*` needs a parameter behind it, a `/` one before it."""
        text = self.draft.source.text
        left = [position for position in range(len(items)) if position not in doomed]
        words = {position: text[items[position].start : items[position].end] for position in left}
        for place, position in enumerate(left):
            behind = left[place + 1 :]
            if words[position] == "*" and not [other for other in behind if not words[other].startswith("**")]:
                doomed.add(position)
            if words[position] == "/" and place == 0:
                doomed.add(position)

    def _drop_arguments(self, function: Function, argument: ast.arg) -> bool:
        """Take a parameter's argument out of every call; False when not every call is known."""
        calls = self.known_calls(function)
        if calls is None:
            return False
        found = [(call, argument_of(call, function, argument.arg)) for call in calls if not self.gone(call)]
        for call, value in found:
            if value is not None:
                self._drop_argument(call, value)
        return True

    def _drop_argument(self, call: ast.Call, value: ast.expr) -> None:
        tokens = self.draft.tokens
        opening = tokens.before(self.file.span(call.func)[1]) + 1
        while tokens.table[opening].text != "(":
            opening += 1
        closing = tokens.closing(opening)
        items = tokens.items(opening + 1, closing)
        start, end = self.file.span(value)
        doomed = {position for position, item in enumerate(items) if item.start <= start and end <= item.end}
        doomed |= {position for position, item in enumerate(items) if self.draft.gone(item.start, item.end)}
        self.draft.drop_items(items, doomed, (tokens.table[opening].end, tokens.table[closing].start))

    def known_calls(self, function: Function) -> list[ast.Call] | None:
        """Every call of a function that only this file can call; None when there may be others."""
        scope = self.names.scopes.get(id(function))
        outer = scope.parent if scope is not None else None
        if outer is None or outer.kind == "class" or function.decorator_list or self.mentioned(function.name):
            return None
        private = outer.kind == "function" or function.name.startswith("_") or is_test_file(self.file)
        if (
            not private
            or len(outer.bindings.get(function.name, ())) != 1
            or function.args.vararg
            or function.args.kwarg
        ):
            return None
        calls = [self.calls.get(id(use.node)) for use in self.uses(outer, function.name)]
        known = [call for call in calls if call is not None and not has_spread(call)]
        return known if len(known) == len(calls) and known else None

    # fixtures, assignments

    def _fixtures(self) -> bool:
        changed = False
        for function in self.functions:
            if not is_fixture(function) or self.gone(function):
                continue
            if self._hollow(function) or self._abandoned(function):
                self.statements.doom(function)
                self.removable.add(function.name)
                changed = True
        return changed

    def _hollow(self, function: Function) -> bool:
        """A fixture in which nothing is left, that was requested for its effect alone."""
        left = self.statements.remaining(function.body)
        emptied = len(left) < len(function.body) or any(id(each) in self.statements.arms for each in function.body)
        emptied |= any((id(function), name) in self.dropped for name in self.removable)
        if not emptied or not all(_idle_statement(statement) for statement in left):
            return False
        return is_autouse(function) or not is_conftest(self.file)

    def _abandoned(self, function: Function) -> bool:
        """A fixture that hands out a monkeypatch, which nobody requests any more."""
        name = function.name
        if "monkeypatch" not in name or is_autouse(function) or is_conftest(self.file):
            return False
        asked = [(f, a) for f in self.functions if f is not function for a in every_parameter(f) if a.arg == name]
        return bool(asked) and all((id(f), a.arg) in self.dropped or self.gone(f) for f, a in asked)

    def _assignments(self) -> bool:
        changed = False
        for found in self.file.model.every(ast.Assign):
            node, target = found.node, found.node.targets[0]
            if len(node.targets) != 1 or not isinstance(target, ast.Name) or self.gone(node):
                continue
            known = self.statements.values.proven.get((id(found.scope), target.id))
            private = found.scope.kind == "function"
            if known is not None and private and self.now_unused(found.scope, target.id):
                self.statements.doom(node)
                changed = True
        return changed

    # mentions

    def mentioned(self, name: str) -> bool:
        """Some string, `__all__`, annotation in quotes or type comment may mean the name."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        for found in self.file.model.every(ast.Constant):
            value = found.node.value
            if isinstance(value, str) and len(value) < 200 and word.search(value) and self._may_name(value, found.node):
                return True
        return any(word.search(comment) for comment in _TYPE_COMMENT.findall(self.draft.source.text))

    def _may_name(self, value: str, node: ast.Constant) -> bool:
        return _ANNOTATION.fullmatch(value) is not None and " " not in value.strip() and not self.gone(node)


def _idle_statement(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Yield) and value.value is None)
