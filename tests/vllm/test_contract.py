"""What vLLM 0.32's runner and layers ask of a backend, checked without an engine."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

abstract = pytest.importorskip("vllm.v1.attention.backend", reason="vLLM is not installed here")
torch = pytest.importorskip("torch")

from vllm.config import VllmConfig, set_current_vllm_config  # noqa: E402
from vllm.model_executor.layers.attention.cross_attention import create_cross_attention_backend  # noqa: E402
from vllm.model_executor.layers.attention.encoder_only_attention import (  # noqa: E402
    create_encoder_only_attention_backend,
)
from vllm.platforms.cpu import CpuPlatform  # noqa: E402
from vllm.v1.attention.backends import cpu_attn, registry  # noqa: E402
from vllm.v1.kv_cache_interface import CrossAttentionSpec, FullAttentionSpec, KVCacheLayout  # noqa: E402
from vllm.v1.worker.utils import select_common_block_size  # noqa: E402

from v1_cpu import vllm_plugin  # noqa: E402
from v1_cpu.backend import TorchSDPABackendImpl, TorchSDPAMetadataBuilderV1  # noqa: E402
from v1_cpu.vllm_plugin import backend_0_32, choice, mla_0_32  # noqa: E402

BACKEND = backend_0_32.V1CPUBackend
PLAIN = SimpleNamespace(
    parallel_config=SimpleNamespace(), cache_config=SimpleNamespace(cache_dtype="auto"), model_config=SimpleNamespace()
)
PAIRS = [
    pytest.param(BACKEND, abstract.AttentionBackend, id="the backend"),
    pytest.param(backend_0_32.V1CPUMetadataBuilder, abstract.AttentionMetadataBuilder, id="the builder"),
    pytest.param(backend_0_32.V1CPUImpl, abstract.AttentionImpl, id="the layer"),
    pytest.param(mla_0_32.MLABackend, abstract.AttentionBackend, id="the backend of latents"),
    pytest.param(mla_0_32.MLAMetadataBuilder, abstract.AttentionMetadataBuilder, id="its builder"),
    pytest.param(mla_0_32.MLAImpl, abstract.MLAAttentionImpl, id="its layer"),
]


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each test starts unregistered, and leaves nothing registered or remembered."""
    monkeypatch.delenv("V1_CPU_BACKEND", raising=False)
    monkeypatch.setattr(registry, "_ATTN_OVERRIDES", dict(registry._ATTN_OVERRIDES))
    monkeypatch.setattr(CpuPlatform, "check_and_update_config", CpuPlatform.__dict__["check_and_update_config"])
    yield
    for cached in (choice.decline, choice._kernel_fault, choice._announce):
        cached.cache_clear()


@pytest.mark.parametrize(("ours", "base"), PAIRS)
def test_derives_and_leaves_nothing_abstract(ours: type, base: type) -> None:
    assert issubclass(ours, base)
    assert not getattr(ours, "__abstractmethods__", None)


@pytest.mark.parametrize(("ours", "base"), PAIRS)
def test_every_call_that_fits_the_base_fits_us(ours: type, base: type) -> None:
    for name, method in inspect.getmembers(base, callable):
        if name.startswith("_") and (name != "__init__" or base is abstract.AttentionBackend):
            continue
        if name == "forward_mqa":  # for decodes, as which our batches of latents count none
            continue
        wanted = inspect.signature(method).parameters.values()
        taken = inspect.signature(getattr(ours, name)).parameters
        if any(p.kind is p.VAR_POSITIONAL for p in taken.values()):
            continue
        names = [p.name for p in wanted if p.kind is not p.VAR_KEYWORD]
        assert list(taken)[: len(names)] == names, name
        required = [p.name for p in list(taken.values())[len(names) :] if p.default is p.empty and p.kind < 3]
        assert not [p for p in required if p != "extra"], name


def test_facts_the_runner_reads() -> None:
    assert registry.AttentionBackendEnum[BACKEND.get_name()] is registry.AttentionBackendEnum.CPU_ATTN
    assert BACKEND.forward_includes_kv_cache_update is False
    assert BACKEND.supported_kv_cache_layouts() == (KVCacheLayout.LBHNC,)
    assert set(BACKEND.supported_dtypes) >= set(cpu_attn.CPUAttentionBackend.supported_dtypes)
    assert set(BACKEND.supported_kv_cache_dtypes) >= set(cpu_attn.CPUAttentionBackend.supported_kv_cache_dtypes)
    for size in (1, 16, 32, 128):
        assert BACKEND.supports_block_size(size)
    assert BACKEND.get_supported_kernel_block_sizes() == BACKEND.get_supported_kernel_block_sizes(None)
    for size in cpu_attn.CPUAttentionBackend.get_supported_head_sizes():
        assert BACKEND.supports_head_size(size)
    for kind in abstract.AttentionType:
        assert BACKEND.supports_attn_type(kind)
    for name in ("is_mla", "is_sparse", "is_ssm", "supports_alibi_sqrt", "supports_dcp", "supports_pcp"):
        assert getattr(BACKEND, name)() is False, name


@pytest.mark.parametrize("size", [1, 16, 48, 128])
@pytest.mark.parametrize("backend", [BACKEND, mla_0_32.MLABackend], ids=["attention", "latents"])
def test_the_runner_finds_every_block_size_supported(backend: Any, size: int) -> None:
    """Where vLLM's own backends have "No common block size"."""
    assert select_common_block_size(size, [backend]) == size


def test_builder_has_the_attributes_of_its_base() -> None:
    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=8, dtype=torch.float32)
    builder = BACKEND.get_builder_cls()(spec, ["a"], None, torch.device("cpu"))
    assert builder.get_cudagraph_support(None, spec) is abstract.AttentionCGSupport.NEVER
    assert builder.reorder_batch_threshold is None
    assert builder.requires_block_table_width is False
    assert builder.supports_update_block_table is True
    assert (builder.kv_cache_spec, builder.layer_names, builder.device) == (spec, ["a"], torch.device("cpu"))


def test_cross_attention_metadata_is_built_anew_for_each_group() -> None:
    """vLLM's wrapper works out the slots in build(); update_block_table would hand on the wrong ones."""
    spec = CrossAttentionSpec(block_size=16, num_kv_heads=2, head_size=8, dtype=torch.float32)
    backend = create_cross_attention_backend(BACKEND)
    builder = backend.get_builder_cls()(spec, ["a"], None, torch.device("cpu"))
    assert builder.supports_update_block_table is False
    assert issubclass(backend.get_impl_cls(), backend_0_32.V1CPUImpl)


def test_encoder_only_wrapper_derives_from_our_builder() -> None:
    backend = create_encoder_only_attention_backend(BACKEND)
    assert issubclass(backend.get_builder_cls(), backend_0_32.V1CPUMetadataBuilder)
    assert backend.get_name() == "CPU_ATTN"


def test_layer_is_made_as_vllm_makes_it() -> None:
    with set_current_vllm_config(VllmConfig()):
        layer = BACKEND.get_impl_cls()(
            4, 32, 0.2, 2, None, 16, "auto", 5.0, abstract.AttentionType.DECODER, None, sinks=torch.zeros(4)
        )
    assert (layer.dcp_world_size, layer.pcp_world_size) == (1, 1)
    assert layer.forward_includes_kv_cache_update is False
    assert layer.fused_output_quant_supported(None) is False
    output = torch.full((3, 4, 32), 7.0)
    same = layer.forward(None, output, output[:, :2], output[:, :2], torch.empty(0), None, output)
    assert same is output and bool((output == 7.0).all())


def test_slopes_keep_their_precision_in_a_bfloat16_model() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with set_current_vllm_config(VllmConfig()):
            layer = BACKEND.get_impl_cls()(2, 32, 0.2, 2, [0.7071067811865476, 0.1], None, "auto")
    finally:
        torch.set_default_dtype(before)
    assert layer.alibi_slopes.tolist() == pytest.approx([0.7071067811865476, 0.1], rel=1e-6)


def test_a_batch_attends_as_the_plain_backend_s_does() -> None:
    """vLLM's layers never ask which requests prefill, so our builder does not work it out; the answers do not change."""
    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=8, dtype=torch.float32)
    common = SimpleNamespace(
        num_reqs=3,
        query_start_loc=torch.tensor([0, 1, 6, 9], dtype=torch.int32),
        seq_lens=torch.tensor([20, 5, 19], dtype=torch.int32),  # a decode, a prefill, a chunk
        block_table_tensor=torch.tensor([[3, 1], [0, 0], [2, 4]], dtype=torch.int32),
        slot_mapping=torch.tensor([19, 0, 1, 2, 3, 4, 64, 65, 66]),
        max_query_len=5,
        causal=True,
    )
    torch.manual_seed(0)
    query, cache = torch.randn(9, 4, 8), torch.randn(5, 2, 16, 16)
    got = []
    for builder in (BACKEND.get_builder_cls(), TorchSDPAMetadataBuilderV1):
        metadata = builder(spec, ["a"], None, torch.device("cpu")).build(0, common)
        assert metadata.num_actual_tokens == 9
        assert torch.equal(metadata.start_locations(), common.query_start_loc)
        assert metadata.key_lengths().tolist() == [20, 5, 19]
        layer = TorchSDPABackendImpl(4, 8, 0.3, 2)
        out = torch.zeros(9, 4, 8)
        got.append(layer.forward(None, query, None, None, cache, metadata, out))
    assert torch.equal(*got) and bool(got[0].abs().min(-1).values.ne(0).all())


def test_values_of_another_size_than_keys() -> None:
    """vLLM does not pass the values' size to the constructor: the first write tells."""
    with set_current_vllm_config(VllmConfig()):
        layer = BACKEND.get_impl_cls()(2, 8, 0.2, 2, None, None, "auto")
    cache = torch.zeros(1, 2, 4, 12)
    value = torch.randn(3, 2, 4)
    layer.do_kv_cache_update(None, torch.randn(3, 2, 8), value, cache, torch.arange(3))
    assert torch.equal(cache[0, :, :3, 8:].transpose(0, 1), value)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param(None, None, id="unset leaves vLLM alone"),
        pytest.param("0", None, id="0 leaves vLLM alone"),
        pytest.param("1", "v1_cpu.vllm_plugin.backend_0_32.CPUAttentionBackend", id="1 overrides CPU_ATTN"),
        pytest.param("strict", "v1_cpu.vllm_plugin.backend_0_32.CPUAttentionBackend", id="strict overrides CPU_ATTN"),
        pytest.param(" Strict ", "v1_cpu.vllm_plugin.backend_0_32.CPUAttentionBackend", id="blanks and capitals"),
    ],
)
def test_register(monkeypatch: pytest.MonkeyPatch, value: str | None, path: str | None) -> None:
    if value is not None:
        monkeypatch.setenv("V1_CPU_BACKEND", value)
    for _ in range(2):
        vllm_plugin.register()
    member = registry.AttentionBackendEnum.CPU_ATTN
    assert member.is_overridden() is (path is not None)
    assert member.get_path() == (path or member.value)


def test_unknown_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("V1_CPU_BACKEND", "yes please")
    with pytest.raises(ValueError, match="V1_CPU_BACKEND=yes please: must be 1"):
        vllm_plugin.register()


def test_unknown_release_warns_once_and_leaves_vllm_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    monkeypatch.setattr("vllm.__version__", "0.99.1")
    monkeypatch.setattr(choice, "logger", lambda: SimpleNamespace(warning=lambda text, *a: warnings.append(text % a)))
    for _ in range(2):
        vllm_plugin.register()
    assert len(warnings) == 1 and "0.99.1" in warnings[0] and "0.10 to 0.32" in warnings[0]
    assert not registry.AttentionBackendEnum.CPU_ATTN.is_overridden()
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    choice.decline.cache_clear()
    with pytest.raises(NotImplementedError, match=r"strict: .*0\.99\.1"):
        vllm_plugin.register()


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        pytest.param("parallel_config", "decode_context_parallel_size", 2, id="a context divided over ranks"),
        pytest.param("parallel_config", "prefill_context_parallel_size", 2, id="a prompt divided over ranks"),
        pytest.param("cache_config", "cache_dtype", "nvfp4", id="a cache dtype we do not know"),
        pytest.param("model_config", "is_mm_prefix_lm", True, id="a multimodal prefix"),
        pytest.param("model_config", "rswa_window", 64, id="R-SWA"),
    ],
)
def test_falls_back_for_a_configuration(monkeypatch: pytest.MonkeyPatch, part: str, name: str, value: Any) -> None:
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(),
        cache_config=SimpleNamespace(cache_dtype="auto"),
        model_config=SimpleNamespace(),
    )
    warnings: list[str] = []
    monkeypatch.setattr(
        choice,
        "logger",
        lambda: SimpleNamespace(warning=lambda text, *a: warnings.append(text % a), info=lambda *a: None),
    )
    monkeypatch.setattr(backend_0_32, "get_current_vllm_config", lambda: config)
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    assert backend_0_32.CPUAttentionBackend is BACKEND
    setattr(getattr(config, part), name, value)
    for _ in range(2):
        assert backend_0_32.CPUAttentionBackend is cpu_attn.CPUAttentionBackend
    assert len(warnings) == 1
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    choice.decline.cache_clear()
    with pytest.raises(NotImplementedError, match="V1_CPU_BACKEND=strict"):
        _ = backend_0_32.CPUAttentionBackend


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        pytest.param("fault", "computes nonsense", id="a kernel that fails the self-test"),
        pytest.param("kernel", "V1_CPU_KERNEL=cuda", id="a kernel that is not there"),
    ],
)
def test_falls_back_for_a_kernel(monkeypatch: pytest.MonkeyPatch, cause: str, reason: str) -> None:
    def refuse() -> None:
        raise ValueError("V1_CPU_KERNEL=cuda: must be another")

    warnings: list[str] = []
    monkeypatch.setattr(choice, "logger", lambda: SimpleNamespace(warning=lambda text, *a: warnings.append(text % a)))
    monkeypatch.setattr("v1_cpu.vllm_plugin.self_test.fault", lambda: "computes nonsense" if cause == "fault" else None)
    if cause == "kernel":
        monkeypatch.setattr("v1_cpu.select.which", refuse)
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    assert choice.serves(PLAIN) is False
    assert len(warnings) == 1 and reason in warnings[0]


def test_says_once_that_it_serves_and_not_after_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(choice, "logger", lambda: SimpleNamespace(info=lambda text, *a: said.append(text % a)))
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    assert choice.serves(PLAIN) is choice.serves(PLAIN) is True
    assert len(said) == 1 and said[0].startswith("v1_cpu serves CPU attention: ")
    monkeypatch.setenv("V1_CPU_BACKEND", "0")
    assert choice.serves(PLAIN) is False


def test_what_is_said_goes_to_vllm_s_own_log() -> None:
    """vLLM configures the logger "vllm", and with it what is below."""
    assert choice.logger().name.partition(".")[0] == "vllm"


def test_a_module_answers_with_nothing_else() -> None:
    with pytest.raises(AttributeError, match="CPUAttentionBackends"):
        _ = backend_0_32.CPUAttentionBackends


@pytest.mark.parametrize(
    ("value", "version", "cpu", "answer"),
    [
        pytest.param("1", "0.10.2", True, vllm_plugin.PLATFORM[2], id="a release without a registry"),
        pytest.param("1", "0.11.0", True, vllm_plugin.PLATFORM[2], id="the last of them"),
        pytest.param("1", "0.10.2", False, None, id="on another device"),
        pytest.param("1", "0.11.1", True, None, id="a release with one"),
        pytest.param("0", "0.10.2", True, None, id="not asked for"),
    ],
)
def test_platform(monkeypatch: pytest.MonkeyPatch, value: str, version: str, cpu: bool, answer: str | None) -> None:
    monkeypatch.setenv("V1_CPU_BACKEND", value)
    monkeypatch.setattr("vllm.version.__version__", version)
    monkeypatch.setattr("vllm.platforms.cpu_platform_plugin", lambda: "cpu" if cpu else None)
    assert vllm_plugin.platform() == answer


def test_a_release_without_a_registry_is_left_to_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    monkeypatch.setattr("vllm.__version__", "0.10.2")
    vllm_plugin.register()
    assert not registry.AttentionBackendEnum.CPU_ATTN.is_overridden()


def test_the_registry_s_older_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, vllm_plugin.REGISTRIES[0], None)  # an import of it fails
    older = SimpleNamespace()
    monkeypatch.setitem(sys.modules, vllm_plugin.REGISTRIES[1], older)
    assert vllm_plugin._registry() is older


def test_the_plugin_costs_nothing_unless_asked_for() -> None:
    script = (
        "import sys; import v1_cpu.vllm_plugin as p; p.register(); "
        "assert not {'torch', 'vllm'} & set(sys.modules), 'imported too much'"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=60)
