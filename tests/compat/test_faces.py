"""Classes that exist on V1 with another contract: vLLM's own under the old name, with the differences caught."""

from __future__ import annotations

import copy
import importlib
import pickle
from abc import ABC
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import v1_compat

pytestmark = pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")


@pytest.fixture(autouse=True)
def _installed(vllm: Path) -> None:
    v1_compat.install()


def name(dotted: str) -> Any:
    module, _, last = dotted.rpartition(".")
    return getattr(importlib.import_module(module), last)


def worker() -> Any:
    return name("vllm.worker.cpu_worker.CPUWorker")


def runner() -> Any:
    return name("vllm.worker.cpu_model_runner.CPUModelRunner")


def new(dotted: str) -> Any:
    return name(f"vllm.v1.worker.{dotted}")


CONFIG = SimpleNamespace(cache_config=SimpleNamespace(cache_dtype="auto"))
ARGUMENTS: dict[str, Any] = {"vllm_config": CONFIG, "local_rank": 0, "rank": 0, "distributed_init_method": ""}


def test_a_module_is_the_old_one_however_it_is_imported() -> None:
    import vllm.worker as package
    from vllm.worker import cpu_worker

    assert cpu_worker.__name__ == "vllm.worker.cpu_worker" and cpu_worker.CPUCacheEngine
    assert package.cpu_worker is cpu_worker
    assert package.cpu_model_runner.ModelInputForCPU, "a module that nobody imported yet"


def test_same_contract_same_object() -> None:
    assert name("vllm.worker.worker_base.WorkerWrapperBase") is new("worker_base.WorkerWrapperBase")


@pytest.mark.parametrize(
    "old", ["engine.async_llm_engine.AsyncEngineDeadError", "engine.multiprocessing.MQEngineDeadError"]
)
def test_what_is_raised_now_is_caught_by_the_old_name(old: str) -> None:
    """`except` looks at the classes' order itself: only the very object will do."""
    old_one, new_one = name(f"vllm.{old}"), name("vllm.v1.engine.exceptions.EngineDeadError")
    assert old_one is new_one
    with pytest.raises(old_one):
        raise new_one("dead")


def test_objects_of_one_are_objects_of_the_other() -> None:
    real = new("cpu_worker.CPUWorker")

    class Mine(worker()): ...

    mine, plain = Mine(**ARGUMENTS), real(**ARGUMENTS)
    assert isinstance(mine, real) and isinstance(plain, worker()) and issubclass(real, worker())
    assert issubclass(Mine, real) and not isinstance(plain, Mine)


def test_calling_it_makes_vllms_object() -> None:
    made = runner()(CONFIG, device="cpu")
    assert made.__class__ in (new("cpu_model_runner.CPUModelRunner"), runner())
    ray = name("vllm.executor.ray_utils.RayWorkerWrapper")()
    assert type(ray) is name("vllm.v1.executor.ray_utils.RayWorkerWrapper")
    assert type(pickle.loads(pickle.dumps(ray))) is type(copy.copy(ray)) is type(ray)


def test_a_call_of_v0s_form_is_refused_with_the_difference() -> None:
    with pytest.raises(v1_compat.LegacyContractError, match=r"unexpected keyword argument 'sampling'.*V1M003"):
        name("vllm.executor.ray_utils.RayWorkerWrapper")(sampling=1)


class TestSubclasses:
    def test_every_misfit_is_listed_when_the_class_is_made(self) -> None:
        with pytest.raises(v1_compat.LegacyContractError) as caught:

            class Mine(worker()):
                def execute_model(self, execute_model_req: Any) -> None: ...

                def determine_num_available_blocks(self) -> None: ...

                def helper(self) -> None: ...

        text = str(caught.value)
        assert "execute_model: it is called as execute_model(scheduler_output)" in text
        assert "determine_num_available_blocks: CPUWorker has no such method" in text
        assert "helper" not in text and "V1M003" in text

    def test_what_fits_is_accepted(self) -> None:
        class Mine(worker(), ABC):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.ready = True

            def execute_model(self, scheduler_output: Any) -> Any:
                return super().execute_model(scheduler_output)

            def init_device(self) -> None:
                super().init_device()

        assert Mine(**ARGUMENTS).ready

    def test_a_class_for_both_engines_may_keep_v0s_methods(self) -> None:
        class Mine(worker()):
            def determine_num_available_blocks(self) -> tuple[int, int]:
                return 1, 0

            def determine_available_memory(self) -> int:
                return 1

        assert Mine(**ARGUMENTS)

    def test_an_override_without_optional_parameters_is_called_without_them(self) -> None:
        class Runner(runner()):
            def load_model(self) -> None:
                super().load_model()
                self.model = f"my {self.model}"

        mine = Runner(vllm_config=CONFIG, device="cpu")
        mine.load_model(load_dummy_weights=False)
        assert mine.model == "my model"
        with pytest.raises(TypeError):
            mine.load_model(load_dummy_weights=True)

    def test_gone_methods_of_the_base_raise_with_advice(self) -> None:
        class Mine(worker()):
            def size(self) -> Any:
                return super().get_cache_block_size_bytes()

        with pytest.raises(v1_compat.LegacyUseError, match=r"get_cache_block_size_bytes\(\) is called"):
            Mine(**ARGUMENTS).size()


class TestWorkers:
    def test_v0s_constructor_arguments(self) -> None:
        class Mine(worker()): ...

        assert Mine(CONFIG, 0, 0, "", "auto", True).is_driver_worker is True  # V0's order
        assert Mine(CONFIG, 0, 0, "", True).is_driver_worker is True  # V1's
        assert worker()(**ARGUMENTS, kv_cache_dtype="auto", is_driver_worker=True).is_driver_worker is True

    def test_a_cache_type_against_the_configuration_is_refused(self) -> None:
        with pytest.raises(v1_compat.LegacyContractError, match="kv_cache_dtype='fp8'"):
            worker()(**ARGUMENTS, kv_cache_dtype="fp8")

    def test_the_runner_factory_is_obeyed_when_v1_makes_its_runner(self) -> None:
        torch = pytest.importorskip("torch")

        class Runner(runner()):
            def load_model(self) -> None:
                super().load_model()

        class Mine(worker()):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                def make(base: Any) -> Any:
                    return Runner(
                        vllm_config=base.vllm_config, kv_cache_dtype="auto", is_driver_worker=base.is_driver_worker
                    )

                kwargs.setdefault("model_runner_cls", make)
                super().__init__(*args, **kwargs)

        mine = Mine(**ARGUMENTS, is_driver_worker=True)
        mine.init_device()
        assert type(mine.model_runner) is Runner
        assert mine.model_runner.is_driver_worker is True and mine.model_runner.device == torch.device("cpu")
        mine.load_model()
        assert mine.model_runner.model == "model"


class TestPatches:
    def test_replacing_a_method_replaces_vllms(self) -> None:
        real = new("cpu_model_runner.CPUModelRunner")
        before = real.__dict__["load_model"]
        with mock.patch("vllm.worker.cpu_model_runner.CPUModelRunner.load_model", return_value=7):
            assert real.load_model(None) == 7
        assert real.__dict__["load_model"] is before
        runner().load_model = lambda self: 8
        assert real(CONFIG, "cpu").load_model() == 8
        real.load_model = before

    def test_an_inherited_method_is_given_back(self) -> None:
        real = new("cpu_worker.CPUWorker")
        with mock.patch.object(worker(), "execute_model"):
            assert "execute_model" in real.__dict__
        assert "execute_model" not in real.__dict__

    def test_v0s_method_can_be_patched_though_nothing_calls_it(self) -> None:
        where = "vllm.worker.worker.Worker._assert_memory_footprint_increased_during_profiling"
        with mock.patch(where, return_value=None):
            pass

    def test_replacing_a_moved_function_replaces_it_where_it_is(self) -> None:
        base = importlib.import_module("vllm.v1.worker.worker_base")
        before = base.WorkerWrapperBase
        with mock.patch("vllm.worker.worker_base.WorkerWrapperBase") as patched:
            assert base.WorkerWrapperBase is patched
        assert base.WorkerWrapperBase is before


class TestSwitch:
    def test_vllm_use_v1_is_true(self) -> None:
        envs = importlib.import_module("vllm.envs")
        assert envs.VLLM_USE_V1 is True
        assert envs.is_set("VLLM_USE_V1") is False
        envs.set_vllm_use_v1(True)

    def test_other_lost_variables_are_as_the_environment_has_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        envs = importlib.import_module("vllm.envs")
        assert envs.VLLM_ATTENTION_BACKEND is None
        monkeypatch.setenv("VLLM_ATTENTION_BACKEND", "TORCH_SDPA")
        assert envs.VLLM_ATTENTION_BACKEND == "TORCH_SDPA" and envs.is_set("VLLM_ATTENTION_BACKEND")

    def test_a_variable_that_nobody_had_is_none_of_ours(self) -> None:
        envs = importlib.import_module("vllm.envs")
        with pytest.raises(AttributeError):
            envs.VLLM_NONSENSE  # noqa: B018
        with pytest.raises(AttributeError):
            envs.is_set("VLLM_NONSENSE")


def test_an_enumeration_with_other_members_says_what_became_of_them() -> None:
    old, real = name("vllm.config.CompilationLevel"), name("vllm.config.CompilationMode")
    assert old.NONE is real.NONE and old["NONE"] is real.NONE and old(3) is real.VLLM_COMPILE
    assert list(old) == list(real) and len(old) == 2 and real.NONE in old
    assert isinstance(real.NONE, old) and issubclass(real, old) and not isinstance(7, old)
    assert "CompilationMode" in old.__doc__ and old.__name__ == "CompilationLevel"
    assert old.NO_COMPILATION is old["NO_COMPILATION"] is real.NONE and old.PIECEWISE is real.VLLM_COMPILE
    for ask in (lambda: old.DYNAMO_ONCE, lambda: old["DYNAMO_ONCE"]):  # this vLLM has no DYNAMO_TRACE_ONCE
        with pytest.raises(AttributeError, match=r"CompilationLevel\.DYNAMO_ONCE: .*DYNAMO_ONCE is DYNAMO_TRACE_ONCE"):
            ask()
    assert not hasattr(old, "DYNAMO_AS_IS")
    with pytest.raises(KeyError):
        old["nothing"]


@pytest.mark.parametrize(
    "dotted",
    [
        "vllm.worker.cpu_model_runner.CPUModelRunnerBase",
        "vllm.worker.cpu_worker.CPUWorker",
        "vllm.worker.model_runner_base.ModelRunnerBase",
        "vllm.worker.model_runner_base.ModelRunnerInputBuilderBase",
        "vllm.worker.cpu_worker.CPUCacheEngine",
    ],
)
def test_a_generic_base_is_subscripted_and_derived_from(dotted: str) -> None:
    base = name(dotted)
    derived = _derive(base[int])
    assert base in derived.__mro__ and derived[str] is not None


def _derive(base: Any) -> type:
    class Mine(base):  # type: ignore[misc]
        extra = 1

    return Mine
