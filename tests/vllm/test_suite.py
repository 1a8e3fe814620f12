"""The compatibility suite on vLLM's own CPU backend: it passes for what that serves, and finds the faults of others."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)
OWN = "vllm.v1.attention.backends.cpu_attn:CPUAttentionBackend"
BROKEN = '''
"""vLLM's CPU backend with one fault each."""
from vllm.v1.attention.backends import cpu_attn
from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, CPUAttentionBackendImpl


def backend_with(impl, **more):
    return type("Faulty", (CPUAttentionBackend,), {"get_impl_cls": staticmethod(lambda: impl), **more})


class WrongScale(CPUAttentionBackendImpl):
    def __init__(self, num_heads, head_size, scale, *rest, **more):
        super().__init__(num_heads, head_size, scale * 1.2, *rest, **more)


class NoWindow(CPUAttentionBackendImpl):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.sliding_window = -1


class NoCap(CPUAttentionBackendImpl):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.logits_soft_cap = 0


class OfTheBatch(CPUAttentionBackendImpl):
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, *rest):
        return super().forward(layer, query, key, value, kv_cache, attn_metadata, output, *rest).mul_(
            1 + 0.01 * len(attn_metadata.seq_lens)
        )


class ForgetsTheEncoder(CPUAttentionBackendImpl):
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, *rest):
        super().forward(layer, query, key, value, kv_cache, attn_metadata, output, *rest)
        return output.zero_() if self.attn_type == "encoder_decoder" and key is None else output


class CausalEncoder(CPUAttentionBackendImpl):
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, *rest):
        attn_metadata.causal = True
        return super().forward(layer, query, key, value, kv_cache, attn_metadata, *rest)


class Float8(CPUAttentionBackendImpl):
    def forward(self, layer, *rest):
        layer._v_scale_float = 1.5 if self.kv_cache_dtype != "auto" else 1.0
        return super().forward(layer, *rest)


class StaysSilent(CPUAttentionBackendImpl):
    def forward(self, layer, query, key, value, kv_cache, attn_metadata, output, *rest):
        return output.zero_()


Scale, Window, Cap, Mixed = map(backend_with, (WrongScale, NoWindow, NoCap, OfTheBatch))
Cross, Encoder, Bytes, Zero = map(backend_with, (ForgetsTheEncoder, CausalEncoder, Float8, StaysSilent))
DecoderOnly = type("DecoderOnly", (CPUAttentionBackend,), {"supports_attn_type": lambda kind: kind == "decoder"})
'''


@pytest.fixture
def folder(tmp_path: Path, entry_points: Path) -> Path:
    """With faulty backends, and this tree's pytest plugin declared."""
    (tmp_path / "broken.py").write_text(BROKEN)
    shutil.copytree(entry_points, tmp_path, dirs_exist_ok=True)
    return tmp_path


def run_suite(folder: Path, env: dict[str, str], *options: str) -> tuple[int, str, set[str]]:
    """Exit code, output, and the names of the failed tests."""
    paths = [str(folder), str(ROOT), str(ROOT / "codemods"), str(ROOT / "compat")]
    command = [sys.executable, "-m", "pytest", "-q", "-rfs", "-p", "no:cacheprovider", "--tb=short"]
    done = subprocess.run(
        [*command, "--pyargs", "v1_compat.suite", "--backend", *options],
        cwd=folder,
        env=env | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    names = {re.split(r"[\[ ]", line.split("::")[1])[0] for line in lines}
    return done.returncode, done.stdout + done.stderr, names


def test_vllms_own_backend_passes_for_what_it_serves(folder: Path, child_env: dict[str, str]) -> None:
    code, output, failed = run_suite(folder, child_env, OWN)
    assert code == 0 and not failed, output
    assert int(re.findall(r"(\d+) passed", output)[-1]) > 90
    assert "does not claim blocks of 16" in output and "does not claim blocks of 128" not in output
    assert "does not claim attention" not in output


def test_what_a_backend_does_not_claim_is_skipped(folder: Path, child_env: dict[str, str]) -> None:
    code, output, _ = run_suite(folder, child_env, "broken:DecoderOnly", "-k", "encoder or any_block")
    assert code == 0, output
    assert "does not claim attention of the encoder_only" in output and "1 passed" in output


FAULTS = {
    "Scale": {"test_any_block_size_serves", "test_a_batch_is_dense_causal_attention"},
    "Window": {
        "test_a_sliding_window_lets_a_query_see_exactly_that_many_keys",
        "test_the_window_is_exact_where_the_runner_dropped_the_blocks_before_it",
        "test_an_encoder_window_is_symmetric",
    },
    "Cap": {"test_a_soft_cap_is_applied_to_the_logits"},
    "Mixed": {"test_a_request_is_the_same_alone_and_in_a_batch"},
    "Cross": {"test_cross_attention_sees_all_of_the_encoder_in_every_step"},
    "Bytes": {"test_a_float8_cache_is_read_as_it_was_rounded"},
    "Encoder": {"test_an_encoder_only_layer_is_not_causal", "test_the_encoder_of_an_encoder_decoder_is_not_causal"},
    "Zero": {"test_a_mixed_batch_is_v1s_answer"},
}


@pytest.mark.parametrize(("name", "found"), FAULTS.items(), ids=FAULTS.keys())
def test_a_fault_is_found(folder: Path, child_env: dict[str, str], name: str, found: set[str]) -> None:
    code, output, failed = run_suite(folder, child_env, f"broken:{name}", "-k", " or ".join(sorted(found)))
    if "FP8 KV cache on CPU requires" in output:
        pytest.skip("vLLM's float8 needs AVX-512")
    assert code == 1 and failed == found, output
