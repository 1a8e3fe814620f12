"""V1M410: code in docstrings. V1M405: examples with prompts, and fences that name no language."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.discover import Kind
from v1_migrate.findings import Severity

GONE = "from vllm.worker.worker_base import WorkerWrapperBase"
FOUND = [
    pytest.param(f'"""\n>>> {GONE}\n"""\n', [2], id="an example"),
    pytest.param(f'"""\n    >>> {GONE}\n    ... # more\n    None\n"""\n', [2], id="an example with more lines"),
    pytest.param(
        '"""\n>>> from vllm import EngineArgs\n>>> EngineArgs(\n...     swap_space=4,\n... )\n"""\n',
        [3],
        id="a call over lines",
    ),
    pytest.param(f'def f():\n    """\n    ```python\n    {GONE}\n    ```\n    """\n', [4], id="a fence"),
    pytest.param(f'"""Like so::\n\n    {GONE}\n"""\n', [3], id="a literal block"),
    pytest.param(f'"""Ärger: vllm.\n\n.. code-block:: python\n\n    {GONE}\n"""\n', [5], id="a directive"),
    pytest.param('"""Run\n\n::\n\n    vllm serve m --swap-space 4\n"""\n', [5], id="a command"),
    pytest.param('"""See :class:`vllm.worker.worker_base.WorkerWrapperBase`."""\n', [1], id="a name"),
    pytest.param(
        'class C:\n    x: int\n    """Send ``{"guided_json": 1}`` to vllm."""\n', [3], id="below an attribute"
    ),
]

LEFT = [
    pytest.param('"""About vllm."""\n', id="nothing that is gone"),
    pytest.param('"""\n>>> from vllm import LLM\n>>> LLM("m")\n"""\n', id="what the target has"),
    pytest.param(f'x = """\n>>> {GONE}\n"""\n', id="another string is none of this rule's"),
    pytest.param('"""\n>>> this is no vllm code\n"""\n', id="what does not parse"),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("text", "lines"), FOUND)
def test_found(text: str, lines: list[int], newline: str) -> None:
    text = text.replace("\n", newline)
    outcome = rewrite(text)
    assert outcome.text == text
    assert outcome.lines("V1M410") == lines
    assert {finding.severity for finding in outcome.said("V1M410")} == {Severity.INFO}


@pytest.mark.parametrize("text", LEFT)
def test_left_alone(text: str) -> None:
    assert rewrite(text).said("V1M410") == []


def test_the_place_is_that_of_the_name() -> None:
    text = f'"""Ä\n\n    >>> {GONE}\n"""\n'
    (found,) = rewrite(text).said("V1M410")
    line = text.splitlines()[found.line - 1]
    assert line[found.column - 1 : found.end_column - 1] == "WorkerWrapperBase"


DOCUMENTS = [
    pytest.param(f"# vllm\n\n```pycon\n>>> {GONE}\n```\n", False, id="a fence of examples"),
    pytest.param(f"# vllm\n\n>>> {GONE}\n", False, id="an example outside of fences"),
    pytest.param(f"# vllm\n\n```\n{GONE}\n```\n", True, id="a fence that names no language"),
]


@pytest.mark.parametrize(("text", "edited"), DOCUMENTS)
def test_documents(text: str, edited: bool) -> None:
    outcome = rewrite(text, kind=Kind.MARKDOWN, check=False, rel="README.md")
    assert (outcome.text != text) is edited
    assert [(f.line, f.fixed) for f in outcome.said("V1M001")] == [(4 if "```" in text else 3, edited)]


def test_a_fence_without_a_language_that_is_no_python_is_a_command() -> None:
    text = "# vllm\n\n```\nvllm serve m --swap-space 4\n```\n"
    outcome = rewrite(text, kind=Kind.MARKDOWN, check=False, rel="README.md")
    assert outcome.text == text.replace(" --swap-space 4", "")
