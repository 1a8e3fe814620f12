"""What changes the engine around the attention: processes, executors, block sizes, connectors, compilation, sleep.

Each is held against one answer of stock vLLM in a single process, or against stock vLLM with the same option.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .answers import check_answers, check_same
from .cases import short
from .conftest import SERVED, Run
from .test_engine import both

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)

ASKING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.fixture(scope="session")
def plain(engine: Callable[..., Run]) -> list[dict[str, Any]]:
    """Stock vLLM's answers, in one process, uncompiled, with blocks of 32."""
    found = engine({"plain": short("llama")}, "0").results["plain"]
    assert "error" not in found, found["error"]
    answers: list[dict[str, Any]] = found["answers"]
    return answers


@pytest.mark.parametrize(
    ("env", "llm"),
    [
        pytest.param({}, {}, id="an engine core in a process of its own", marks=pytest.mark.slow),
        pytest.param(
            {"VLLM_CPU_OMP_THREADS_BIND": "0|1"},
            {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"},
            id="tensor parallel over two processes",
        ),
    ],
)
def test_engine_in_other_processes(
    plain: list[dict[str, Any]], engine: Callable[..., Run], env: dict[str, str], llm: dict[str, Any]
) -> None:
    got = engine({"llama": short("llama", llm=llm)}, "strict", VLLM_ENABLE_V1_MULTIPROCESSING="1", **env)
    assert SERVED in got.log
    if ASKING.exists() and "[madvise]" in ASKING.read_text():
        assert "huge pages under the cache" in got.log
    assert "error" not in got.results["llama"], got.results["llama"]["error"]
    check_answers(plain, got.results["llama"]["answers"], 1e-3)


def test_blocks_of_16(plain: list[dict[str, Any]], engine: Callable[..., Run]) -> None:
    """vLLM's own backend refuses them; the answers are those of its blocks of 32."""
    ours = engine({"16": short("llama", llm={"block_size": 16})}, "strict").results["16"]
    assert "error" not in ours, ours["error"]
    check_answers(plain, ours["answers"], 1e-3)


def test_a_connector_stores_and_loads_the_cache(engine: Callable[..., Run], tmp_path: Path) -> None:
    """vLLM's example connector keeps every prompt's part of the cache in files: loaded, it is worth what was computed."""
    llm = {
        "enable_prefix_caching": False,
        "max_num_batched_tokens": 512,  # the connector stores what one step has computed
        "kv_transfer_config": {
            "kv_connector": "ExampleConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"shared_storage_path": str(tmp_path)},
        },
    }
    job = short("llama", lengths=(300, 40, 99), llm=llm, rounds=2)
    found = engine({"connector": job}, "strict")
    assert "error" not in found.results["connector"], found.results["connector"]["error"]
    answers = found.results["connector"]["answers"]
    computed, loaded = answers[1:4], answers[4:7]
    assert sum(answer["cached"] for answer in computed[:2]) == 0 < 300 < sum(answer["cached"] for answer in loaded)
    check_answers(computed, loaded, 1e-3)
    assert SERVED in found.log and list(tmp_path.rglob("*.safetensors"))


@pytest.mark.slow
def test_compiled(engine: Callable[..., Run]) -> None:
    own, ours = both(engine, {"compiled": short("llama", llm={"enforce_eager": False})}, "strict")
    check_same(own.results["compiled"], ours.results["compiled"], 1e-3)


@pytest.mark.slow
def test_sleep_mode_is_vllm_s_to_refuse(engine: Callable[..., Run]) -> None:
    """vLLM has none on a CPU: the same refusal, with and without v1_cpu."""
    jobs = {"sleep": short("llama", llm={"enable_sleep_mode": True})}
    own, ours = (run.results["sleep"]["error"].splitlines() for run in both(engine, jobs, "strict"))
    assert [line for line in own if "Sleep mode is not supported" in line]
    assert [line for line in ours if "Sleep mode is not supported" in line]
