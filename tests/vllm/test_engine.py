"""vLLM's engine answers the same with v1_cpu as with its own CPU attention."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .conftest import SERVED, Run, job

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)

TIE = 1e-4  # two best logits closer than this may swap
FAST = {
    "grouped heads, chunked prefill, and a second round from the prefix cache": job("llama", rounds=2),
    "soft cap, and windows on every other layer": job("gemma2"),
    "an encoder-only model's embeddings": job(
        "bert", task="embed", llm={"runner": "pooling", "max_num_batched_tokens": 512}
    ),
}
SLOW = {
    "a window on every layer": job("mistral"),
    "windows of several cache groups": job("gemma3"),
    "ALiBi": job("bloom"),
    "sinks, and windows on every other layer": job("gptoss"),
    "layers that share a cache, and two head sizes": job("gemma4"),
    "one KV head, norms on queries and keys": job("qwen3"),
    "float16": job("llama", llm={"dtype": "float16"}),
    "bfloat16, weights not drawn wide": job("mild", llm={"dtype": "bfloat16"}),
    "blocks of 128": job("llama", llm={"block_size": 128}),
    "prompts of 3,500 tokens": job(
        "llama", lengths=(3500, 5, 2100), llm={"max_model_len": 4096, "max_num_batched_tokens": 1024}
    ),
    "a batch of 32": job("gemma2", lengths=tuple(range(1, 200, 7)), llm={"max_num_seqs": 32}),
    "compiled": job("llama", llm={"enforce_eager": False}),
    "a float8 cache, e4m3": job("llama", llm={"kv_cache_dtype": "fp8", "dtype": "bfloat16"}),
    "a float8 cache, e5m2": job("llama", llm={"kv_cache_dtype": "fp8_e5m2", "dtype": "bfloat16"}),
    # Last: it loads numba, after which vLLM 0.32.0 cannot start another engine in the same process.
    "n-gram speculation": job(
        "llama", llm={"speculative_config": {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}}
    ),
}
BROKEN = {
    "the window": ("a window on every layer", job("mistral", broken={"sliding_window": None})),
    "ALiBi": ("ALiBi", job("bloom", broken={"alibi_slopes": None})),
    "the soft cap": ("soft cap, and windows on every other layer", job("gemma2", broken={"logits_soft_cap": None})),
    "the scale": ("soft cap, and windows on every other layer", job("gemma2", broken={"scale": 0.25})),
    "the sinks": ("sinks, and windows on every other layer", job("gptoss", broken={"sinks": None})),
}
"""Where v1_cpu's kernel is called wrongly on purpose, and the job that must notice."""
LOSSY = {
    "float16",
    "bfloat16, weights not drawn wide",
    "a float8 cache, e4m3",
    "a float8 cache, e5m2",
}  # roundings differ: mostly equal


@pytest.fixture(scope="session")
def fast(engine: Callable[..., Run]) -> tuple[Run, Run]:
    jobs = FAST | {"bfloat16": job("llama", llm={"dtype": "bfloat16"})}
    return both(engine, jobs, "1")


@pytest.fixture(scope="session")
def slow(engine: Callable[..., Run]) -> tuple[Run, Run]:
    return both(engine, SLOW, "strict")


def both(engine: Callable[..., Run], jobs: dict[str, Any], backend: str) -> tuple[Run, Run]:
    """vLLM's own answers and those with v1_cpu, from two processes at once."""
    with ThreadPoolExecutor(2) as pool:
        own, ours = (pool.submit(engine, jobs, value) for value in ("0", backend))
        return own.result(), ours.result()


@pytest.mark.parametrize("name", FAST)
def test_same_answers(fast: tuple[Run, Run], name: str) -> None:
    own, ours = (run.results[name] for run in fast)
    check_who_served(own, ours)
    if "embeddings" in ours:
        for a, b in zip(own["embeddings"], ours["embeddings"], strict=True):
            assert a == pytest.approx(b, abs=1e-4)
    else:
        check_answers(own["answers"], ours["answers"], 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SLOW.keys() - LOSSY))
def test_same_answers_at_length(slow: tuple[Run, Run], name: str) -> None:
    own, ours = (run.results[name] for run in slow)
    check_who_served(own, ours)
    check_answers(own["answers"], ours["answers"], 1e-3)


def test_bfloat16_mostly_the_same(fast: tuple[Run, Run]) -> None:
    own, ours = (run.results["bfloat16"] for run in fast)
    check_who_served(own, ours)
    check_mostly(own["answers"], ours["answers"])


@pytest.mark.slow
def test_float16_mostly_the_same(slow: tuple[Run, Run]) -> None:
    own, ours = (run.results["float16"] for run in slow)
    check_who_served(own, ours)
    check_mostly(own["answers"], ours["answers"])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in LOSSY if "float8" in name))
def test_float8_cache_is_as_near_to_no_float8_as_vllm_s_own(
    fast: tuple[Run, Run], slow: tuple[Run, Run], name: str
) -> None:
    """Both lose far more to the cache's few bits than to each other: each is measured from the bfloat16 cache."""
    own, ours = (run.results[name] for run in slow)
    check_who_served(own, ours)
    whole = fast[0].results["bfloat16"]["answers"]
    lost = [
        sum(abs(a["logprobs"][0][0] - b["logprobs"][0][0]) for a, b in zip(whole, run["answers"], strict=True))
        for run in (own, ours)
    ]
    assert 0 < lost[1] <= 1.5 * lost[0] + 0.05 * len(whole)


def test_prefix_cache_is_hit(fast: tuple[Run, Run]) -> None:
    for run in fast:
        answers = run.results["grouped heads, chunked prefill, and a second round from the prefix cache"]["answers"]
        half = len(answers) // 2
        assert sum(answer["cached"] for answer in answers[half:]) > 500
        assert [a["tokens"] for a in answers[:half]] == [a["tokens"] for a in answers[half:]]


def test_log_says_once_what_serves(fast: tuple[Run, Run]) -> None:
    own, ours = fast
    lines = [line for line in ours.log.splitlines() if SERVED in line]
    assert len(lines) == 1
    assert "INFO" in lines[0] and "kernel, instruction set" in lines[0] and "self-test passed" in lines[0]
    assert SERVED not in own.log and "v1_cpu does not serve" not in own.log


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "llm"),
    [
        pytest.param({}, {}, id="an engine core in a process of its own"),
        pytest.param(
            {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}, {"tensor_parallel_size": 2}, id="tensor parallel over two processes"
        ),
    ],
)
def test_engine_in_other_processes(
    fast: tuple[Run, Run], engine: Callable[..., Run], env: dict[str, str], llm: dict[str, Any]
) -> None:
    got = engine({"llama": job("llama", llm=llm)}, "strict", VLLM_ENABLE_V1_MULTIPROCESSING="1", **env)
    assert SERVED in got.log
    assert "error" not in got.results["llama"], got.results["llama"]["error"]
    reference = fast[0].results["grouped heads, chunked prefill, and a second round from the prefix cache"]["answers"]
    answers = got.results["llama"]["answers"]
    check_answers(reference[: len(answers)], answers, 1e-3)


@pytest.mark.slow
def test_lora_adapter(engine: Callable[..., Run]) -> None:
    """In processes of its own, so that a vLLM that cannot load its LoRA kernels spoils no other engine."""
    own, ours = both(
        engine, {"lora": job("llama", lora="lora", llm={"enable_lora": True, "max_lora_rank": 8})}, "strict"
    )
    if "error" in own.results["lora"]:
        pytest.skip(f"vLLM itself cannot serve LoRA here: {own.results['lora']['error'].splitlines()[-1]}")
    check_who_served(own.results["lora"], ours.results["lora"])
    check_answers(own.results["lora"]["answers"], ours.results["lora"]["answers"], 1e-3)


@pytest.mark.slow
def test_blocks_of_16(fast: tuple[Run, Run], engine: Callable[..., Run]) -> None:
    """vLLM's own backend refuses them; the answers are those of its blocks of 32."""
    ours = engine({"16": job("llama", llm={"block_size": 16})}, "strict").results["16"]
    assert "error" not in ours, ours["error"]
    own = fast[0].results["grouped heads, chunked prefill, and a second round from the prefix cache"]["answers"]
    check_answers(own[: len(ours["answers"])], ours["answers"], 1e-3)


@pytest.mark.slow
def test_bfloat16_log_probabilities_are_near(slow: tuple[Run, Run]) -> None:
    """Up to where a close call goes the other way; weights that are not drawn wide do not magnify the rounding."""
    own, ours = (run.results["bfloat16, weights not drawn wide"] for run in slow)
    check_who_served(own, ours)
    check_answers(own["answers"], ours["answers"], 3e-2, tie=6e-2)


@pytest.fixture(scope="session")
def spoiled(engine: Callable[..., Run]) -> Run:
    return engine({name: job for name, (_, job) in BROKEN.items()}, "strict")


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_kernel_that_is_called_wrongly_is_noticed(
    fast: tuple[Run, Run], slow: tuple[Run, Run], spoiled: Run, name: str
) -> None:
    """The comparisons above can fail: an argument dropped or changed in our backend changes the tokens."""
    noticing = BROKEN[name][0]
    own = {**fast[0].results, **slow[0].results}[noticing]
    check_who_served(own, spoiled.results[name])
    with pytest.raises(AssertionError, match="it was no tie"):
        check_answers(own["answers"], spoiled.results[name]["answers"], 1e9)


@pytest.mark.slow
def test_sleep_mode_is_vllm_s_to_refuse(engine: Callable[..., Run]) -> None:
    """vLLM has none on a CPU: the same refusal, with and without v1_cpu."""
    jobs = {"sleep": job("llama", llm={"enable_sleep_mode": True})}
    own, ours = (engine(jobs, value).results["sleep"]["error"].splitlines() for value in ("0", "strict"))
    assert [line for line in own if "Sleep mode is not supported" in line]
    assert [line for line in ours if "Sleep mode is not supported" in line]


def check_who_served(own: dict[str, Any], ours: dict[str, Any]) -> None:
    """Each side ran on the backend it should have."""
    assert "error" not in own, own["error"]
    assert "error" not in ours, ours["error"]
    assert not [name for name in own["impl"] if name.startswith("v1_cpu.")]
    assert [name for name in ours["impl"] if name.startswith("v1_cpu.vllm_plugin.backend_")]
    assert "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackendImpl" not in ours["impl"]


def check_answers(own: list[dict[str, Any]], ours: list[dict[str, Any]], tolerance: float, tie: float = TIE) -> None:
    """Equal tokens up to a tie of the two best logits; equal log probabilities up to there."""
    assert len(own) == len(ours) > 0
    for a, b in zip(own, ours, strict=True):
        for step, (want, got) in enumerate(zip(a["tokens"], b["tokens"], strict=True)):
            if want != got:
                best, second = a["logprobs"][step]
                assert best - second < tie, f"token {step}: {want} became {got}, and it was no tie"
                break
            assert a["logprobs"][step] == pytest.approx(b["logprobs"][step], abs=tolerance)


def check_mostly(own: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Rounding may turn a close call, after which a sequence is another: three quarters of the tokens before are near."""
    assert len(own) == len(ours) > 0
    agreed, differences = 0, []
    for a, b in zip(own, ours, strict=True):
        for want, got, p, q in zip(a["tokens"], b["tokens"], a["logprobs"], b["logprobs"], strict=True):
            differences.append(abs(p[0] - q[0]))
            if want != got:
                break
            agreed += 1
    assert agreed >= 0.75 * sum(len(a["tokens"]) for a in own)
    assert sorted(differences)[len(differences) // 2] < 3e-2
