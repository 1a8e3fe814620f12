"""What annotations say: the members of a union, and what containers hold."""

from __future__ import annotations

import ast

SEQUENCES = frozenset(
    "list List tuple Tuple set Set frozenset FrozenSet deque Deque Sequence MutableSequence Collection Iterable "
    "Iterator Generator AsyncIterable AsyncIterator AsyncGenerator".split()
)
MAPPINGS = frozenset("dict Dict Mapping MutableMapping defaultdict DefaultDict OrderedDict".split())
_UNIONS = frozenset({"Optional", "Union"})
_WRAPPERS = frozenset({"Annotated", "ClassVar", "Final", "InitVar", "NotRequired", "Required", "SkipValidation"})


def members_of(node: ast.expr) -> list[ast.expr]:
    """The members of `A | B`, `Union[A, B]`, `Optional[A]`; the annotation itself where it is no union."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*members_of(node.left), *members_of(node.right)]
    if isinstance(node, ast.Subscript):
        inner = parameters_of(node)
        name = last_name(node.value)
        if name in _UNIONS:
            return [member for each in inner for member in members_of(each)]
        if name in _WRAPPERS:
            return members_of(inner[0])
    return [node]


def held_by(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """What `list[A]`, `dict[str, A]` and their like hold, and whether by key; None for what is no such container."""
    if not isinstance(node, ast.Subscript):
        return None
    name, inner = last_name(node.value), parameters_of(node)
    if name in MAPPINGS and len(inner) == 2:
        return inner[1], True
    if name in SEQUENCES:
        different = name in ("tuple", "Tuple") and len(inner) > 1 and not _is_ellipsis(inner[1])
        return None if different else (inner[0], False)
    return None


def parameters_of(node: ast.Subscript) -> list[ast.expr]:
    """What stands between the brackets."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def unquoted(node: ast.expr) -> ast.expr | None:
    """An annotation that may be written as a string; None where that is no expression."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return node
    try:
        return ast.parse(node.value.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def is_none(node: ast.expr | None) -> bool:
    """`None`, as a value or in an annotation."""
    return isinstance(node, ast.Constant) and node.value is None


def last_name(node: ast.expr) -> str:
    """ "List" for `typing.List`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
