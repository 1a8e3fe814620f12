"""V1M407: environment variables that the target does not read, set by Python code."""

from __future__ import annotations

import pytest

from .harness import rewrite

OLD = "VLLM_USE_TRITON_FLASH_ATTN"

SAID = [
    pytest.param(f'import os\nos.environ["{OLD}"] = "0"\n', id="an entry of the environment"),
    pytest.param(f'import os\nos.environ.setdefault("{OLD}", "0")\n', id="setdefault"),
    pytest.param(f'import os\nos.putenv("{OLD}", "0")\n', id="putenv"),
    pytest.param(f'def test_a(monkeypatch):\n    monkeypatch.setenv("{OLD}", "0")\n', id="setenv"),
    pytest.param(f'run(c, env={{**base, "{OLD}": "0"}})\n', id="an environment for a child"),
    pytest.param(f'ray.init(runtime_env={{"env_vars": {{"{OLD}": "0"}}}})\n', id="an environment of ray's"),
]


@pytest.mark.parametrize("text", SAID)
def test_said(text: str) -> None:
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert [finding.line for finding in outcome.said("V1M407")] == [text[: text.index(OLD)].count("\n") + 1]


SILENT = [
    pytest.param(f'import os\nx = os.getenv("{OLD}")\n', "0.32.0", id="a read"),
    pytest.param(f'import os\nx = os.environ["{OLD}"]\n', "0.32.0", id="a read of an entry"),
    pytest.param(f'import os\nos.environ["{OLD}"] = "0"\n', "0.10.0", id="a target that reads it"),
    pytest.param('import os\nos.environ["VLLM_CPU_KVCACHE_SPACE"] = "4"\n', "0.32.0", id="a variable that is valid"),
    pytest.param('import os\nos.environ["MY_VARIABLE"] = "4"\n', "0.32.0", id="a variable of one's own"),
    pytest.param(f'help("{OLD}")\n', "0.32.0", id="a word for people"),
]


@pytest.mark.parametrize("text, target", SILENT)
def test_silent(text: str, target: str) -> None:
    assert not rewrite(text, target).said("V1M407")


def test_the_switch_is_left_to_its_own_rules() -> None:
    outcome = rewrite('import os\nos.environ["VLLM_USE_V1"] = "0"\n', "0.32.0")
    assert outcome.said("V1M203")
    assert not outcome.said("V1M407")
