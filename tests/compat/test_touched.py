"""A program without anything legacy finds vLLM's classes and functions as they are without the shim."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .touched import differences

SCRIPT = Path(__file__).with_name("touched.py")


@pytest.fixture(scope="module")
def answers(
    child: Callable[..., subprocess.CompletedProcess[str]], small_vllm: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Without the shim, and with it."""
    folder = tmp_path_factory.mktemp("touched")
    return [
        json.loads(child([str(SCRIPT), *more], small_vllm, cwd=folder).stdout.splitlines()[-1])
        for more in ([], ["--shim"])
    ]


def test_nothing_differs_and_nothing_is_said(answers: list[dict[str, Any]]) -> None:
    before, after = answers
    assert len(before["found"]) > 30 and before["found"]["vllm.config.CacheConfig()"]["equal"][1] is True
    assert differences(before["found"], after["found"]) == {}
    assert after["said"] == []
