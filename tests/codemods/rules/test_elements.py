"""V1M102 on elements of containers and on unions."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = "from typing import Sequence, Union\n\nfrom vllm import PoolingParams, SamplingParams\n\n"

ERRORS = [
    pytest.param("def f(ps: list[SamplingParams]):\n    for p in ps:\n        p.best_of\n", id="a loop"),
    pytest.param("def f(ps: list[SamplingParams]):\n    return [p.best_of for p in ps]\n", id="a comprehension"),
    pytest.param("def f(ps: Sequence[SamplingParams]):\n    return ps[0].best_of\n", id="an index"),
    pytest.param("def f(ps: 'list[SamplingParams]'):\n    return ps[1:][0].best_of\n", id="a part, quoted"),
    pytest.param(
        "def f(ps: Sequence[SamplingParams] | None):\n    for i, p in enumerate(ps):\n        p.best_of\n",
        id="enumerated",
    ),
    pytest.param("def f(ps: list[SamplingParams], q):\n    for x, p in zip(q, ps):\n        p.best_of\n", id="zip"),
    pytest.param("def f(d: dict[str, SamplingParams]):\n    for p in d.values():\n        p.best_of\n", id="values"),
    pytest.param("def f(d: dict[str, SamplingParams]):\n    for k, p in d.items():\n        p.best_of\n", id="items"),
    pytest.param('def f(d: dict[str, SamplingParams]):\n    return d["a"].best_of\n', id="a key"),
    pytest.param("ps = [SamplingParams() for _ in range(3)]\nfor p in ps:\n    p.best_of\n", id="made here"),
    pytest.param(
        "class C:\n    def __init__(self, ps: list[SamplingParams]):\n        self.ps = ps\n"
        "    def f(self):\n        for p in self.ps:\n            p.best_of\n",
        id="an attribute of self",
    ),
]
WARNINGS = [
    pytest.param("def f(p: SamplingParams | dict):\n    return p.best_of\n", id="or a dictionary"),
    pytest.param("def f(p: Union[SamplingParams, PoolingParams, None]):\n    return p.best_of\n", id="two of vLLM's"),
    pytest.param("def f(p: Union['Thing', SamplingParams]):\n    return p.best_of\n", id="the second"),
    pytest.param("def f(p: SamplingParams | Sequence[SamplingParams]):\n    return p.best_of\n", id="one or many"),
    pytest.param(
        "def f(p: SamplingParams | dict):\n    if isinstance(p, dict):\n        p = SamplingParams(**p)\n    p.best_of\n",
        id="made of the other",
    ),
]
SILENT = [
    pytest.param("def f(d: dict[str, SamplingParams]):\n    for k in d:\n        k.best_of\n", id="keys"),
    pytest.param("def f(p: tuple[int, SamplingParams]):\n    return p[0].best_of\n", id="a tuple of different things"),
    pytest.param("def f(p: SamplingParams | X):\n    if isinstance(p, X):\n        p.best_of\n", id="asked for"),
    pytest.param("def f(p: X | Y):\n    return p.best_of\n", id="none of vLLM's"),
    pytest.param(
        "def f(ps: list[SamplingParams]):\n    for p in ps:\n        p.n\n    p = 1\n    p.best_of\n", id="two bindings"
    ),
]


def severities(text: str) -> list[Severity]:
    outcome = rewrite(HEAD + text, "0.32.0")
    assert outcome.text == HEAD + text
    return [found.severity for found in outcome.said("V1M102")]


@pytest.mark.parametrize("text", ERRORS)
def test_a_lost_member_of_an_element_is_an_error(text: str) -> None:
    assert severities(text) == [Severity.ERROR]


@pytest.mark.parametrize("text", WARNINGS)
def test_a_lost_member_of_one_of_several_classes_is_a_warning(text: str) -> None:
    assert severities(text) == [Severity.WARNING]


@pytest.mark.parametrize("text", SILENT)
def test_what_is_of_another_class_is_left_alone(text: str) -> None:
    assert severities(text) == []


def test_what_another_class_of_the_union_has_is_no_finding() -> None:
    text = "from vllm import EngineArgs\nfrom vllm.config import CacheConfig\n\n\ndef f(c: CacheConfig | {}):\n    return c.cpu_offload_gb\n"
    assert rewrite(text.format("EngineArgs"), "0.32.0").said("V1M102") == []
    assert len(rewrite(text.format("dict"), "0.32.0").said("V1M102")) == 1


def test_a_renamed_field_of_one_of_several_classes_is_not_edited() -> None:
    text = "from vllm.config import SchedulerConfig\n\n\ndef f(c: SchedulerConfig | X):\n    return c.chunked_prefill_enabled\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert [found.severity for found in outcome.said("V1M102")] == [Severity.WARNING]
