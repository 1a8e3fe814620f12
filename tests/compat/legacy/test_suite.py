"""The suite passes for sound backends of both kinds, and fails, in the right place, for broken ones."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
BROKEN = '''
"""Backends with one fault each."""
import itertools
import torch
from v1_compat.legacy.torch_sdpa import TorchSDPABackend, TorchSDPABackendImpl, TorchSDPAMetadata
from v1_cpu import backend as v1


def backend_with(impl, base=TorchSDPABackend):
    return type("Faulty", (base,), {"get_impl_cls": staticmethod(lambda: impl)})


def described_by(metadata):
    return type("Faulty", (TorchSDPABackend,), {"get_metadata_cls": staticmethod(lambda: metadata)})


class WrongScale(TorchSDPABackendImpl):
    def __init__(self, num_heads, head_size, scale, *rest):
        super().__init__(num_heads, head_size, scale * 1.2, *rest)


class NoWindow(TorchSDPABackendImpl):
    def __init__(self, num_heads, head_size, scale, num_kv_heads, alibi, window, *rest):
        super().__init__(num_heads, head_size, scale, num_kv_heads, alibi, None, *rest)


class NoCap(TorchSDPABackendImpl):
    def __init__(self, *args):
        super().__init__(*args[:8], None, *args[9:])


class StaleLengths(TorchSDPABackendImpl):
    """Reads a metadata object's lengths once."""

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, *rest):
        if not hasattr(attn_metadata, "first_lens"):
            attn_metadata.first_lens = attn_metadata.seq_lens_tensor.clone()
        lens, attn_metadata.seq_lens_tensor = attn_metadata.seq_lens_tensor, attn_metadata.first_lens
        out = super().forward(layer, query, key, value, kv_cache, attn_metadata, *rest)
        attn_metadata.seq_lens_tensor = lens
        return out


class KeysWhereValuesAre(TorchSDPABackendImpl):
    """Sound by itself, and no other code finds what it stored."""

    def forward(self, layer, query, key, value, kv_cache, *rest):
        if kv_cache is None or not kv_cache.numel():
            return super().forward(layer, query, key, value, kv_cache, *rest)
        turned = kv_cache.flip(0).contiguous()
        out = super().forward(layer, query, key, value, turned, *rest)
        kv_cache.copy_(turned.flip(0))
        return out


class OfTheBatch(TorchSDPABackendImpl):
    """Answers depend on what else is in the batch."""

    def forward(self, layer, query, key, value, kv_cache, attn_metadata, *rest):
        out = super().forward(layer, query, key, value, kv_cache, attn_metadata, *rest)
        return out * (1 + 0.01 * attn_metadata.num_decode_tokens)


class ForgetsTheEncoder(TorchSDPABackendImpl):
    def forward(self, layer, query, key, *rest):
        out = super().forward(layer, query, key, *rest)
        return out.zero_() if self.attn_type == "encoder_decoder" and key is None else out


class NoFloat8(TorchSDPABackendImpl):
    def forward(self, layer, *rest):
        layer._v_scale = torch.ones(()) * (1.5 if self.kv_cache_dtype != "auto" else 1)
        return super().forward(layer, *rest).mul(1.5 if self.kv_cache_dtype == "fp8_e5m2" else 1)


class CausalEncoder(v1.TorchSDPABackendImpl):
    def _attend_dense(self, query, key, value, metadata, out):
        self.attn_type, kind = "decoder", self.attn_type
        metadata.causal = True
        super()._attend_dense(query, key, value, metadata, out)
        self.attn_type = kind


class ZeroOutput(v1.TorchSDPABackendImpl):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs).zero_()


class NeverDecodes(TorchSDPAMetadata):
    decode_metadata = property(lambda self: None)


class AlwaysBoth(TorchSDPAMetadata):
    prefill_metadata = decode_metadata = property(lambda self: self)


class AnyKind(TorchSDPAMetadata):
    def get_attn_bias(self, attn_type):
        return None


class EachOther(TorchSDPAMetadata):
    numbers = itertools.count()

    def __repr__(self):
        return str(next(self.numbers))


class Large(TorchSDPABackend):
    @staticmethod
    def get_kv_cache_shape(num_blocks, *rest):
        return TorchSDPABackend.get_kv_cache_shape(num_blocks + 1, *rest)


class NoCopies(TorchSDPABackend):
    @staticmethod
    def copy_blocks(kv_caches, pairs):
        pass


Scale, Window, Cap, Stale = map(backend_with, (WrongScale, NoWindow, NoCap, StaleLengths))
Layout, Mixed, Cross, Float8 = map(backend_with, (KeysWhereValuesAre, OfTheBatch, ForgetsTheEncoder, NoFloat8))
Encoder, Zero = (backend_with(impl, v1.TorchSDPABackend) for impl in (CausalEncoder, ZeroOutput))
Halves, Both, Kind, Other = map(described_by, (NeverDecodes, AlwaysBoth, AnyKind, EachOther))
'''


def run_suite(folder: Path, *options: str) -> tuple[int, str, list[str]]:
    """Exit code, output, and the names of the failed tests of the suite, started in an empty folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider"]
    command += ["--tb=no", "--pyargs", "v1_compat.suite", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return done.returncode, done.stdout + done.stderr, [re.split(r"[\[ ]", line.split("::")[1])[0] for line in lines]


@pytest.fixture(scope="session")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that declares this tree's pytest plugin, so that pytest finds it without an installation."""
    points = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]["pytest11"]
    folder = tmp_path_factory.mktemp("site")
    info = folder / "v1_migrate-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: v1-migrate\nVersion: 0.0.0\n")
    (info / "entry_points.txt").write_text("[pytest11]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    return folder


@pytest.fixture
def folder(declared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "broken.py").write_text(BROKEN)
    paths = [str(Path(p).resolve()) for p in sys.path if p]
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), str(declared), *paths]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # small tensors: threads would wait for each other
    return tmp_path


@pytest.mark.parametrize(
    ("options", "passed"),
    [((), 110), (("--backend", "v1_cpu.backend:TorchSDPABackend"), 95)],
    ids=["the legacy backend", "V1's backend"],
)
def test_a_sound_backend_passes(folder: Path, options: tuple[str, ...], passed: int) -> None:
    code, output, failed = run_suite(folder, *options)
    assert code == 0 and not failed, output
    assert int(output.rpartition(" passed")[0].split()[-1]) >= passed
    assert ("skipped" in output) == bool(options), (
        "what is about V0's metadata is left out for V1's kind, and only then"
    )


FAULTS: dict[str, list[str]] = {  # fault -> the tests that are there to find it
    "Scale": ["test_any_block_size_serves", "test_a_batch_is_dense_causal_attention"],
    "Window": [
        "test_a_sliding_window_lets_a_query_see_exactly_that_many_keys",
        "test_the_window_is_exact_where_the_runner_dropped_the_blocks_before_it",
        "test_an_encoder_window_is_symmetric",
    ],
    "Cap": ["test_a_soft_cap_is_applied_to_the_logits"],
    "Stale": ["test_metadata_that_is_advanced_in_place_means_the_next_step"],
    "Layout": [
        "test_a_cache_that_other_code_filled_is_read",
        "test_a_step_stores_keys_where_other_code_looks_for_them",
    ],
    "Mixed": ["test_a_request_is_the_same_alone_and_in_a_batch"],
    "Cross": ["test_cross_attention_sees_all_of_the_encoder_in_every_step"],
    "Float8": ["test_a_float8_cache_is_read_as_it_was_rounded"],
    "Encoder": ["test_an_encoder_only_layer_is_not_causal", "test_the_encoder_of_an_encoder_decoder_is_not_causal"],
    "Zero": ["test_a_mixed_batch_is_v1s_answer"],
    "Halves": ["test_a_batch_with_prefills_and_decodes_is_both"],
    "Both": ["test_the_half_that_is_not_there_is_none"],
    "Kind": ["test_an_unknown_attention_type_is_an_attribute_error"],
    "Other": ["test_a_copy_means_the_same_batch"],
    "Large": ["test_the_cache_is_two_halves_of_flat_blocks"],
    "NoCopies": ["test_a_copied_block_is_read_like_the_original"],
}
FINE = "test_the_half_that_is_not_there_is_none"  # passes in spite of every fault but its own


@pytest.mark.parametrize(("name", "found"), FAULTS.items(), ids=FAULTS.keys())
def test_a_broken_backend_fails_where_it_is_broken(folder: Path, name: str, found: list[str]) -> None:
    code, output, failed = run_suite(folder, "--backend", f"broken:{name}", "-k", " or ".join([*found, FINE]))
    assert code == 1, output
    assert set(failed) == set(found), output


def test_every_test_of_the_suite_is_seen_to_fail() -> None:
    tests = {
        match
        for path in (PROJECT.parent / "compat" / "v1_compat" / "suite").glob("test_*.py")
        for match in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert tests == {test for found in FAULTS.values() for test in found}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_colon", "must be MODULE:CLASS"),
        ("broken:", "must be MODULE:CLASS"),
        ("no_such_module:A", "No module named 'no_such_module'"),
        ("raising:A", "ZeroDivisionError"),
        ("broken:Nope", "broken has no Nope"),
        ("broken:backend_with", "backend_with is no class"),
        ("broken:WrongScale", "WrongScale lacks get_kv_cache_shape, get_impl_cls"),
    ],
)
def test_a_wrong_backend_is_one_error_before_any_test(folder: Path, value: str, words: str) -> None:
    (folder / "raising.py").write_text("1 / 0\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--pyargs", "v1_compat.suite", "--backend", value], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert line.startswith(f"ERROR: --backend {value}: ") and words in line and "write MODULE:CLASS" in line
    assert "test_" not in done.stdout


def test_the_option_exists_in_this_suite_only(folder: Path) -> None:
    (folder / "test_own.py").write_text("def test_nothing_special(): pass\n")
    command = [sys.executable, "-m", "pytest", "test_own.py"]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 0
    refused = subprocess.run([*command, "--backend", "a:B"], cwd=folder, capture_output=True, text=True)
    assert refused.returncode == 4 and "--backend" in refused.stderr
