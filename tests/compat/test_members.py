"""Members that the engine's classes lost: read from where they are now, or an AttributeError with advice."""

from __future__ import annotations

import asyncio
import copy
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat

Run = Callable[..., Any]
ENGINE = "from vllm.v1.engine.llm_engine import LLMEngine; e = LLMEngine()"
LLM = "from vllm import LLM; llm = LLM('m')"
ASYNC = "from vllm.v1.engine.async_llm import AsyncLLM; e = AsyncLLM()"


@pytest.mark.parametrize(
    ("start", "expression", "kind", "rule"),
    [
        pytest.param(ENGINE, "e.get_model_config()", "ModelConfig", "V1M102", id="a method"),
        pytest.param(ENGINE, "e.get_vllm_config()", "VllmConfig", "V1M102", id="the whole configuration"),
        pytest.param(
            ENGINE, "e.get_decoding_config()", "StructuredOutputsConfig", "V1M102", id="a part of another name"
        ),
        pytest.param(ENGINE, "e.scheduler_config", "SchedulerConfig", "V1M102", id="an attribute"),
        pytest.param(
            ENGINE, "e.decoding_config", "StructuredOutputsConfig", "V1M102", id="an attribute of another name"
        ),
        pytest.param(ENGINE, "getattr(e, 'cache_config')", "CacheConfig", "V1M102", id="by name"),
        pytest.param(
            LLM, "llm.llm_engine.get_parallel_config()", "ParallelConfig", "V1M008", id="a chain, as the plan has it"
        ),
    ],
)
def test_what_has_a_plain_successor_is_served(
    vllm: Path, run: Run, start: str, expression: str, kind: str, rule: str
) -> None:
    said = run(f"{start}\nfound = {expression}\n")
    assert type(run.globals["found"]).__name__ == kind  # type: ignore[attr-defined]
    assert [(s.line, s.rule) for s in said] == [(2, rule)]
    assert "Write `vllm_config" in said[0].text and len(said[0].text) < 240


def test_v0s_accessors_of_the_asynchronous_engine_are_awaited(vllm: Path, run: Run) -> None:
    said = run(f"{ASYNC}\nasync def ask():\n    return await e.get_model_config()\n")
    assert not said
    found = asyncio.run(run.globals["ask"]())  # type: ignore[attr-defined]
    assert type(found).__name__ == "ModelConfig"


@pytest.mark.parametrize(
    ("start", "expression", "says"),
    [
        pytest.param(ENGINE, "e.scheduler", "scheduler_cls.*V1M102", id="the scheduler"),
        pytest.param(ENGINE, "e.model_executor", "collective_rpc.*V1M008", id="the workers"),
        pytest.param(LLM, "llm.llm_engine.scheduler[0]", "get_metrics.*V1M008", id="in a chain"),
        pytest.param(LLM, "llm.set_tokenizer(1)", "tokenizer=PATH.*V1M102", id="of LLM"),
        pytest.param(ASYNC, "e.engine", "no inner engine.*V1M102", id="the inner engine"),
    ],
)
def test_the_rest_is_an_attribute_error_with_advice(
    vllm: Path, run: Run, start: str, expression: str, says: str
) -> None:
    with pytest.raises(v1_compat.LegacyMemberError, match=f"is gone.*{says}: v1-migrate explain vllm") as caught:
        run(f"{start}\nfound = {expression}\n")
    assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize(
    "lines",
    [
        "found = hasattr(e, 'get_model_config')",
        "found = getattr(e, 'scheduler', False)",
        "try:\n    found = e.cache_config\nexcept AttributeError:\n    found = False",
    ],
    ids=["hasattr", "a default", "a handler"],
)
def test_who_is_ready_for_it_finds_it_gone(vllm: Path, run: Run, lines: str) -> None:
    assert run(f"{ENGINE}\n{lines}\n") == []
    assert run.globals["found"] is False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("e.nonsense", "'LLMEngine' object has no attribute 'nonsense'"),
        ("e.broken", "no attribute 'nonsense'"),
        ("e.reach()", "'LLMEngine' object has no attribute 'scheduler'"),
    ],
    ids=["never there", "a property of vLLM that fails", "vLLM itself asks"],
)
def test_other_errors_are_pythons_own(vllm: Path, run: Run, expression: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message) as caught:
        run(f"{ENGINE}\nfound = {expression}\n")
    assert type(caught.value) is AttributeError


MINE = """
from vllm.v1.engine.llm_engine import LLMEngine
from vllm.v1.engine.async_llm import AsyncLLM
class My(LLMEngine):
    asked = 0
    @property
    def scheduler(self):
        My.asked += 1
        return self._missing
    @property
    def other(self):
        My.asked += 1
        return self.vllm_config.nonsense
class Open(LLMEngine):
    def __getattr__(self, name):
        return f"mine: {name}"
class Later(AsyncLLM): ...
""".lstrip()


@pytest.mark.parametrize(
    ("expression", "message"),
    [("My().scheduler", "'My' object has no attribute '_missing'"), ("My().other", "no attribute 'nonsense'")],
)
def test_what_a_class_defines_itself_fails_by_itself(vllm: Path, run: Run, expression: str, message: str) -> None:
    said = run(f"{MINE}try:\n    {expression}\nexcept Exception as error:\n    found = type(error), str(error)\n")
    kind, text = run.globals["found"]  # type: ignore[attr-defined]
    assert kind is AttributeError and message in text and not said
    assert run.globals["My"].asked == 1  # type: ignore[attr-defined]


def test_who_answers_for_any_name_is_asked(vllm: Path, run: Run) -> None:
    assert run(f"{MINE}found = Open().scheduler, Open().get_model_config\n") == []
    assert run.globals["found"] == ("mine: scheduler", "mine: get_model_config")  # type: ignore[attr-defined]


def test_a_class_of_ones_own_is_awaited_too(vllm: Path, run: Run) -> None:
    run(f"{MINE}found = Later().get_model_config()\n")
    assert type(asyncio.run(run.globals["found"])).__name__ == "ModelConfig"  # type: ignore[attr-defined]


def test_copies_and_uninstall(vllm: Path) -> None:
    v1_compat.install()
    cls = importlib.import_module("vllm.v1.engine.llm_engine").LLMEngine
    assert copy.deepcopy(cls()).vllm_config == cls().vllm_config
    assert "__getattribute__" in vars(cls)
    v1_compat.uninstall()
    assert "__getattribute__" not in vars(cls)
    with pytest.raises(AttributeError, match="object has no attribute 'get_model_config'"):
        cls().get_model_config()


def test_a_report_has_what_was_refused(vllm: Path, run: Run, tmp_path: Path) -> None:
    with pytest.raises(v1_compat.LegacyMemberError):
        run(f"{ENGINE}\ne.scheduler\n", "report")
    assert '"vllm.engine.llm_engine.LLMEngine.scheduler"' in (tmp_path / "v1_compat_usage.jsonl").read_text()
