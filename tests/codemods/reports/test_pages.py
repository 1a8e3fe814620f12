"""The pages of the rules."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from v1_migrate.findings import Safety, Severity
from v1_migrate.reports import pages


def rule(number: int, doc: str = "What it does.") -> Any:
    return SimpleNamespace(
        id=f"V1M00{number}",
        slug=f"rule-{number}",
        summary=f"summary {number}",
        severity=Severity.ERROR,
        safety=Safety.BRIDGE,
        doc=doc,
    )


def test_a_page_per_rule_and_a_list(tmp_path: Path) -> None:
    assert pages.write(tmp_path, [rule(2), rule(1)]) == ["V1M001.md", "V1M002.md", "index.md"]
    assert "# V1M001: summary 1\n" in (tmp_path / "V1M001.md").read_text()
    assert "safe, the result runs on V0 and on V1" in (tmp_path / "V1M001.md").read_text()
    assert "# v1: ignore[V1M001] reason" in (tmp_path / "V1M001.md").read_text()
    index = (tmp_path / "index.md").read_text()
    assert index.index("[V1M001](V1M001.md)") < index.index("[V1M002](V1M002.md)")
    assert pages.stale(tmp_path, [rule(1), rule(2)]) == []


def test_stale_missing_and_left_over_pages_are_named(tmp_path: Path) -> None:
    pages.write(tmp_path, [rule(1), rule(2), rule(3)])
    (tmp_path / "V1M003.md").unlink()
    now = [rule(1), rule(2, "Another text."), rule(3)]
    assert pages.stale(tmp_path, now) == ["V1M002.md", "V1M003.md"]
    assert pages.stale(tmp_path, now[1:]) == ["V1M001.md", "V1M002.md", "V1M003.md", "index.md"]
    assert pages.write(tmp_path, now[1:]) == ["V1M001.md", "V1M002.md", "V1M003.md", "index.md"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["V1M002.md", "V1M003.md", "index.md"]
