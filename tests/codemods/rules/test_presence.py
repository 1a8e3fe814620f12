"""What asks whether a name is there, and what only reads it."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = "import contextlib\nimport vllm.sequence\nfrom vllm import SamplingParams\n\n"
GONE = 'getattr(vllm.sequence, "SequenceStage")'
LOST = 'getattr(p, "best_of")'

FAILS = [
    pytest.param(f"x = {GONE}\n", "V1M004", id="a name of a module"),
    pytest.param('x = getattr(vllm.sequence, "Logprob")\n', "V1M001", id="a name that moved"),
    pytest.param(f"if {GONE}:\n    x = 1\n", "V1M004", id="the name as a test"),
    pytest.param(f"def f(p: SamplingParams):\n    return {LOST}\n", "V1M102", id="a member of an object"),
    pytest.param(
        f"def f(p: SamplingParams):\n    if {LOST}:\n        return p.best_of\n",
        "V1M102",
        id="a read behind one without a default",
    ),
]
ASKS = [
    pytest.param('x = getattr(vllm.sequence, "SequenceStage", None)\n', id="a default"),
    pytest.param('x = hasattr(vllm.sequence, "SequenceStage")\n', id="hasattr"),
    pytest.param(f"try:\n    x = {GONE}\nexcept AttributeError:\n    x = None\n", id="a caught AttributeError"),
    pytest.param(f"with contextlib.suppress(AttributeError):\n    x = {GONE}\n", id="a suppressed AttributeError"),
    pytest.param(f'x = hasattr(vllm.sequence, "SequenceStage") and {GONE}\n', id="hasattr in front of it"),
    pytest.param('def f(p: SamplingParams):\n    return getattr(p, "best_of", 1)\n', id="a member, with a default"),
    pytest.param(
        f'def f(p: SamplingParams):\n    return {LOST} if hasattr(p, "best_of") else 1\n',
        id="a member behind hasattr",
    ),
]


@pytest.mark.parametrize(("text", "rule"), FAILS)
def test_getattr_without_a_default_fails_as_the_attribute_does(text: str, rule: str) -> None:
    found = rewrite(HEAD + text, "0.32.0").said(rule)
    assert [finding.severity for finding in found] == [Severity.ERROR] * (2 if "return p.best_of" in text else 1)


@pytest.mark.parametrize("text", ASKS)
def test_a_test_of_presence_is_no_error(text: str) -> None:
    assert [found for found in rewrite(HEAD + text, "0.32.0").findings if found.severity is Severity.ERROR] == []


def test_a_renamed_member_follows_in_the_literal() -> None:
    text = 'from vllm.config import SchedulerConfig\n\n\ndef f(c: SchedulerConfig):\n    return getattr(c, "{}")\n'
    assert rewrite(text.format("chunked_prefill_enabled"), "0.32.0").text == text.format("enable_chunked_prefill")
