"""Imports of vLLM that stand in strings and scripts."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.discover import Kind

GONE = "from vllm.utils import FlexibleArgumentParser"
PYTHON = [
    pytest.param(f'exec("{GONE}")\n', [1], id="exec"),
    pytest.param(f'run(["python", "-c", "{GONE}; print(1)"])\n', [1], id="python -c"),
    pytest.param(f'SCRIPT = """\nimport os\n{GONE}, x as y\n"""\n', [3], id="a script"),
    pytest.param('exec("from vllm import LLM, SamplingParams")\n', [], id="what is there"),
    pytest.param('exec("from vllm.utils import nobody_ever_had_this")\n', [], id="what never was"),
    pytest.param(f'def f():\n    """{GONE}"""\n', [], id="a docstring"),
]
SHELL = [
    pytest.param(f"python -c '{GONE}; print(1)'\n", 1, id="python -c"),
    pytest.param(f"python - <<EOF\nfrom vllm import LLM\n{GONE} as P\nEOF\n", 1, id="a here-document"),
    pytest.param("python -c 'from vllm import LLM'\n", 0, id="what is there"),
]


@pytest.mark.parametrize(("text", "lines"), PYTHON)
def test_in_a_string(text: str, lines: list[int]) -> None:
    outcome = rewrite(text, "0.32.0")
    assert [found.line for found in outcome.findings if "FlexibleArgumentParser" in found.message] == lines
    assert lines or not outcome.findings


@pytest.mark.parametrize(("text", "count"), SHELL)
def test_in_a_script_that_is_not_python(text: str, count: int) -> None:
    assert len(rewrite(text, "0.32.0", kind=Kind.SHELL).said("V1M013")) == count


def test_a_module_that_went_is_said_once() -> None:
    text = "python -c 'from vllm.worker.worker import Worker'\n"
    assert len(rewrite(text, "0.32.0", kind=Kind.SHELL).said("V1M013")) == 1
