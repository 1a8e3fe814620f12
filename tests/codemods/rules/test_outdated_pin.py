"""V1M012: pins that keep the target out, each described once in a file."""

from __future__ import annotations

import pytest
from v1_migrate.discover import Kind

from tests.codemods.rules.harness import rewrite

PYTHON = 'a = "vllm==0.9.2"\nb = ["vllm==0.9.2", "vllm<0.10"]\nc = "vllm==0.9.2"\n'
PLAIN = "vllm==0.9.2\nvllm==0.9.2 ; x\nvllm<0.10\nvllm==0.9.2\n"


@pytest.mark.parametrize(
    ("text", "kind", "places"),
    [
        pytest.param(PYTHON, Kind.PYTHON, [(1, True), (2, False), (2, True), (3, False)], id="texts of Python"),
        pytest.param(PLAIN, Kind.REQUIREMENTS, [(1, True), (2, False), (3, True), (4, False)], id="requirements"),
        pytest.param("vllm>=0.9.2\n", Kind.REQUIREMENTS, [], id="what lets the target in"),
    ],
)
def test_each_pin_is_introduced_once(text: str, kind: Kind, places: list[tuple[int, bool]]) -> None:
    assert [(found.line, found.primary) for found in rewrite(text, kind=kind).said("V1M012")] == places
