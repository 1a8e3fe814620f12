"""Names that run through both engines: parametrised tests, fixtures with parameters, and what calls hand on.

With V1 alone such a name has one value. Where that is certain the value is proven, and the rows for V0 are left out.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from ..context import PythonFile
from ..scopes import Node
from .draft import Draft
from .functions import Function, argument_of, decorators, every_parameter, is_conftest
from .names import Names
from .rows import cell_of, fixture_rows, hands_out_parameter, is_parametrize, is_request_param, names_of, side_of
from .unused import Unused
from .values import Known, Values

_ENGINE = re.compile(r"(?:vllm_)?(?:use|is|enable)_?v[01]|v1|VLLM_USE_V1|(?:vllm_|engine_)?(?:major_)?version|engine")
UNCLEAR = "the name is used in a way that cannot be followed"
_PLATFORM_METHOD = "get_attn_backend_cls"  # the target passes True wherever it still passes `use_v1`


@dataclass(frozen=True, slots=True)
class Axis:
    """One name of one `parametrize`."""

    function: Function
    decorator: ast.Call
    names: list[str]
    position: int  # of the name
    rows: list[ast.expr]
    dead: set[int]  # rows for V0
    value: Known

    @property
    def name(self) -> str:
        return self.names[self.position]


class Axes:
    """Finds and settles them."""

    def __init__(
        self, file: PythonFile, names: Names, values: Values, draft: Draft, unused: Unused,
        held: frozenset[tuple[int, str]] = frozenset(),
    ) -> None:  # fmt: skip
        """`held`: (function, parameter) of tests that go on to run over engines."""
        self.file = file
        self.held = held
        self.names = names
        self.values = values
        self.draft = draft
        self.unused = unused
        self.found: list[Axis] = []
        self.fixtures: list[Function] = []
        self.unclear: list[tuple[ast.AST, str, str]] = []  # (place, rule, remark)
        self.held_places: list[ast.AST] = []

    def prove(self) -> None:
        """Prove all that can be proven."""
        for function in self.unused.functions:
            self._platform(function)
            for _, decorator in decorators(function):
                axis = self._axis(function, decorator)
                if axis is not None:
                    self.found.append(axis)
                    self._prove_parameter(function, axis.name, axis.value)
            self._fixture(function)
        while self._assigned() or self._handed_on():
            pass

    def settle(self) -> None:
        """Plan the edits of parametrisations and fixtures that are proven."""
        for axis in self.found:
            self.unused.axes.add((id(axis.function), axis.name))
            self._collapse(axis)
        for fixture in self.fixtures:
            self.unused.removable.add(fixture.name)
            self.unused.statements.doom(fixture)

    def half_done(self) -> frozenset[tuple[int, str]]:
        """Parameters that stay although what gives them their values would go: all of an axis goes, or nothing."""
        stays = [(axis.function, axis.name, id(axis.function)) for axis in self.found]
        for fixture in self.fixtures:
            for other in self.unused.functions:
                if other is not fixture and fixture.name in [each.arg for each in every_parameter(other)]:
                    stays.append((other, fixture.name, id(fixture)))
        return frozenset(
            (held, name)
            for function, name, held in stays
            if (id(function), name) not in self.unused.dropped and not self.unused.gone(function)
        )

    # parametrize

    def _axis(self, function: Function, decorator: ast.expr) -> Axis | None:
        if not isinstance(decorator, ast.Call) or not is_parametrize(decorator) or len(decorator.args) != 2:
            return None
        names = names_of(decorator.args[0])
        position = next((at for at, name in enumerate(names) if _ENGINE.fullmatch(name)), -1)
        if position < 0:
            return None
        rows = decorator.args[1].elts if isinstance(decorator.args[1], ast.List | ast.Tuple) else None
        if rows is None:
            if "v" in names[position].lower():
                self.unclear.append((decorator, "V1M304", "its values stand elsewhere"))
            return None
        cells = [cell_of(row, position, len(names)) for row in rows]
        sides = [side_of(names[position], cell) for cell in cells]
        if not rows or any(side is None for side in sides):
            return None
        if not any(sides):
            self.unclear.append((decorator, "V1M305", "all its rows are for V0"))
            return None
        if (id(function), names[position]) in self.held:
            self.held_places.append(decorator)
            return None
        plain = not any(keyword.arg in ("indirect", "ids") for keyword in decorator.keywords)
        if not (plain or len(names) == 1) or not self._foldable(function, names[position]):
            self.unclear.append((decorator, "V1M304", UNCLEAR))
            return None
        dead = {at for at, side in enumerate(sides) if not side}
        alive = {repr(cell.value) for cell, side in zip(cells, sides, strict=True) if side and cell is not None}
        if len(alive) != 1:
            return None
        value = next(cell.value for cell, side in zip(cells, sides, strict=True) if side and cell is not None)
        return Axis(function, decorator, names, position, list(rows), dead, Known(value))

    def _foldable(self, function: Function, name: str) -> bool:
        """Every use of the parameter can be replaced by its value."""
        scope = self.names.scopes.get(id(function))
        if name not in [argument.arg for argument in every_parameter(function)]:
            return False
        if scope is None:
            return True
        if len(scope.bindings.get(name, ())) > 1:
            return False
        uses = self.unused.uses(scope, name)
        return all(isinstance(use.node, ast.Name) and isinstance(use.node.ctx, ast.Load) for use in uses) and not any(
            isinstance(use.path[0], ast.FormattedValue) for use in uses
        )

    def _prove_parameter(self, function: Function, name: str, value: Known) -> bool:
        scope = self.names.scopes.get(id(function))
        if scope is None or len(scope.bindings.get(name, ())) != 1:
            return False
        return self.values.prove(scope, name, value)

    def _collapse(self, axis: Axis) -> None:
        draft = self.draft
        start, end = self.file.span(axis.decorator)
        if len(axis.names) == 1:
            draft.delete_lines(draft.line_of(start), draft.line_of(end))
            return
        left = [name for at, name in enumerate(axis.names) if at != axis.position]
        self._rename(axis.decorator.args[0], left, axis.position)
        tokens = draft.tokens
        opening = tokens.at(self.file.span(axis.decorator.args[1])[0])
        closing = tokens.closing(opening)
        inner = (tokens.table[opening].end, tokens.table[closing].start)
        draft.drop_items(tokens.items(opening + 1, closing), axis.dead, inner) if axis.dead else None
        for at, row in enumerate(axis.rows):
            if at not in axis.dead:
                self._narrow(row, axis.position, len(left))

    def _rename(self, node: ast.expr, left: list[str], position: int) -> None:
        start, end = self.file.span(node)
        text = self.draft.source.text[start:end]
        if isinstance(node, ast.Constant):
            self.draft.replace(start, end, text[0] + ", ".join(left) + text[0])
        elif len(left) == 1:
            self.draft.replace(start, end, f'"{left[0]}"')
        else:
            self._drop_element(node, position)

    def _narrow(self, row: ast.expr, position: int, left: int) -> None:
        if isinstance(row, ast.Call) or left > 1:
            self._drop_element(row, position)
            return
        start, end = self.file.span(row)
        other = row.elts[1 - position]  # type: ignore[attr-defined]
        inner_start, inner_end = self.draft.tokens.parenthesized(*self.file.span(other), (start + 1, end - 1))
        self.draft.delete(start, inner_start)
        self.draft.delete(inner_end, end)

    def _drop_element(self, node: ast.expr, position: int) -> None:
        tokens = self.draft.tokens
        opening = tokens.at(self.file.span(node)[0])
        if isinstance(node, ast.Call):
            opening = tokens.before(self.file.span(node.func)[1]) + 1
        closing = tokens.closing(opening)
        inner = (tokens.table[opening].end, tokens.table[closing].start)
        self.draft.drop_items(tokens.items(opening + 1, closing), {position}, inner)

    # fixtures

    def _fixture(self, function: Function) -> None:
        rows = fixture_rows(function)
        if rows is None:
            return
        sides = [
            side_of(function.name if _ENGINE.fullmatch(function.name) else "use_v1", cell_of(row, 0, 1)) for row in rows
        ]
        if any(side is None for side in sides) or not any(sides):
            return
        if hands_out_parameter(function) and _ENGINE.fullmatch(function.name):
            if is_conftest(self.file):
                self.unclear.append((function, "V1M304", "tests elsewhere may request it"))
                return
            if (id(function), function.name) in self.held:
                self.held_places.append(function)
                return
            self.fixtures.append(function)
            value = next(cell for row, side in zip(rows, sides, strict=True) if side and (cell := cell_of(row, 0, 1)))
            for other in self.unused.functions:
                if function.name in [argument.arg for argument in every_parameter(other)]:
                    self._prove_parameter(other, function.name, Known(value.value))
        elif all(sides):
            self._parameter_assigned(function, Known(cell_of(rows[0], 0, 1).value))  # type: ignore[union-attr]

    def _parameter_assigned(self, function: Function, value: Known) -> None:
        """`use_v1 = request.param` in a fixture whose only parameter is V1."""
        scope = self.names.scopes.get(id(function))
        for statement in function.body:
            if scope is not None and isinstance(statement, ast.Assign) and is_request_param(statement.value):
                target = statement.targets[0]
                named = isinstance(target, ast.Name) and _ENGINE.fullmatch(target.id)
                if named and len(scope.bindings.get(target.id, ())) == 1:  # type: ignore[attr-defined]
                    self.values.prove(scope, target.id, value)  # type: ignore[attr-defined]

    # values that are handed on

    def _platform(self, function: Function) -> None:
        if function.name == _PLATFORM_METHOD:
            for argument in every_parameter(function):
                if argument.arg == "use_v1":
                    self._prove_parameter(function, "use_v1", Known(True))

    def _assigned(self) -> bool:
        """`flag = envs.VLLM_USE_V1`, bound once: the flag is the value."""
        news = False
        for found in self.file.model.every(ast.Assign):
            target = found.node.targets[0]
            if len(found.node.targets) != 1 or not isinstance(target, ast.Name) or found.scope.kind == "class":
                continue
            if len(found.scope.bindings.get(target.id, ())) != 1 or self._rebound(target.id):
                continue
            if not self._read_after(found, target.id) or (
                found.scope.kind == "module" and target.id in self.names.held
            ):
                continue
            known = self.values.known(found.node.value)
            if known is not None and known.switched and not self.values.withheld(found.node):
                news |= self.values.prove(found.scope, target.id, known)
        return news

    def _read_after(self, found: Node, name: str) -> bool:
        """No read in the same scope comes before the assignment."""
        _, end = self.file.span(found.node)
        return all(
            self.file.span(use.node)[0] >= end
            for use in self.unused.uses(found.scope, name)
            if use.scope is found.scope
        )

    def _rebound(self, name: str) -> bool:
        """Some function declares the name global or nonlocal."""
        return any(name in scope.elsewhere for scope in self.names.scopes.values())

    def _handed_on(self) -> bool:
        """A parameter of a function that only this file calls, always with the same folded value."""
        news = False
        for function in self.unused.functions:
            calls = self.unused.known_calls(function)
            for argument in every_parameter(function) if calls else ():
                passed = [argument_of(call, function, argument.arg) for call in calls or ()]
                known = [self.values.known(value) for value in passed if value is not None]
                same = {(value.value, value.raw) for value in known if value is not None and value.switched}
                if len(known) == len(passed) and len(same) == 1 and all(value and value.switched for value in known):
                    news |= self._prove_parameter(function, argument.arg, known[0])  # type: ignore[arg-type]
        return news
