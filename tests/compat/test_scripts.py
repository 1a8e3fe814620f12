"""Scripts and plugins for V0 as people have them, in our own words: each runs under the shim to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = [
    pytest.param(
        """
import os
os.environ["VLLM_USE_V1"] = "0"
import vllm.envs as envs
used = "v1" if envs.VLLM_USE_V1 else "v0"
if not envs.is_set("VLLM_USE_V1"):
    raise SystemExit("it was set above")
envs.set_vllm_use_v1(False)
result = used
""",
        "v1",
        {"V1M004", "V1M201", "V1M203"},
        id="a script that switches to V0 before its imports",
    ),
    pytest.param(
        """
from unittest.mock import patch
target = "vllm.worker.worker.Worker._assert_memory_footprint_increased_during_profiling"
with patch(target, return_value=None):
    result = "patched"
""",
        "patched",
        {"V1M003"},
        id="the patch that reinforcement learning recipes copy from each other",
    ),
    pytest.param(
        """
from vllm.worker.worker import Worker
class WeightSyncWorker(Worker):
    def __init__(self, *args, **kwargs):
        self.model_update_group = None
        super().__init__(*args, **kwargs)
    def update_named_param(self, name, dtype, shape):
        return name
from types import SimpleNamespace
config = SimpleNamespace(cache_config=SimpleNamespace(cache_dtype="auto"))
made = WeightSyncWorker(config, 0, 0, "tcp://localhost", is_driver_worker=True)
result = made.update_named_param("w", None, ()), made.is_driver_worker
""",
        ("w", True),
        {"V1M003"},
        id="a worker that takes new weights",
    ),
    pytest.param(
        """
def convert(low_bit):
    from vllm.worker.cpu_model_runner import CPUModelRunner
    def load_model(self):
        self.model = low_bit
    setattr(CPUModelRunner, "load_model", load_model)
convert("sym_int4")
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
runner = CPUModelRunner(None, "cpu")
runner.load_model()
result = runner.model
""",
        "sym_int4",
        {"V1M003"},
        id="a runner's method replaced in a function",
    ),
    pytest.param(
        """
import importlib
module = importlib.import_module("vllm.worker.cpu_model_runner")
module.CPUModelRunner.execute_model = lambda self, *args: "mine"
from vllm.v1.worker.cpu_model_runner import CPUModelRunner
result = CPUModelRunner(None, "cpu").execute_model(None)
""",
        "mine",
        {"V1M003"},
        id="a module bound to a name, and its class patched",
    ),
    pytest.param(
        """
import vllm.executor.ray_utils as ray_utils_v0
class Wrapper: ...
setattr(ray_utils_v0, "RayWorkerWrapper", Wrapper)
result = ray_utils_v0.RayWorkerWrapper.__name__
""",
        "Wrapper",
        {"V1M003", "V1M006"},
        id="a class of a module replaced",
    ),
    pytest.param(
        """
import vllm.utils
import vllm.worker.cpu_worker
result = vllm.utils.cdiv(7, 2), vllm.worker.cpu_worker.CPUWorker.__name__
""",
        (4, "CPUWorker"),
        {"V1M001", "V1M003"},
        id="dotted names after plain imports",
    ),
    pytest.param(
        """
BACKENDS = {"worker": "vllm.worker.cpu_worker.CPUWorker", "runner": "vllm.worker.cpu_model_runner.CPUModelRunner"}
from pkgutil import resolve_name
result = [resolve_name(path).__name__ for path in BACKENDS.values()]
""",
        ["CPUWorker", "CPUModelRunner"],
        {"V1M003"},
        id="a table of dotted paths",
    ),
]


@pytest.mark.usefixtures("vllm")
@pytest.mark.parametrize(("text", "result", "rules"), SCRIPTS)
def test_a_script_runs_to_its_end(
    text: str, result: Any, rules: set[str], run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_USE_V1", "1")  # so that what a script sets is taken back
    said = run(text.lstrip())
    assert run.globals["result"] == result  # type: ignore[attr-defined]
    assert {s.file for s in said} <= {"script.py"}
    assert {s.rule for s in said} == rules


ATTENTION = """
import torch
import vllm.attention.backends.torch_sdpa as sdpa
def make_metadata(**fields):
    return sdpa.TorchSDPAMetadata(**fields)
sdpa.TorchSDPABackend.make_metadata = staticmethod(make_metadata)
metadata = sdpa.TorchSDPABackend.make_metadata(
    num_prefills=1, num_prefill_tokens=3, num_decode_tokens=0, slot_mapping=torch.zeros(0, dtype=torch.long),
    multi_modal_placeholder_index_maps=None, enable_kv_scales_calculation=False, seq_lens=[3],
    seq_lens_tensor=torch.tensor([3]), max_decode_seq_len=0, block_tables=None, chunked_prefill=False)
layer = sdpa.TorchSDPABackendImpl(2, 16, 0.25, 2, None, None, "auto")
x = torch.ones(3, 32)
result = layer.forward(None, x, x, x, None, metadata).tolist() == x.tolist()
del sdpa.TorchSDPABackend.make_metadata
print(result)
"""


def test_a_micro_benchmark_of_the_attention_layer_runs(
    small_vllm: Path, child: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """In a process of its own: the adapters derive from the classes of the first vLLM that they meet."""
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(ATTENTION.lstrip())
    done = child(["-m", "v1_compat", "script.py"], small_vllm, cwd=tmp_path)
    assert done.stdout == "True\n"
    assert {line.split()[2] for line in done.stderr.splitlines() if "Warning: V1M" in line} == {
        "V1M001",
        "V1M003",
        "V1M101",
    }
