"""Texts of V1 code that still speak of V0."""

from __future__ import annotations

import pytest
from v1_migrate.findings import Safety, Severity

from tests.codemods.rules.harness import rewrite

RULE = "V1M501"
IN_V1 = "plugin.v1.module"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param('raise NotImplementedError("not supported in V0.")\n', 1, id="an error"),
        pytest.param(
            'def f():\n    raise ValueError(\n        f"{x}: V0 cannot"\n    )\n', 3, id="an f-string on a line"
        ),
        pytest.param('logger.warning_once("falling back to v0 engine")\n', 1, id="a log message"),
        pytest.param('assert x, "only in V0"\n', 1, id="an assertion"),
        pytest.param('import pytest\npytest.skip("V0 only")\n', 2, id="a skipped test"),
        pytest.param("x = 1  # as in v0\n", 1, id="a comment"),
        pytest.param('def f():\n    """What vLLM V0 did."""\n', 2, id="a docstring"),
    ],
)
def test_found_in_v1_and_nowhere_else(text: str, line: int) -> None:
    text = f"import vllm\n{text}"
    outcome = rewrite(text, module=IN_V1)
    assert outcome.lines(RULE) == [line + 1]
    assert outcome.text == text
    assert {f.severity for f in outcome.said(RULE)} == {Severity.INFO}
    assert not rewrite(text, module="plugin.worker").said(RULE)


def test_a_comment_that_names_v0_is_found_wherever_vllm_is_imported() -> None:
    assert rewrite("import vllm\nx = 1  # as in V0\n").lines(RULE) == [2]
    assert not rewrite("import other_vllm\nx = 1  # as in V0\n").said(RULE)


def test_a_file_that_imports_from_v1_belongs_to_it() -> None:
    text = 'from vllm.v1.worker.worker_base import WorkerBase\nraise ValueError("no V0")\n'
    assert rewrite(text, module="plugin.worker").lines(RULE) == [2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            'raise ValueError("no KV sharing in V0.")\n', 'raise ValueError("no KV sharing in V1.")\n', id="error"
        ),
        pytest.param("raise ValueError(f'{a} in v0 {b}')\n", "raise ValueError(f'{a} in v1 {b}')\n", id="f-string"),
        pytest.param(
            'raise ValueError(f"{v0} V0 {v0!r}")\n', 'raise ValueError(f"{v0} V1 {v0!r}")\n', id="not its code"
        ),
        pytest.param('raise ValueError("V0 has it, V1 not")\n', None, id="a comparison of both stays"),
        pytest.param("# V0 does it\n", None, id="a comment stays"),
        pytest.param('"""V0 does it."""\n', None, id="a docstring stays"),
        pytest.param('MODE = "V0"\n', None, id="a value stays"),
    ],
)
def test_only_unsafe_rewrites_a_message(before: str, after: str | None) -> None:
    outcome = rewrite(f"import vllm\n{before}", module=IN_V1, unsafe=True)
    assert outcome.text == f"import vllm\n{after or before}"
    assert all(f.safety is Safety.UNSAFE for f in outcome.findings if f.fixed)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('raise ValueError("needs v0.9.2 or V0.8")\n', id="a version"),
        pytest.param('raise ValueError("see a/v0/b.py")\n', id="a path"),
        pytest.param("v0 = 1\nraise ValueError(v0)\n", id="a variable"),
        pytest.param('MODE = "V0"\n', id="a value"),
    ],
)
def test_other_uses_of_the_letters(text: str) -> None:
    assert not rewrite(f"import vllm\n{text}", module=IN_V1).said(RULE)


def test_a_text_about_the_switch_is_found_everywhere() -> None:
    text = 'import vllm\nraise ValueError(\n    "No."\n    " Set VLLM_USE_V1=0."\n)\n'
    assert rewrite(text).lines(RULE) == [4]


def test_a_comment_about_the_switch_is_found_everywhere() -> None:
    assert rewrite("import vllm  # VLLM_USE_V1 is set\n").lines(RULE) == [1]


@pytest.mark.parametrize(
    ("text", "setting", "severity"),
    [
        pytest.param('x = f"VLLM_USE_V1=0 python {a}"\n', "VLLM_USE_V1=0", Severity.WARNING, id="an f-string"),
        pytest.param('x = "A=1 VLLM_USE_V1=1 " f"vllm serve {a}"\n', "VLLM_USE_V1=1", Severity.INFO, id="pieces"),
        pytest.param('x = f"VLLM_USE_V1={a} pytest"\n', "VLLM_USE_V1={a}", Severity.INFO, id="a value put in"),
        pytest.param('x = "cd a && export VLLM_USE_V1=0; b"\n', "VLLM_USE_V1=0", Severity.WARNING, id="an export"),
        pytest.param('x = ["-e", "VLLM_USE_V1=0"]\n', "VLLM_USE_V1=0", Severity.WARNING, id="all of a text"),
    ],
)
def test_a_command_in_a_text_is_called_one(text: str, setting: str, severity: Severity) -> None:
    (found,) = rewrite(text).said(RULE)
    assert f"a command in a text sets `{setting}`" in found.message
    assert (found.severity, found.end_column - found.column) == (severity, len(setting))
    assert "sentence" not in found.advice


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('x = "please set VLLM_USE_V1=0 to go on"\n', id="a setting in a sentence"),
        pytest.param('x = "VLLM_USE_V1=0 is refused"\n', id="one that begins with it"),
        pytest.param('x = "VLLM_USE_V1 == 1"\n', id="a comparison"),
    ],
)
def test_a_sentence_is_no_command(text: str) -> None:
    (found,) = rewrite(text).said(RULE)
    assert "a text speaks of" in found.message
