"""Tests of a plugin are collected by pytest before and after the rewrite, as a real run of pytest finds them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..collect_tree import Collected, collect, rewritten
from .harness import dedent

VLLM = {
    "old": {"__init__.py": "", "envs.py": "VLLM_USE_V1: bool = True\n", "utils.py": "def cdiv(a, b): ...\n"},
    "new": {"__init__.py": "", "envs.py": "", "utils/__init__.py": "", "utils/math_utils.py": "def cdiv(a, b): ...\n"},
}
CONFTEST = """
import pytest

@pytest.fixture(params=[True, False])
def run_with_both_engines(request, monkeypatch):
    use_v1 = request.param
    if use_v1:
        if request.node.get_closest_marker("skip_v1"):
            pytest.skip("not on V1")
        monkeypatch.setenv("VLLM_USE_V1", "1")
    else:
        monkeypatch.setenv("VLLM_USE_V1", "0")
    yield

@pytest.fixture
def port():
    return 1
"""
AXES = """
import os
import pytest
from vllm import envs
from vllm.utils import cdiv

@pytest.fixture(autouse=True)
def v1(monkeypatch):
    monkeypatch.setenv("VLLM_USE_V1", "1")
    yield

@pytest.mark.parametrize("model", ["a", pytest.param("b", marks=pytest.mark.skipif(not envs.VLLM_USE_V1, reason="V1"))])
@pytest.mark.parametrize("use_v1", [True])
def test_axis(monkeypatch, model: str, use_v1: bool, port):
    with monkeypatch.context() as m:
        m.setenv("VLLM_USE_V1", "1" if use_v1 else "0")
        assert cdiv(4, 2) == 2 and model

@pytest.mark.parametrize("vllm_use_v1, size", [("1", 8), ("1", 16)])
def test_of_two_names(vllm_use_v1, size, monkeypatch):
    monkeypatch.setenv("VLLM_USE_V1", vllm_use_v1)
    assert size

class TestOfAClass:
    @pytest.mark.parametrize("size", [1] if envs.VLLM_USE_V1 else [1, 2])
    def test_method(self, size):
        assert size

if envs.VLLM_USE_V1:
    def test_only_on_v1(): ...
else:
    def test_only_on_v0(): ...
"""
MARKS = """
import pytest
from vllm import envs

pytestmark = [pytest.mark.skipif(not envs.VLLM_USE_V1, reason="V1 only")]

@pytest.mark.usefixtures("run_with_both_engines")
@pytest.mark.cpu_model
@pytest.mark.skip_v1
def test_marked(): ...

def test_fixture(run_with_both_engines, port): ...
"""
AFTER = [
    "tests/test_axes.py::TestOfAClass::test_method[1]",
    "tests/test_axes.py::test_axis[a]",
    "tests/test_axes.py::test_axis[b]",
    "tests/test_axes.py::test_of_two_names[16]",
    "tests/test_axes.py::test_of_two_names[8]",
    "tests/test_axes.py::test_only_on_v1",
    "tests/test_marks.py::test_fixture",
    "tests/test_marks.py::test_marked",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Collected]:
    folder = tmp_path_factory.mktemp("collects")
    for release, files in VLLM.items():
        for name, text in files.items():
            _write(folder / release / "vllm" / name, text)
    tree, copy = folder / "plugin", folder / "copy"
    for name, text in {"conftest.py": CONFTEST, "test_axes.py": AXES, "test_marks.py": MARKS}.items():
        _write(tree / "tests" / name, dedent(text))
    rewritten(tree, copy, "0.32.0", "vllm")
    shapes = {release: {"vllm": [folder / release]} for release in VLLM}
    return {
        "before": collect(tree, "tests", shapes["old"], sys.executable),
        "not rewritten": collect(tree, "tests", shapes["new"], sys.executable),
        "after": collect(copy, "tests", shapes["new"], sys.executable),
    }


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_was_collected_before_is_collected_after(runs: dict[str, Collected]) -> None:
    assert not runs["before"].failed
    assert not runs["after"].failed
    assert runs["after"].files == runs["before"].files


def test_each_axis_of_engines_is_gone_and_nothing_else(runs: dict[str, Collected]) -> None:
    assert sorted(runs["after"].items) == AFTER


def test_the_check_can_fail(runs: dict[str, Collected]) -> None:
    assert runs["not rewritten"].failed.keys() == {"tests/test_axes.py", "tests/test_marks.py"}
