"""The lists of arguments and parameters as text: whatever is asked for, the tree of the result is the one asked for."""

from __future__ import annotations

import ast

import pytest
from harness import dedent
from hypothesis import given, settings
from hypothesis import strategies as st
from v1_migrate.engine.arguments import ItemList, call_items, definition_items, position_of
from v1_migrate.source import Source

VALUES = [
    "1",
    "x",
    "(1)",
    "f(a, b=2)",
    "[i for i in y]",
    "'a, b'",
    '"""c, (d"""',
    "lambda u, v=1: u",
    "{1: (2, 3)}",
    "a if b else c",
]
SEPARATORS = [", ", ",", ",\n    ", ",  # why, not (\n    ", ", \\\n  ", ",\r\n\t"]
ENDS = ["", ",", "\n", ",\n", ",  # last\n", "  # end\n", " "]


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A call with positional arguments, then keywords, in every layout."""
    positional = draw(st.lists(st.sampled_from(VALUES), max_size=4))
    named = [f"k{i}={value}" for i, value in enumerate(draw(st.lists(st.sampled_from(VALUES), max_size=4)))]
    items = [*positional, *named]
    text = draw(st.sampled_from(["", "\n    ", "  # begin\n    "]))
    for i, item in enumerate(items):
        text += item + (draw(st.sampled_from(SEPARATORS)) if i + 1 < len(items) else "")
    return f"f({text}{draw(st.sampled_from(ENDS)) if items else ''})\nrest = 1  # stays\n"


def opened(text: str) -> tuple[Source, ast.Call, ItemList]:
    source = Source.from_bytes(text.encode(), "m.py")
    statement = ast.parse(source.text).body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    items = call_items(source, statement.value)
    assert items is not None
    return source, statement.value, items


def shown(call: ast.AST) -> str:
    return ast.unparse(call)


@given(calls(), st.data())
@settings(max_examples=300, deadline=None)
def test_any_mixture_of_deeds_gives_the_tree_asked_for(text: str, data: st.DataObject) -> None:
    source, call, items = opened(text)
    every = [*call.args, *(keyword.value for keyword in call.keywords)]
    dropped = data.draw(st.sets(st.sampled_from(range(len(every))))) if every else set()
    named = data.draw(st.integers(0, len(call.args)))
    added = data.draw(st.integers(0, 2))
    expected_args, expected_keywords = [], []
    for i, value in enumerate(call.args):
        if i in dropped:
            items.drop(position_of(items, value))
        elif i >= named:
            items.name(position_of(items, value), f"n{i}")
            expected_keywords.append(ast.keyword(f"n{i}", value))
        else:
            expected_args.append(value)
    for i, keyword in enumerate(call.keywords, len(call.args)):
        if i in dropped:
            items.drop(position_of(items, keyword.value))
        else:
            expected_keywords.append(keyword)
    for i in range(added):
        items.add(f"z{i}=0")
        expected_keywords.append(ast.keyword(f"z{i}", ast.Constant(0)))
    after = source.apply(items.edits())
    tree = ast.parse(after)
    assert shown(tree.body[0]) == shown(ast.Call(call.func, expected_args, expected_keywords))
    assert after.endswith("rest = 1  # stays\n")


@given(calls())
@settings(max_examples=100, deadline=None)
def test_nothing_asked_for_changes_nothing(text: str) -> None:
    source, _, items = opened(text)
    assert items.edits() == ()
    assert source.apply(items.edits()) == source.text


LAYOUT = [
    pytest.param("f(a, b, c)", [1], [], "f(a, c)", id="in the middle"),
    pytest.param("f(a, b, c)", [2], [], "f(a, b)", id="at the end"),
    pytest.param("f(a)", [0], [], "f()", id="the only one"),
    pytest.param("f(a,)", [0], [], "f()", id="the only one, with a comma"),
    pytest.param("f(a, b)", [0, 1], ["z=0"], "f(z=0)", id="all of them, with a new one"),
    pytest.param(
        "f(\n    a,  # one\n    b,  # two\n)",
        [1],
        [],
        "f(\n    a,  # one\n)",
        id="one a line, the last with its comment",
    ),
    pytest.param(
        "f(\n    a,  # one\n    b,  # two\n)",
        [0],
        [],
        "f(\n    b,  # two\n)",
        id="one a line, the first with its comment",
    ),
    pytest.param(
        "f(\n    a,  # one\n)", [], ["z=0"], "f(\n    a,  # one\n    z=0,\n)", id="a new line behind the comment"
    ),
    pytest.param("f(\n    a  # one\n)", [], ["z=0"], "f(\n    a,\n    z=0  # one\n)", id="without a comma at the end"),
    pytest.param("f(a,\n  b, c)", [1], [], "f(a,\n  c)", id="the line goes on"),
]


@pytest.mark.parametrize(("text", "dropped", "added", "after"), LAYOUT)
def test_the_layout_is_kept(text: str, dropped: list[int], added: list[str], after: str) -> None:
    source, _, items = opened(text)
    for position in dropped:
        items.drop(position)
    for item in added:
        items.add(item)
    assert source.apply(items.edits()) == after


DEFINITIONS = [
    pytest.param("def f(self, a, b=1): ...", 3, id="plain"),
    pytest.param(
        "def f(\n    self,  # me\n    a: int = (1, 2)[0],\n    *,\n    b,\n    **rest,\n) -> int: ...",
        5,
        id="with a star",
    ),
    pytest.param("async def f(a, /, b): ...", 3, id="with a slash"),
    pytest.param("def f(): ...", 0, id="nothing"),
]


@pytest.mark.parametrize(("text", "count"), DEFINITIONS)
def test_definitions_are_taken_apart(text: str, count: int) -> None:
    source = Source.from_bytes(text.encode(), "m.py")
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    items = definition_items(source, node)
    assert items is not None
    assert len(items.items) == count


def test_a_call_behind_brackets_and_comments_is_found() -> None:
    text = dedent(
        """
        (f)  (
            a,
        )
        """
    )
    assert len(opened(text)[2].items) == 1
