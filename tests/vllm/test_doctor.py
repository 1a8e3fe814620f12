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
