"""V1M012: pins that keep the target out, each described once in a file."""

from __future__ import annotations

import pytest
from v1_migrate.discover import Kind

from tests.codemods.rules.harness import rewrite

PYTHON = 'a = "vllm==0.9.2"\nb = ["vllm==0.9.2", "vllm<0.10"]\nc = "vllm==0.9.2"\n'
PLAIN = "vllm==0.9.2\nvllm==0.9.2 ; x\nvllm<0.10\nvllm==0.9.2\n"


@pytest.mark.parametrize(
    ("text", "kind", "places"),
    [
        pytest.param(PYTHON, Kind.PYTHON, [(1, True), (2, False), (2, True), (3, False)], id="texts of Python"),
        pytest.param(PLAIN, Kind.REQUIREMENTS, [(1, True), (2, False), (3, True), (4, False)], id="requirements"),
        pytest.param("vllm>=0.9.2\n", Kind.REQUIREMENTS, [], id="what lets the target in"),
    ],
)
def test_each_pin_is_introduced_once(text: str, kind: Kind, places: list[tuple[int, bool]]) -> None:
    assert [(found.line, found.primary) for found in rewrite(text, kind=kind).said("V1M012")] == places


NOTEBOOK = '{{"cells":[{{"cell_type":"code","metadata":{{}},"source":["{}\\n","import vllm"],"outputs":[],"execution_count":null}}],"metadata":{{}},"nbformat":4,"nbformat_minor":5}}'
POETRY = "[tool.poetry.dependencies]\nvllm = {}\n"
HELM = "modelSpec:\n  - name: m\n    repository: {}\n    tag: {}\n"
OTHERS = [
    pytest.param(NOTEBOOK.format("!pip install vllm==0.8.5"), Kind.NOTEBOOK, 1, id="a notebook that installs"),
    pytest.param(
        NOTEBOOK.format('%pip install -q \\\\"vllm==0.8.5\\\\"'.replace("\\\\", "\\")), Kind.NOTEBOOK, 1, id="in quotes"
    ),
    pytest.param(NOTEBOOK.format("was made with vllm==0.8.5"), Kind.NOTEBOOK, 0, id="a notebook that speaks of it"),
    pytest.param(POETRY.format('"^0.8.5"'), Kind.PYPROJECT, 1, id="a caret"),
    pytest.param(POETRY.format('"~0.32.0"'), Kind.PYPROJECT, 0, id="a tilde that lets it in"),
    pytest.param(POETRY.format('"^0.31"'), Kind.PYPROJECT, 1, id="a caret below 1.0 keeps the second number"),
    pytest.param(POETRY.format('"^0"'), Kind.PYPROJECT, 0, id="a caret of 0"),
    pytest.param(POETRY.format('{extras = ["x"], version = "0.9.2"}'), Kind.TOML, 1, id="a table of Poetry's"),
    pytest.param("dependencies:\n  - vllm=0.8.5\n", Kind.YAML, 1, id="conda"),
    pytest.param("dependencies:\n  - vllm=0.32\n", Kind.YAML, 0, id="conda that lets it in"),
    pytest.param("a: x\nargs: model/vllm=0.8.5\n", Kind.YAML, 0, id="no item of a list"),
    pytest.param("conda install -c conda-forge vllm=0.8.5\n", Kind.SHELL, 1, id="conda's command"),
    pytest.param(HELM.format("vllm/vllm-openai", "v0.8.5"), Kind.YAML, 1, id="a chart"),
    pytest.param(HELM.format("vllm/vllm-openai", "v0.32.0"), Kind.YAML, 0, id="a chart for the target"),
    pytest.param(HELM.format("other/image", "v0.8.5"), Kind.YAML, 0, id="another image"),
]


@pytest.mark.parametrize(("text", "kind", "count"), OTHERS)
def test_pins_of_other_tools(text: str, kind: Kind, count: int) -> None:
    assert len(rewrite(text if "vllm" in text else text + "# vllm\n", "0.32.0", kind=kind).said("V1M012")) == count


@pytest.mark.parametrize("pin", ["^0.11.0", "~0.11.0", "~0", "^0.10"])
def test_marks_of_poetry_let_in_what_follows(pin: str) -> None:
    said = rewrite(POETRY.format(f'"{pin}"'), "0.11.2", kind=Kind.TOML).said("V1M012")
    assert len(said) == (pin == "^0.10")
