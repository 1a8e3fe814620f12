"""V1M102 on what vLLM's own methods return, and on what their results hold."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = (
    "import copy\nfrom vllm import LLM, AsyncLLMEngine, RequestOutput, SamplingParams\n"
    "from vllm.entrypoints.openai.protocol import ChatCompletionRequest\n\n"
)

LOST = [
    pytest.param('outs = LLM("m").generate("x")\nouts[0].metrics.first_token_time\n', id="an element by index"),
    pytest.param(
        'def f(llm: LLM):\n    for out in llm.chat("x"):\n        out.metrics.first_token_time\n', id="a loop over them"
    ),
    pytest.param("def f(o: RequestOutput):\n    m = o.metrics\n    return m.finished_time\n", id="metrics in a name"),
    pytest.param(
        "class C:\n    def __init__(self, o: RequestOutput):\n        self.o = o\n"
        "    def f(self):\n        return self.o.metrics.time_in_queue\n",
        id="metrics of an attribute of self",
    ),
    pytest.param(
        "async def f(e: AsyncLLMEngine):\n    last = None\n    async for o in e.generate(1):\n        last = o\n"
        "    return last.metrics.finished_time\n",
        id="an asynchronous loop, and the last one kept",
    ),
    pytest.param("def f(p: SamplingParams):\n    return copy.deepcopy(p).best_of\n", id="a copy"),
    pytest.param("def f(p: SamplingParams):\n    q = p.clone()\n    return q.guided_decoding\n", id="a clone"),
    pytest.param("def f(llm: LLM):\n    return llm.get_default_sampling_params().best_of\n", id="the defaults"),
]


@pytest.mark.parametrize("text", LOST)
def test_a_lost_member_of_a_result_is_an_error(text: str) -> None:
    found = rewrite(HEAD + text, "0.32.0").said("V1M102")
    assert [each.severity for each in found] == [Severity.ERROR]
    assert found[0].primary


@pytest.mark.parametrize("member", ["arrival_time", "num_generation_tokens", "unheard_of"])
def test_what_metrics_have_or_never_had_is_no_finding(member: str) -> None:
    text = f"def f(llm: LLM):\n    return [out.metrics.{member} for out in llm.generate(1)]\n"
    assert rewrite(HEAD + text, "0.32.0").said("V1M102") == []


def test_the_metrics_of_a_release_that_has_v0s_are_no_finding() -> None:
    assert (
        rewrite(HEAD + "def f(o: RequestOutput):\n    return o.metrics.finished_time\n", "0.11.0").said("V1M102") == []
    )
