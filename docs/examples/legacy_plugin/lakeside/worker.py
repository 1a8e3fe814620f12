"""A worker that warms up, and a model runner that counts tokens."""

from __future__ import annotations

from typing import List, Optional

from vllm.sequence import (
    ExecuteModelRequest,
    IntermediateTensors,
    SequenceGroupMetadata,  # prompt lengths
)
from vllm.model_executor.layers.sampler import SamplerOutput
from vllm.worker.cpu_model_runner import CPUModelRunner, ModelInputForCPUWithSamplingMetadata
from vllm.worker.cpu_worker import CPUWorker


class LakesideModelRunner(CPUModelRunner):
    """Counts what it generates."""

    generated = 0

    def execute_model(
        self,
        model_input: ModelInputForCPUWithSamplingMetadata,
        kv_caches: List,
        intermediate_tensors: Optional[IntermediateTensors] = None,
        num_steps: int = 1,
    ) -> Optional[List[SamplerOutput]]:
        outputs = super().execute_model(model_input, kv_caches, intermediate_tensors, num_steps)
        for output in outputs or []:
            if isinstance(output, SamplerOutput):
                self.generated += len(output.outputs)
        return outputs


class LakesideWorker(CPUWorker):
    """Uses the runner above, and never takes more than a quarter of the machine."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, model_runner_cls=LakesideModelRunner, **kwargs)

    def determine_num_available_blocks(self) -> tuple[int, int]:
        blocks, swap = super().determine_num_available_blocks()
        return blocks // 4, swap

    def execute_model(self, execute_model_req: Optional[ExecuteModelRequest] = None):
        if execute_model_req is not None:
            self.lengths = [prompt_length(group) for group in execute_model_req.seq_group_metadata_list]
        return super().execute_model(execute_model_req)


def prompt_length(group: SequenceGroupMetadata) -> int:
    return max(data.get_prompt_len() for data in group.seq_data.values())
