"""vLLM's engine answers the same with v1_cpu's MLA as with its own CPU_MLA, which caches no prefix and cuts no prompt."""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)

TIE = 1e-4  # two best logits closer than this may swap
OWN = "vllm.v1.attention.backends.mla.cpu_mla.CPUMLAImpl"
OURS = "v1_cpu.vllm_plugin.mla_0_32.MLAImpl"
WARNING = "depend on what else is in the batch"
LENGTHS = (1, 2, 17, 129, 700, 2000)
NO_FUSED_ROPE = {"compilation_config": {"custom_ops": ["all", "-rotary_embedding"]}}


def job(rope: str, llm: dict[str, Any], **more: Any) -> dict[str, Any]:
    """All lengths in one batch, and one more prompt that begins like the longest."""
    draw = random.Random(3)
    prompts = [[draw.randrange(3, 255) for _ in range(length)] for length in LENGTHS]
    return {"rope": rope, "llm": llm, "prompts": [*prompts, [*prompts[-1][:300], 7, 8, 9]], "max_tokens": 24, **more}


CPU_MLA = {"attention_backend": "CPU_MLA"}  # vLLM's choice where there is AMX, AMX_MLA, loads no float32 model
WHOLE = CPU_MLA | {"enable_chunked_prefill": False, "enable_prefix_caching": False, "max_num_batched_tokens": 4096}
CHUNKS = {"enable_chunked_prefill": True, "enable_prefix_caching": True, "max_num_batched_tokens": 192}
OWN_JOBS = {
    "yarn, as published models have it": job("yarn", WHOLE),
    "plain rope": job("plain", WHOLE | NO_FUSED_ROPE),
}
JOBS = {
    "yarn, as published models have it": job("yarn", CHUNKS, rounds=2),
    "plain rope": job("plain", CHUNKS | NO_FUSED_ROPE | CPU_MLA, rounds=2),
    "blocks of 128": job("yarn", CHUNKS | {"block_size": 128}),
    "the scale halved": job("yarn", CHUNKS, scale=0.5),
    "e4m3": job("yarn", CHUNKS | {"kv_cache_dtype": "fp8"}),
    "e5m2": job("yarn", CHUNKS | {"kv_cache_dtype": "fp8_e5m2"}),
    "plain rope through vLLM's operator": {**job("plain", CHUNKS), "prompts": [[5, 6, 7]], "max_tokens": 1},
}
SAME_AS = {"blocks of 128": "yarn, as published models have it"}


def engines(
    env: dict[str, str], folder: Path, jobs: dict[str, dict[str, Any]], backend: str
) -> tuple[dict[str, Any], str]:
    """What a process with V1_CPU_BACKEND=`backend` answers to the jobs, and its log."""
    place = folder / f"backend-{backend}"
    place.mkdir()
    (place / "jobs.json").write_text(json.dumps(list(jobs.values())))
    script = Path(__file__).with_name("mla_engine.py")
    done = subprocess.run(
        [sys.executable, script, folder, place / "jobs.json", place / "out.json"],
        env=env | {"V1_CPU_BACKEND": backend},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return dict(zip(jobs, json.loads((place / "out.json").read_text()), strict=True)), done.stdout


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, child_env: dict[str, str]) -> tuple[Any, Any]:
    """vLLM's own answers and ours, each with its log."""
    folder = tmp_path_factory.mktemp("mla")
    return engines(child_env, folder, OWN_JOBS, "0"), engines(child_env, folder, JOBS, "1")


def check(own: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Equal tokens up to a tie of the two best logits, equal log-probabilities up to there."""
    assert len(own) == len(ours) > 0
    for a, b in zip(own, ours, strict=True):
        for step, (want, got) in enumerate(zip(a["tokens"], b["tokens"], strict=True)):
            if want != got:
                best, second = a["logprobs"][step]
                assert best - second < TIE, f"token {step}: {want} became {got}, and it was no tie"
                break
            assert a["logprobs"][step] == pytest.approx(b["logprobs"][step], abs=1e-3)


@pytest.mark.parametrize("name", [*OWN_JOBS, *SAME_AS])
def test_tokens_are_those_of_cpu_mla(runs: tuple[Any, Any], name: str) -> None:
    own, ours = runs[0][0][SAME_AS.get(name, name)], runs[1][0][name]
    assert "error" not in own, own["error"]
    assert "error" not in ours, ours["error"]
    assert (own["impl"], ours["impl"]) == ([OWN], [OURS])
    half = len(own["answers"])
    for first in range(0, len(ours["answers"]), half):  # every round
        check(own["answers"], ours["answers"][first : first + half])
    assert len({token for answer in own["answers"] for token in answer["tokens"]}) > 20, "the model repeats itself"


def test_a_prefix_is_cached_and_gives_the_same_tokens(runs: tuple[Any, Any]) -> None:
    own, ours = (run[0]["yarn, as published models have it"]["answers"] for run in runs)
    half = len(ours) // 2
    assert not any(answer["cached"] for answer in own)
    assert sum(answer["cached"] for answer in ours[half:]) > 2500
    assert [a["tokens"] for a in ours[:half]] == [a["tokens"] for a in ours[half:]]


def test_a_wrong_scale_is_noticed(runs: tuple[Any, Any]) -> None:
    broken = runs[1][0]["the scale halved"]
    assert "error" not in broken, broken["error"]
    with pytest.raises(AssertionError):
        check(runs[0][0]["yarn, as published models have it"]["answers"], broken["answers"])


@pytest.mark.parametrize(
    ("name", "near"),
    [pytest.param("e4m3", 0.2, id="3 bits of mantissa"), pytest.param("e5m2", 0.5, id="2 bits of mantissa")],
)
def test_a_float8_cache_of_latents_is_near(runs: tuple[Any, Any], name: str, near: float) -> None:
    """vLLM's own backends keep none: the first tokens' best log probabilities, held against those of float32 caches."""
    own, ours = runs[0][0]["yarn, as published models have it"], runs[1][0][name]
    assert "error" not in ours, ours["error"]
    pairs = zip(own["answers"], ours["answers"], strict=True)
    off = [abs(a["logprobs"][0][0] - b["logprobs"][0][0]) for a, b in pairs]
    assert 0 < statistics.fmean(x * x for x in off) ** 0.5 < near, off


def test_the_log_warns_of_vllm_s_rotary_operator(runs: tuple[Any, Any]) -> None:
    """Once, for the one job that goes through it; never where v1_cpu does not serve."""
    assert runs[1][1].count(WARNING) == 1
    assert WARNING not in runs[0][1]
