"""Keywords that reach a call by `**`: of a literal dictionary, of `dict(a=1)`, of a name that the file gives one.

A name is followed where it has one dictionary and all that happens to it is plain: items set, `update`, `pop`; so are
copies of dictionaries, one inside another, both arms of `a if c else b`, and comprehensions that keep or spell the
keys. Of another one (a parameter, what a function made) that is followed which the function around the call adds to it
last. Attributes of self, and functions that return a dictionary, are followed likewise. What is only added or taken
behind a test of the release is not followed, nor is what a function may have changed.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from ..names.annotations import is_none
from .callshape import own_name
from .context import PythonFile
from .dictionaries import (
    Unknown,
    added_by,
    arms_of,
    asks_of_the_value,
    assigned,
    given_by,
    in_another_arm,
    is_asked_for,
    is_behind,
    is_items,
    start_of,
    take,
    text_of,
)
from .guards import keyword_guard
from .instances import instances_of
from .release_tests import version_guard
from .scopes import Binding, Node, Path, Scope, Use, class_around

_DEPTH = 4
_HARMLESS = frozenset({"print", "pprint", "debug", "info", "warning", "warn", "error", "log", "update", "append"})
_UNTRACEABLE = frozenset({"clear", "popitem"})


class HandedKeywords:
    """Answers for one file."""

    def __init__(self, file: PythonFile) -> None:
        self.file = file
        self._uses: dict[str, list[Use]] = defaultdict(list)
        for use in file.model.uses:
            self._uses[use.name].append(use)

    def of(self, found: Node) -> tuple[ast.keyword, ...]:
        """What the call's `**` are known to hold, each name once; the values stand where the file writes them."""
        keywords: dict[str, ast.keyword] = {}
        for keyword in found.node.keywords:
            if keyword.arg is None:
                for name, value in self._followed(keyword.value, found):
                    keywords[name] = ast.keyword(name, value)
        return tuple(keywords.values())

    def items(self, node: ast.expr, call: Node) -> list[tuple[str, ast.expr]]:
        """What a dictionary that a call is given is known to hold."""
        return self._followed(node, call)

    def _followed(self, node: ast.expr, call: Node) -> list[tuple[str, ast.expr]]:
        try:
            return list(self._items(node, call.scope, call, 0))
        except Unknown:
            return []

    def _items(self, node: ast.expr, scope: Scope, call: Node, depth: int) -> Iterator[tuple[str, ast.expr]]:
        if depth > _DEPTH:
            raise Unknown
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None:
                    yield from self._items(value, scope, call, depth + 1)
                elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            if scope.lookup("dict") is not None:
                raise Unknown
            yield from self._of_arguments(node, scope, call, depth)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            yield from self._items(node.left, scope, call, depth + 1)
            yield from self._items(node.right, scope, call, depth + 1)
        elif isinstance(node, ast.Name):
            yield from self._of_name(node.id, scope, call, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._of_attribute(node, scope, call, depth)
        elif isinstance(node, ast.DictComp):
            yield from self._of_comprehension(node, scope, call, depth)
        elif isinstance(node, ast.IfExp):
            yield from self._of_arms(node, scope, call, depth)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self._items(value, scope, call, depth + 1)
        elif isinstance(node, ast.Subscript) and text_of(node.slice):
            inner = dict(self._items(node.value, scope, call, depth + 1)).get(text_of(node.slice))
            yield from self._items(inner, scope, call, depth + 1) if inner is not None else ()
        elif isinstance(node, ast.List | ast.Tuple):
            pairs = [each.elts for each in node.elts if isinstance(each, ast.Tuple) and len(each.elts) == 2]
            yield from ((text_of(key), value) for key, value in pairs if text_of(key))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fromkeys":
            yield from self._named(node.args[0], scope, node.args[0]) if node.args else ()
        elif isinstance(node, ast.Call) and own_name(node.func) in ("copy", "deepcopy"):
            copied = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node
            yield from self._items(copied, scope, call, depth + 1) if copied is not node else ()
        elif isinstance(node, ast.Call):
            yield from self._of_function(node, scope, depth)

    def _of_arms(self, node: ast.IfExp, scope: Scope, call: Node, depth: int) -> Iterator[tuple[str, ast.expr]]:
        """Both arms, but for one that a test of the release, or of what the callee takes, chooses."""
        for name in ("body", "orelse"):
            value, path = getattr(node, name), (node, name, None)
            if self._guarded(path, value):
                continue
            for key, item in self._items(value, scope, call, depth + 1):
                if keyword_guard(path, ast.Call(ast.Name(key), [], [ast.keyword(key, item)])) is None:
                    yield key, item

    def _of_comprehension(
        self, node: ast.DictComp, scope: Scope, call: Node, depth: int
    ) -> Iterator[tuple[str, ast.expr]]:
        """`{k: f(v) for k, v in d.items()}` has the keys of d, `{k: ... for k in ("a", "b")}` those that are written.

        Behind an `if` they may be picked by what the callee takes: of these nothing is known, but for `if v`.
        """
        loop, key = node.generators[0], node.key
        if len(node.generators) > 1 or not isinstance(key, ast.Name):
            return
        names = [loop.target] if isinstance(loop.target, ast.Name) else getattr(loop.target, "elts", [])
        if not names or own_name(names[0]) != key.id or any(not asks_of_the_value(each, key.id) for each in loop.ifs):
            return
        of = loop.iter.func.value if is_items(loop.iter) else None  # type: ignore[attr-defined]
        if of is not None and len(names) == 2:
            yield from self._items(of, scope, call, depth + 1)
        elif len(names) == 1:
            yield from self._named(loop.iter, scope, node.value)

    def _named(self, node: ast.expr, scope: Scope, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
        """The strings of a written list, or of a name that has one list; the last in the call is where each stands."""
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        given = given_by(found[1][0]) if found is not None and len(found[1]) == 1 else node
        elements = given.elts if isinstance(given, ast.List | ast.Tuple | ast.Set) else []
        yield from ((text_of(each), each) for each in elements if text_of(each))

    def _of_arguments(self, node: ast.Call, scope: Scope, call: Node, depth: int) -> Iterator[tuple[str, ast.expr]]:
        """What `dict(...)` and `kw.update(...)` are given."""
        for argument in node.args:
            yield from self._items(argument, scope, call, depth + 1)
        for keyword in node.keywords:
            if keyword.arg is not None:
                yield keyword.arg, keyword.value
            else:
                yield from self._items(keyword.value, scope, call, depth + 1)

    def _of_name(self, name: str, scope: Scope, call: Node, depth: int) -> Iterator[tuple[str, ast.expr]]:
        found = scope.lookup(name)
        if found is None:
            return
        first, *others = found[1]
        value = given_by(first)
        if value is None or any(added_by(other) is None for other in others):
            yield from self._added_last(name, found[1], call, depth)
            return
        if self._guarded(first.path, first.node):
            raise Unknown
        items = dict(self._items(value, first.scope, call, depth + 1))
        for other in others:
            items.update(self._items(added_by(other) or value, other.scope, call, depth + 1))
        for use in self._uses[name]:
            reached = use.scope.lookup(name)
            if reached is not None and reached[1] is found[1]:
                self._change(use, items, call, depth)
        yield from items.items()

    def _added_last(self, name: str, bindings: list[Binding], call: Node, depth: int) -> Iterator[tuple[str, ast.expr]]:
        """What the function around the call adds to a dictionary that nobody knows, after the name was bound last."""
        items: dict[str, ast.expr] = {}
        here = [binding.node for binding in bindings if binding.scope is call.scope]
        start = max((start_of(node) for node in here if start_of(node) < start_of(call.node)), default=(0, 0))
        for use in self._uses[name]:
            reached = use.scope.lookup(name)
            if (
                reached is not None
                and reached[1] is bindings
                and use.scope is call.scope
                and start_of(use.node) > start
            ):
                self._change(use, items, call, depth)
        yield from items.items()

    def _of_attribute(
        self, node: ast.Attribute, scope: Scope, call: Node, depth: int
    ) -> Iterator[tuple[str, ast.expr]]:
        """`self.name`, `cls.name`: what the class or one of its methods sets it to, and what the method adds."""
        owner = class_around(scope)
        if owner is None or not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
            return
        uses = [
            use
            for use in self._uses[node.value.id]
            if use.attributes[:1] == (node.attr,) and class_around(use.scope) is owner
        ]
        sets = [
            use for use in uses if isinstance(getattr(use.node, "ctx", None), ast.Store) and len(use.attributes) == 1
        ]
        given = [(assigned(use.path), use.scope) for use in sets]
        given += [(given_by(binding), owner) for binding in owner.bindings.get(node.attr, ())]
        given = [(value, inner) for value, inner in given if not is_none(value)]
        value, inner = given[0] if len(given) == 1 else (None, owner)
        if value is None:
            raise Unknown
        items = dict(self._items(value, inner, call, depth + 1))
        for use in uses:
            if use.scope in (call.scope, inner):
                self._change(use._replace(attributes=use.attributes[1:]), items, call, depth)
        yield from items.items()

    def _of_function(self, node: ast.Call, scope: Scope, depth: int) -> Iterator[tuple[str, ast.expr]]:
        """What every `return` of a function of the file has."""
        results = instances_of(self.file).results
        found = results.own_values(node, scope)
        if found is None or not found[0]:
            return
        inner = found[1]
        values = [arm for value in found[0] for arm in arms_of(value)]
        items = [
            dict(self._items(value, inner, Node(value, (value, "value", None), inner), depth + 1)) for value in values
        ]
        yield from ((name, value) for name, value in items[0].items() if all(name in other for other in items))

    def _change(self, use: Use, items: dict[str, ast.expr], call: Node, depth: int) -> None:
        """Apply what one use of the name does to the dictionary."""
        parent, field_name, outer = use.path
        if is_behind(use, call) or in_another_arm(use.path, call.path) or self._guarded(use.path, use.node):
            return
        if isinstance(parent, ast.Subscript) and field_name == "value" and not use.attributes:
            self._item(parent, outer, use.scope, items)
        elif use.attributes and isinstance(parent, ast.Call) and field_name == "func":
            method = use.attributes[0]
            if method == "update":
                items.update(self._of_arguments(parent, use.scope, call, depth))
            elif method == "setdefault" and len(parent.args) == 2:
                items.setdefault(text_of(parent.args[0]), parent.args[1])
            elif method == "pop" and parent.args:
                take(items, parent.args[0])
            elif method in _UNTRACEABLE:
                raise Unknown
        elif isinstance(parent, ast.Call) and field_name == "args" and outer is not None:
            for_its_effect = isinstance(outer[0], ast.Expr)
            if for_its_effect and own_name(parent.func) not in _HARMLESS:
                raise Unknown

    def _item(self, node: ast.Subscript, path: Path | None, scope: Scope, items: dict[str, ast.expr]) -> None:
        if isinstance(node.ctx, ast.Del):
            take(items, node.slice)
        elif isinstance(node.ctx, ast.Store) and path is not None and isinstance(path[0], ast.Assign):
            for name, value in self._keys(node.slice, path, scope):
                asked = ast.Call(ast.Name(name), [], [ast.keyword(name, value)])
                if keyword_guard(path, asked) is None:
                    items[name] = value

    def _keys(self, node: ast.expr, path: Path, scope: Scope) -> Iterator[tuple[str, ast.expr]]:
        """The key of an item that is set, and its value; of a key from a loop over literals, where each is written."""
        if text_of(node):
            yield text_of(node), path[0].value  # type: ignore[attr-defined]
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        loop = found[1][0].path[0] if found is not None and len(found[1]) == 1 else None
        if isinstance(loop, ast.For | ast.AsyncFor) and not is_asked_for(path):
            listed = loop.iter.elts if isinstance(loop.iter, ast.List | ast.Tuple | ast.Set) else []
            yield from ((text_of(each), each) for each in listed if text_of(each))

    def _guarded(self, path: Path | None, node: ast.AST) -> bool:
        return version_guard(self.file, path, node)


def handed_keywords_of(file: PythonFile) -> HandedKeywords:
    """The keywords of a file; made once."""
    if HandedKeywords not in file.plans:
        file.plans[HandedKeywords] = HandedKeywords(file)
    found = file.plans[HandedKeywords]
    assert isinstance(found, HandedKeywords)
    return found
