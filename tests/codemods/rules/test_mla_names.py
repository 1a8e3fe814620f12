"""V0's names of CPU MLA: what becomes of them with v1_cpu's attention and with vLLM's own, and what is said."""

from __future__ import annotations

import pytest
from harness import dedent, rewrite
from v1_migrate.engine.verdicts import Judge

PLACE = "vllm.attention.backends.cpu_mla"
BEFORE = dedent("""
    from vllm.attention.backends.cpu_mla import CPUMLABackend, CPUMLAImpl

    shape = CPUMLABackend.get_kv_cache_shape(8, 16, 1, 576)
    state = CPUMLABackend.get_state_cls()
    layers = {"mla": CPUMLAImpl}
""")
AFTER = dedent("""
    from vllm.attention.backends.cpu_mla import CPUMLAImpl
    from v1_cpu.mla import CPUMLABackend

    shape = CPUMLABackend.get_kv_cache_shape(8, 16, 1, 576)
    state = CPUMLABackend.get_state_cls()
    layers = {"mla": CPUMLAImpl}
""")


@pytest.mark.parametrize("target", ["0.10.0", "0.16.0", "0.32.0"])
def test_the_backend_moves_to_v1_cpu_and_the_layer_is_told_of(target: str) -> None:
    done = rewrite(BEFORE, target, attention="v1_cpu")
    assert done.text == AFTER
    assert done.lines("V1M003") == [1, 6]
    assert "kv_b_proj" in done.said("V1M003")[0].advice
    assert done.lines("V1M004") == [5], "v1_cpu's class has no get_state_cls"


@pytest.mark.parametrize(
    ("target", "rule", "words"),
    [
        pytest.param("0.16.0", "V1M004", "VLLM_MLA_DISABLE=1", id="a target without MLA on the CPU"),
        pytest.param("0.32.0", "V1M003", "no swap_blocks", id="a target that has it again"),
    ],
)
def test_with_vllm_s_attention_it_is_told_of(target: str, rule: str, words: str) -> None:
    done = rewrite(BEFORE, target, attention="vllm")
    assert done.text == BEFORE
    assert words in " ".join(finding.advice for finding in done.said(rule))


@pytest.mark.parametrize("name", ["CPUMLABackend", "CPUMLAImpl", "CPUMLAMetadata", "CPUMLAMetadataBuilder"])
def test_every_name_has_its_place_in_v1_cpu(name: str) -> None:
    assert Judge("0.32.0", "v1_cpu").judge(f"{PLACE}.{name}").new == f"v1_cpu.mla.{name}"


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        pytest.param("concat_and_cache_mla", "0.32.0", "write_latent_cache", id="an operation that left the CPU"),
        pytest.param("mla_decode_kvcache_cpu", "0.32.0", "mla_paged_attention", id="an operation that stays"),
    ],
)
def test_the_operations_name_their_successors(name: str, target: str, words: str) -> None:
    judge = Judge(target)
    fate = judge.curated.fate(f"vllm._custom_ops.{name}", target, "vllm")
    assert fate is not None
    assert words in fate.advice
    assert judge.judge(f"vllm._custom_ops.{name}").status == "present"
