"""Taking names out of an import statement: every layout keeps its comments, its commas and its brackets."""

from __future__ import annotations

import pytest
from v1_migrate.engine.names_list import without

CASES = [
    pytest.param("from m import A, B, C", {1}, "from m import A, C", id="one from the middle"),
    pytest.param("from m import A, B", {1}, "from m import A", id="the last takes the comma along"),
    pytest.param("from m import A, B", {0}, "from m import B", id="the first"),
    pytest.param("from m import (A, B, C)", {2}, "from m import (A, B)", id="brackets stay round two"),
    pytest.param("from m import (A, B,)", {1}, "from m import A", id="brackets go from round one"),
    pytest.param(
        "from m import (\n    A,  # a\n    B,  # b\n    C,\n)",
        {1},
        "from m import (\n    A,  # a\n    C,\n)",
        id="a line of its own",
    ),
    pytest.param(
        "from m import (\n    A,  # a\n    B,  # b\n)",
        {1},
        "from m import (\n    A,  # a\n)",
        id="the last line of its own",
    ),
    pytest.param(
        "from m import (\n    A,  # a\n    B  # b\n)",
        {1},
        "from m import (\n    A  # a\n)",
        id="a last name without a comma",
    ),
    pytest.param(
        "from m import (\n    A,\n    # about C\n    B,\n    C,\n)",
        {1},
        "from m import (\n    A,\n    # about C\n    C,\n)",
        id="a comment on its own line stays",
    ),
    pytest.param(
        "from m import (A, B,\n               C, D)",
        {1},
        "from m import (A, C, D)",
        id="a wrapped list loses its line end with its name",
    ),
    pytest.param("from m import A, \\\n    B", {1}, "from m import A", id="a backslash goes with the last name"),
    pytest.param("from m import A as X, B as Y", {0}, "from m import B as Y", id="aliases"),
]


@pytest.mark.parametrize(("statement", "leaving", "expected"), CASES)
def test_without(statement: str, leaving: set[int], expected: str) -> None:
    assert without(statement, leaving, {}) == expected


def test_a_renamed_name_is_written_anew() -> None:
    assert without("from m import A, B, C", {2}, {0: "New as A"}) == "from m import New as A, B"


def test_the_comment_of_the_only_name_ends_the_line() -> None:
    statement = "from m import (A,  # a\n               B)"
    assert without(statement, {1}, {}, alone=True) == "from m import A  # a"
    assert without(statement, {1}, {}) == "from m import (A  # a\n               )"


def test_a_comment_about_all_names_keeps_the_brackets() -> None:
    statement = "from m import (  # all\n    A,  # a\n    B,\n)"
    assert without(statement, {1}, {}, alone=True) == "from m import (  # all\n    A,  # a\n)"


def test_nothing_left_is_no_statement() -> None:
    assert without("from m import A", {0}, {}) is None


def test_something_else_is_refused() -> None:
    assert without("import m", {0}, {}) is None
