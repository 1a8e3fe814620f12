"""A first attempt at V1, as it was in vLLM 0.9.2: a metadata builder, a batch described by hand, a step without work."""

import torch
from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata
from vllm.config import SchedulerConfig
from vllm.v1.attention.backends.utils import AttentionMetadataBuilder, CommonAttentionMetadata
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT
from vllm.v1.worker.cpu_model_runner import CPUModelRunner


class LakesideBuilder(AttentionMetadataBuilder):
    """Hands the description of the batch on as it is."""

    def build(self, common_prefix_len: int, common_attn_metadata: CommonAttentionMetadata):
        return common_attn_metadata


def describe(starts: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor, slots: torch.Tensor):
    """One batch, without an engine."""
    return CommonAttentionMetadata(
        query_start_loc=starts,
        seq_lens=lengths,
        num_reqs=lengths.shape[0],
        num_actual_tokens=int(starts[-1]),
        max_query_len=int(starts.diff().max()),
        block_table_tensor=table,
        slot_mapping=slots,
    )


def chunked(config: SchedulerConfig, metadata: TorchSDPAMetadata) -> bool:
    """Whether prompts come in pieces."""
    prefill = metadata.prefill_metadata
    return config.chunked_prefill_enabled and prefill.prefill_metadata.chunked_prefill


def idle_step(cached: list) -> SchedulerOutput:
    """A step in which nothing is scheduled."""
    return SchedulerOutput(
        scheduled_new_reqs=[],
        scheduled_cached_reqs=cached,
        num_scheduled_tokens={},
        total_num_scheduled_tokens=0,
        scheduled_spec_decode_tokens={},
        scheduled_encoder_inputs={},
        num_common_prefix_blocks=[],
        finished_req_ids=set(),
        free_encoder_input_ids=[],
        structured_output_request_ids={},
        grammar_bitmask=None,
    )


class IdleRunner(CPUModelRunner):
    """Answers every step with nothing."""

    def execute_model(self, scheduler_output: SchedulerOutput, intermediate_tensors=None):
        return EMPTY_MODEL_RUNNER_OUTPUT
