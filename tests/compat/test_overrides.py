"""Platform classes of V0's time: vLLM's calls reach them as they expect, and their answers serve V1."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import v1_compat

pytestmark = pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")


class Selection(NamedTuple):
    """Stands for vLLM's AttentionSelectorConfig."""

    head_size: int = 64
    dtype: str = "float32"
    kv_cache_dtype: str | None = "auto"
    block_size: int | None = None
    use_mla: bool = False


@pytest.fixture(autouse=True)
def _installed(vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v1_compat.install()
    module = ModuleType("mine")  # has a backend of V1's contract
    module.Backend = type("Backend", (), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mine", module)


def interface() -> Any:
    return importlib.import_module("vllm.platforms.interface")


def test_v0s_arguments_are_found_in_v1s() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(
            cls, selected_backend, head_size, dtype, kv_cache_dtype, block_size, use_v1, use_mla
        ) -> str:
            cls.given = locals() | {"cls": None, "__class__": None}
            return "mine.Backend"

    assert Mine.get_attn_backend_cls(None, attn_selector_config=Selection(), num_heads=4) == "mine.Backend"
    assert Mine().get_attn_backend_cls("CPU_ATTN", Selection(block_size=32, use_mla=True)) == "mine.Backend"
    given = {key: value for key, value in Mine.given.items() if key not in ("cls", "__class__")}
    assert given == {
        "selected_backend": "CPU_ATTN",
        "head_size": 64,
        "dtype": "float32",
        "kv_cache_dtype": "auto",
        "block_size": 32,
        "use_v1": True,
        "use_mla": True,
    }


def test_blocks_that_nobody_chose_are_the_engines() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, block_size, use_v1=False, **rest) -> str:
            cls.given = block_size, rest
            return ""

    Mine.get_attn_backend_cls(None, attn_selector_config=Selection())
    assert Mine.given == (128, {})


def test_v0s_answer_is_taken_where_v1s_is_refused() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, use_v1) -> str:
            if use_v1:
                raise NotImplementedError("no V1 here")
            return "mine.Backend"

    with pytest.warns(v1_compat.LegacyWarning, match=r"'no V1 here'\)`. V0's backend is taken"):
        assert Mine.get_attn_backend_cls(None, Selection()) == "mine.Backend"


def test_an_error_of_both_is_the_users_to_see() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, use_mla) -> str:
            raise ValueError(f"not with {head_size}")

    with pytest.raises(ValueError, match="not with 64"):
        Mine.get_attn_backend_cls(None, Selection())


def test_v0s_own_backend_is_vllms_own_on_v1() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, use_v1) -> str:
            return "vllm.attention.backends.torch_sdpa.TorchSDPABackend"

    with pytest.warns(v1_compat.LegacyWarning, match=r"names `vllm\.attention\.backends\.torch_sdpa\.TorchSDPABackend"):
        path = Mine.get_attn_backend_cls(None, Selection())
    assert path == "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"


def test_a_request_is_validated() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def validate_request(cls, prompt, params, processed_inputs) -> None:
            cls.given = prompt, params, processed_inputs

    Mine.validate_request("inputs", "params")
    assert Mine.given == ("inputs", "params", "inputs")


def test_a_caller_of_v0s_time_is_answered_as_before() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, dtype, use_v1) -> Any:
            return head_size, use_v1

    assert Mine.get_attn_backend_cls(None, 64, dtype="float32", use_v1=False) == (64, False)
    with pytest.raises(TypeError, match="missing 2 required positional arguments: 'dtype' and 'use_v1'"):
        Mine.get_attn_backend_cls(None, head_size=64)


def test_a_platform_for_cpus_has_what_came_after_v0() -> None:
    config = importlib.import_module("vllm.config").VllmConfig()

    class Mine(interface().Platform):  # type: ignore[misc]
        device_type = "cpu"

        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, use_v1) -> str:
            return ""

        @classmethod
        def check_and_update_config(cls, vllm_config: Any) -> None:
            vllm_config.parallel_config.worker_cls = "mine.Worker"
            vllm_config.cache_config.block_size = 16

    assert Mine.manual_seed_all(7) == 7
    Mine.check_and_update_config(config)
    assert config.scheduler_config.async_scheduling is False, "V1's own settings were left out"
    assert (config.parallel_config.worker_cls, config.cache_config.block_size) == ("mine.Worker", 16)
    assert issubclass(Mine, importlib.import_module("vllm.platforms.cpu").CpuPlatform)


def test_a_platform_for_other_devices_keeps_its_base() -> None:
    class Mine(interface().Platform):  # type: ignore[misc]
        device_type = "npu"

        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, use_v1) -> str:
            return ""

    assert Mine.__bases__ == (interface().Platform,)


@pytest.mark.parametrize(
    "body",
    [
        "def get_attn_backend_cls(cls, selected_backend, attn_selector_config, num_heads=None): return 'x'",
        "def get_attn_backend_cls(cls, *args, **kwargs): return 'x'",
        "def validate_request(cls, processed_inputs, params): pass",
    ],
)
def test_what_fits_is_left_alone(body: str, recwarn: pytest.WarningsRecorder) -> None:
    space: dict[str, Any] = {}
    exec(f"@classmethod\n{body}", space)
    name = body.partition("(")[0].removeprefix("def ")
    made = type("Mine", (interface().Platform,), {name: space[name]})
    assert made.__dict__[name] is space[name] and not recwarn.list
    assert made.__bases__ == (interface().Platform,)


def test_the_place_is_the_class_statement(run: Callable[..., Any]) -> None:
    said = run(
        "from vllm.platforms.interface import Platform\n"
        "class Mine(Platform):\n"
        "    @classmethod\n"
        "    def get_attn_backend_cls(cls, selected_backend, head_size, use_v1): return ''\n"
    )
    (warning,) = [s for s in said if "get_attn_backend_cls" in s.text]
    assert (warning.line, warning.rule) == (2, "V1M111")
    assert "`Mine.get_attn_backend_cls` has V0's signature." in warning.text
    assert "get_attn_backend_cls(selected_backend, attn_selector_config, num_heads=None)" in warning.text


def test_classes_that_are_there_already_are_adapted_and_given_back(vllm: Path) -> None:
    v1_compat.uninstall()

    class Mine(interface().Platform):  # type: ignore[misc]
        device_type = "cpu"

        @classmethod
        def get_attn_backend_cls(cls, selected_backend, head_size, use_v1) -> str:
            return ""

    before = dict(vars(Mine)), Mine.__bases__
    v1_compat.install()
    assert Mine.get_attn_backend_cls(None, Selection()) == ""
    v1_compat.uninstall()
    assert (dict(vars(Mine)), Mine.__bases__) == before
    assert "__init_subclass__" not in vars(interface().Platform)
    with pytest.raises(TypeError):
        Mine.get_attn_backend_cls(None, Selection())
    assert "use_v1" in inspect.signature(Mine.get_attn_backend_cls).parameters
