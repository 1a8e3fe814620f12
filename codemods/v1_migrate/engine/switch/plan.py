"""One plan for a file: what of the switch is folded, set, kept on purpose, and the edits for all of it at once.

The rules of the switch share this plan, so that their edits never touch each other: a statement that one rule takes
out may hold what another would have folded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from ...findings import Edit
from ..context import PythonFile
from ..release_arms import NEVER
from ..release_tests import release_tests_of
from ..scopes import Binding, Path, ancestors
from ..tree import absolute
from .actions import Action, Actions
from .axes import UNCLEAR, Axes
from .backend_names import cpu_backend_name, expected_names
from .conftests import pinning_conftest
from .defaults import why_more_than_a_default
from .draft import Draft
from .erase import Eraser
from .expressions import READ, SET, SET_TO_V0, Expressions
from .importers import patched_names
from .marks import BOTH_ENGINES, CONTRADICTION, SKIP_V1, SKIPS, V0_ONLY, Marks
from .names import SWITCH, Names, is_switch
from .orphans import Orphan, orphans
from .statements import Statements
from .tokens import Tokens
from .unused import Unused
from .values import Values

_CHAINS = {f"vllm.envs.{SWITCH}", "vllm.envs.set_vllm_use_v1"}
SUBJECT = f"vllm.envs.{SWITCH}"
_FIRST_WITHOUT_V0 = Version("0.11.0")
_WORDS = (
    "vllm_use_v1", "skip_v0", "skip_v1", "torch_sdpa", "_v0", "v0_", "use_v1", "is_v0", "is_v1",
    "run_with_both_engines", "vllm_version", '"v0"', '"v1"', "'v0'", "'v1'",
)  # fmt: skip
AXIS, BACKEND_NAME = "V1M304", "V1M306"
_OF_MARKS = (SKIP_V1, CONTRADICTION, BOTH_ENGINES, SKIPS)
_LISTS_OF_V0 = re.compile(r"(?:REQUIRES|NEEDS|ONLY|USES?)_V0|V0_(?:ONLY|MODELS|REQUIRED)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Note:
    """One thing to say about one place."""

    rule: str
    start: int
    end: int
    edited: bool
    remark: str = ""


@dataclass(slots=True)
class Plan:
    """What is said, and the edits that settle what is marked as edited."""

    notes: list[Note] = field(default_factory=list)
    edits: tuple[Edit, ...] = ()
    orphans: list[Orphan] = field(default_factory=list)


def plan_of(file: PythonFile) -> Plan:
    """The plan of a file, made once for all rules."""
    key = ("switch", file.blocked)
    if key not in file.plans:
        file.plans[key] = _Planner(file).plan() if _concerned(file) else Plan()
    plan = file.plans[key]
    assert isinstance(plan, Plan)
    return plan


def _concerned(file: PythonFile) -> bool:
    if file.module == "vllm.envs":  # where the switch is defined
        return False
    text = file.source.text.lower()
    return any(word in text for word in _WORDS)  # a search for fixed words is ten times a regular expression's speed


LONE_YIELD = "its only `yield` stands in the arm for V0: if callers iterate over it, put a `yield` behind a `return`"


class _Planner:
    def __init__(self, file: PythonFile, held: frozenset[tuple[int, str]] = frozenset()) -> None:
        """`held`: parameters by which tests go on to run over engines, since something of them cannot be folded."""
        self.file = file
        self.held = held
        self.result = Plan()
        self.names = Names(file)
        self.values = Values(self.names)
        self.actions = Actions(self.names, self.values, file.settings.unsafe)
        self.kept: list[tuple[int, int, str]] = []  # code that is left as it is, and why
        self.conftest = ""
        self.said: set[tuple[int, int]] = set()

    def plan(self) -> Plan:
        if self.file.parsed.masked:
            self._unfolded("the file needs a newer Python to be edited safely")
            return self.result
        self._hold()
        self._keep()
        self.values.withheld = self._withheld
        self.actions.read_elsewhere = self._reads_other_dict()
        draft = Draft(self.file.source, Tokens(self.file.source))
        expressions = Expressions(self.file, self.values, self.actions, draft, self._report)
        statements = Statements(self.file, self.values, draft, expressions, self.actions)
        unused = Unused(self.file, self.names, draft, statements)
        axes = Axes(self.file, self.names, self.values, draft, unused, self.held)
        tree = self.file.parsed.tree
        if self._allowed(AXIS):
            axes.prove()
            axes.settle()
        expressions.concerned = self._concerned_nodes()
        statements.block(tree.body)
        marks = Marks(self.file, self.values, draft, expressions, statements, unused, self._report)
        marks.plan({rule for rule in _OF_MARKS if self._allowed(rule)})
        self._backend_names(draft, statements)
        unused.run()
        half_done = axes.half_done()
        if half_done:
            return _Planner(self.file, self.held | half_done).plan()
        Eraser(self.file, draft, statements).emit(tree.body, tree)
        self._axes(axes)
        self._v0_tests(statements)
        self._unfolded("")
        self.result.orphans = list(orphans(self.file, statements))
        self.result.edits = draft.edits()
        return self.result

    def _concerned_nodes(self) -> set[int]:
        """Every node that holds something of the switch, by identity."""
        nodes: set[int] = set()

        def add(node: ast.AST, path: Path | None) -> None:
            nodes.add(id(node))
            nodes.update(id(parent) for parent, _ in ancestors(path))

        for use in self.file.model.uses:
            if self.names.dotted(use.node) in _CHAINS:
                add(use.node, use.path)
        for found in self.file.model.every(ast.Constant):
            if is_switch(found.node) or found.node.value == SUBJECT:
                add(found.node, found.path)
        for found in self.file.model.every(ast.Call):
            if any(keyword.arg == SWITCH for keyword in found.node.keywords):
                add(found.node, found.path)
        for key in self.values.proven:
            for use in self.names.readers.get(key, ()):
                add(use.node, use.path)
        return nodes

    # what must stay

    def _hold(self) -> None:
        """Names of the module that hold the switch and that another file sets: their uses are not folded."""
        module = self.file.model.module
        holding = [name for name, bindings in module.bindings.items() if any(map(self._holds, bindings))]
        if not holding:
            return
        self.names.held.update(patched_names(self.file.tree).intersection(holding) - {SWITCH})
        for name in sorted(self.names.held):
            for use in self.names.readers.get((id(module), name), ()):
                self._report(READ, use.node, False, f"another file of the tree sets `{name}`")

    def _holds(self, binding: Binding) -> bool:
        if binding.kind == "from":
            return absolute(self.file.package, binding.target) == SUBJECT
        statement = binding.node if isinstance(binding.node, ast.Assign) else binding.path[0]
        known = self.values.known(statement.value) if isinstance(statement, ast.Assign) else None
        return known is not None and known.switched

    def _allowed(self, rule: str) -> bool:
        return self.file.allowed(rule, SUBJECT)

    def _keep(self) -> None:
        if not self._allowed(READ) or not self._allowed(SET):
            self.kept.append((0, len(self.file.source.text), "a comment or an option keeps it"))
        if not self.file.settings.unsafe:
            self.kept.extend((start, end, NEVER) for start, end in release_tests_of(self.file).other_arms)
        for found in self.file.model.every(ast.Call):
            function = found.node.func
            if getattr(function, "id", "") == "hasattr" and len(found.node.args) == 2 and is_switch(found.node.args[1]):
                self._keep_around(found.node, found.path, "whether the release has it is tested first")
        for test in self.file.model.every(ast.If):
            why = why_more_than_a_default(test.node, self.values, self.actions)
            if why and not self.file.settings.unsafe:
                self.kept.append((*self.file.span(test.node), why))
        for function in self._generators_by_v0():
            self.kept.append((*self.file.span(function), LONE_YIELD))
        for place, path in self._set_to_v0():
            self._keep_function(place, path)
        for place, path in self._called_for_v0():
            self._keep_function(place, path)
            self._report(SET_TO_V0, place, False, "")
        self.conftest = pinning_conftest(self.file)
        if self.conftest and not self.file.settings.unsafe:
            self.kept.append((0, len(self.file.source.text), f"{self.conftest} above it chooses V0 for its tests"))

    def _keep_around(self, node: ast.AST, path: Path, why: str) -> None:
        outer = next((parent for parent, _ in ancestors(path) if isinstance(parent, ast.stmt)), node)
        self.kept.append((*self.file.span(outer), why))

    def _keep_function(self, place: ast.AST, path: Path) -> None:
        why = "the code around it asks for V0"
        for parent, _ in ancestors(path):
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                self.kept.append((*self.file.span(parent), why))
                return
        start, _ = self.file.span(place)
        self.kept.append((0, len(self.file.source.text), why) if self._top_level(path) else (start, start, why))

    def _top_level(self, path: Path) -> bool:
        return all(not isinstance(parent, ast.Dict) for parent, _ in ancestors(path))

    def _set_to_v0(self) -> Iterator[tuple[ast.AST, Path]]:
        """Places that set the switch to 0 in this process (a dict for a child process is no such place)."""
        if self.file.settings.unsafe:
            return
        for found in self.file.model.every(ast.Expr, ast.Assign):
            action: Action | None = self.actions.of(found.node)
            if action is not None and action.setting == "off":
                target = found.node.targets[0] if isinstance(found.node, ast.Assign) else None
                of_process = not isinstance(target, ast.Subscript) or self.names.environment(target.value)
                if of_process and not self._dead(found.path):
                    yield found.node, found.path

    def _called_for_v0(self) -> list[tuple[ast.AST, Path]]:
        """Calls inside expressions that do so: `x = os.environ.setdefault("VLLM_USE_V1", "0")`."""
        return [
            (found.node, found.path)
            for found in self.file.model.every(ast.Call)
            if not isinstance(found.path[0], ast.Expr) and self.actions.requests(found.node)
        ]

    def _generators_by_v0(self) -> Iterator[ast.AST]:
        """Functions all of whose `yield` stand in arms that V1 never takes: they make the function what it is."""
        functions: dict[int, tuple[ast.AST, list[bool]]] = {}
        for found in self.file.model.every(ast.Yield, ast.YieldFrom):
            outer = next(
                (p for p, _ in ancestors(found.path) if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef)), None
            )
            if outer is not None:
                functions.setdefault(id(outer), (outer, []))[1].append(any(self._never(found.path)))
        yield from (function for function, dead in functions.values() if all(dead))

    def _dead(self, path: Path) -> bool:
        """An arm that V1 never takes. One for a switch that is not set is a default, and asks for V0."""
        return any(not self.values.asks_whether_set(test) for test in self._never(path))

    def _never(self, path: Path) -> Iterator[ast.expr]:
        """The tests around a place by which V1 never comes to it."""
        for parent, arm in ancestors(path):
            if isinstance(parent, ast.If) and arm in ("body", "orelse"):
                known = self.values.truth(parent.test)
                if known is not None and known.switched and bool(known.value) is (arm == "orelse"):
                    yield parent.test

    def _withheld(self, node: ast.AST) -> bool:
        return bool(self._why_kept(node))

    def _why_kept(self, node: ast.AST) -> str:
        start, _ = self.file.span(node)
        for low, high, why in self.kept:
            if low <= start < high:
                return why
        return "" if self._applies(node) else f"vLLM {self.file.judge.target} still has V0 for devices other than CPUs"

    def _everywhere(self) -> bool:
        """The target has V1 only, whatever the device."""
        try:
            return Version(self.file.judge.target) >= _FIRST_WITHOUT_V0
        except InvalidVersion:
            return True

    def _applies(self, node: ast.AST) -> bool:
        """V1 is the only engine for the code at this place."""
        return self._everywhere() or self._of_cpu(node)

    def _of_cpu(self, node: ast.AST) -> bool:
        if any("cpu" in part.lower() for part in self.file.source.rel.split("/")):
            return True
        start, end = self.file.span(node)
        for found in self.file.model.every(ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.If):
            outer = found.node
            low, high = self.file.span(outer)
            if isinstance(outer, ast.If):
                low, high = self.file.span(outer.body[0])[0], self.file.span(outer.body[-1])[1]
                named = "is_cpu()" in ast.unparse(outer.test) and "not " not in ast.unparse(outer.test)
            else:
                named = "cpu" in outer.name.lower()
            if named and low <= start and end <= high:
                return True
        return False

    def _reads_other_dict(self) -> bool:
        for found in self.file.model.every(ast.Subscript):
            node = found.node
            if isinstance(node.ctx, ast.Load) and is_switch(node.slice) and not self.names.environment(node.value):
                return True
        for found in self.file.model.every(ast.Call):
            call = found.node
            gets = isinstance(call.func, ast.Attribute) and call.func.attr == "get"
            if gets and call.args and is_switch(call.args[0]) and self.values.read(call) is None:
                return True
        return False

    # what is said

    def _report(self, rule: str, place: ast.AST, edited: bool, remark: str) -> None:
        start, end = self.file.span(place)
        if (start, end) in self.said:
            return
        self.said.add((start, end))
        self.result.notes.append(Note(rule, start, end, edited, remark or ("" if edited else self._why_kept(place))))

    def _axes(self, axes: Axes) -> None:
        for axis in axes.found:
            self._report(AXIS, axis.decorator, True, "")
        for fixture in axes.fixtures:
            start, end = self.file.span(fixture)
            self.result.notes.append(Note(AXIS, start, min(end, start + len(f"def {fixture.name}")), True))
        for place, rule, remark in axes.unclear:
            self._report(rule, place, False, remark)
        for place in axes.held_places:
            self._report(AXIS, place, False, self._why_kept(place) or UNCLEAR)

    def _backend_names(self, draft: Draft, statements: Statements) -> None:
        expected = cpu_backend_name(self.file.judge.target)
        for node, vision in expected_names(self.file):
            if node.value == expected or statements.gone(node) or not self._allowed(BACKEND_NAME):
                continue
            edited = not vision and not self._withheld(node)
            self._report(BACKEND_NAME, node, edited, "a vision encoder may be meant" if vision else "")
            if edited:
                start, end = self.file.span(node)
                quote = self.file.source.text[start]
                draft.replace(start, end, f"{quote}{expected}{quote}")

    def _v0_tests(self, statements: Statements) -> None:
        """Tests, and lists of them, that only made sense on V0."""
        if self.conftest:
            first = next((each for each in self.file.model.every(ast.FunctionDef, ast.AsyncFunctionDef)), None)
            if first is not None:
                self._name_of(first.node, BOTH_ENGINES, f"the {self.conftest} above it chooses V0 for its tests")
        pinned = [(low, high) for low, high, _ in self.kept if high > low]
        for found in self.file.model.every(ast.FunctionDef, ast.AsyncFunctionDef):
            if found.node.name.startswith("test") and self.file.span(found.node) in pinned:
                self._name_of(found.node, V0_ONLY, "it chooses V0 itself")
        for found in self.file.model.every(ast.Assign):
            target = found.node.targets[0]
            if isinstance(target, ast.Name) and _LISTS_OF_V0.search(target.id) and not statements.gone(target):
                self._report(V0_ONLY, target, False, "what it lists was served by V0 only")
        for place in statements.stops:
            self._report(V0_ONLY, place, False, "it is always skipped on V1")

    def _name_of(self, function: ast.FunctionDef | ast.AsyncFunctionDef, rule: str, remark: str) -> None:
        start, _ = self.file.span(function)
        start = self.file.source.text.index(function.name, start)
        self.result.notes.append(Note(rule, start, start + len(function.name), False, remark))

    def _unfolded(self, why: str) -> None:
        """Reads that no plan takes care of."""
        if not why and not self.kept and self._everywhere():
            return
        spans = [(note.start, note.end) for note in self.result.notes]
        for node in ast.walk(self.file.parsed.tree):
            if isinstance(node, ast.expr) and self.values.read(node) is not None:
                start, end = self.file.span(node)
                known = any(low <= start and end <= high for low, high in spans)
                if not known and (why or self._why_kept(node)):
                    self._report(READ, node, False, why)
