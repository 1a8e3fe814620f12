"""The table of configuration fields that vLLM renamed, replaced or can only mean one thing by, under the names V0 had.

What is not in it has nothing that stands for it, and is refused with the words of the names table.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """What became of a field. Without `new`, `read` and `value` nothing stands for it."""

    advice: str = ""
    new: str = ""  # what means the same now, from the same object: "eplb_config.window_size"
    read: Callable[[Any], Any] | None = None  # made from what the object has now
    write: Callable[[Any, Any], None] | None = None  # with `read`: what an assignment means now
    needs: str = ""  # with `read`: what the object must have for it
    value: tuple[Any, ...] = ()  # the one that V1 has
    old: str = ""  # of another class of V0's: its dotted name

    @property
    def served(self) -> bool:
        """Something stands for it."""
        return bool(self.new or self.read or self.value)

    @property
    def root(self) -> str:
        """The member that a release must have for it to be served; "" if none."""
        return (self.new or self.needs).partition(".")[0]

    def get(self, config: Any) -> Any:
        """What the field reads as."""
        if self.new:
            return attrgetter(self.new)(config)
        return self.read(config) if self.read is not None else self.value[0]


def _graphs(name: str) -> Any:
    return importlib.import_module("vllm.config").CUDAGraphMode[name]


def _use_graphs(config: Any, use: bool) -> None:
    """Graphs are captured piece by piece where none were: that was V0's meaning."""
    if bool(config.cudagraph_mode) != bool(use):
        config.cudagraph_mode = _graphs("PIECEWISE" if use else "NONE")


def _has_full_graphs(config: Any) -> bool:
    return config.cudagraph_mode is not None and config.cudagraph_mode.has_full_cudagraphs()


def _use_full_graphs(config: Any, use: bool) -> None:
    if _has_full_graphs(config) != bool(use):
        config.cudagraph_mode = _graphs("FULL" if use else "PIECEWISE")


def _use_inductor(config: Any, use: bool) -> None:
    config.backend = "inductor" if use else "eager"


def _fuse_quantization(config: Any, use: bool) -> None:
    config.fuse_norm_quant = config.fuse_act_quant = use


def _without_cache(config: Any) -> bool:
    """Of the configuration of a model, or of its inputs."""
    inputs = getattr(config, "multimodal_config", config)
    return inputs is not None and inputs.mm_processor_cache_gb == 0


_NO_STEPS = "V1 has no multi-step scheduling: drop the code for it."
_ONE_ENGINE = "It told V0 from V1; with one engine there is nothing to ask: drop the check."
_PARTIAL = "V1 bounds one prompt's share of a step: `long_prefill_token_threshold`."
_ACTIVATION = Field(new="use_activation")
_CACHE = "Read `mm_processor_cache_gb` of the multimodal configuration: 0 turns the cache off."
_DECODING = "vllm.config.DecodingConfig"

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "AttentionConfig": {},
    "CacheConfig": {
        "calculate_kv_scales": Field("Scales come from the checkpoint: drop it.", value=(False,)),
        "cpu_kvcache_space_bytes": Field(new="kv_cache_memory_bytes"),
        "swap_space": Field("V1 does not swap: drop it.", value=(0,)),
        "swap_space_bytes": Field("V1 does not swap: drop it.", value=(0,)),
    },
    "CompilationConfig": {
        "compile_ranges_split_points": Field(new="compile_ranges_endpoints"),
        "encoder_cudagraph_max_images_per_batch": Field(new="encoder_cudagraph_max_vision_items_per_batch"),
        "full_cuda_graph": Field(
            "It is in `cudagraph_mode`: CUDAGraphMode.FULL.",
            read=_has_full_graphs,
            write=_use_full_graphs,
            needs="cudagraph_mode",
        ),
        "level": Field(new="mode"),
        "max_capture_size": Field(
            "Read `max_cudagraph_capture_size`, None where no graph is captured.",
            read=lambda config: config.max_cudagraph_capture_size or 0,
            write=lambda config, size: setattr(config, "max_cudagraph_capture_size", size),
            needs="max_cudagraph_capture_size",
        ),
        "use_cudagraph": Field(
            "It is in `cudagraph_mode`: CUDAGraphMode.NONE, or another.",
            read=lambda config: bool(config.cudagraph_mode),
            write=_use_graphs,
            needs="cudagraph_mode",
        ),
        "use_inductor": Field(
            'It is in `backend`: "inductor" or "eager".',
            read=lambda config: config.backend in ("", "inductor"),
            write=_use_inductor,
            needs="backend",
        ),
    },
    "ECTransferConfig": {},
    "EngramConfig": {},
    "KVTransferConfig": {},
    "KernelConfig": {},
    "LoRAConfig": {
        "bias_enabled": Field("Biases of adapters left vLLM: drop it.", value=(False,)),
        "long_lora_scaling_factors": Field("Long context LoRA is gone: drop it.", value=(None,)),
        "lora_extra_vocab_size": Field("Adapters bring no vocabulary: drop it.", value=(0,)),
        "lora_vocab_padding_size": Field("Layers pad by DEFAULT_VOCAB_PADDING_SIZE: drop it.", value=(64,)),
    },
    "ModelConfig": {
        "disable_mm_preprocessor_cache": Field(_CACHE, read=_without_cache, needs="multimodal_config"),
        "get_hf_config_sliding_window": Field(new="get_sliding_window"),
        "hidden_size": Field(
            "Write `get_hidden_size()`.", read=lambda config: config.get_hidden_size(), needs="get_hidden_size"
        ),
        "is_cross_encoder": Field(
            'Write `score_type == "cross-encoder"`.',
            read=lambda config: config.score_type == "cross-encoder",
            needs="score_type",
        ),
        "is_late_interaction": Field(
            'Write `score_type == "late-interaction"`.',
            read=lambda config: config.score_type == "late-interaction",
            needs="score_type",
        ),
        "is_multimodal_raw_input_supported": Field(new="is_multimodal_raw_input_only_model"),
        "is_v1_compatible": Field(_ONE_ENGINE, value=(True,)),
        "logits_processor_pattern": Field("Requests bring no logits processors on V1: drop it.", value=(None,)),
        "maybe_pull_model_tokenizer_for_s3": Field(new="maybe_pull_model_tokenizer_for_runai"),
        "model_supports_multimodal_raw_input": Field(new="is_multimodal_raw_input_only_model"),
        "override_attention_dtype": Field("No backend of V1 reads it: drop it.", value=(None,)),
        "override_pooler_config": Field(new="pooler_config"),
        "rope_scaling": Field("Read hf_text_config.rope_parameters.", read=lambda config: {}),
        "rope_theta": Field("Read hf_text_config.rope_parameters.", value=(None,)),
        "truncation_side": Field(
            'It was "left" where `runner_type` is "generate" or "draft".',
            read=lambda config: "left" if config.runner_type in ("generate", "draft") else "right",
            needs="runner",
        ),
        "use_async_output_proc": Field(_ONE_ENGINE, value=(False,)),
        "use_pad_token": Field(new="use_sep_token"),
    },
    "MultiModalConfig": {
        "disable_mm_preprocessor_cache": Field(_CACHE, read=_without_cache, needs="mm_processor_cache_gb")
    },
    "ParallelConfig": {
        "eplb_log_balancedness": Field(new="eplb_config.log_balancedness"),
        "eplb_step_interval": Field(new="eplb_config.step_interval"),
        "eplb_window_size": Field(new="eplb_config.window_size"),
        "num_redundant_experts": Field(new="eplb_config.num_redundant_experts"),
        "sd_worker_cls": Field("V1's own runner drafts: set worker_cls alone.", value=("auto",)),
        "tokenizer_pool_config": Field("Tokenizer pools left vLLM in 0.10.0: drop it.", value=(None,)),
    },
    "PassConfig": {
        "enable_attn_fusion": Field(new="fuse_attn_quant"),
        "enable_fi_allreduce_fusion": Field(new="fuse_allreduce_rms"),
        "enable_fusion": Field(
            "It is `fuse_norm_quant` and `fuse_act_quant`.",
            read=lambda config: bool(config.fuse_norm_quant and config.fuse_act_quant),
            write=_fuse_quantization,
            needs="fuse_norm_quant",
        ),
        "enable_noop": Field(new="eliminate_noops"),
        "uuid": Field(new="compute_hash"),
    },
    "PoolerConfig": {
        "activation": _ACTIVATION,
        "logit_bias": Field(new="logit_mean"),
        "normalize": _ACTIVATION,
        "softmax": _ACTIVATION,
    },
    "SchedulerConfig": {
        "chunked_prefill_enabled": Field(new="enable_chunked_prefill"),
        "delay_factor": Field("V1's scheduler does not delay: drop it.", value=(0.0,)),
        "is_encoder_decoder": Field("It is given and not kept: read `vllm_config.model_config.is_encoder_decoder`."),
        "is_multi_step": Field(_NO_STEPS, value=(False,)),
        "max_long_partial_prefills": Field(_PARTIAL, value=(1,)),
        "max_model_len": Field("It is given and not kept: read `vllm_config.model_config.max_model_len`."),
        "max_num_partial_prefills": Field(_PARTIAL, value=(1,)),
        "multi_step_stream_outputs": Field(_NO_STEPS, value=(True,)),
        "num_lookahead_slots": Field("V1's scheduler takes it from the speculative configuration.", value=(0,)),
        "num_scheduler_steps": Field(_NO_STEPS, value=(1,)),
        "preemption_mode": Field("V1 recomputes what it preempts: drop it.", value=(None,)),
        "send_delta_data": Field("V1 sends differences always: drop it.", value=(False,)),
    },
    "SpeculativeConfig": {"num_lookahead_slots": Field(new="num_speculative_tokens")},
    "StructuredOutputsConfig": {
        "disable_fallback": Field(
            '`backend` alone says it: "auto" chooses for each request, any other is kept to.',
            value=(False,),
            old=_DECODING,
        ),
        "guided_decoding_backend": Field(new="backend", old=_DECODING),
        "reasoning_backend": Field(new="reasoning_parser", old=_DECODING),
    },
    "VllmConfig": {
        "decoding_config": Field(new="structured_outputs_config"),
        "prompt_adapter_config": Field("Prompt adapters left vLLM in 0.10.0: drop it.", value=(None,)),
    },
}
"""Configuration that lost something -> field -> what became of it."""
