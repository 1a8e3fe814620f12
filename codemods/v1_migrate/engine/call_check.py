"""Compares each call of a file with the target's signature: what to name, to drop, to translate, and what is left."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..names.index import LAST_V0, Param, sort_key
from ..names.member_types import subclasses
from ..rules.dropped_values import MEANT_BY_EMPTY, MEANT_BY_FALSE, NO_OP, OLDER_THAN_INDEX, RENAMED, TRANSLATED
from .arguments import ItemList, call_items, position_of
from .callees import BUILT_BY_VLLM, Callee, callees_of, signature
from .callshape import Given, Misfit, fit, own_name, shifted
from .context import PythonFile
from .handed_keywords import handed_keywords_of
from .instances import function_around
from .scopes import Node


@dataclass(slots=True)
class Diagnosis:
    """One call that the target refuses or reads differently, and what can be done about it."""

    callee: Callee
    call: ast.Call
    given: Given
    misfit: Misfit
    items: ItemList | None
    named: list[str] = field(default_factory=list)  # positional arguments that get their names
    dropped: list[str] = field(default_factory=list)  # asked for nothing
    translated: list[tuple[str, str]] = field(default_factory=list)  # (old keyword, what stands there now)
    handed_on: list[str] = field(
        default_factory=list
    )  # a parameter of the method around, which the target never passes
    carried: list[tuple[str, ast.expr]] = field(default_factory=list)  # known before, gone, and carried a value
    alien: list[str] = field(default_factory=list)  # keywords that no release is known to take
    handed: frozenset[int] = frozenset()  # the values, by identity, that come by `**`
    optional: frozenset[str] = frozenset()  # names that always hold None or False where the call stands
    supplied: set[str] = field(default_factory=set)  # parameters that get their argument by what is named or translated
    displaced: str = ""  # the first parameter whose argument stands where the target reads another one
    stuck: str = ""  # why positional arguments cannot be named

    @property
    def repairable(self) -> bool:
        """Something can be named, dropped or translated."""
        return bool(self.items and (self.named or self.dropped or self.translated or self.handed_on))

    @property
    def edited(self) -> bool:
        """All of that, or nothing: in a call that fails all the same, what is gone tells what it was written for."""
        return self.repairable and not self._hopeless

    @property
    def _hopeless(self) -> bool:
        positional = {id(value) for value in self.given.positional}
        carried = any(id(value) in positional for _, value in self.carried)
        return bool(self.misfit.missing or self.misfit.repeated or self.stuck or carried)

    @property
    def refused(self) -> bool:
        """Something is left that makes the call fail, or mean something else."""
        return bool(self.alien or self.misfit.missing or self.misfit.repeated or self.stuck)


def diagnoses(file: PythonFile) -> list[Diagnosis]:
    """All calls of a file that do not fit the target. Remembered for the last file asked about."""
    global _last
    if _last is None or _last[0] is not file:
        _last = (file, [diagnosis for diagnosis in _diagnoses(file) if diagnosis is not None])
    return _last[1]


def _diagnoses(file: PythonFile) -> Iterator[Diagnosis | None]:
    callees = callees_of(file)
    for node in file.model.nodes.get(ast.Call, ()):
        yield diagnose(file, node, callees.of(node), node.node)
        inner = callees.applied(node)
        if inner is not None:
            yield diagnose(file, inner, callees.of(inner), node.node)
        replaced = callees.replaced(node)
        found = diagnose(file, *replaced, node.node) if replaced is not None else None
        if found is not None:
            found.alien.clear()  # a field that a subclass of the file's own may have
            yield found


_SWALLOWING = frozenset({"Attention"})  # its `**extra_impl_args` meet the implementation's constructor
_last: tuple[PythonFile, list[Diagnosis]] | None = None


def diagnose(file: PythonFile, found: Node, callee: Callee | None, written: ast.Call) -> Diagnosis | None:
    """What is wrong with one call, whose arguments `written` holds; None when the target takes it as it was meant."""
    if callee is None or not callee.akin:
        return None  # another contract altogether is what V1M003 speaks about
    call: ast.Call = found.node
    given = Given.of(call)
    handed = handed_keywords_of(file).of(found) if given.double_star else ()
    given = replace(given, keywords=(*given.keywords, *(each for each in handed if each.arg not in given.names)))
    callee = callee.as_written(given)
    if not callee.akin:
        return None
    misfit = fit(callee.params, given)
    if callee.new.rpartition(".")[2] in _SWALLOWING:
        callee = callee if callee.of_v0 else next((each for each in callee.under_older_names() if each.of_v0), callee)
        misfit = replace(misfit, unknown=(*misfit.unknown, *_swallowed(callee, given, file.judge.target)))
    shift = _shift(callee, given)
    if (not misfit and shift is None) or (misfit and _fits_a_subclass(callee, given)):
        return None
    result = Diagnosis(callee, call, given, misfit, call_items(file.source, written))
    result.handed = frozenset(id(keyword.value) for keyword in handed)
    result.optional = _never_passed(callee, found)
    if misfit.surplus or shift is not None:
        _positions(result, shift)
    for name in misfit.unknown:
        _keyword(result, name)
    missing = tuple(name for name in result.misfit.missing if name not in result.supplied)
    result.misfit = replace(result.misfit, missing=missing)
    return result


def _fits_a_subclass(callee: Callee, given: Given) -> bool:
    """A method of an object that may be of a subclass of vLLM's, which takes the call."""
    owner, _, method = callee.new.rpartition(".")
    below = subclasses(callee.index, owner, callee.target) if callee.through == "instance" else ()
    found = (signature(callee.index, f"{name}.{method}", callee.target, "instance") for name in below if name)
    return any(params is not None and not fit(params, given) for params in found)


def _swallowed(callee: Callee, given: Given, target: str) -> tuple[str, ...]:
    """Keywords that were parameters of V0 and now end in `**kwargs`, which go on to something that refuses them."""
    names = {param.name for param in callee.params}
    old = {param.name for _, params in callee.of_v0[-1:] for param in params}
    if sort_key(target) >= sort_key("0.11.0"):
        old.add("use_irope")  # 0.10 still took it out of them
    return tuple(name for name in given.names if name in old and name not in names)


def _shift(callee: Callee, given: Given) -> int | None:
    """The first positional argument that every release the call was written for read differently."""
    if not given.positional or _unmoved(callee, len(given.positional)):
        return None
    found = [shifted(params, callee.params, len(given.positional)) for _, params in callee.accepting(given)]
    known = [position for position in found if position is not None]
    if not known or len(known) != len(found):
        return None
    first = min(known)
    before = {name for _, params in callee.accepting(given) for name in enumerate(_by_position(params))}
    there = _by_position(callee.params)[: len(given.positional)]
    for position, name in list(enumerate(there))[first:]:
        if name == own_name(given.positional[position]) and (position, name) not in before:
            return None  # what is called like the target's parameter is meant for it
    return first


def _by_position(params: tuple[Param, ...]) -> list[str]:
    return [param.name for param in params if param.kind in ("pos", "pos_or_kw")]


def _unmoved(callee: Callee, count: int) -> bool:
    """The quick answer for most calls: the first parameters are those of the last release with the V0 CPU engine."""
    if callee.old.startswith("vllm.v1."):
        return False
    v0 = signature(callee.index, callee.old, LAST_V0, callee.through)
    return v0 is not None and [p.name for p in v0[:count]] == [p.name for p in callee.params[:count]]


def _positions(result: Diagnosis, shift: int | None) -> None:
    """Name the positional arguments from the first one that the target reads differently."""
    meant = result.callee.meant(result.given)
    if meant is None or result.given.star:
        count = len(result.given.positional)
        result.stuck = f"{count} positional arguments, whose meaning depends on the release" if count else "*arguments"
        return
    names = {p.name for p in result.callee.params if p.kind in ("pos_or_kw", "kw_only")}
    by_position = sum(p.kind in ("pos", "pos_or_kw") for p in result.callee.params)
    first = by_position if shift is None else min(shift, by_position)
    plan: list[tuple[int, str]] = []
    for position in range(first, len(meant)):
        name, value = meant[position], result.given.positional[position]
        new = name if name in names else RENAMED.get(name, "")
        if new in names and new not in result.given.names:
            if own_name(value) in names - {name, new}:  # written for an order that no release here has
                result.stuck = f"positional arguments, of which `{own_name(value)}` would be taken for `{new}`"
                return
            plan.append((position, new))
        elif means_nothing(name, value) or _is_optional(result, name, value):
            plan.append((position, ""))
        else:
            result.carried.append((name, value))
            return
    lacking = _lacking(result, {*meant[:first], *(new for _, new in plan)})
    if lacking:  # half a repair would only hide what was meant
        result.misfit = replace(result.misfit, missing=lacking)
        result.displaced = next((new for _, new in plan if new), "")
        return
    for position, new in plan:
        at = position_of(result.items, result.given.positional[position]) if result.items else -1
        if result.items is None or at < 0:
            result.stuck = "an argument list that cannot be taken apart"
            return
        if new:
            result.items.name(at, new)
            result.named.append(new)
            result.supplied.add(new)
        else:
            result.items.drop(at)
            name = meant[position]
            gone = result.handed_on if _is_optional(result, name, result.given.positional[position]) else result.dropped
            gone.append(name)


def _lacking(result: Diagnosis, named: set[str]) -> tuple[str, ...]:
    """Required parameters that get nothing once the positional arguments have these names."""
    if result.given.double_star:
        return ()
    required = (p.name for p in result.callee.params if not p.default and not p.kind.startswith("var_"))
    return tuple(name for name in required if name not in named and name not in result.given.names)


def _keyword(result: Diagnosis, name: str) -> None:
    """Rename, translate or drop a keyword that the target lacks, or put it down as carried or alien."""
    value = result.given.value(name)
    assert value is not None
    names = {param.name for param in result.callee.params}
    at = position_of(result.items, value) if result.items and id(value) not in result.handed else -1
    owner = result.callee.new.rpartition(".")[2]
    known = result.callee.known_before(name) or name in OLDER_THAN_INDEX.get(owner, ())
    if not known:
        result.alien.append(name)
        return
    if result.items is None or at < 0:
        result.carried.append((name, value))
        return
    new = RENAMED.get(name, "")
    if new in names and new not in result.given.names:
        result.items.rename(at, name, new)
        result.translated.append((name, f"{new}="))
        result.supplied.add(new)
        return
    text = _translation(result, name, value, names)
    if text:
        result.items.replace(at, text)
        result.translated.append((name, text))
        result.supplied |= _keywords_in(text)
    elif means_nothing(name, value):
        result.items.drop(at)
        result.dropped.append(name)
    elif _is_optional(result, name, value):
        result.items.drop(at)
        result.handed_on.append(name)
    else:
        result.carried.append((name, value))


def _never_passed(callee: Callee, found: Node) -> frozenset[str]:
    """In a call of `super()`: parameters of the method around it whose default is None or False.

    Where the target's base lacks such a parameter, nothing on the target passes it: the method is called by the target.
    """
    function = function_around(found.path) if callee.through == "super" else None
    owner, _, method = callee.old.rpartition(".")
    if function is None or function.name != method or not BUILT_BY_VLLM.search(owner):
        return frozenset()
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True)
    pairs = [*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    names = {a.arg for a, d in pairs if isinstance(d, ast.Constant) and (d.value is None or d.value is False)}
    stores = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return frozenset(names - stores)


def _is_optional(result: Diagnosis, name: str, value: ast.expr) -> bool:
    """`name=name`, handed on from an optional parameter that the target never passes."""
    return isinstance(value, ast.Name) and value.id == name and name in result.optional


def _translation(result: Diagnosis, name: str, value: ast.expr, names: set[str]) -> str:
    """The text of the successor of `name=value`, if the target has one for this very value."""
    if not isinstance(value, ast.Constant) or (name, value.value) not in TRANSLATED:
        return ""
    if name == "guided_decoding_backend" and not result.callee.new.endswith("LLM"):
        return ""  # only LLM makes a configuration of a dictionary
    text = TRANSLATED[name, value.value].format(repr(value.value).replace("'", '"'))
    wanted = _keywords_in(text)
    return text if wanted <= names and not wanted & set(result.given.names) else ""


def _keywords_in(text: str) -> set[str]:
    """The names in `a=1, b=2`."""
    call = ast.parse(f"f({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {keyword.arg for keyword in call.keywords if keyword.arg}


def means_nothing(name: str, value: ast.expr) -> bool:
    """The value was the default, or changed nothing."""
    if isinstance(value, ast.List | ast.Tuple | ast.Dict) and name not in MEANT_BY_EMPTY:
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if not isinstance(value, ast.Constant):
        return False
    if value.value is None:
        return True
    if value.value is False:
        return name not in MEANT_BY_FALSE
    return any(value.value == other and type(value.value) is type(other) for other in NO_OP.get(name, ()))


def parameter_names(params: tuple[Param, ...]) -> set[str]:
    """Names that can be given by keyword."""
    return {param.name for param in params if param.kind in ("pos_or_kw", "kw_only")}
