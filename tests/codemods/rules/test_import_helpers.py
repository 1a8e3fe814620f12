"""Modules that a helper imports: names on them are followed, the call itself is left alone."""

from __future__ import annotations

import pytest
from harness import rewrite

USE = "\nx = vllm.worker.worker_base.WorkerWrapperBase\n"
FOLLOWED = [
    pytest.param('vllm = importlib.import_module("vllm")', id="import_module"),
    pytest.param('vllm = try_import("vllm")', id="a helper"),
    pytest.param('vllm = utils.optional_import("vllm", error=False)', id="a helper with options"),
    pytest.param('vllm = pytest.importorskip("vllm")', id="importorskip"),
    pytest.param('vllm = __import__("vllm.outputs")', id="the root of what __import__ is given"),
    pytest.param('vllm = LazyLoader("vllm", globals(), "vllm")', id="a lazy loader"),
]
NOT = [
    pytest.param('vllm = is_importable("vllm")', id="a question"),
    pytest.param('vllm = try_import("vllm", "LLM")', id="something of the module"),
    pytest.param('vllm = load("vllm")', id="another function"),
    pytest.param('vllm = try_import("other")', id="another module"),
]


@pytest.mark.parametrize("text", FOLLOWED)
def test_followed(text: str) -> None:
    outcome = rewrite(text + USE, "0.32.0")
    assert outcome.text == text + USE
    assert 2 in outcome.lines("V1M001")


@pytest.mark.parametrize("text", NOT)
def test_not_followed(text: str) -> None:
    assert rewrite(text + USE, "0.32.0").said("V1M001") == []


def test_what_else_is_lost_on_such_a_module() -> None:
    text = 'vllm = try_import("vllm")\nif vllm.envs.VLLM_USE_V1:\n    a()\nvllm.EngineArgs("m", swap_space=4)\n'
    rules = {finding.rule for finding in rewrite(text, "0.32.0").findings}
    assert {"V1M201", "V1M112"} <= rules
