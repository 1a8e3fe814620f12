"""V1M102 on objects that vLLM's own annotations speak of, and on what calls of the file itself give."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = (
    "from vllm import LLM, AsyncLLMEngine, SamplingParams\nfrom vllm.config import ModelConfig, VllmConfig\n"
    "from vllm.forward_context import get_forward_context\nfrom vllm.v1.core.sched.output import SchedulerOutput\n"
    "from vllm.v1.worker.worker_base import WorkerBase\nfrom vllm.v1.engine.async_llm import AsyncLLM\n\n"
)
LOST = [
    pytest.param("def f(v: VllmConfig):\n    return v.model_config.task\n", "task", id="a chain through a field"),
    pytest.param("def f(v: VllmConfig):\n    m = v.model_config\n    return m.task\n", "task", id="kept in a name"),
    pytest.param(
        "class C:\n    def __init__(self, v: VllmConfig):\n        self.m = v.model_config\n"
        "    def f(self):\n        return self.m.task\n",
        "task",
        id="kept in an attribute",
    ),
    pytest.param(
        "class W(WorkerBase):\n    def f(self):\n        return self.model_config.task\n", "task", id="set by the base"
    ),
    pytest.param(
        "class V(WorkerBase):\n    pass\nclass W(V):\n    def f(self):\n        return self.vllm_config.model_config.task\n",
        "task",
        id="set by the base's base",
    ),
    pytest.param("get_forward_context().virtual_engine\n", "virtual_engine", id="given by a function"),
    pytest.param(
        "def f(s: SchedulerOutput):\n    for r in s.scheduled_new_reqs:\n        r.mm_inputs\n",
        "mm_inputs",
        id="elements",
    ),
    pytest.param(
        "class S:\n    def __init__(self):\n        self.e = self._made()\n"
        "    def _made(self):\n        return AsyncLLMEngine.from_engine_args(None)\n"
        "    async def f(self):\n        await self.e.get_model_config()\n",
        "get_model_config",
        id="given by a method of the file",
    ),
    pytest.param(
        "def made() -> SamplingParams:\n    return load()\np = made()\np.best_of\n", "best_of", id="its annotation"
    ),
    pytest.param(
        "async def made():\n    return SamplingParams()\nasync def f():\n    (await made()).best_of\n",
        "best_of",
        id="awaited",
    ),
    pytest.param(
        "async def f(e: AsyncLLM):\n    (await e.get_model_config()).task\n", "task", id="awaited of a method that went"
    ),
    pytest.param(
        "def made(a):\n    if a:\n        return SamplingParams()\n    def g():\n        return 1\n"
        "    return SamplingParams(n=2)\nmade(1).best_of\n",
        "best_of",
        id="all returns agree",
    ),
]
KEPT = [
    pytest.param("def f(v: VllmConfig):\n    return v.model_config.max_model_len\n", id="what is there"),
    pytest.param(
        "class W(WorkerBase):\n    def __init__(self, m):\n        self.model_config = m\n"
        "    def f(self):\n        return self.model_config.task\n",
        id="set again by the class",
    ),
    pytest.param(
        "class V(WorkerBase):\n    def __init__(self, m):\n        self.model_config = m\n"
        "class W(V):\n    def f(self):\n        return self.model_config.task\n",
        id="set again between",
    ),
    pytest.param(
        "def made(a):\n    return SamplingParams() if a else load()\nmade(1).best_of\n", id="one return is not known"
    ),
    pytest.param("async def made():\n    return SamplingParams()\nmade().best_of\n", id="not awaited"),
    pytest.param("def made():\n    yield 1\n    return SamplingParams()\nmade().best_of\n", id="a generator"),
    pytest.param("@cached\ndef made():\n    return SamplingParams()\nmade().best_of\n", id="decorated"),
    pytest.param("def f(e: AsyncLLM):\n    return e.get_model_config().task\n", id="a coroutine"),
]


@pytest.mark.parametrize(("text", "member"), LOST)
def test_a_lost_member_of_what_vllm_holds_or_a_call_gives_is_an_error(text: str, member: str) -> None:
    said = [f for f in rewrite(HEAD + text, "0.32.0").said("V1M102") if f"`{member}`" in f.message]
    assert [found.severity for found in said] == [Severity.ERROR]


@pytest.mark.parametrize("text", KEPT)
def test_what_is_not_known_is_not_spoken_of(text: str) -> None:
    said = rewrite(HEAD + text, "0.32.0").said("V1M102")
    assert [f for f in said if "get_model_config" not in f.message] == []


def test_the_table_speaks_of_a_class_by_its_old_name() -> None:
    (found,) = rewrite(HEAD + "def f(v: VllmConfig):\n    v.cache_config.swap_space_bytes\n", "0.32.0").said("V1M102")
    assert "vllm.config.CacheConfig" in found.message and "does not swap" in found.advice


def test_what_a_subclass_of_vllms_has_is_not_lost() -> None:
    text = (
        "from vllm.entrypoints.openai.api_server import build_async_engine_client as build\n"
        "async def f(a):\n    async with build(a) as e:\n        {}\n"
    )
    lost = rewrite(text.format("await e.get_model_config()"), "0.32.0")
    assert [f.severity for f in lost.said("V1M102")] == [Severity.ERROR]
    assert not rewrite(text.format("await e.get_tokenizer()"), "0.32.0").said("V1M102")


def test_a_renamed_member_behind_a_chain_is_rewritten() -> None:
    text = "def f(v: VllmConfig):\n    return v.scheduler_config.chunked_prefill_enabled\n"
    assert "v.scheduler_config.enable_chunked_prefill" in rewrite(HEAD + text, "0.32.0").text


def test_a_call_that_a_subclass_of_vllms_takes_is_not_refused() -> None:
    text = "from vllm.engine.protocol import EngineClient\nasync def f(e: EngineClient):\n    await e.abort('a', {}=True)\n"
    assert not rewrite(text.format("internal"), "0.32.0").said("V1M113")
    assert rewrite(text.format("nonsense"), "0.32.0").said("V1M113")


def test_an_argument_called_like_the_targets_parameter_is_meant_for_it() -> None:
    text = "from vllm.lora.models import LoRAModelManager\ndef f(m: LoRAModelManager, {0}):\n    m.create_dummy_lora(1, 2, {0})\n"
    assert not rewrite(text.format("embedding_modules"), "0.11.0").said("V1M112")
    assert rewrite(text.format("x"), "0.11.0").said("V1M112")
