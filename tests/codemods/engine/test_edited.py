"""Where a finding's edits stand in the result: every line that changed is accounted for by one of them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from v1_migrate.discover import Kind
from v1_migrate.engine.analyse import Analyser
from v1_migrate.engine.context import Settings
from v1_migrate.engine.places import fixed, inverse, moved
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Edit, Finding, Severity
from v1_migrate.source import Source

CASES = [
    pytest.param(
        """\
        import os
        import vllm.envs as envs

        x = os.sep
        if envs.VLLM_USE_V1:
            y = 1
        """,
        {"V1M201": [(2, 2), (4, 4)]},
        id="an import that only the folded branch needed, and the branch that moved up a line",
    ),
    pytest.param(
        """\
        import vllm.envs as envs
        from vllm.utils import cdiv

        if envs.VLLM_USE_V1:
            y = cdiv(3, 2)
        """,
        {"V1M201": [(1, 1), (3, 3)], "V1M001": [(1, 1)]},
        id="places of an earlier phase follow the edits of a later one",
    ),
    pytest.param("from vllm.core.scheduler import Scheduler\n", {"V1M003": []}, id="nothing is edited"),
]


def test_an_insertion_stands_where_it_was_written() -> None:
    before = Source("a.py", b"", "f(a)\n")
    edits = [Edit(3, 3, "", ",\n  b")]
    finding = fixed(Finding("a.py", 1, 1, 1, 5, "V1M101", "m", Severity.ERROR, edits=tuple(edits)), before)
    assert finding.fixed and finding.edited == ((1, 4, 1, 4),)
    (after,) = moved([finding], edits, before, "f(a,\n  b)\n")
    assert after.edited == ((1, 4, 2, 4),)
    (back,) = moved([after], inverse(edits), Source("a.py", b"", "f(a,\n  b)\n"), before.text)
    assert back.edited == finding.edited


@pytest.mark.parametrize(("before", "expected"), CASES)
def test_places(tmp_path: Path, before: str, expected: dict[str, list[tuple[int, int]]]) -> None:
    analyser = Analyser(Tree.of(tmp_path, []), Settings("0.32.0"))
    result = analyser.source(Source.from_bytes(textwrap.dedent(before).encode(), "a.py"), Kind.PYTHON)
    found: dict[str, set[tuple[int, int]]] = {}
    for finding in result.findings:
        found.setdefault(finding.rule, set()).update((line, end) for line, _, end, _ in finding.edited)
    assert {rule: sorted(places) for rule, places in found.items()} == expected
