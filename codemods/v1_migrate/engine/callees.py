"""What a call calls, as the releases know it: the signature of the target, and those of the releases before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

from ..names.index import Index, Param
from .callshape import Given, fit, names_by_position, own_name
from .context import PythonFile
from .former import former_callables
from .guards import keyword_guard
from .instances import function_around, instances_of
from .narrowed import narrowed
from .own_classes import first_base, made_by
from .release_tests import version_guard
from .scopes import Node, class_around
from .verdicts import Judge

# Classes whose constructor vLLM itself calls: nobody else passes arguments to it.
BUILT_BY_VLLM = re.compile(
    r"(Impl|ImplBase|Worker|WorkerBase|ModelRunner|ModelRunnerBase|Executor|ExecutorBase|Scheduler)\Z"
)
_FORWARDS = {"vllm.entrypoints.llm.LLM": "vllm.engine.arg_utils.EngineArgs"}  # `**kwargs` go on to this one
_CALLABLE_BY_NAME = tuple("fFcks")  # not "m": `Class.method(x)` passes self by hand


@dataclass(frozen=True)
class Callee:
    """A function, class or method of vLLM that a call reaches."""

    old: str  # as the file names it: "vllm.worker.worker.Worker"
    new: str  # on the target
    through: str  # "name", "instance", "super"
    moved: bool  # the target lacks the old name
    contract: bool  # the successor has another contract
    params: tuple[Param, ...]  # on the target
    index: Index
    target: str
    others: tuple[tuple[str, bool], ...] = ()  # older names of what the target has, and whether its contract changed

    def as_written(self, given: Given) -> Callee:
        """The same under an older name, if the call was plainly written for that and for no release that has this one.

        It is where the target refuses the call, or where an argument is called like the older parameter at its place.
        """
        if not self.others:
            return self
        refused = bool(fit(self.params, given)) and not self.accepting(given)
        names = {param.name for param in self.params}
        for callee in self.under_older_names():
            meant = callee.meant(given)
            if meant is None or not callee.accepting(given):
                continue
            own = [own_name(value) for value in given.positional]
            if refused or any(name == mine and name not in names for name, mine in zip(meant, own, strict=True)):
                return callee
        return self

    def under_older_names(self) -> Iterator[Callee]:
        """The same as a file names it that was not rewritten yet."""
        return (replace(self, old=old, moved=True, contract=contract, others=()) for old, contract in self.others)

    @cached_property
    def of_v0(self) -> tuple[tuple[str, tuple[Param, ...]], ...]:
        """(release, parameters) of the releases with the V0 CPU engine, oldest first."""
        return self._before(v0=True)

    @cached_property
    def of_v1(self) -> tuple[tuple[str, tuple[Param, ...]], ...]:
        """The same of the releases between V0's last and the target."""
        return self._before(v0=False)

    def _before(self, *, v0: bool) -> tuple[tuple[str, tuple[Param, ...]], ...]:
        releases = (r for r in older(self.index, self.target) if is_v0(r) is v0)
        found = ((r, signature(self.index, self.old, r, self.through)) for r in releases)
        return tuple((release, params) for release, params in found if params is not None)

    def accepting(self, given: Given) -> tuple[tuple[str, tuple[Param, ...]], ...]:
        """The releases before the target that take this call; those with the V0 CPU engine, if V0 had the name."""
        found = tuple((release, params) for release, params in self.of_v0 if not fit(params, given))
        if found and not self.old.startswith("vllm.v1."):
            return found  # forty later releases need not be asked
        return found + tuple((release, params) for release, params in self.of_v1 if not fit(params, given))

    def meant(self, given: Given) -> tuple[str, ...] | None:
        """What the positional arguments were meant for: the names on which all accepting releases agree."""
        count = len(given.positional)
        names = {names_by_position(params, count) for _, params in self.accepting(given)}
        return names.pop() if len(names) == 1 else None

    @property
    def akin(self) -> bool:
        """The successor is the same thing grown older: at least half of what V0 took, it takes, too."""
        if not self.contract:
            return True
        namesake = self.old.rpartition(".")[2] == self.new.rpartition(".")[2]
        if not (namesake or ".attention." in self.new):
            return False
        known = self.of_v0 or self.of_v1
        if not known:
            return False
        names = {param.name for param in known[-1][1]}
        return 2 * len(names & {param.name for param in self.params}) >= max(len(names), 1)

    def known_before(self, name: str) -> bool:
        """Some release before the target has a parameter of this name."""
        return bool(self.taking(name))

    def taking(self, name: str) -> tuple[tuple[Param, ...], ...]:
        """The parameters of the releases before the target that have this one, be it under an older name."""
        every = (params for each in (*self.under_older_names(), self) for _, params in (*each.of_v0, *each.of_v1))
        return tuple(params for params in every if any(param.name == name for param in params))


def is_v0(release: str) -> bool:
    """The release still has the V0 CPU engine."""
    return release.startswith(("0.8.", "0.9."))


class Callees:
    """Finds callees in one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self.index = file.judge.index
        self.instances = instances_of(file)
        self._found: dict[int, Callee | None] = {}
        self._applied: list[ast.Call] = []

    def of(self, found: Node) -> Callee | None:
        """The callee of a call; None when it is not vLLM's, cannot be told, or the code is meant for two releases."""
        key = id(found.node)
        if key not in self._found:
            self._found[key] = self._of(found)
        return self._found[key]

    def _of(self, found: Node) -> Callee | None:
        call: ast.Call = found.node
        through, dotted = self._dotted(call, found)
        added: tuple[str, ...] = ()
        if not dotted:
            dotted, added = made_by(self.file, call.func, found.scope)
            through = "name"
        if not dotted or keyword_guard(found.path, call) or version_guard(self.file, found.path, call):
            return None
        callee = self.named(dotted, through)
        if callee is None and through == "super" and dotted.endswith(".__init__"):
            callee = self.named(dotted.removesuffix(".__init__"), "name")  # a dataclass's constructor: nobody wrote it
        if callee is not None and added:
            own = tuple(Param(name, "kw_only", True) for name in added)
            return replace(callee, params=(*callee.params, *own))
        return callee

    def applied(self, found: Node) -> Node | None:
        """`f(a, b=1)` for `partial(f, a, b=1)`, as a call that may get more arguments later."""
        call: ast.Call = found.node
        if own_name(call.func) != "partial" or not call.args or isinstance(call.args[0], ast.Starred):
            return None
        later = ast.keyword(None, ast.Constant(None))
        inner = ast.Call(call.args[0], call.args[1:], [*call.keywords, later])
        self._applied.append(inner)  # calls are remembered by their identity
        return Node(ast.copy_location(inner, call), found.path, found.scope)

    def replaced(self, found: Node) -> tuple[Node, Callee] | None:
        """`dataclasses.replace(x, a=1)` as a call of x's class, of which nothing is required."""
        call: ast.Call = found.node
        if not is_replace(call, found) or len(call.args) != 1 or version_guard(self.file, found.path, call):
            return None
        instance = self.instances.of_expression(call.args[0], found.scope)
        callee = self.named(instance.dotted, "name") if instance is not None else None
        if callee is None:
            return None
        inner = ast.Call(call.func, [], [*call.keywords, ast.keyword(None, ast.Constant(None))])
        self._applied.append(inner)
        params = tuple(replace(param, default=True) for param in callee.params)
        return Node(ast.copy_location(inner, call), found.path, found.scope), replace(callee, params=params, others=())

    def named(self, dotted: str, through: str) -> Callee | None:
        """The callee of this name."""
        judge = self.file.judge
        verdict = judge.judge(dotted)
        new = contract_of(judge, dotted)
        if verdict.status == "unknown" or not new.startswith("vllm."):
            return None
        if verdict.status == "present" and self._own(dotted):
            return None
        params = signature(self.index, new, judge.target, through)
        if params is None:
            return None
        return _callee(judge, dotted, new, through, params)

    def _own(self, dotted: str) -> bool:
        """The tree defines the name itself (a fork of vLLM), so that its own signature holds."""
        return (
            any(dotted.startswith(module + ".") for module in self.file.tree.own) if self.file.tree.is_vllm else False
        )

    def _dotted(self, call: ast.Call, found: Node) -> tuple[str, str]:
        references = self.file.by_node.get(id(call.func), [])
        if references:
            reference = references[0]
            return ("name", reference.dotted) if len(references) == 1 and reference.meant else ("", "")
        if not isinstance(call.func, ast.Attribute):
            return "", ""
        owner = call.func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
            base = self.base_of(found, call.func.attr) if not owner.args else ""
            return ("super", f"{base}.{call.func.attr}") if base else ("", "")
        instance = self.instances.known(owner, found.scope)
        instance = narrowed(instance, self.instances, owner, found.path, found.scope)
        sure = instance is not None and not instance.others
        return ("instance", f"{instance.dotted}.{call.func.attr}") if instance and sure else ("", "")

    def base_of(self, found: Node, method: str) -> str:
        """The vLLM class whose method `super()` reaches around a node; "" when it is not the first base's."""
        owner = class_around(found.scope)
        if owner is None or function_around(found.path) is None:
            return ""
        return first_base(self.file, owner, method)


def is_replace(call: ast.Call, found: Node) -> bool:
    """`dataclasses.replace(...)`, or `replace(...)` imported from there."""
    function = call.func
    name = function.value if isinstance(function, ast.Attribute) and function.attr == "replace" else function
    if not isinstance(name, ast.Name) or own_name(function) != "replace":
        return False
    bindings = found.scope.lookup(name.id)
    targets = {binding.target for binding in (bindings[1] if bindings else ())}
    return targets == ({"dataclasses"} if name is not function else {"dataclasses.replace"})


@cache
def _callee(judge: Judge, dotted: str, new: str, through: str, params: tuple[Param, ...]) -> Callee:
    verdict = judge.judge(dotted)
    others = former_callables(judge, dotted) if dotted == new else ()
    older_names = tuple((old, judge.judge(old).fate == "contract") for old in others)
    contract = verdict.fate == "contract"
    return Callee(dotted, new, through, verdict.missing, contract, params, judge.index, judge.target, older_names)


def callees_of(file: PythonFile) -> Callees:
    """The callees of a file; kept for the last file asked about, since several rules ask."""
    global _last
    if _last is None or _last.file is not file:
        _last = Callees(file)
    return _last


_last: Callees | None = None


def contract_of(judge: Judge, dotted: str) -> str:
    """The class or function of the target whose signature counts for a name; "" when it has none.

    What goes to v1_cpu keeps to the signatures of the vLLM release that it is used with.
    """
    verdict = judge.judge(dotted)
    if verdict.status == "present":
        return dotted
    return _vllm_judge(judge).judge(dotted).new if verdict.new.startswith("v1_cpu") else verdict.new


@cache
def _vllm_judge(judge: Judge) -> Judge:
    return Judge(judge.target, "vllm", judge.index)


@cache
def older(index: Index, target: str) -> tuple[str, ...]:
    """The releases before the target; rebuilt wheels (`.post2`) have the same source and are left out."""
    limit = index.releases.index(target) if target in index.releases else len(index.releases)
    return tuple(release for release in index.releases[:limit] if ".post" not in release)


@cache
def signature(index: Index, dotted: str, release: str, through: str) -> tuple[Param, ...] | None:
    """The parameters that a call meets in a release; None when they cannot be told."""
    found = index.resolve(dotted, release)
    if not found.found:
        return None
    kind = record_kind(index, found.canonical, release)
    if not kind or (through == "name" and kind not in _CALLABLE_BY_NAME):
        return None
    params = index.params(dotted, release)
    more = _FORWARDS.get(found.canonical)
    if params is None or more is None:
        return params
    further = index.params(more, release)
    if further is None:
        return None
    own = tuple(param for param in params if param.kind != "var_kw")
    names = {param.name for param in own}
    return (*own, *(Param(p.name, "kw_only", p.default) for p in further if p.name not in names))


def record_kind(index: Index, canonical: str, release: str) -> str:
    """The index's letter for what a name is (names/extract.py); "" for a module or what is ambiguous."""
    names = index.of(release)
    place = names.place(canonical)
    record = (names.record(*place) or "") if place is not None else ""
    return "" if record.startswith("?") else record.lstrip("!")[:1]
