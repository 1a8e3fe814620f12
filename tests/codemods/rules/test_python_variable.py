"""V1M407: environment variables that the target does not read, set by Python code."""

from __future__ import annotations

import pytest
from v1_migrate.findings import Severity

from .harness import rewrite

OLD = "VLLM_USE_TRITON_FLASH_ATTN"

SAID = [
    pytest.param(f'import os\nos.environ["{OLD}"] = "0"\n', id="an entry of the environment"),
    pytest.param(f'import os\nos.environ.setdefault("{OLD}", "0")\n', id="setdefault"),
    pytest.param(f'import os\nos.putenv("{OLD}", "0")\n', id="putenv"),
    pytest.param(f'def test_a(monkeypatch):\n    monkeypatch.setenv("{OLD}", "0")\n', id="setenv"),
    pytest.param(f'import os\nos.environ.update({OLD}="0")\n', id="a keyword of update"),
    pytest.param(f'import os\nrun(c, env=dict(os.environ, {OLD}="0"))\n', id="a keyword of dict"),
    pytest.param(
        f'from unittest.mock import patch\nwith patch.dict("os.environ", {OLD}="0"):\n    pass\n', id="patch.dict"
    ),
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
    pytest.param(f'import os\nK = "{OLD}"\nx = os.environ[K]\n', "0.32.0", id="a read by a name"),
    pytest.param(f'run({OLD}="0")\n', "0.32.0", id="a keyword of another function"),
    pytest.param(
        f'from vllm import envs\nenvs.environment_variables["{OLD}"] = f\n',
        "0.32.0",
        id="an entry of vLLM's that is set",
    ),
    pytest.param(
        'from vllm import envs\nenvs.environment_variables["VLLM_CPU_KVCACHE_SPACE"]\n',
        "0.32.0",
        id="one that is there",
    ),
    pytest.param(f'help("{OLD}")\n', "0.32.0", id="a word for people"),
]


@pytest.mark.parametrize("text, target", SILENT)
def test_silent(text: str, target: str) -> None:
    assert not rewrite(text, target).said("V1M407")


@pytest.mark.parametrize("set_here", ["os.environ[K] = '0'", "os.environ.setdefault(K, '0')"])
def test_a_name_that_holds_the_variables_sets_it(set_here: str) -> None:
    (found,) = rewrite(f'import os\nK = "{OLD}"\n\ndef f():\n    {set_here}\n', "0.32.0").said("V1M407")
    assert found.line == 5
    assert not rewrite(f'import os\nK = "{OLD}"\nK = other()\n{set_here}\n', "0.32.0").said("V1M407")


@pytest.mark.parametrize("name", [OLD, "VLLM_USE_V1"])
def test_a_key_that_vllms_table_lost_is_an_error(name: str) -> None:
    (found,) = rewrite(f'from vllm import envs\nenvs.environment_variables["{name}"]\n', "0.32.0").said("V1M407")
    assert found.severity is Severity.ERROR


def test_the_switch_is_left_to_its_own_rules() -> None:
    outcome = rewrite('import os\nos.environ["VLLM_USE_V1"] = "0"\n', "0.32.0")
    assert outcome.said("V1M203")
    assert not outcome.said("V1M407")
