"""V0's worker and runner constructors on V1's: what is handed on, what is dropped, what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from v1_compat.notices import LegacyContractError
from v1_compat.workers import RunnerArguments, WorkerArguments


class Given:
    """Stands for vLLM's own class, and keeps what its constructor is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.given = args, kwargs
        self.model_runner: Any = SimpleNamespace()

    def init_device(self) -> None:
        self.model_runner = SimpleNamespace(name="V1's")


class Worker(WorkerArguments, Given): ...


class Runner(RunnerArguments, Given): ...


CONFIG = SimpleNamespace(cache_config=SimpleNamespace(cache_dtype="auto"))
FOUR = {"vllm_config": CONFIG, "local_rank": 0, "rank": 1, "distributed_init_method": "tcp"}


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        pytest.param((CONFIG, 0, 1, "tcp"), {}, FOUR, id="V1's four"),
        pytest.param((CONFIG, 0, 1, "tcp", True), {}, FOUR | {"is_driver_worker": True}, id="a GPU worker's fifth"),
        pytest.param(
            (CONFIG, 0, 1, "tcp", "auto", True), {}, FOUR | {"is_driver_worker": True}, id="the CPU worker's cache type"
        ),
        pytest.param((), FOUR | {"kv_cache_dtype": "auto"}, FOUR, id="by name"),
    ],
)
def test_what_a_worker_hands_on(args: tuple[Any, ...], kwargs: dict[str, Any], expected: dict[str, Any]) -> None:
    assert Worker(*args, **kwargs).given == ((), expected)


def test_a_cache_type_that_the_configuration_does_not_have_is_refused() -> None:
    with pytest.raises(LegacyContractError, match="the configuration alone decides"):
        Worker(CONFIG, 0, 1, "tcp", "fp8")


def test_the_runner_class_of_v0_gets_v1s_runner() -> None:
    worker = Worker(CONFIG, 0, 1, "tcp", False, lambda runner: ("wrapped", runner.name))
    worker.init_device()
    assert worker.model_runner == ("wrapped", "V1's")


@pytest.mark.parametrize(
    ("args", "kwargs", "driver"),
    [
        pytest.param((), {}, False, id="the configuration alone"),
        pytest.param(("auto", True), {}, True, id="V0's positional arguments"),
        pytest.param(
            (), {"is_driver_worker": True, "return_hidden_states": False}, True, id="by name, one that is off"
        ),
    ],
)
def test_what_a_runner_hands_on(args: tuple[Any, ...], kwargs: dict[str, Any], driver: bool) -> None:
    runner = Runner(CONFIG, *args, **kwargs)
    assert runner.given == ((CONFIG, torch.device("cpu")), {}) and runner.is_driver_worker is driver


def test_v1s_own_call_goes_through() -> None:
    assert Runner(CONFIG, torch.device("cpu")).given == ((CONFIG, torch.device("cpu")), {})
    assert Runner(CONFIG, device="cpu").given == ((CONFIG,), {"device": "cpu"})


def test_an_argument_that_carried_something_is_refused() -> None:
    with pytest.raises(LegacyContractError, match="takes no return_hidden_states"):
        Runner(CONFIG, return_hidden_states=True)
