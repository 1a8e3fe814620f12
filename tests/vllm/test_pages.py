"""Huge pages under the cache: asked of torch in processes that are yet to start, and told of where asking counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from v1_cpu.vllm_plugin import pages

STATE = "import sys, pathlib; from v1_cpu.vllm_plugin import pages; print(pages.state(pathlib.Path(sys.argv[1])))"


def state(system: Path, wanted: str) -> str:
    """What a new process says."""
    done = subprocess.run(
        [sys.executable, "-c", STATE, system],
        env={**os.environ, pages.ENV: wanted, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("wanted", "told"),
    [("1", "huge pages under the cache"), ("0", f"small pages .*start Python with {pages.ENV}=1")],
)
def test_a_process_knows_whether_torch_asks(tmp_path: Path, wanted: str, told: str) -> None:
    system = tmp_path / "enabled"
    system.write_text("always [madvise] never\n")
    assert re.match(told, state(system, wanted))


@pytest.mark.parametrize("mode", ["[always] madvise never\n", "always madvise [never]\n", None])
def test_nothing_is_told_where_asking_changes_nothing(tmp_path: Path, mode: str | None) -> None:
    system = tmp_path / "enabled"
    if mode is not None:
        system.write_text(mode)
    assert pages.state(system) is None


@pytest.mark.parametrize(("before", "after"), [({}, "1"), ({pages.ENV: "0"}, "0"), ({pages.ENV: "1"}, "1")])
def test_asking_leaves_the_users_value(monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: str) -> None:
    monkeypatch.setattr(os, "environ", before)
    pages.ask()
    assert before == {pages.ENV: after}
