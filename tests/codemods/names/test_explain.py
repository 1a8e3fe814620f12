"""`v1-migrate explain NAME`."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from v1_migrate.names.curated import Curated
from v1_migrate.names.explain import UnknownName, explain
from v1_migrate.names.releases import UnknownRelease, sort_key


@pytest.mark.parametrize(
    ("name", "target", "parts"),
    [
        pytest.param(
            "vllm.utils.cdiv",
            None,
            ["0.8.5 to 0.11.0.post2", "gone in 0.11.1", "vllm.utils.math_utils.cdiv (moved)"],
            id="a move",
        ),
        pytest.param(
            "vllm.attention.AttentionMetadata",
            None,
            [
                "re-exported class",
                "vllm.attention.backends.abstract.AttentionMetadata (moved)",
                "vllm.v1.attention.backend.AttentionMetadata (moved)",
            ],
            id="a name that moves twice",
        ),
        pytest.param(
            "vllm.worker.worker.Worker",
            "0.32.0",
            ["other contract", "What differs:", "collective_rpc"],
            id="another contract",
        ),
        pytest.param("vllm.core.evictor.LRUEvictor", None, ["gone", "evictor"], id="gone, advice by module"),
        pytest.param(
            "CPUWorker", None, ["2 names end in CPUWorker", "vllm.worker.cpu_worker.CPUWorker"], id="a bare class name"
        ),
        pytest.param(
            "ipex_attn._PagedAttention",
            None,
            ["vllm.attention.ops.ipex_attn._PagedAttention", "v1_cpu._PagedAttention"],
            id="the end of a name",
        ),
        pytest.param(
            "vllm.sequence.SamplerOutput",
            None,
            ["in no release", "vllm.v1.outputs.SamplerOutput"],
            id="a place before 0.8.5",
        ),
        pytest.param("VLLM_USE_V1", None, ["environment variable", "0.11.1"], id="an environment variable"),
        pytest.param("vllm.envs.VLLM_USE_V1", None, ["environment variable"], id="the same as an attribute"),
        pytest.param("--device", None, ["option", "0.10.0"], id="an option"),
        pytest.param("TORCH_SDPA", None, ["attention backend", "CPU_ATTN"], id="a backend name"),
        pytest.param(
            "vllm.config.CacheConfig.swap_space",
            None,
            ["0.8.5 to 0.17.1, gone in 0.18.0", "0.18.0 ... 0.32.0      gone"],
            id="gone by the table where the source leaves it open",
        ),
        pytest.param(
            "guided_json", None, ["field of a request", "0.12.0", "structured_outputs"], id="a request's field"
        ),
        pytest.param("vllm.LLM", None, ["still there"], id="a name that stays"),
    ],
)
def test_explain(name: str, target: str | None, parts: list[str]) -> None:
    text = explain(name, target)
    assert [part for part in parts if part not in text] == []
    assert all(len(line) <= 160 for line in text.splitlines())


def test_errors() -> None:
    with pytest.raises(UnknownName, match="NoSuchThing"):
        explain("NoSuchThing")
    with pytest.raises(UnknownRelease):
        explain("CPUWorker", "0.0.1")


def test_the_attention_names_go_where_they_are_asked_to() -> None:
    """By the command line, which takes the bare name, too; V0's name comes first."""
    command = [sys.executable, "-m", "v1_migrate", "explain", "TorchSDPABackend"]
    said = [
        subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout
        for more in ([], ["--attention", "v1_cpu"])
    ]
    assert "v1_cpu.TorchSDPABackend" not in said[0] and "v1_cpu.TorchSDPABackend (" in said[1]
    for text in said:
        old, new = "  vllm.attention.backends.torch_sdpa.", "  vllm.v1.attention.backends.cpu_attn."
        assert 0 < text.index(old) < text.index(new)


def test_a_member_is_found_by_its_class_and_told_what_to_do() -> None:
    text = explain("SamplingParams.best_of")
    assert text.startswith("vllm.sampling_params.SamplingParams.best_of\n")
    assert "gone in 0.12.0" in text
    assert "ask for n" in text


@pytest.mark.parametrize("target", ["0.10.0", "0.11.0"])
def test_a_name_that_is_still_there_is_told_where_it_goes(target: str) -> None:
    text = explain("vllm.utils.FlexibleArgumentParser", target)
    assert "still there" in text
    assert "From 0.11.1 on it is vllm.utils.argparse_utils.FlexibleArgumentParser." in text


def test_no_name_with_a_later_place_is_said_to_have_none() -> None:
    curated = Curated.load()
    for entry in curated.entries():
        for target in ("0.10.0", "0.11.0", "0.16.0"):
            fate = curated.fate(entry.old, target)
            later = [place for first, place in entry.to if sort_key(first) > sort_key(target)]
            if fate is not None and any(later[:1]):
                assert not re.search(r"othing takes its place from [\d.]+ on\.", fate.advice), entry.old
