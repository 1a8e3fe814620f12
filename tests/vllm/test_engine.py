"""vLLM's engine answers the same with v1_cpu as with its own CPU attention, model by model."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .answers import check_answers, check_same, check_who_served, distance
from .cases import BROKEN, LOSSY, NEAR, PREFIX, SAME
from .conftest import SERVED, Run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)
NO_FURTHER = 1.15  # a hundred to ten thousand log probabilities, of which few are far off
ALL = {**{f"{name}, bfloat16": job for name, job in NEAR.items()}, **SAME}


@pytest.fixture(scope="session")
def answers(engine: Callable[..., Run]) -> tuple[Run, Run]:
    """vLLM's own and v1_cpu's."""
    return both(engine, ALL, "1")


def both(engine: Callable[..., Run], jobs: dict[str, Any], backend: str) -> tuple[Run, Run]:
    """vLLM's own answers and those with v1_cpu, from two processes at once."""
    with ThreadPoolExecutor(2) as pool:
        own, ours = (pool.submit(engine, jobs, value) for value in ("0", backend))
        return own.result(), ours.result()


@pytest.mark.parametrize("name", SAME)
def test_float32_tokens_are_the_same(answers: tuple[Run, Run], name: str) -> None:
    own, ours = (run.results[name] for run in answers)
    check_same(own, ours, 1e-4 if "embeddings" in own else 1e-3)


@pytest.mark.parametrize("name", NEAR)
def test_bfloat16_log_probabilities_are_near(answers: tuple[Run, Run], name: str) -> None:
    """Up to where a close call goes the other way."""
    own, ours = (run.results[f"{name}, bfloat16"] for run in answers)
    check_same(own, ours, 3e-2, tie=6e-2)


def test_the_models_have_something_to_say(answers: tuple[Run, Run]) -> None:
    """A model that answers every prompt alike, or repeats one token, would compare equal whatever attention does."""
    for name in SAME.keys() - {"an encoder-only model's embeddings"}:
        told = [tuple(answer["tokens"]) for answer in answers[0].results[name]["answers"]]
        assert len(set(told)) > 0.7 * len(SAME[name]["batches"][1]), name


def test_prefix_cache_is_hit(answers: tuple[Run, Run]) -> None:
    size = len(SAME[PREFIX]["batches"][1])
    for run in answers:
        alone, *rest = run.results[PREFIX]["answers"]
        first, second, last = rest[:size], rest[size : 2 * size], rest[-1]
        assert sum(answer["cached"] for answer in second) > 3500
        assert last["cached"] >= 224
        assert [a["tokens"] for a in first] == [a["tokens"] for a in second]
        assert alone["tokens"] == first[-1]["tokens"]


def test_log_says_once_what_serves(answers: tuple[Run, Run]) -> None:
    own, ours = answers
    lines = [line for line in ours.log.splitlines() if SERVED in line]
    assert len(lines) == 1
    assert "INFO" in lines[0] and "kernel, instruction set" in lines[0] and "self-test passed" in lines[0]
    assert SERVED not in own.log and "v1_cpu does not serve" not in own.log


@pytest.fixture(scope="session")
def spoiled(engine: Callable[..., Run]) -> Run:
    """v1_cpu's answers with a kernel that is called wrongly on purpose."""
    jobs = {
        name: {**SAME[job], "batches": [SAME[job]["batches"][0], SAME[job]["batches"][1][1:9]], "broken": change}
        for name, (job, change) in BROKEN.items()
    }
    return engine(jobs, "strict")


@pytest.mark.parametrize("name", BROKEN)
def test_a_kernel_that_is_called_wrongly_is_noticed(answers: tuple[Run, Run], spoiled: Run, name: str) -> None:
    """The comparisons above can fail: an argument dropped or changed in our backend changes the tokens."""
    own, ours = answers[0].results[BROKEN[name][0]], spoiled.results[name]
    check_who_served(own, ours)
    with pytest.raises(AssertionError, match="it was no tie"):
        check_answers([own["answers"][0], *own["answers"][2:10]], ours["answers"], 1e9)


@pytest.fixture(scope="session")
def lossy(engine: Callable[..., Run]) -> tuple[Run, Run]:
    return both(engine, LOSSY, "strict")


@pytest.mark.parametrize(
    ("exact", "name"),
    [
        pytest.param("float32", "float16", id="float16"),
        pytest.param("float32", "bfloat16", id="bfloat16"),
        pytest.param("LoRA, float32", "LoRA, bfloat16", id="a LoRA adapter in bfloat16"),
        pytest.param("no float8 cache", "e4m3", id="a float8 cache, e4m3"),
        pytest.param("no float8 cache", "e5m2", id="a float8 cache, e5m2"),
    ],
)
def test_no_further_from_more_bits_than_vllm_s_own(lossy: tuple[Run, Run], exact: str, name: str) -> None:
    """Both round, in different places: each is measured from what vLLM's own answers with more bits."""
    own, ours = (run.results[name] for run in lossy)
    check_who_served(own, ours)
    whole = lossy[0].results[exact]
    assert "error" not in whole, whole["error"]
    lost = [distance(whole["answers"], run["answers"]) for run in (own, ours)]
    assert 0 < lost[1] <= NO_FURTHER * lost[0], lost
