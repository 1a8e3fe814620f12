"""Calls of V0's form that reach vLLM's own platforms, and methods that these lost."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import v1_compat
from v1_compat import platform_calls
from v1_compat.table import Table

Run = Callable[..., Any]
OWN = "mine.Backend"  # of V1's contract
PLUGIN = """
from vllm.platforms.cpu import CpuPlatform
class Mine(CpuPlatform):
    @classmethod
    def get_attn_backend_cls(cls, selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla):
        return super().get_attn_backend_cls(CALL)
    @classmethod
    def validate_request(cls, prompt, params, processed_inputs):
        return super().validate_request(prompt, params, processed_inputs)
"""


@pytest.fixture
def asked(vllm: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What vLLM's own methods are called with."""
    given: list[Any] = []
    module = ModuleType("mine")
    module.Backend = type("Backend", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)
    cpu, interface = importlib.import_module("vllm.platforms.cpu"), importlib.import_module("vllm.platforms.interface")

    def select(cls: Any, selected_backend: Any, attn_selector_config: Any, num_heads: Any = None) -> str:
        given.append((selected_backend, tuple(attn_selector_config), num_heads))
        return OWN

    def validate(cls: Any, processed_inputs: Any, params: Any) -> None:
        given.append((processed_inputs, params))

    monkeypatch.setattr(cpu.CpuPlatform, "get_attn_backend_cls", classmethod(select))
    monkeypatch.setattr(interface.Platform, "validate_request", classmethod(validate))
    return given


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla", id="by position"
        ),
        pytest.param(
            "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1=use_v1, use_mla=use_mla", id="mixed"
        ),
        pytest.param(
            "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla, False, False",
            id="0.11.0's",
        ),
    ],
)
@pytest.mark.parametrize("caller", ["vllm", "v0"])
def test_an_override_hands_on_to_super(asked: list[Any], run: Run, call: str, caller: str) -> None:
    config = "__import__('vllm.v1.attention.selector', fromlist=['x']).AttentionSelectorConfig(64, 'f', 'auto', 16)"
    how = f"'B', {config}" if caller == "vllm" else "'B', 64, 'f', 'auto', 16, True, False"
    said = run(f"{PLUGIN.replace('CALL', call)}\nfound = Mine.get_attn_backend_cls({how})\n")
    assert run.globals["found"] == OWN  # type: ignore[attr-defined]
    assert asked == [("B", (64, "f", "auto", 16, False), None)]
    (warning,) = [s for s in said if s.rule == "V1M112"]
    assert warning.line == 6 and "Write `get_attn_backend_cls(selected_backend, attn_selector_config" in warning.text


def test_a_class_is_called_by_its_name(asked: list[Any], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And V0's member of the enumeration becomes vLLM's."""
    home = "vllm.v1.attention.backends.registry"
    registry: Any = ModuleType(home)
    registry.AttentionBackendEnum = Enum("AttentionBackendEnum", "FLASH_ATTN CPU_ATTN", module=home)
    monkeypatch.setitem(sys.modules, home, registry)
    said = run(
        "from vllm.platforms.cpu import CpuPlatform\n"
        "from vllm.platforms.interface import _Backend\n"
        "found = CpuPlatform().get_attn_backend_cls(_Backend.TORCH_SDPA, 64, 'f', None, 16, False, use_mla=True)\n"
    )
    assert asked[0][0] is registry.AttentionBackendEnum.CPU_ATTN
    assert asked[0][1] == (64, "f", None, 16, True)
    assert [s.line for s in said if s.rule == "V1M112"] == [3]


def test_a_request_is_validated(asked: list[Any], run: Run) -> None:
    run(f"{PLUGIN}\nMine.validate_request('raw', 'p', 'done')\n")
    assert asked == [("done", "p")]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("CpuPlatform.get_attn_backend_cls(None)", "missing 1 required positional argument"),
        ("CpuPlatform.get_attn_backend_cls(None, 64, 'f')", "'int' object"),
        ("CpuPlatform.get_attn_backend_cls(None, 64, nonsense=1)", "unexpected keyword argument 'nonsense'"),
    ],
)
def test_other_calls_are_vllms_to_refuse(asked: list[Any], run: Run, call: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        run(f"from vllm.platforms.cpu import CpuPlatform\n{call}\n")


@pytest.mark.parametrize(
    ("release", "parameters", "expected"),
    [
        ("0.11.0", "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla, has_sink, use_sparse",
         {"use_v1": False, "use_mla": True, "has_sink": False, "use_sparse": False}),
        ("0.11.1", "selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_mla, has_sink, use_sparse, attn_type=None",
         {"use_mla": True, "has_sink": False, "use_sparse": False, "attn_type": None}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", ["", ", False, False"], ids=["V0's seven", "0.11.0's nine"])
def test_signatures_of_releases_between(
    vllm: Path, run: Run, release: str, parameters: str, expected: dict[str, Any], more: str
) -> None:
    path = vllm / "platforms" / "between.py"
    path.write_text(
        "from vllm.platforms.interface import Platform\nclass Between(Platform):\n    @classmethod\n"
        f"    def get_attn_backend_cls(cls, {parameters}):\n        return dict(locals())\n"
    )
    try:
        run(
            "from vllm.platforms.between import Between\n"
            f"found = Between.get_attn_backend_cls(None, 64, 'f', 'auto', 16, False, True{more})\n"
        )
    finally:
        path.unlink()
    found = run.globals["found"]  # type: ignore[attr-defined]
    assert {name: found[name] for name in expected} == expected and found["block_size"] == 16


class TestLostMethods:
    @pytest.mark.parametrize(
        ("expression", "value"),
        [
            ("P.supports_v1(None)", True),
            ("P().is_async_output_supported(False)", False),
            ("C.supports_v1(None)", True),
            ("P().is_neuron()", False),
        ],
    )
    def test_they_answer_what_v1_does(self, vllm: Path, run: Run, expression: str, value: bool) -> None:
        start = (
            "from vllm.platforms.interface import Platform as P\nclass C(P):\n    @classmethod\n"
            "    def supports_v1(cls, c): return super().supports_v1(c)\n"
        )
        said = run(f"{start}found = {expression}\n")
        assert run.globals["found"] is value  # type: ignore[attr-defined]
        assert [s.rule for s in said] == ["V1M102"] and "is gone" in said[0].text

    def test_what_has_no_answer_raises_with_advice(self, vllm: Path, run: Run) -> None:
        with pytest.raises(v1_compat.LegacyUseError, match=r"supports_kv_cache_dtype.*V1M102"):
            run("from vllm.platforms.interface import Platform\nPlatform.is_kv_cache_dtype_supported('fp8')\n")

    def test_who_asks_whether_they_are_there_hears_no(self, vllm: Path, run: Run) -> None:
        said = run("from vllm.platforms.interface import Platform as P\nfound = hasattr(P, 'supports_v1')\n")
        assert run.globals["found"] is False and not said  # type: ignore[attr-defined]

    def test_they_are_all_that_the_index_knows(self) -> None:
        table = Table("0.32.0")
        place = f"{platform_calls.INTERFACE}.{platform_calls.BASE}"
        now = set(table.index.members(place, "0.32.0"))
        before = {m for release in ("0.8.5", "0.9.1", "0.9.2") for m in table.index.members(place, release)}
        methods = {m for m in before - now if table.params(f"{place}.{m}", "0.9.2") is not None}
        assert methods <= set(platform_calls.METHODS)


def test_uninstall_gives_back(vllm: Path) -> None:
    modules = [importlib.import_module(f"vllm.platforms.{name}") for name in ("interface", "cpu")]
    classes = [modules[0].Platform, modules[1].CpuPlatform]
    before = [dict(vars(cls)) for cls in classes]
    v1_compat.install()
    assert [dict(vars(cls)) for cls in classes] != before
    v1_compat.uninstall()
    assert [dict(vars(cls)) for cls in classes] == before
