"""Python inside documents and notebooks: the other rules look at it, and nothing around it changes."""

from __future__ import annotations

import json

import pytest
from v1_migrate.discover import Kind
from v1_migrate.findings import Severity

from tests.codemods.rules.harness import rewrite

OLD, NEW = "vllm.worker.worker_base", "vllm.v1.worker.worker_base"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param(Kind.MARKDOWN, "A\n\n```python\nfrom MODULE import WorkerWrapperBase\n```\nB\n", id="a fence"),
        pytest.param(
            Kind.MARKDOWN,
            "- A\n\n  ```py\n  import x\n\n  def f():\n      from MODULE import WorkerWrapperBase\n  ```\n",
            id="an indented fence",
        ),
        pytest.param(
            Kind.MARKDOWN, "```python\r\nfrom MODULE import WorkerWrapperBase\r\n```\r\n", id="other line ends"
        ),
        pytest.param(
            Kind.RST,
            "A\n\n.. code-block:: python\n\n   from MODULE import WorkerWrapperBase\n\nB\n",
            id="a directive of reST",
        ),
        pytest.param(
            Kind.NOTEBOOK,
            '{"cells": [{"cell_type": "code", "source": ["x = \\"é\\"\\n", "from MODULE import WorkerWrapperBase"]},\n'
            ' {"cell_type": "code", "source": "%time y\\n!ls\\nfrom MODULE import WorkerWrapperBase as W\\n"}]}',
            id="cells of a notebook",
        ),
        pytest.param(
            Kind.NOTEBOOK,
            '{"cells": [{"cell_type": "code",'
            ' "source": "x = !ls\\na, b = %time f()\\nfrom MODULE import WorkerWrapperBase\\n"}]}',
            id="a cell that assigns what a magic gives",
        ),
    ],
)
def test_an_import_moves(kind: Kind, text: str) -> None:
    outcome = rewrite(text.replace("MODULE", OLD), kind=kind)
    assert outcome.text == text.replace("MODULE", NEW)
    assert outcome.rules == {"V1M001"}
    assert not outcome.open


def test_a_name_that_another_cell_uses_counts_as_used() -> None:
    cells = [["from vllm.worker.worker import Worker\n"], ["class W(Worker):\n", "    pass\n"]]
    text = json.dumps({"cells": [{"cell_type": "code", "source": source} for source in cells], "nbformat": 4}, indent=1)
    outcome = rewrite(text, kind=Kind.NOTEBOOK)
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "class W" in line)
    assert line in {finding.line for finding in outcome.findings}


def test_a_cell_that_cannot_be_read_is_named() -> None:
    cells = [["from vllm import LLM\n", "print 'x'\n"], ["x = 1"]]
    text = json.dumps({"cells": [{"cell_type": "code", "source": source} for source in cells], "nbformat": 4})
    outcome = rewrite(text, kind=Kind.NOTEBOOK)
    assert [f.severity for f in outcome.said("V1M405")] == [Severity.WARNING]


def test_what_is_left_in_a_document_is_information() -> None:
    outcome = rewrite("```python\nfrom vllm.worker.worker import Worker\nWorker(1)\n```\n", kind=Kind.MARKDOWN)
    assert {f.severity for f in outcome.findings} == {Severity.INFO}
    assert outcome.findings


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```python\nfrom vllm import (\n```\n", id="half a statement"),
        pytest.param("```python\n$ pip install vllm\n```\n", id="no Python at all"),
        pytest.param("```python\nimport vllm\n", id="a fence that is never closed"),
        pytest.param("", id="an empty document"),
    ],
)
def test_fences_that_are_no_programs_are_left_alone(text: str) -> None:
    assert rewrite(text, kind=Kind.MARKDOWN).text == text


MARKERS = [
    pytest.param(Kind.SHELL, 'pytest -v tests -m "v0 and cpu"  # vllm\n', Severity.WARNING, id="an expression"),
    pytest.param(Kind.SHELL, "pytest vllm \\\n  -m 'not skip_v1'\n", Severity.WARNING, id="on a continued line"),
    pytest.param(Kind.SHELL, "pytest vllm -m cpu_model\n", Severity.INFO, id="a marker of the CPU's models"),
    pytest.param(
        Kind.YAML, "# vllm\nmatrix:\n  include:\n    - markers: v1 and not cb\n", Severity.WARNING, id="a matrix"
    ),
    pytest.param(
        Kind.TOML,
        '[tool.pytest.ini_options]\nmarkers = [\n  "v0: for vllm V0",\n]\n',
        Severity.WARNING,
        id="a definition",
    ),
]


@pytest.mark.parametrize(("kind", "text", "severity"), MARKERS)
def test_markers_of_an_engine_are_reported(kind: Kind, text: str, severity: Severity) -> None:
    outcome = rewrite(text, kind=kind)
    assert outcome.text == text
    assert [f.severity for f in outcome.said("V1M404")] == [severity]


@pytest.mark.parametrize("text", ["pytest vllm -m 'slow and gpu'\n", "pytest vllm/v1 -k v1\n", "python -m vllm.v1\n"])
def test_other_expressions_are_not(text: str) -> None:
    assert not rewrite(text, kind=Kind.SHELL).said("V1M404")
