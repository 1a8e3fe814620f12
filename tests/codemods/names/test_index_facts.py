"""The shipped index against what is known of vLLM's releases from elsewhere (release notes, issues, changes)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from v1_migrate.names.index import Index, UnknownRelease


@pytest.fixture(scope="module")
def index() -> Index:
    return Index.load(user=False)


def test_releases(index: Index) -> None:
    assert len(index.releases) >= 55
    assert index.releases[:4] == ("0.8.5", "0.8.5.post2", "0.9.0.post2", "0.9.0.1")
    assert (
        index.releases.index("0.9.2")
        < index.releases.index("0.10.0")
        < index.releases.index("0.10.1.1")
        < index.releases.index("0.32.0")
    )


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("0.11", "0.11.0"),
        ("v0.11.0", "0.11.0"),
        ("0.11.0+cpu", "0.11.0"),
        (" 0.32 ", "0.32.0"),
        ("0.9.2.post2", "0.9.2.post2"),
    ],
)
def test_release_is_normalised(index: Index, text: str, release: str) -> None:
    assert index.release(text) == release


@pytest.mark.parametrize(
    ("text", "near"),
    [
        pytest.param("0.9.0", "0.9.0.post2", id="between known ones"),
        pytest.param("0.10.3", "0.11.0", id="never released"),
        pytest.param("99.0", "0.32.0", id="newer than all"),
        pytest.param("0.1.0", "0.8.5", id="older than all"),
        pytest.param("main", "0.32.0", id="no version"),
        pytest.param("", "0.32.0", id="nothing"),
    ],
)
def test_an_unknown_release_is_never_guessed(index: Index, text: str, near: str) -> None:
    with pytest.raises(UnknownRelease) as error:
        index.release(text)
    assert near in str(error.value) and "index add" in str(error.value)


@pytest.mark.parametrize(
    ("dotted", "first", "last"),
    [
        ("vllm.attention.backends.torch_sdpa", "0.8.5", "0.9.2.post2"),
        ("vllm.attention.backends.cpu_mla", "0.8.5", "0.9.2.post2"),
        ("vllm.attention.ops.ipex_attn.PagedAttention", "0.8.5", "0.9.2.post2"),
        ("vllm.worker.cpu_worker.CPUModelRunner", "0.8.5", "0.9.2.post2"),
        ("vllm.worker.cpu_enc_dec_model_runner", "0.8.5", "0.9.2.post2"),
        ("vllm.v1.attention.backends.cpu_attn.TorchSDPABackend", "0.9.1", "0.11.0.post2"),
        ("vllm.v1.attention.backends.cpu_attn.TorchSDPAMetadataBuilderV1", "0.9.1", "0.11.0.post2"),
        ("vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend", "0.11.1", "0.32.0"),
        ("vllm.v1.worker.cpu_worker.CPUWorker", "0.9.1", "0.32.0"),
        ("vllm.attention.Attention", "0.8.5", "0.11.2.post2"),
        ("vllm.attention.AttentionMetadata", "0.8.5", "0.11.2.post2"),
        ("vllm.platforms.interface._Backend", "0.8.5", "0.11.0.post2"),
        ("vllm.attention.backends.registry.AttentionBackendEnum", "0.11.1", "0.13.0"),
        ("vllm.v1.attention.backend.AttentionBackend", "0.14.0", "0.32.0"),
        ("vllm.worker", "0.8.5", "0.11.0.post2"),
        ("vllm.worker.worker_base.WorkerBase", "0.8.5", "0.11.0.post2"),
        ("vllm.core", "0.8.5", "0.10.2.post2"),
        ("vllm.spec_decode", "0.8.5", "0.9.2.post2"),
        ("vllm.prompt_adapter", "0.8.5", "0.9.2.post2"),
        ("vllm.adapter_commons", "0.8.5", "0.10.2.post2"),
        ("vllm.executor", "0.8.5", "0.11.0.post2"),
        ("vllm.engine.llm_engine.LLMEngine", "0.8.5", "0.32.0"),
        ("vllm.engine.async_llm_engine.AsyncLLMEngine", "0.8.5", "0.32.0"),
        ("vllm.sequence.IntermediateTensors", "0.8.5", "0.32.0"),
        ("vllm.sequence.SequenceGroupMetadata", "0.8.5", "0.10.2.post2"),
        ("vllm.sequence.ExecuteModelRequest", "0.8.5", "0.11.0.post2"),
        ("vllm.sequence.RequestMetrics", "0.8.5", "0.13.0"),
        ("vllm.utils.cdiv", "0.8.5", "0.11.0.post2"),
        ("vllm.envs.VLLM_USE_V1", "0.8.5", "0.11.0.post2"),
        ("vllm.envs.is_set", "0.8.5", "0.32.0"),
        ("vllm.LLM.generate", "0.8.5", "0.32.0"),
        ("vllm.SamplingParams.guided_decoding", "0.8.5", "0.11.2.post2"),
        ("vllm.worker.worker.Worker._assert_memory_footprint_increased_during_profiling", "0.8.5", "0.10.2.post2"),
    ],
)
def test_first_and_last_release(index: Index, dotted: str, first: str, last: str) -> None:
    having = index.releases_of(dotted)
    assert (having[0], having[-1]) == (first, last)
    assert having == index.releases[index.releases.index(first) : index.releases.index(last) + 1]


def test_names_that_never_were(index: Index) -> None:
    for dotted in ("vllm.sequence.SamplerOutput", "vllm.envs.VLLM_NO_SUCH_THING", "vllm.LLM.no_such_method"):
        assert not index.known(dotted)


@pytest.mark.parametrize("dotted", ["vllm.vllm_flash_attn.flash_attn_varlen_func", "vllm._moe_C", "vllm._rocm_C.ops"])
def test_what_only_gpu_wheels_ship_is_unknown_not_missing(index: Index, dotted: str) -> None:
    assert index.resolve(dotted, "0.9.2").found is None


REQUIRED = "num_prefills num_prefill_tokens num_decode_tokens slot_mapping"
PAGED = "seq_lens_tensor max_decode_seq_len block_tables"
MAPS = "multi_modal_placeholder_index_maps enable_kv_scales_calculation"
G2 = """isa num_actual_tokens max_query_len query_start_loc max_seq_len seq_lens block_table slot_mapping
    scheduler_metadata causal use_sdpa_prefill num_decode_tokens sdpa_attn_masks sdpa_start_loc"""


@pytest.mark.parametrize(
    ("release", "dotted", "order"),
    [
        ("0.8.5", "vllm.attention.backends.torch_sdpa.TorchSDPAMetadata", f"{PAGED} {REQUIRED} {MAPS} chunked_prefill"),
        ("0.9.2", "vllm.attention.backends.torch_sdpa.TorchSDPAMetadata", f"{PAGED} {REQUIRED} {MAPS} chunked_prefill"),
        (
            "0.10.0",
            "vllm.v1.attention.backends.cpu_attn.TorchSDPAMetadata",
            f"{REQUIRED} {MAPS} {PAGED} chunked_prefill",
        ),
        ("0.11.0", "vllm.v1.attention.backends.cpu_attn.TorchSDPAMetadata", f"{REQUIRED} {PAGED} chunked_prefill"),
        ("0.11.2", "vllm.v1.attention.backends.cpu_attn.CPUAttentionMetadata", G2),
        (
            "0.32.0",
            "vllm.v1.attention.backends.cpu_attn.CPUAttentionMetadata",
            "num_actual_tokens max_query_len query_start_loc",
        ),
    ],
)
def test_metadata_constructors_take_their_fields_in_this_order(
    index: Index, release: str, dotted: str, order: str
) -> None:
    params = index.params(dotted, release)
    wanted = order.split()
    assert params is not None and [p.name for p in params][: len(wanted)] == wanted


def test_constructor_of_the_cpu_worker_lost_two_keywords(index: Index) -> None:
    old = {p.name for p in index.params("vllm.worker.cpu_worker.CPUWorker", "0.9.2") or ()}
    new = {p.name for p in index.params("vllm.v1.worker.cpu_worker.CPUWorker", "0.10.0") or ()}
    assert old - new == {"kv_cache_dtype", "model_runner_cls"}


def test_platform_hook_changed_its_parameters_five_times(index: Index) -> None:
    forms = {
        tuple(p.name for p in index.params("vllm.platforms.cpu.CpuPlatform.get_attn_backend_cls", release) or ())
        for release in ("0.9.2", "0.11.0", "0.11.2", "0.13.0", "0.32.0")
    }
    assert len(forms) == 5


def test_definitions(index: Index) -> None:
    assert "vllm.model_executor.layers.sampler.SamplerOutput" in index.definitions("SamplerOutput", "0.9.2")
    assert "vllm.v1.outputs.SamplerOutput" in index.definitions("SamplerOutput", "0.32.0")
    assert "vllm.model_executor.layers.sampler.SamplerOutput" not in index.definitions("SamplerOutput", "0.32.0")


def wheel_folder() -> str:
    folder = os.environ.get("V1_MIGRATE_WHEELS")
    if not folder:
        pytest.skip("set V1_MIGRATE_WHEELS to the folder that holds the wheels")
    return folder


@pytest.mark.wheels
@pytest.mark.parametrize("release", ["0.9.2", "0.11.0"])
def test_one_release_read_anew_agrees_with_the_shipped_index(index: Index, release: str, tmp_path: Path) -> None:
    from v1_migrate.names import build
    from v1_migrate.names.store import Store

    wheel = build.wheels_in(wheel_folder())[release]
    build.build({release: wheel}, {}, tmp_path / "one.names")
    anew, shipped = Index([Store(tmp_path / "one.names")]).of(release), index.of(release)
    assert sorted(anew.modules()) == sorted(shipped.modules())
    differing = [
        f"{module}.{name}"
        for module in anew.modules()
        for name in {*anew.names(module), *shipped.names(module)}
        if anew.record(module, name) != shipped.record(module, name)
    ]
    assert differing == []


@pytest.mark.wheels
@pytest.mark.slow
def test_a_rebuild_from_the_wheels_gives_the_shipped_file(tmp_path: Path) -> None:
    from v1_migrate.names import build
    from v1_migrate.names.index import INDEX_FILE

    build.build(build.wheels_in(wheel_folder()), {}, tmp_path / "index.names")
    assert (tmp_path / "index.names").read_bytes() == Path(INDEX_FILE).read_bytes()
