"""V1M115: one object where there was a list, a result where there was none."""

from __future__ import annotations

import pytest
from harness import rewrite
from v1_migrate.findings import Severity

HEAD = "from vllm.v1.core.sched.output import SchedulerOutput\nfrom vllm.v1.worker.worker_base import WorkerBase\n\n"
FOUND = [
    pytest.param("def f(s: SchedulerOutput):\n    for r in s.scheduled_cached_reqs:\n        r.req_id\n", id="a loop"),
    pytest.param("def f(s: SchedulerOutput):\n    return [r for r in s.scheduled_cached_reqs]\n", id="a comprehension"),
    pytest.param("def f(s: SchedulerOutput):\n    return s.scheduled_cached_reqs[0]\n", id="an index"),
    pytest.param("def f(s: SchedulerOutput):\n    return len(s.scheduled_cached_reqs)\n", id="counted"),
    pytest.param("def f():\n    return SchedulerOutput(scheduled_cached_reqs=[])\n", id="given as a list"),
    pytest.param(
        "class W(WorkerBase):\n    def compile_or_warm_up_model(self) -> None:\n        self.warm()\n", id="no result"
    ),
    pytest.param(
        "class W(WorkerBase):\n    def compile_or_warm_up_model(self):\n        if self.a:\n            return\n"
        "        def g():\n            return 1\n",
        id="no result of its own",
    ),
]
SILENT = [
    pytest.param("def f(s: SchedulerOutput):\n    return s.scheduled_cached_reqs.req_ids[0]\n", id="its members"),
    pytest.param("def f(s: SchedulerOutput):\n    for r in s.scheduled_new_reqs:\n        pass\n", id="what is a list"),
    pytest.param("def f(s: SchedulerOutput):\n    return SchedulerOutput(scheduled_new_reqs=[])\n", id="a list for it"),
    pytest.param(
        "def f(s: SchedulerOutput):\n    for k in s.kv_connector_metadata:\n        pass\n", id="never several"
    ),
    pytest.param(
        "from vllm.v1.core.sched.scheduler import Scheduler\ndef f(s: Scheduler):\n    for r in s.waiting:\n        pass\n",
        id="an object that has elements",
    ),
    pytest.param(
        "from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1\n"
        "class C(KVConnectorBase_V1):\n    def build_connector_meta(self, scheduler_output):\n        pass\n",
        id="what always gave one",
    ),
    pytest.param("def f(s: SchedulerOutput):\n    s.scheduled_cached_reqs = g(1)\n", id="what is set"),
    pytest.param(
        "class W(WorkerBase):\n    def compile_or_warm_up_model(self):\n        return super().compile_or_warm_up_model()\n",
        id="a result",
    ),
    pytest.param(
        "class W(WorkerBase):\n    def compile_or_warm_up_model(self):\n        raise NotImplementedError\n",
        id="refused",
    ),
    pytest.param("class W(WorkerBase):\n    def execute_model(self, s):\n        return None\n", id="what may be None"),
    pytest.param("class W(WorkerBase):\n    def init_device(self):\n        pass\n", id="what gives nothing there"),
]


@pytest.mark.parametrize("text", FOUND)
def test_another_shape_is_an_error(text: str) -> None:
    assert [found.severity for found in rewrite(HEAD + text, "0.32.0").said("V1M115")] == [Severity.ERROR]


@pytest.mark.parametrize("text", SILENT)
def test_the_same_shape_is_left_alone(text: str) -> None:
    assert rewrite(HEAD + text, "0.32.0").said("V1M115") == []


def test_a_target_with_the_old_shape_takes_it() -> None:
    text = "class W(WorkerBase):\n    def compile_or_warm_up_model(self) -> None:\n        self.warm()\n"
    assert rewrite(HEAD + text, "0.11.0").said("V1M115") == []
