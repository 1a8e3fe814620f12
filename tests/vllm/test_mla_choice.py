"""Who attends to latents: what v1_cpu takes over, what it leaves to vLLM, and what the log says of that; no engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm.v1.attention.backend", reason="vLLM is not installed here")

from vllm.platforms.cpu import CpuPlatform
from vllm.v1.attention.backends import registry
from vllm.v1.attention.backends.mla.amx_mla import AMXMLABackend
from vllm.v1.attention.backends.mla.cpu_mla import CPUMLABackend

from v1_cpu import vllm_plugin
from v1_cpu.vllm_plugin import choice, mla, mla_0_32

MEMBERS = registry.AttentionBackendEnum


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each test starts unregistered, and leaves nothing registered or remembered."""
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    monkeypatch.setattr(registry, "_ATTN_OVERRIDES", dict(registry._ATTN_OVERRIDES))
    monkeypatch.setattr(CpuPlatform, "check_and_update_config", CpuPlatform.__dict__["check_and_update_config"])
    yield
    for cached in (choice.decline, choice._kernel_fault, choice._announce):
        cached.cache_clear()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the plugin warns of."""
    said: list[str] = []
    log = SimpleNamespace(warning=lambda text, *a: said.append(text % a), info=lambda *a: None)
    monkeypatch.setattr(choice, "logger", lambda: log)
    return said


def config(kind: str = "deepseek_v3", *, use_mla: bool = True, cache_dtype: str = "auto", backend: Any = None) -> Any:
    """The parts of an engine's configuration that are read, as a user who asked for blocks of 64 and chunks has them."""
    return SimpleNamespace(
        model_config=SimpleNamespace(use_mla=use_mla, hf_config=SimpleNamespace(model_type=kind)),
        parallel_config=SimpleNamespace(),
        attention_config=SimpleNamespace(backend=backend),
        cache_config=SimpleNamespace(
            cache_dtype=cache_dtype, block_size=64, user_specified_block_size=True, enable_prefix_caching=True
        ),
        scheduler_config=SimpleNamespace(enable_chunked_prefill=True, max_num_batched_tokens=192),
    )


def platform(block_size: int) -> type:
    """One whose check forces what vLLM's forces for CPU_MLA, or for DeepSeek-V4 without AMX."""

    class Forcing:
        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            vllm_config.cache_config.block_size = block_size
            vllm_config.cache_config.enable_prefix_caching = False
            vllm_config.scheduler_config.enable_chunked_prefill = False
            vllm_config.scheduler_config.max_num_batched_tokens = 4096

    return Forcing


def settings(of: Any) -> tuple[int, bool, bool, int]:
    cache, scheduler = of.cache_config, of.scheduler_config
    asked = (cache.enable_prefix_caching, scheduler.enable_chunked_prefill)
    return cache.block_size, *asked, scheduler.max_num_batched_tokens


KEPT, FORCED, FORCED_V4 = (64, True, True, 192), (16, False, False, 4096), (256, False, False, 4096)


@pytest.mark.parametrize(
    ("given", "block_size", "result"),
    [
        pytest.param({}, 16, KEPT, id="a model of latents, which v1_cpu serves"),
        pytest.param({"kind": "deepseek_v4"}, 256, FORCED_V4, id="DeepSeek-V4, whose layers take blocks of 256 alone"),
        pytest.param({"kind": "deepseek_v41"}, 256, FORCED_V4, id="its successor"),
        pytest.param({"use_mla": False}, 16, FORCED, id="a model without latents"),
        pytest.param({"cache_dtype": "nvfp4"}, 16, FORCED, id="a cache that v1_cpu does not know"),
    ],
)
def test_settings_are_kept_where_v1_cpu_serves(
    given: dict[str, Any], block_size: int, result: tuple[int, bool, bool, int], warnings: list[str]
) -> None:
    forcing, asked = platform(block_size), config(**given)
    for _ in range(2):  # the second changes nothing
        mla.keep_settings(forcing)
    forcing.check_and_update_config(asked)  # type: ignore[attr-defined]
    assert settings(asked) == result
    wrapped = forcing.__dict__["check_and_update_config"].__func__
    assert not hasattr(wrapped.v1_cpu_wraps, "v1_cpu_wraps")


def test_a_block_size_that_nobody_asked_for_is_vllm_s(warnings: list[str]) -> None:
    forcing, asked = platform(16), config()
    asked.cache_config.user_specified_block_size = False
    mla.keep_settings(forcing)
    forcing.check_and_update_config(asked)  # type: ignore[attr-defined]
    assert settings(asked) == (16, *KEPT[1:])


@pytest.mark.parametrize(
    ("amx", "backend", "named"),
    [
        pytest.param(True, None, "vLLM's own AMX_MLA (no float32, wrong answers in float16", id="with AMX"),
        pytest.param(False, None, "vLLM's own CPU_MLA (latents of 512 + 64 alone", id="without AMX"),
        pytest.param(True, MEMBERS.CPU_MLA, "vLLM's own CPU_MLA (latents of 512 + 64 alone", id="as asked for"),
    ],
)
def test_the_warning_names_what_attends_instead_and_its_limits(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str], amx: bool, backend: Any, named: str
) -> None:
    monkeypatch.setattr("torch.cpu._is_amx_tile_supported", lambda: amx)
    vllm_plugin.register()
    refused = config(cache_dtype="nvfp4", backend=backend)
    monkeypatch.setattr(mla_0_32, "get_current_vllm_config", lambda: refused)
    own = {"CPUMLABackend": CPUMLABackend, "AMXMLABackend": AMXMLABackend}
    for name in own:
        assert getattr(mla_0_32, name) is own[name]
    (warning,) = warnings
    assert warning.startswith(f"v1_cpu does not serve, {named}") and "does: kv_cache_dtype=nvfp4" in warning
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    choice.decline.cache_clear()
    with pytest.raises(NotImplementedError, match="strict: v1_cpu cannot serve: kv_cache_dtype=nvfp4"):
        _ = mla_0_32.AMXMLABackend


@pytest.mark.parametrize("name", ["CPUMLABackend", "AMXMLABackend"])
def test_v1_cpu_takes_the_place_of_both(monkeypatch: pytest.MonkeyPatch, warnings: list[str], name: str) -> None:
    monkeypatch.setattr(mla_0_32, "get_current_vllm_config", config)
    assert getattr(mla_0_32, name) is mla_0_32.MLABackend
    monkeypatch.setenv("V1_CPU_BACKEND", "0")
    assert getattr(mla_0_32, name) is {"CPUMLABackend": CPUMLABackend, "AMXMLABackend": AMXMLABackend}[name]
    assert not warnings


def test_deepseek_v4_is_left_to_its_own_layers(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    assert choice.serves(config("deepseek_v4")) is False
    assert warnings == [
        "v1_cpu does not serve, the model's own layers do: "
        "vLLM attends to deepseek_v4 models in layers that take no other backend"
    ]
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    choice.decline.cache_clear()
    with pytest.raises(NotImplementedError, match="deepseek_v4"):
        choice.serves(config("deepseek_v4"))


@pytest.mark.parametrize(
    ("version", "module"),
    [
        pytest.param("0.32.0", "v1_cpu.vllm_plugin.mla_0_32", id="served in 0.32"),
        pytest.param("0.31.0", "v1_cpu.vllm_plugin.mla", id="said not to be served before"),
        pytest.param("0.28.0", "v1_cpu.vllm_plugin.mla", id="from the first release that has them"),
        pytest.param("0.27.1", None, id="no business of ours before that"),
    ],
)
def test_which_module_stands_in(monkeypatch: pytest.MonkeyPatch, version: str, module: str | None) -> None:
    before = CpuPlatform.__dict__["check_and_update_config"]
    monkeypatch.setattr("vllm.__version__", version)
    for _ in range(2):
        vllm_plugin.register()
    for member, name in (("CPU_MLA", "CPUMLABackend"), ("AMX_MLA", "AMXMLABackend")):
        assert MEMBERS[member].is_overridden() is (module is not None)
        assert MEMBERS[member].get_path() == (f"{module}.{name}" if module else MEMBERS[member].value)
    assert (CpuPlatform.__dict__["check_and_update_config"] is before) is (version != "0.32.0")


def test_a_registry_without_amx_mla_is_served_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.28.0 has CPU_MLA alone."""
    registered: list[Any] = []
    members = {"CPU_MLA": "a member"}
    older = SimpleNamespace(
        AttentionBackendEnum=SimpleNamespace(__members__=members),
        register_backend=lambda member, class_path: registered.append((member, class_path)),
    )
    mla.register(older, mla.__name__)
    assert registered == [("a member", "v1_cpu.vllm_plugin.mla.CPUMLABackend")]


def test_a_release_whose_latents_are_not_served_says_so(monkeypatch: pytest.MonkeyPatch, warnings: list[str]) -> None:
    assert mla.AMXMLABackend is AMXMLABackend and mla.CPUMLABackend is CPUMLABackend
    assert [w.partition(" (")[0] for w in warnings] == [
        "v1_cpu does not serve, vLLM's own AMX_MLA",
        "v1_cpu does not serve, vLLM's own CPU_MLA",
    ]
    assert all("in vLLM 0.32 alone" in w for w in warnings)
    monkeypatch.setenv("V1_CPU_BACKEND", "0")
    warnings.clear()
    choice.decline.cache_clear()
    assert mla.AMXMLABackend is AMXMLABackend and not warnings
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    with pytest.raises(NotImplementedError, match=r"in vLLM 0\.32 alone"):
        _ = mla.AMXMLABackend
    for module in (mla, mla_0_32):
        with pytest.raises(AttributeError, match="CPUMLABackends"):
            _ = module.CPUMLABackends
