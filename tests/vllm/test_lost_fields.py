"""Fields that vLLM's configurations lost, asked of those that an engine has: served with a word, or refused with advice."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .conftest import HERE, ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)


@pytest.fixture(scope="module")
def fields(models: Path, child_env: dict[str, str]) -> dict[str, Any]:
    sources = [str(ROOT), str(ROOT / "codemods"), str(ROOT / "compat")]
    command = [sys.executable, "-m", "v1_compat", str(HERE / "legacy_fields.py"), str(models / "llama")]
    env = child_env | {"PYTHONPATH": os.pathsep.join(sources)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_lost_field_is_served_or_refused_with_advice(fields: dict[str, Any]) -> None:
    answers = {f"{owner}.{name}": how for owner, names in fields["answers"].items() for name, how in names.items()}
    assert fields["without"] == [], "configurations that were not asked"
    assert {name: how for name, how in answers.items() if how not in ("served", "LegacyMemberError")} == {}
    assert min(Counter(answers.values()).values()) > 50


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("VllmConfig.decoding_config", "served"),
        ("CacheConfig.swap_space", "served"),
        ("CompilationConfig.use_cudagraph", "served"),
        ("CompilationConfig.full_cuda_graph", "served"),
        ("CacheConfig.cpu_offload_gb", "LegacyMemberError"),
        ("ModelConfig.task", "LegacyMemberError"),
        ("ModelConfig.max_seq_len_to_capture", "LegacyMemberError"),
        ("ModelConfig.supported_tasks", "LegacyMemberError"),
        ("SchedulerConfig.cuda_graph_sizes", "LegacyMemberError"),
        ("SchedulerConfig.max_model_len", "LegacyMemberError"),
    ],
)
def test_the_best_known_ones(fields: dict[str, Any], name: str, how: str) -> None:
    owner, field = name.split(".")
    assert fields["answers"][owner][field] == how


def test_what_they_mean_is_what_v0_meant(fields: dict[str, Any]) -> None:
    assert fields["meant"] == {
        "decoding": True,
        "graphs": ["PIECEWISE", "FULL", "NONE"],
        "inductor": [True, "inductor"],
        "sizes": 0,
        "eplb": 7,
        "model": [False, None, 128, "left"],
        "drafts": 3,
        "made": "kv_both",
        "uuid": True,
    }
