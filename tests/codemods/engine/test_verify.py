"""The last check before a file is written: does the result still bind what the file bound?"""

from __future__ import annotations

import ast

import pytest
from v1_migrate.engine.analyse import _touched
from v1_migrate.engine.verify import lost_names
from v1_migrate.findings import Edit
from v1_migrate.source import Source

CASES = [
    pytest.param("from a import X\ny = 1\n", "from a import X", "from b import X", set(), id="the same name"),
    pytest.param("from a import X\ny = 1\n", "from a import X", "from b import Z", {"X"}, id="another name"),
    pytest.param("from a import X, Y\n", ", Y", "", {"Y"}, id="one of two"),
    pytest.param("import a.b as c\nz = 1\n", "z = 1", "w = 1", {"z"}, id="an assignment"),
    pytest.param("def f():\n    from a import X\n    return X\n", "import X", "import Y", {"X"}, id="in a function"),
    pytest.param(
        "if a:\n    from b import X\nelse:\n    from c import X\n", "from c import X", "pass", {"X"}, id="in one arm"
    ),
    pytest.param(
        "class A:\n    x = 1\n    y = 2\n\n    def f(self): ...\n",
        "    def f(self): ...\n",
        "",
        {"f"},
        id="on the last line",
    ),
    pytest.param("import a\nimport b\n", "import a\n", "", {"a"}, id="a statement that went"),
]


@pytest.mark.parametrize(("before", "old", "new", "expected"), CASES)
def test_lost_names(before: str, old: str, new: str, expected: set[str]) -> None:
    source = Source("a.py", b"", before)
    start = before.index(old)
    edits = [Edit(start, start + len(old), old, new)]
    after = source.apply(edits)
    assert lost_names(ast.parse(before), ast.parse(after)) == expected
    assert lost_names(ast.parse(before), ast.parse(after), _touched(source, edits)) == expected


def test_what_no_edit_reached_is_not_looked_at() -> None:
    before, after = ast.parse("x = 1\ny = 2\n"), ast.parse("z = 1\ny = 2\n")
    assert lost_names(before, after, lambda statement: statement.lineno == 2) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("three", [], id="an edit on no statement"),
        pytest.param("two", [2], id="inside one line"),
        pytest.param("a = 'one'\nb", [1, 2], id="over two statements"),
        pytest.param("4", [3], id="the last line of a longer one"),
    ],
)
def test_touched(text: str, expected: list[int]) -> None:
    before = "a = 'one'\nb = 'two'\nc = (\n    4)\n\n# three\n"
    start = before.index(text)
    touched = _touched(Source("a.py", b"", before), [Edit(start, start + len(text), text, "x")])
    assert [statement.lineno for statement in ast.parse(before).body if touched(statement)] == expected
