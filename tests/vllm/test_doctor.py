"""`v1-migrate doctor` asks a real vLLM 0.32.0."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)


def diagnosed(env: dict[str, str], *words: str, **more: str) -> dict[str, Any]:
    """The doctor's JSON on this interpreter's environment."""
    variables = env | more | {"PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], str(ROOT / "codemods")])}
    command = [sys.executable, "-m", "v1_migrate", "doctor", "--format", "json", *(["--", *words] if words else [])]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


def errors(found: dict[str, Any]) -> list[str]:
    return [remark["message"] for remark in found["remarks"] if remark["severity"] == "error"]


@pytest.mark.parametrize(
    ("backend", "served"),
    [pytest.param("1", True, id="v1_cpu"), pytest.param("0", False, id="vLLM's own", marks=pytest.mark.slow)],
)
def test_which_backend_an_engine_would_use(child_env: dict[str, str], models: Path, backend: str, served: bool) -> None:
    found = diagnosed(
        child_env, f"LLM({str(models / 'llama')!r}, dtype='float32', block_size=16)", V1_CPU_BACKEND=backend
    )
    assert found["release"] == "0.32.0"
    assert found["attention"]["v1_cpu"] is served
    assert found["configuration"]["dtype"] == "float32" and found["configuration"]["head_size"] == 32
    ours, own = (
        "v1_cpu.vllm_plugin.backend_0_32.V1CPUBackend",
        "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend",
    )
    assert found["configuration"]["attention"]["path"] == (ours if served else own)
    assert any("No common block size" in message for message in errors(found)) is not served


@pytest.mark.slow
def test_a_configuration_that_makes_the_plugin_step_back(child_env: dict[str, str], models: Path) -> None:
    line = f"vllm serve {models / 'llama'} --kv-cache-dtype int8_per_token_head"
    found = diagnosed(child_env, line, V1_CPU_BACKEND="1")
    assert found["attention"]["v1_cpu"] is False
    warned = [remark["message"] for remark in found["remarks"] if remark["severity"] == "warning"]
    assert any(text.startswith("v1_cpu does not serve") for text in warned), found["remarks"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("--swap-space 4", "unrecognized arguments: --swap-space", id="an option that is gone"),
        pytest.param("--enable-sleep-mode", "Sleep mode is not supported", id="sleep mode"),
    ],
)
def test_what_vllm_itself_refuses(child_env: dict[str, str], models: Path, words: str, message: str) -> None:
    found = diagnosed(child_env, f"vllm serve {models / 'llama'} {words}")
    assert any("vLLM refuses" in text for text in errors(found))
    assert any(message in text for text in errors(found)), errors(found)


V4 = {
    "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "torch_dtype": "bfloat16",
    "vocab_size": 256, "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 1,
    "head_dim": 512, "compress_ratios": [1, 4, 128], "q_lora_rank": 128, "o_lora_rank": 128, "o_groups": 2,
    "qk_rope_head_dim": 64, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
    "index_n_heads": 4, "index_head_dim": 128, "index_topk": 64, "sliding_window": 128, "max_position_embeddings": 1024,
}  # fmt: skip
V2 = {
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "torch_dtype": "float16",
    "vocab_size": 256, "hidden_size": 128, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "kv_lora_rank": 48, "qk_rope_head_dim": 64, "qk_nope_head_dim": 32, "v_head_dim": 32,
    "max_position_embeddings": 1024,
}  # fmt: skip


def folder(place: Path, config: dict[str, Any]) -> str:
    (place / "config.json").write_text(json.dumps(config))
    return str(place)


def test_deepseek_v4_keeps_its_blocks_beside_the_plugin(child_env: dict[str, str], tmp_path: Path) -> None:
    """Its layers, which v1_cpu has no part in, take blocks of 256 alone, and vLLM says so over what the user said."""
    call = f"LLM({folder(tmp_path, V4)!r}, block_size=64, skip_tokenizer_init=True)"
    found = diagnosed(child_env, call, V1_CPU_BACKEND="1")
    assert found["configuration"]["use_mla"] is True and found["configuration"]["block_size"] == 256
    assert found["attention"]["path"] == "vllm.models.deepseek_v4" and found["attention"]["v1_cpu"] is False
    assert any(r["message"].startswith("v1_cpu does not serve, the model's own layers do") for r in found["remarks"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", [pytest.param("1", id="v1_cpu"), pytest.param("0", id="vLLM's own")])
def test_latents_in_float16_and_a_float8_cache(child_env: dict[str, str], tmp_path: Path, backend: str) -> None:
    """vLLM's choice where there is AMX answers wrongly; what its CPU_ATTN would refuse, a float8 cache of heads of
    112, does not count."""
    call = f"LLM({folder(tmp_path, V2)!r}, skip_tokenizer_init=True, kv_cache_dtype='fp8')"
    found = diagnosed(child_env, call, V1_CPU_BACKEND=backend)
    amx = "amx_tile" in found["environment"]["machine"]["flags"]
    own = "amx_mla.AMXMLABackend" if amx else "cpu_mla.CPUMLABackend"
    path = "v1_cpu.vllm_plugin.mla_0_32.MLABackend" if backend == "1" else f"vllm.v1.attention.backends.mla.{own}"
    assert found["configuration"]["attention"]["path"] == path and found["configuration"]["dtype"] == "float16"
    wrong = [message for message in errors(found) if "answers wrongly in float16" in message]
    assert bool(wrong) is (backend == "0" and amx)
    assert (errors(found) == []) is (backend == "1"), errors(found)
