"""V1M008: chains into the engine's insides."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from harness import dedent, rewrite
from v1_migrate.names import curated
from v1_migrate.rules.engine_internals import TO_THE_WORKERS


@pytest.mark.parametrize(
    "chain",
    [
        "llm.llm_engine.model_executor.driver_worker.model_runner.model",
        "self.inference_engine.llm_engine.model_executor",
        "engine.engine.model_executor.driver_worker.worker",
        "executor.driver_worker",
        "llm.llm_engine.scheduler[0]",
        "get_llm().llm_engine.model_executor",
        "self.engine.scheduler",
        "self.backend.engine.scheduler[0].waiting",
    ],
)
def test_found(chain: str) -> None:
    outcome = rewrite(f"import vllm\n\nx = {chain}\n")
    assert outcome.lines("V1M008") == [3]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm\nx = llm.llm_engine.get_tokenizer()\n", id="what V1's engine has"),
        pytest.param("import vllm.model_executor\nx = vllm.model_executor.models\n", id="the package of that name"),
        pytest.param("import other\nx = llm.llm_engine.model_executor\n", id="another project's engine"),
        pytest.param(
            "x = self.engine.scheduler  # unlike vllm's\n", id="the scheduler of an engine that is not vLLM's"
        ),
        pytest.param("import vllm\nx = self.engine.optimizer, self.scheduler\n", id="what vLLM's engine never had"),
    ],
)
def test_left_alone(text: str) -> None:
    assert not rewrite(dedent(text)).said("V1M008")


@pytest.mark.parametrize(
    ("chain", "advice"),
    [
        pytest.param("llm.llm_engine.get_model_config()", "engine.model_config", id="of the engine: the table's words"),
        pytest.param("llm.llm_engine.model_executor.x", "LLM.apply_model", id="of the workers: what reaches them"),
        pytest.param("llm_engine.scheduler[0]", "scheduler_cls", id="an engine by itself"),
        pytest.param("self.engine.scheduler[0].waiting", "get_metrics()", id="an attribute of self"),
        pytest.param("engine.engine.scheduler", "scheduler_cls", id="an engine inside another"),
    ],
)
def test_the_advice_goes_by_what_is_reached(chain: str, advice: str) -> None:
    (found,) = rewrite(f"import vllm\n\nx = {chain}\n").said("V1M008")
    assert advice in found.advice


def test_the_executor_of_an_engine_whose_class_is_known_is_reached_all_the_same() -> None:
    text = "from vllm import LLM\n\n\ndef f(llm: LLM):\n    del llm.llm_engine.model_executor\n"
    assert rewrite(text, "0.32.0").lines("V1M008") == [5]


def test_a_lost_member_of_an_engine_is_one_finding() -> None:
    text = "from vllm import LLMEngine\n\n\ndef f(engine: LLMEngine):\n    return engine.scheduler[0]\n"
    assert [finding.rule for finding in rewrite(text, "0.32.0").findings] == ["V1M008"]
    other = text.replace("engine:", "e:").replace("return engine", "return e")
    assert [finding.rule for finding in rewrite(other, "0.32.0").findings] == ["V1M102"]


def test_who_is_to_send_a_function_is_told_what_that_needs() -> None:
    advice = [TO_THE_WORKERS]
    for file in sorted((Path(curated.__file__).parent / "data").glob("*.toml")):
        rows = tomllib.loads(file.read_text())
        advice += [row.get("advice", "") for key in ("name", "group", "module") for row in rows.get(key, ())]
    of_functions = [words for words in advice if "LLM.apply_model" in words]
    assert len(of_functions) > 3
    assert all("VLLM_ALLOW_INSECURE_SERIALIZATION=1" in words for words in of_functions)
