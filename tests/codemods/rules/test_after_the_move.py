"""What a class lost with its old name is said for as long as it is used, also once the import names the new one."""

from __future__ import annotations

import pytest

from tests.codemods.rules.harness import dedent, rewrite

OLD_AND_NEW = [
    pytest.param(
        "from {} import RayDistributedExecutor as Base",
        ("vllm.executor.ray_distributed_executor", "vllm.v1.executor.ray_executor"),
        "def go(self):\n        self._run_workers('init_device')",
        ("V1M102", "`_run_workers`"),
        id="a method that is called on self",
    ),
    pytest.param(
        "from {} as Base",
        ("vllm.executor.executor_base import ExecutorBase", "vllm.v1.executor.abstract import Executor"),
        "def go(self):\n        return self._run_workers('x')",
        ("V1M102", "`_run_workers`"),
        id="a class with another name",
    ),
    pytest.param(
        "from {} import Worker as Base",
        ("vllm.worker.worker", "vllm.v1.worker.gpu_worker"),
        "def go(self):\n        return len(self.gpu_cache)",
        ("V1M102", "`gpu_cache`"),
        id="an attribute that is read",
    ),
    pytest.param(
        "from {} import CPUWorker as Base",
        ("vllm.worker.cpu_worker", "vllm.v1.worker.cpu_worker"),
        "def prepare(self, request):\n        return super().prepare_worker_input(request)",
        ("V1M102", "`prepare_worker_input`"),
        id="a method that super() lacks",
    ),
    pytest.param(
        "from {} import Worker as Base",
        ("vllm.worker.worker", "vllm.v1.worker.gpu_worker"),
        "def execute_model(self, execute_model_req=None):\n        return []",
        ("V1M111", "which this override refuses"),
        id="an override that takes V0's argument",
    ),
    pytest.param(
        "from {} import Scheduler as Base",
        ("vllm.core.scheduler", "vllm.v1.core.sched.scheduler"),
        "def abort_seq_group(self, request_id):\n        pass",
        ("V1M111", "nothing calls it"),
        id="an override of a method that is gone",
    ),
]


@pytest.mark.parametrize(("form", "places", "body", "said"), OLD_AND_NEW)
@pytest.mark.parametrize("moved", [False, True], ids=["before the import moves", "after it"])
def test_said_before_and_after(
    form: str, places: tuple[str, str], body: str, said: tuple[str, str], moved: bool
) -> None:
    text = f"{form.format(places[moved])}\n\n\nclass Mine(Base):\n    {body}\n"
    rule, words = said
    (found,) = [f for f in rewrite(text, "0.32.0").said(rule) if words in f.message]
    assert found.open
    assert found.advice


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            from vllm.v1.worker.gpu_worker import Worker

            class Mine(Worker):
                def execute_model(self, scheduler_output):
                    return self.prepare_worker_input(scheduler_output)

                def prepare_worker_input(self, output):
                    return output
            """,
            id="a method of its own that is called like V0's",
        ),
        pytest.param(
            """
            from vllm.v1.executor.abstract import Executor

            class Mine(Executor):
                def _init_executor(self):
                    self.gpu_cache = []
                    print(self.gpu_cache, self.vllm_config, self._never_known())
            """,
            id="what the class sets itself, what the target has, what nobody had",
        ),
        pytest.param(
            """
            from vllm.v1.worker.gpu_worker import Worker

            class Mine(Worker):
                @classmethod
                def go(cls):
                    return cls.gpu_cache
            """,
            id="a read of cls, which a subclass may set",
        ),
    ],
)
def test_code_of_v1_is_left_in_peace(text: str) -> None:
    assert not {"V1M102", "V1M111"} & rewrite(dedent(text), "0.32.0").rules


def test_an_object_is_asked_for_what_only_the_older_class_had() -> None:
    text = "from vllm.v1.outputs import SamplerOutput\n\n\ndef f(output: SamplerOutput):\n    return output.outputs\n"
    (found,) = rewrite(text, "0.32.0").said("V1M102")
    assert "has no `outputs`" in found.message


def test_further_uses_are_listed_with_the_first() -> None:
    text = (
        "from vllm.v1.worker.gpu_worker import Worker\n\n\nclass Mine(Worker):\n"
        "    def a(self):\n        return self.gpu_cache\n\n    def b(self):\n        return self.gpu_cache\n"
    )
    assert [found.primary for found in rewrite(text, "0.32.0").said("V1M102")] == [True, False]


CALLS = [
    pytest.param(
        "from {} import async_tensor_h2d",
        ("vllm.utils", "vllm.utils.torch_utils"),
        "async_tensor_h2d(data, torch.int, device, self.pin_memory)",
        "V1M112",
        id="arguments that stand for others now",
    ),
    pytest.param(
        "from {} import Attention",
        ("vllm.attention", "vllm.model_executor.layers.attention"),
        "Attention(1, 2, 3.0, use_mla=True)",
        "V1M112",
        id="a keyword that ends in **kwargs",
    ),
]


@pytest.mark.parametrize(("form", "places", "call", "rule"), CALLS)
@pytest.mark.parametrize("moved", [False, True], ids=["before the import moves", "after it"])
def test_a_call_is_said_before_and_after(form: str, places: tuple[str, str], call: str, rule: str, moved: bool) -> None:
    text = f"import torch\n{form.format(places[moved])}\nx = {call}\n"
    assert any(found.open for found in rewrite(text, "0.32.0").said(rule))


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("async_tensor_h2d(data, device, torch.int)", id="the target's own form"),
        pytest.param("async_tensor_h2d(data, device, dtype, out)", id="the same in four arguments"),
    ],
)
def test_a_call_of_the_target_is_not_read_by_an_older_name(call: str) -> None:
    text = f"import torch\nfrom vllm.utils.torch_utils import async_tensor_h2d\nx = {call}\n"
    outcome = rewrite(text, "0.32.0")
    assert outcome.text == text
    assert not outcome.findings


HALFWAY = (
    "from vllm.v1.core.sched.output import SchedulerOutput\n\nx = SchedulerOutput(\n    scheduled_new_reqs=[],\n"
    "    scheduled_cached_reqs=[],\n    num_scheduled_tokens={},\n    total_num_scheduled_tokens=1,\n"
    "    scheduled_spec_decode_tokens={},\n    scheduled_encoder_inputs={},\n    num_common_prefix_blocks=0,\n"
    "    finished_req_ids=set(),\n)\n"
)


def test_a_call_that_was_edited_halfway_is_still_refused() -> None:
    (found,) = rewrite(HALFWAY, "0.32.0").said("V1M113")
    assert "missing `free_encoder_mm_hashes`" in found.message


def test_a_call_with_hardly_an_argument_is_a_sketch() -> None:
    text = "from vllm.v1.core.sched.output import SchedulerOutput\n\nx = SchedulerOutput(finished_req_ids=set())\n"
    assert not rewrite(text, "0.32.0").said("V1M113")


def test_a_run_says_of_the_other_arm_what_the_next_run_says() -> None:
    text = dedent(
        """
        try:
            from vllm.entrypoints.openai.protocol import LoadLoRAAdapterRequest
        except ImportError:
            from vllm.entrypoints.openai.protocol import LoadLoraAdapterRequest as LoadLoRAAdapterRequest

        request = LoadLoRAAdapterRequest()
        """
    )
    outcome = rewrite(text, "0.32.0")
    assert "from vllm.entrypoints.serve.lora.protocol import LoadLoRAAdapterRequest\n" in outcome.text
    assert outcome.open == []
    assert 4 in outcome.lines("V1M010")


def test_that_a_moved_name_had_another_contract_is_said_by_the_run_that_moves_it() -> None:
    outcome = rewrite("from vllm.worker.worker import Worker\n\n\nclass Mine(Worker): ...\n", "0.32.0")
    assert [found.line for found in outcome.said("V1M003") if not found.fixed] == [4]
