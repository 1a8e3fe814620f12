"""Methods that override one of a vLLM class: what the base had, what the target's base has, and whether the two fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..names.index import Index, Param
from .callees import contract_of, is_v0, older
from .callshape import own_name
from .context import PythonFile
from .former import former
from .scopes import Node
from .verdicts import Judge

_BY_KEYWORD = ("q_lora_rank",)  # from here on, every release calls an MLA implementation's constructor by keyword
_QUERY = re.compile(r"(get|is|supports|use|validate|check)_")  # asks: what it need not know, it may ignore
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Override:
    """One method of a class that derives, directly or through classes of the same file, from a vLLM class."""

    method: Function
    owner: ast.ClassDef
    base: str  # as the file names it
    new: str  # on the target; "" when it has no successor
    before: tuple[Param, ...]
    after: tuple[Param, ...] | None  # None: the target's base has no such method, or it cannot be told
    gone: bool  # the target's base is known not to have it


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the target's call of an override fails; false when it does not."""

    missing: tuple[str, ...] = ()  # passed by the target, not taken
    extra: tuple[str, ...] = ()  # required by the override, not passed
    shifted: tuple[str, ...] = ()  # optional ones that stand where the target passes something else

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.shifted)


def overrides(file: PythonFile) -> list[Override]:
    """All overrides of a file, one for each method; kept for the last file asked about."""
    global _last
    if _last is None or _last[0] is not file:
        _last = (file, list(_overrides(file)))
    return _last[1]


_last: tuple[PythonFile, list[Override]] | None = None


def _overrides(file: PythonFile) -> Iterator[Override]:
    called = _called_on_own(file)
    for found in file.model.every(ast.ClassDef):
        bases = list(vllm_bases(file, found))
        for method in found.node.body:
            if isinstance(method, Function):
                asked = (_override(file, found.node, method, base, called) for base in bases)
                override = next((override for override in asked if override), None)
                if override is not None:
                    yield override


def _called_on_own(file: PythonFile) -> frozenset[str]:
    """What the file takes from self, cls or a class of its own."""
    owners = {"self", "cls", *(found.node.name for found in file.model.every(ast.ClassDef))}
    return frozenset(use.attributes[0] for use in file.model.uses if use.attributes and use.name in owners)


def vllm_bases(file: PythonFile, found: Node, depth: int = 0) -> Iterator[str]:
    """The vLLM classes that a class derives from, through classes of the same file, too."""
    node: ast.ClassDef = found.node
    for base in node.bases:
        inner = base.value if isinstance(base, ast.Subscript) else base
        references = file.by_node.get(id(inner), ())
        yield from (reference.dotted for reference in references)
        if not references and isinstance(inner, ast.Name) and depth < 8:
            bound = found.scope.lookup(inner.id)
            for binding in bound[1] if bound else ():
                if isinstance(binding.node, ast.ClassDef) and binding.node is not node:
                    yield from vllm_bases(file, Node(binding.node, binding.path, binding.scope), depth + 1)


def _override(
    file: PythonFile, owner: ast.ClassDef, method: Function, base: str, called: frozenset[str]
) -> Override | None:
    judge, index = file.judge, file.judge.index
    verdict = judge.judge(base)
    new = contract_of(judge, base)
    if verdict.status == "unknown" or not new.startswith("vllm."):
        return None
    if verdict.status == "present" and file.tree.is_vllm and file.tree.defines(base):
        return None  # a fork's own base: its own signature holds
    dotted = f"{new}.{method.name}"
    after = index.params(dotted, judge.target)
    before = _before(index, f"{base}.{method.name}", judge.target)
    if base == new and (before is not None or method.name not in called):  # what the file calls may be its own
        before = _written_for(judge, owner, method, base, before, after)
    if before is None:
        return None
    gone = after is None and judge.judge(dotted).missing
    return Override(method, owner, base, new, before, after, gone)


def _written_for(
    judge: Judge, owner: ast.ClassDef, method: Function, base: str,
    before: tuple[Param, ...] | None, after: tuple[Param, ...] | None,
) -> tuple[Param, ...] | None:  # fmt: skip
    """The parameters that the method was written for.

    A class that names the target's base may still be written for what stood in its place: where that base came later,
    or never had the method (`before` is None), or where the method's own parameters are those of the older one.
    """
    index, target, name = judge.index, judge.target, method.name
    older_ones = [
        params for old in former(judge, base) if (params := _before(index, f"{old}.{name}", target)) is not None
    ]
    if not older_ones:
        return before
    if before is None or not any(
        index.resolve(f"{base}.{name}", each).found for each in older(index, target) if is_v0(each)
    ):
        return older_ones[0]
    known = {param.name for params in (before, after) for param in params or ()}
    foreign = {argument.arg for argument in own_positional(method, owner)} - known
    return next((params for params in older_ones if foreign & {param.name for param in params}), before)


def _before(index: Index, dotted: str, target: str) -> tuple[Param, ...] | None:
    """The parameters in the newest release that has V0 and the method, else in the newest before the target."""
    if not index.known(dotted):
        return None
    newest_first = older(index, target)[::-1]
    in_order = sorted(newest_first, key=lambda release: not is_v0(release))  # stable: V0 first, newest first
    release = next((release for release in in_order if index.resolve(dotted, release).found), "")
    return index.params(dotted, release) if release else None


def own_positional(method: Function, owner: ast.ClassDef) -> list[ast.arg]:
    """The positional parameters without self or cls."""
    positional = [*method.args.posonlyargs, *method.args.args]
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in method.decorator_list)
    return positional if static or method not in owner.body else positional[1:]


def refusal(override: Override, wanted: tuple[Param, ...]) -> Refusal:
    """How a call with all parameters of `wanted` fails on the override.

    What an override requires and `wanted` does not name may still come where `wanted` hands on whatever it is given.
    """
    arguments = override.method.args
    positional = own_positional(override.method, override.owner)
    names = _aliased([a.arg for a in positional], [p.name for p in override.before], {p.name for p in wanted})
    keyword_only = {argument.arg for argument in arguments.kwonlyargs}
    known = {*names, *keyword_only}
    wanted_names = [p.name for p in wanted if not p.kind.startswith("var_")]
    missing: tuple[str, ...] = ()
    if arguments.kwarg is None and arguments.vararg is None:
        missing = tuple(name for name in wanted_names if name not in known)
    elif arguments.kwarg is None:
        missing = tuple(p.name for p in wanted if p.kind == "kw_only" and p.name not in known)
    required = names[: len(names) - len(arguments.defaults)] if arguments.defaults else names
    needed = [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is None]
    hands_on = any(p.kind.startswith("var_") for p in wanted)
    extra = () if hands_on else tuple(name for name in (*required, *needed) if name not in wanted_names)
    by_position = [p.name for p in wanted if p.kind in ("pos", "pos_or_kw")]
    by_position = by_position[: next((by_position.index(name) for name in _BY_KEYWORD if name in by_position), None)]
    optional = set(names) - set(required)
    last = max((names.index(name) for name in by_position if name in names), default=-1)
    shifted = tuple(name for name in names[: last + 1] if name in optional and name not in wanted_names)
    return Refusal(missing, extra, shifted)


def is_own_protocol(earlier: Refusal, now: Refusal) -> bool:
    """The override fitted no release: what is wrong with it now was so before, or what was wrong before still is."""
    before, after = ((set(each.missing), set(each.extra)) for each in (earlier, now))
    if not earlier:
        return False
    return all(a <= b for a, b in zip(after, before, strict=True)) or (
        any(before) and all(b <= a for a, b in zip(after, before, strict=True))
    )


def made_as_a_base(file: PythonFile, override: Override) -> bool:
    """A constructor that takes what one of the target's classes above its base takes.

    vLLM makes objects of plugins' classes by the protocol of the first of these, whatever a class between them adds.
    """
    index, target = file.judge.index, file.judge.target
    names = index.of(target)
    place = names.class_place(override.new)
    above = names.hierarchy.lineage(*place).classes[1:] if place is not None else ()
    found = (index.params(".".join((*cls.place, "__init__")), target) for cls in above)
    return any(params is not None and not refusal(override, params) for params in found)


def is_a_base(file: PythonFile, override: Override) -> bool:
    """A class of the file derives from this one and has the method, too: what is called is that one."""
    name, method = override.owner.name, override.method.name
    return any(
        any(own_name(base.value if isinstance(base, ast.Subscript) else base) == name for base in found.node.bases)
        and any(isinstance(each, Function) and each.name == method for each in found.node.body)
        for found in file.model.every(ast.ClassDef)
    )


def unread(override: Override, wanted: tuple[Param, ...], added: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Optional parameters that the base did not have before, and that the override takes and never reads.

    `added` are those that an edit puts into its signature.
    """
    arguments, body = override.method.args, override.method.body
    if _QUERY.match(override.method.name) or _is_stub(body):
        return ()
    before = {param.name for param in override.before}
    new = [p.name for p in wanted if p.default and not p.kind.startswith("var_") and p.name not in before]
    read = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    if "locals" in read:
        return ()
    taken = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} | set(added)
    if arguments.kwarg is not None and arguments.kwarg.arg not in read:
        taken.update(new)
    return tuple(name for name in new if name in taken and name not in read)


def _is_stub(body: list[ast.stmt]) -> bool:
    """Nothing but `...`, a docstring, or the refusal of every call."""
    return all(
        isinstance(each, ast.Raise) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in body
    )


def _aliased(own: list[str], before: list[str], wanted: set[str]) -> list[str]:
    """The override's positional names, by the base's names where the override merely calls them otherwise."""
    out = []
    for position, name in enumerate(own):
        base = before[position] if position < len(before) else ""
        out.append(base if base and name not in before and name not in wanted and base not in own else name)
    return out
