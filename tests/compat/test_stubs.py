"""A name that is gone can be imported, annotated with, subclassed and patched; any other use raises with advice."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, Optional, TypeVar, get_type_hints
from unittest import mock

import pytest
import v1_compat

pytestmark = pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _installed(vllm: Path) -> None:
    v1_compat.install()


def name(dotted: str) -> Any:
    module, _, last = dotted.rpartition(".")
    return getattr(importlib.import_module(module), last)


def engine() -> Any:
    return name("vllm.worker.cpu_worker.CPUCacheEngine")


def function() -> Any:
    return name("vllm.core.scheduler.seq_group_metadata_builder")


def value() -> Any:
    return name("vllm.utils.STR_INVALID_VAL")


def test_it_is_one_object_that_knows_its_name() -> None:
    assert engine() is engine()
    assert (engine().__module__, engine().__qualname__) == ("vllm.worker.cpu_worker", "CPUCacheEngine")
    assert "KV cache" in engine().__doc__


def test_annotations() -> None:
    class_, alias = engine(), value()

    def f(a: class_, b: class_ | None, c: class_ | None, d: list[class_], e: class_[int], g: alias | None) -> None: ...  # type: ignore[valid-type]

    hints = get_type_hints(f, localns={"class_": class_, "alias": alias})
    assert hints["a"] is class_ and hints["g"] == Optional[alias]  # noqa: UP045


def test_subclasses_of_every_form() -> None:
    base = engine()

    class Plain(base):
        def copy(self) -> int:
            return 1

    class Abstract(base, ABC):
        @abstractmethod
        def f(self) -> None: ...

    class Parametrised(base, Generic[T]): ...

    @dataclasses.dataclass
    class Data(base):
        x: int = 1

    class Twice(Plain, name("vllm.worker.cpu_model_runner.ModelInputForCPU")): ...

    assert Plain.copy(None) == 1 and issubclass(Twice, base) and Parametrised[int] and Abstract.__abstractmethods__


def test_patches() -> None:
    with mock.patch("vllm.worker.cpu_worker.CPUCacheEngine.swap_in", return_value=3):
        assert engine().swap_in() == 3
    with mock.patch("vllm.worker.cpu_worker.CPUCacheEngine") as patched:
        assert name("vllm.worker.cpu_worker.CPUCacheEngine") is patched
    assert inspect.isclass(name("vllm.worker.cpu_worker.CPUCacheEngine"))
    assert mock.create_autospec(engine(), instance=True).swap_in


def test_pickles_by_name() -> None:
    assert pickle.loads(pickle.dumps(engine())) is engine()
    assert pickle.loads(pickle.dumps(value())) is value()


USES = [
    pytest.param(lambda: engine()(), id="making an object"),
    pytest.param(lambda: type("Mine", (engine(),), {})(), id="making an object of a subclass"),
    pytest.param(lambda: engine().swap_in({}), id="calling a method"),
    pytest.param(lambda: function()(1, 2), id="calling a function"),
    pytest.param(lambda: f"{value()}", id="formatting a value"),
    pytest.param(lambda: bool(value()), id="testing a value"),
    pytest.param(lambda: value() == "x", id="comparing a value"),
    pytest.param(lambda: value()["x"], id="looking into a value"),
    pytest.param(lambda: [*value()], id="iterating over a value"),
    pytest.param(lambda: value().upper(), id="an attribute of a value"),
]


@pytest.mark.parametrize("use", USES)
def test_a_use_raises_and_says_what_to_do(use: Any) -> None:
    with pytest.raises(v1_compat.LegacyUseError) as caught:
        use()
    text = str(caught.value)
    assert "gone since vLLM 0.1" in text
    assert "V1M004: v1-migrate explain vllm." in text
    assert len(text) > 150, "no advice"


def test_type_variables_are_type_variables() -> None:
    class Runner(Generic[name("vllm.worker.cpu_model_runner.TModelInputForCPU")]): ...  # type: ignore[misc]

    assert Runner


def test_exceptions_can_be_caught_and_not_made() -> None:
    error = name("vllm.worker.model_runner_base.InputProcessingError")
    with pytest.raises(ZeroDivisionError):
        try:
            raise ZeroDivisionError
        except error:
            pass
    with pytest.raises(v1_compat.LegacyUseError):
        raise error("late")


def test_a_name_nobody_ever_had_is_no_legacy_name() -> None:
    module = importlib.import_module("vllm.worker.cpu_worker")
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        module.Nonsense  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm.worker.nonsense")


def test_a_successor_that_cannot_be_imported_is_named_with_its_error(vllm: Path) -> None:
    """The names come back with a stub, and the reason is kept."""
    scheduler = name("vllm.core.scheduler.Scheduler")
    with pytest.raises(
        v1_compat.LegacyUseError, match=r"cannot be imported: No module named 'vllm\.v1\.core"
    ) as caught:
        scheduler()
    assert isinstance(caught.value.__cause__, ImportError)


def test_external_names_are_the_thing_itself() -> None:
    import typing

    assert name("vllm.worker.cpu_worker.List") is typing.List  # noqa: UP006


def test_without_torch_its_lack_is_said_first(child: Any, small_vllm: Path, tmp_path: Path) -> None:
    """Both where the name is imported and where it is used: nothing else that could be said helps before that."""
    (tmp_path / "app.py").write_text(
        "import sys\nsys.modules['torch'] = None\n"
        "from vllm.attention.ops.ipex_attn import PagedAttention\n"
        "try:\n    PagedAttention.split_kv_cache(1, 2, 3)\nexcept NotImplementedError as error:\n    print(error)\n"
    )
    done = child(["-m", "v1_compat", "app.py"], small_vllm, cwd=tmp_path)
    first = "torch is not installed, with which v1_compat serves this: pip install 'v1-migrate[backend]'."
    assert f"app.py:3: RemovedIn0_10_0Warning: V1M003 {first}" in done.stderr
    assert done.stdout.startswith(f"vllm.attention.ops.ipex_attn.PagedAttention.split_kv_cache() is called: {first}")
    assert "v1_cpu.PagedAttention" in done.stdout


def test_the_switch_says_what_it_is_here(run: Any) -> None:
    (said,) = run("import vllm.envs as e\nx = e.VLLM_USE_V1\n")
    assert said.rule == "V1M201" and "It is True here" in said.text and len(said.text) < 240
    (said,) = run("import vllm.envs as e\nx = e.VLLM_USE_TRITON_FLASH_ATTN\n")
    assert "It is read from the environment as it was" in said.text
