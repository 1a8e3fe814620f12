"""Chains of attributes on an object whose class the file tells, and `getattr`, which spells their last attribute."""

from __future__ import annotations

import ast

from .callshape import own_name
from .context import PythonFile
from .instance import Instance
from .instances import Instances
from .scopes import Use, ancestors

Named = ast.Attribute | ast.Constant  # what names an attribute: `x.name`, the literal of `getattr(x, "name")`


def owner_of(use: Use, instances: Instances) -> tuple[Instance | None, tuple[str, ...]]:
    """The typed object that a chain starts from, and the attributes behind it."""
    if use.name == "self":
        return instances.of_self(use.attributes[0], use.scope), use.attributes[1:]
    if not use.name:
        root = chain_nodes(use)[0].value if use.attributes else use.node
        return instances.known(root, use.scope), use.attributes
    return instances.of_name(use.name, use.scope), use.attributes


def asked_for_its_class(use: Use) -> bool:
    """The chain stands behind an `isinstance` of what it begins with."""
    root = ast.unparse(chain_nodes(use)[0].value)
    for parent, _ in ancestors(use.path):
        tests = parent.values if isinstance(parent, ast.BoolOp) else [getattr(parent, "test", None)]
        for node in (inner for test in tests if test is not None for inner in ast.walk(test)):
            asked = node.args[:1] if isinstance(node, ast.Call) and own_name(node.func) == "isinstance" else []
            if any(ast.unparse(each) in (root, ast.unparse(use.node)) for each in asked):
                return True
    return False


def chain_nodes(use: Use) -> list[ast.Attribute]:
    """The attribute nodes of a chain, first attribute first."""
    nodes: list[ast.Attribute] = []
    node: ast.expr = use.node
    while isinstance(node, ast.Attribute):
        nodes.append(node)
        node = node.value
    return nodes[::-1]


def attribute_of(node: Named) -> str:
    """The name of the attribute."""
    return node.attr if isinstance(node, ast.Attribute) else str(node.value)


def name_span(file: PythonFile, node: Named) -> tuple[int, int]:
    """Where the attribute's own name stands."""
    start, end = file.span(node)
    if isinstance(node, ast.Constant):
        name = str(node.value)
        inside = file.source.text.find(name, start, end)
        return (inside, inside + len(name)) if inside >= 0 else (start, end)
    return end - len(node.attr), end


def read_by_getattr(call: ast.Call) -> ast.Constant | None:
    """The literal of `getattr(x, "name")`, which fails as `x.name` does."""
    if own_name(call.func) != "getattr" or len(call.args) != 2:
        return None
    literal = call.args[1]
    return literal if isinstance(literal, ast.Constant) and isinstance(literal.value, str) else None
