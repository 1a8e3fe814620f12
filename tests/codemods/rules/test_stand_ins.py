"""Names of vLLM beside which something stands in, for when vLLM is not there."""

from __future__ import annotations

import pytest
from harness import rewrite

CHECKING = "from typing import TYPE_CHECKING, Any\nif TYPE_CHECKING:\n    from vllm.config import VllmConfig\nelse:\n    VllmConfig = {}\n"
TRIED = "try:\n    from vllm.config import VllmConfig\nexcept ImportError:\n    {}\n"
USE = "def f(v: VllmConfig):\n    return v.prompt_adapter_config\n"
STOOD_IN = [
    pytest.param(CHECKING.format("None") + USE, id="None for the run"),
    pytest.param(CHECKING.format("Any") + USE, id="Any for the run"),
    pytest.param(CHECKING.format("None") + USE.replace("VllmConfig", "'VllmConfig'"), id="quoted"),
    pytest.param(TRIED.format("VllmConfig = None") + USE, id="None where the import fails"),
    pytest.param(TRIED.format("VllmConfig = object") + USE, id="object where it fails"),
    pytest.param(TRIED.format("class VllmConfig:\n        pass") + USE, id="a class where it fails"),
    pytest.param(
        "VllmConfig = None\nif there():\n    from vllm.config import VllmConfig\n" + USE, id="None before the import"
    ),
    pytest.param(
        TRIED.format("VllmConfig = None")
        + "class C(VllmConfig):\n    def f(self):\n        return super().prompt_adapter_config\n",
        id="a base",
    ),
]
ANOTHER = [
    pytest.param(TRIED.format("from other import VllmConfig") + USE, id="another import"),
    pytest.param(TRIED.format("VllmConfig = make()") + USE, id="something made"),
    pytest.param("from vllm.config import VllmConfig\nclass VllmConfig:\n    pass\n" + USE, id="bound again"),
    pytest.param("from vllm.config import VllmConfig\nVllmConfig = object\n" + USE, id="bound again to object"),
]


@pytest.mark.parametrize("text", STOOD_IN)
def test_what_stands_in_says_nothing_of_the_use(text: str) -> None:
    assert len(rewrite(text, "0.32.0").said("V1M102")) == 1


@pytest.mark.parametrize("text", ANOTHER)
def test_another_thing_of_the_name_is_another_thing(text: str) -> None:
    assert rewrite(text, "0.32.0").said("V1M102") == []


AS_WITHOUT = [
    pytest.param("vllm", "SamplingParams", "p = SamplingParams()\np.best_of\n", id="an object"),
    pytest.param(
        "vllm.outputs", "CompletionOutput", "CompletionOutput(0, 'a', [1], 0.0, None, prompt=1)\n", id="a call"
    ),
    pytest.param(
        "vllm.v1.worker.worker_base",
        "WorkerBase",
        "class W(WorkerBase):\n    def f(self):\n        return self.model_config.task\n",
        id="a base",
    ),
]


@pytest.mark.parametrize(("module", "name", "text"), AS_WITHOUT)
def test_the_use_is_looked_at_as_without_what_stands_in(module: str, name: str, text: str) -> None:
    plain = rewrite(f"from {module} import {name}\n{text}", "0.32.0")
    tried = rewrite(f"try:\n    from {module} import {name}\nexcept ImportError:\n    {name} = None\n{text}", "0.32.0")
    assert plain.findings
    assert [(f.rule, f.message) for f in tried.findings] == [(f.rule, f.message) for f in plain.findings]
