"""Which release of the index an installed vLLM is held to be."""

from __future__ import annotations

import pytest
from v1_compat.installed import nearest_release
from v1_migrate.names.index import Index


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("0.11.0", "0.11.0", id="a release"),
        pytest.param("0.11.1.dev3+cpu", "0.11.1", id="a development version of one that is known"),
        pytest.param("0.10.99", "0.10.2.post2", id="between two releases: the older"),
        pytest.param("0.1.0", "0.8.5", id="older than the index"),
        pytest.param("99.0", "NEWEST", id="newer than the index"),
        pytest.param("0.0.0+unknown", "NEWEST", id="a build that does not say"),
        pytest.param("", "NEWEST", id="no version"),
    ],
)
def test_nearest_release(version: str, expected: str) -> None:
    newest = Index.load(user=False).releases[-1]
    assert nearest_release(version) == (newest if expected == "NEWEST" else expected)
