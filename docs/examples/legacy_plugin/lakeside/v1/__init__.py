"""What the plugin will be on V1."""

import vllm
from vllm.v1.core.sched.output import SchedulerOutput


def window(size: int | None) -> None:
    """Refuses a sliding window; `vllm` is at hand for its version."""
    if size is not None:
        raise NotImplementedError(f"vLLM {vllm.__version__}: a sliding window is not supported in V0.")


def request_ids(output: SchedulerOutput) -> list[str]:
    """The requests that go on in this step."""
    return [request.req_id for request in output.scheduled_cached_reqs]
