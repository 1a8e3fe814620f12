"""The table of refusals, by release: what holds, and the nearest thing that does not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from v1_migrate.doctor import arguments, capabilities, latents, model, probe
from v1_migrate.doctor.case import GIB, Case
from v1_migrate.doctor.checks import RULES, check
from v1_migrate.doctor.model import Model, from_config
from v1_migrate.doctor.settings import settings
from v1_migrate.findings import Severity
from v1_migrate.names.releases import sort_key

MISTRAL = Model("m", "MistralForCausalLM", 128, sliding_window=4096)
WHISPER = Model("m", "WhisperForConditionalGeneration", 64, encoder_decoder=True)
DEEPSEEK = Model("m", "DeepseekV3ForCausalLM", 192, mla=True, dtype="bfloat16", latent=(512, 64, 128, 128))
SMALL = replace(DEEPSEEK, latent=(64, 32, 32, 32))
PLAIN_ROPE = replace(DEEPSEEK, plain_rope=True)
SPARSE = replace(DEEPSEEK, sparse=True)
V4 = Model("m", "DeepseekV4ForCausalLM", 512, own_layers=True)
AMX: dict[str, Any] = {"flags": ("avx512f", "amx_tile"), "of": DEEPSEEK}
PLAIN: dict[str, Any] = {"flags": ("avx512f",), "of": DEEPSEEK}
OURS = AMX | {"served_by_v1_cpu": True}


def case(release: str, words: str = "", of: Model | None = None, nodes: int = 1, free: int = 60, **more: Any) -> Case:
    variables = {name: value for name, value in more.items() if name.isupper()}
    rest = {name: value for name, value in more.items() if not name.isupper()}
    memory = ((64 * GIB, free * GIB),) * nodes
    return Case(release, arguments.read([words] if words else []), of, variables, nodes=memory, **rest)


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
CASES = [
    pytest.param(case("0.10.0", of=MISTRAL), ERROR, "window of 4096 tokens", case("0.11.1", of=MISTRAL), id="a sliding window falls back to V0"),
    pytest.param(case("0.12.0", of=WHISPER), ERROR, "Whisper", case("0.13.0", of=WHISPER), id="cross-attention came with 0.13.0"),
    pytest.param(case("0.27.1", of=DEEPSEEK), ERROR, "MLA is not supported", case("0.28.0", of=DEEPSEEK), id="MLA came with 0.28.0"),
    pytest.param(case("0.10.2", "kv_cache_dtype='fp8'"), ERROR, "falls back to V0", case("0.10.2", "kv_cache_dtype='auto'"), id="a float8 cache falls back to V0"),
    pytest.param(case("0.20.2", "kv_cache_dtype='fp8'"), ERROR, "chunked prefill and prefix caching", case("0.21.0", "kv_cache_dtype='fp8'"), id="a float8 cache came with 0.21.0"),
    pytest.param(case("0.16.0", "kv_cache_dtype='fp8', enable_chunked_prefill=False, enable_prefix_caching=False"), WARNING, "replaced by auto", case("0.21.0", "kv_cache_dtype='fp8'"), id="a float8 cache silently becomes auto"),
    pytest.param(case("0.10.2", "kv_cache_dtype='fp8_e4m3'"), WARNING, "becomes e5m2", case("0.10.2", "kv_cache_dtype='fp8_e5m2'"), id="e4m3 silently becomes e5m2"),
    pytest.param(case("0.32.0", "vllm serve m --block-size 16"), ERROR, "No common block size", case("0.32.0", "vllm serve m --block-size 32"), id="blocks of 16"),
    pytest.param(case("0.32.0", "block_size=16"), ERROR, "No common block size", case("0.32.0", "block_size=16", served_by_v1_cpu=True), id="blocks of 16 are served by v1_cpu"),
    pytest.param(case("0.32.0", "block_size=16", of=from_config("m", {"model_type": "gemma2", "sliding_window": 64})), ERROR, "No common block size", case("0.32.0", "block_size=16", of=from_config("m", {"model_type": "mistral", "sliding_window": 64})), id="windows on all layers choose their blocks"),
    pytest.param(case("0.28.0", "block_size=16"), WARNING, "slower kernel", case("0.28.0", "block_size=64"), id="blocks of 16 are slow"),
    pytest.param(case("0.10.0", "block_size=32"), WARNING, "Intel Extension", case("0.10.0", "block_size=16"), id="blocks of 32 need IPEX"),
    pytest.param(case("0.13.0", of=Model("m", head_size=80)), ERROR, "head size of 80", case("0.14.0", of=Model("m", head_size=80)), id="head size 80"),
    pytest.param(case("0.19.1", of=Model("m", head_size=512)), ERROR, "head size of 512", case("0.20.0", of=Model("m", head_size=512)), id="head size 512"),
    pytest.param(case("0.32.0", of=Model("m", head_size=72)), ERROR, "head size of 72", case("0.32.0", of=Model("m", head_size=72), served_by_v1_cpu=True), id="head size 72 is served by v1_cpu"),
    pytest.param(case("0.10.0", "num_scheduler_steps=8"), ERROR, "num_scheduler_steps=8", case("0.10.0", "num_scheduler_steps=1"), id="multi-step scheduling"),
    pytest.param(case("0.10.2", "preemption_mode='swap'"), ERROR, "preemption_mode='swap'", case("0.10.2", "preemption_mode=None"), id="preemption mode"),
    pytest.param(case("0.10.2", "enable_prompt_embeds=True"), ERROR, "falls back", case("0.11.0", "enable_prompt_embeds=True"), id="prompt embeddings"),
    pytest.param(case("0.11.0", "max_num_partial_prefills=2"), ERROR, "falls back", case("0.11.1", "max_num_partial_prefills=2"), id="partial prefills"),
    pytest.param(case("0.32.0", "enable_sleep_mode=True"), ERROR, "Sleep mode", case("0.32.0", "enable_sleep_mode=False"), id="sleep mode"),
    pytest.param(case("0.32.0", "distributed_executor_backend='ray'"), ERROR, "does not support ray", case("0.32.0", "distributed_executor_backend='mp'"), id="Ray"),
    pytest.param(case("0.11.0", VLLM_USE_V1="0"), ERROR, "asks for V0", case("0.11.0", VLLM_USE_V1="1"), id="the switch asks for V0"),
    pytest.param(case("0.32.0", VLLM_USE_V1="0"), INFO, "not read since 0.11.1", case("0.32.0"), id="the switch is not read"),
    pytest.param(case("0.10.0", VLLM_ATTENTION_BACKEND="TORCH_SDPA"), ERROR, "fall back to V0", case("0.10.0", VLLM_ATTENTION_BACKEND="TORCH_SDPA_VLLM_V1"), id="TORCH_SDPA in 0.10.0"),
    pytest.param(case("0.14.1", VLLM_ATTENTION_BACKEND="TORCH_SDPA"), WARNING, "is ignored", case("0.14.1", VLLM_ATTENTION_BACKEND="CPU_ATTN"), id="TORCH_SDPA later"),
    pytest.param(case("0.32.0", VLLM_ATTENTION_BACKEND="CPU_ATTN"), WARNING, "not read since", case("0.14.1", VLLM_ATTENTION_BACKEND="CPU_ATTN"), id="the backend's variable is not read"),
    pytest.param(case("0.32.0", "vllm serve m --attention-backend CUSTOM"), WARNING, "ignored on a CPU", case("0.32.0", "vllm serve m --attention-backend CPU_ATTN"), id="a backend that is ignored"),
    pytest.param(case("0.32.0", "attention_backend='CPU_MLA'", of=MISTRAL), WARNING, "ignored on a CPU", case("0.32.0", "attention_backend='CPU_MLA'", of=DEEPSEEK), id="a backend of latents for a model without"),
    pytest.param(case("0.32.0", "dtype='float32'", **AMX), ERROR, "loads no float32 model", case("0.32.0", "dtype='float32'", **OURS), id="float32 latents with AMX are served by v1_cpu"),
    pytest.param(case("0.29.0", "dtype='float'", **AMX), ERROR, "loads no float32 model", case("0.28.0", "dtype='float'", **AMX), id="AMX_MLA came with 0.29.0"),
    pytest.param(case("0.32.0", "dtype='float32'", **AMX), ERROR, "loads no float32 model", case("0.32.0", "dtype='float32'", **PLAIN), id="float32 latents without AMX"),
    pytest.param(case("0.32.0", "dtype='half'", **AMX), ERROR, "answers wrongly in float16", case("0.32.0", "dtype='half', attention_backend='CPU_MLA'", **AMX), id="float16 latents with CPU_MLA"),
    pytest.param(case("0.32.0", "vllm serve m --dtype half", **AMX), ERROR, "answers wrongly in float16", case("0.32.0", "vllm serve m --dtype half --attention-config.backend CPU_MLA", **AMX), id="float16 latents with CPU_MLA, the long way"),
    pytest.param(case("0.32.0", **AMX | {"of": replace(DEEPSEEK, dtype="float16")}), ERROR, "answers wrongly in float16", case("0.32.0", **AMX | {"of": replace(DEEPSEEK, dtype="float32")}), id="a model saved in float16, and one in float32, which becomes bfloat16"),
    pytest.param(case("0.32.0", settled={"dtype": "float16", "use_mla": True}, flags=("amx_tile",)), ERROR, "answers wrongly in float16", case("0.32.0", settled={"dtype": "float16", "use_mla": False}, **AMX), id="what vLLM itself made of the arguments"),
    pytest.param(case("0.32.0", "dtype='half'", **AMX), ERROR, "answers wrongly in float16", case("0.32.0", "dtype='half'", VLLM_MLA_DISABLE="1", **AMX), id="latents switched off"),
    pytest.param(case("0.31.0", "dtype='half'", **OURS), ERROR, "answers wrongly in float16", case("0.32.0", "dtype='half'", **OURS), id="v1_cpu serves latents in 0.32 alone"),
    pytest.param(case("0.32.0", "kv_cache_dtype='bfloat16'", **AMX), ERROR, "AMX_MLA knows auto alone", case("0.32.0", "kv_cache_dtype='auto'", **AMX), id="AMX_MLA's cache"),
    pytest.param(case("0.32.0", "kv_cache_dtype='fp8'", **AMX), ERROR, "AMX_MLA knows auto alone", case("0.32.0", "kv_cache_dtype='fp8'", **OURS), id="a float8 cache of latents is served by v1_cpu"),
    pytest.param(case("0.32.0", "kv_cache_dtype='fp8'", **PLAIN), ERROR, "CPU_MLA keeps no float8", case("0.32.0", "kv_cache_dtype='bfloat16'", **PLAIN), id="CPU_MLA's cache"),
    pytest.param(case("0.32.0", **AMX | {"of": replace(DEEPSEEK, latent=(512, 64, 48, 16))}), ERROR, "qk_nope_head_dim=48 and v_head_dim=16", case("0.32.0", **PLAIN | {"of": replace(DEEPSEEK, latent=(512, 64, 48, 16))}), id="sizes that 32 does not divide"),
    pytest.param(case("0.32.0", **AMX | {"of": SMALL}), ERROR, "64 + 32 numbers: AMX_MLA takes", case("0.32.0", **AMX | {"of": replace(DEEPSEEK, latent=(256, 64, 128, 128))}), id="small latents"),
    pytest.param(case("0.32.0", **AMX | {"of": replace(DEEPSEEK, latent=(304, 16, 128, 128))}), ERROR, "304 + 16 numbers: AMX_MLA takes", case("0.32.0", **OURS | {"of": replace(DEEPSEEK, latent=(304, 16, 128, 128))}), id="latents of a size that 32 does not divide"),
    pytest.param(case("0.28.0", **PLAIN | {"of": replace(DEEPSEEK, latent=(256, 64, 128, 128))}), ERROR, "CPU_MLA has a kernel for 512 + 64", case("0.28.0", **PLAIN), id="CPU_MLA's one size"),
    pytest.param(case("0.32.0", **PLAIN | {"of": replace(DEEPSEEK, latent=(544, 32, 128, 128))}), ERROR, "CPU_MLA has a kernel for 512 + 64", case("0.32.0", **AMX | {"of": replace(DEEPSEEK, latent=(544, 32, 128, 128))}), id="CPU_MLA's one size, divided otherwise"),
    pytest.param(case("0.32.0", "block_size=64", **PLAIN), WARNING, "block_size=64 becomes 16", case("0.32.0", "block_size=64", **AMX), id="CPU_MLA's blocks"),
    pytest.param(case("0.32.0", "block_size=16", **AMX), ERROR, "No common block size", case("0.32.0", "block_size=16", **PLAIN), id="blocks of 16 are CPU_MLA's own"),
    pytest.param(case("0.32.0", "block_size=16", **AMX), ERROR, "No common block size", case("0.32.0", "block_size=16", **AMX | {"of": V4}), id="DeepSeek-V4's blocks are always 256"),
    pytest.param(case("0.32.0", "enable_prefix_caching=True", **PLAIN), WARNING, "enable_prefix_caching: switched off", case("0.32.0", "enable_prefix_caching=True", **AMX), id="CPU_MLA caches no prefix"),
    pytest.param(case("0.32.0", "enforce_eager=True", **OURS | {"of": PLAIN_ROPE}), ERROR, "answers by what else", case("0.32.0", **OURS | {"of": PLAIN_ROPE}), id="queries of latents are turned wrongly where nothing is compiled"),
    pytest.param(case("0.32.0", "vllm serve m --enforce-eager", **AMX | {"of": PLAIN_ROPE}), ERROR, "answers by what else", case("0.32.0", "vllm serve m --enforce-eager", **AMX), id="and not where positions are scaled"),
    pytest.param(case("0.32.0", "enforce_eager=True", **AMX | {"of": PLAIN_ROPE}), ERROR, "answers by what else", case("0.32.0", "enforce_eager=True, compilation_config={'custom_ops': ['all', '-rotary_embedding']}", **AMX | {"of": PLAIN_ROPE}), id="and not without the operator"),
    pytest.param(case("0.32.0", **OURS | {"of": SPARSE}), ERROR, "picks what it attends to", case("0.32.0", **OURS), id="sparse latents, with and without v1_cpu"),
    pytest.param(case("0.32.0", VLLM_CPU_KVCACHE_SPACE="0.5"), ERROR, "no whole number", case("0.32.0", VLLM_CPU_KVCACHE_SPACE="1"), id="half a GiB of cache"),
    pytest.param(case("0.32.0", VLLM_CPU_KVCACHE_SPACE="0"), ERROR, "cache of no bytes", case("0.9.2", VLLM_CPU_KVCACHE_SPACE="0"), id="no cache"),
    pytest.param(case("0.32.0", free=40), ERROR, "0.92 of 64.0 GiB is 58.9 GiB, and 40.0 GiB are free", case("0.19.1", free=40), id="memory that is not free"),
    pytest.param(case("0.32.0", free=40), ERROR, "will not start", case("0.32.0", "gpu_memory_utilization=0.5", free=40), id="a smaller share of the memory"),
    pytest.param(case("0.32.0", free=40), ERROR, "will not start", case("0.32.0", free=40, VLLM_CPU_KVCACHE_SPACE="4"), id="a cache of a given size"),
    pytest.param(case("0.32.0", free=40, VLLM_CPU_KVCACHE_SPACE="41"), ERROR, "41.0 GiB, and 40.0 of 64.0 GiB are free", case("0.32.0", free=40, VLLM_CPU_KVCACHE_SPACE="40"), id="a given cache that does not fit"),
    pytest.param(case("0.32.0", "kv_cache_memory_bytes=44023414784", free=40), ERROR, "41.0 GiB, and 40.0", case("0.32.0", "kv_cache_memory_bytes=44023414784", free=40, VLLM_CPU_KVCACHE_SPACE="4"), id="the variable outranks the argument"),
    pytest.param(case("0.32.0", VLLM_CPU_OMP_THREADS_BIND="all"), ERROR, "was V0's default", case("0.19.1", VLLM_CPU_OMP_THREADS_BIND="all"), id="all cores"),
    pytest.param(case("0.32.0", "-tp 2", VLLM_CPU_OMP_THREADS_BIND="0-3"), ERROR, "(1 for 2)", case("0.32.0", "-tp 2", VLLM_CPU_OMP_THREADS_BIND="0-1|2-3"), id="one list of cores for two ranks"),
    pytest.param(case("0.32.0", "tensor_parallel_size=2"), ERROR, "2 ranks and 1 NUMA node", case("0.32.0", "tensor_parallel_size=2", nodes=2), id="more ranks than nodes"),
    pytest.param(case("0.32.0", VLLM_CPU_OMP_THREADS_BIND="0-3"), INFO, "numa_migrate_pages", case("0.32.0", VLLM_CPU_OMP_THREADS_BIND="nobind"), id="binding in a container"),
    pytest.param(case("0.13.0", cores=32), WARNING, "more than 16", case("0.14.0", cores=32), id="many threads"),
    pytest.param(case("0.32.0", "vllm serve m --swap-space 4"), ERROR, "--swap-space is gone since 0.18.0", case("0.17.1", "vllm serve m --swap-space 4"), id="an option that is gone"),
    pytest.param(case("0.32.0", "device='cpu'"), ERROR, "device is gone", case("0.9.2", "device='cpu'"), id="a keyword that is gone"),
    pytest.param(case("0.32.0", V1_CPU_BACKEND="1", VLLM_PLUGINS="mine"), WARNING, "leaves out v1_cpu", case("0.32.0", V1_CPU_BACKEND="1", VLLM_PLUGINS="mine,v1_cpu"), id="plugins that leave us out"),
]  # fmt: skip


@pytest.mark.parametrize(("refused", "severity", "words", "taken"), CASES)
def test_refusals(refused: Case, severity: Severity, words: str, taken: Case) -> None:
    assert [r for r in check(refused) if words in r.message and r.severity is severity], list(check(refused))
    assert not [r for r in check(taken) if words in r.message]


@pytest.mark.parametrize(
    ("of", "backend"),
    [
        pytest.param(case("0.32.0", **AMX), "AMX_MLA", id="with AMX"),
        pytest.param(case("0.32.0", **PLAIN), "CPU_MLA", id="without"),
        pytest.param(case("0.32.0", "attention_backend='cpu_mla'", **AMX), "CPU_MLA", id="as asked for"),
        pytest.param(case("0.28.0", **AMX), "CPU_MLA", id="before there was AMX_MLA"),
        pytest.param(case("0.27.1", **AMX), None, id="before there was any"),
        pytest.param(case("0.32.0", **OURS), None, id="v1_cpu"),
        pytest.param(case("0.31.0", **OURS), "AMX_MLA", id="not v1_cpu before 0.32.0"),
        pytest.param(case("0.32.0", **AMX | {"of": MISTRAL}), None, id="no latents"),
        pytest.param(case("0.32.0", settled={"use_mla": True}, **AMX | {"of": V4}), None, id="layers of its own"),
    ],
)
def test_which_of_vllm_s_own_attends_to_latents(of: Case, backend: str | None) -> None:
    assert latents.own_backend(of) == backend


@pytest.mark.parametrize(
    ("of", "dtype"),
    [
        pytest.param(case("0.32.0", "dtype='half'"), "float16", id="as asked for"),
        pytest.param(case("0.32.0", "dtype='half'", settled={"dtype": "bfloat16"}), "bfloat16", id="as vLLM has it"),
        pytest.param(case("0.32.0", of=replace(DEEPSEEK, dtype="float16")), "float16", id="as the model has it"),
        pytest.param(case("0.32.0", of=replace(DEEPSEEK, dtype="float32")), "bfloat16", id="float32 is not kept"),
        pytest.param(case("0.32.0", "dtype='auto'", of=MISTRAL), None, id="as a model that does not say"),
        pytest.param(case("0.32.0"), None, id="unknown"),
    ],
)
def test_dtype_of_a_case(of: Case, dtype: str | None) -> None:
    assert of.dtype == dtype


@pytest.mark.parametrize(
    ("words", "subject", "advice"),
    [
        pytest.param("vllm serve m --swap-space 4", "--swap-space", "V1 does not swap", id="an option"),
        pytest.param("swap_space=4", "swap_space", "V1 does not swap", id="a keyword is named as one"),
        pytest.param("vllm serve m --no-enable-lora-bias", "--no-enable-lora-bias", "0.11.0.post2 was the last", id="switched off"),
        pytest.param("vllm serve m --guided-decoding-backend x", "--guided-decoding-backend", "Say --structured-outputs-config.backend.", id="an option with another name"),
        pytest.param("override_pooler_config={}", "override_pooler_config", "Say pooler_config.", id="a keyword with another name"),
    ],
)  # fmt: skip
def test_what_is_gone_is_named_as_it_was_given(words: str, subject: str, advice: str) -> None:
    (remark,) = check(case("0.32.0", words))
    assert remark.subject == subject and remark.message.startswith(f"{subject} is gone since ")
    assert advice in remark.advice


def test_every_rule_of_the_table_has_a_case() -> None:
    said = {(r.subject, r.severity) for param in CASES for r in check(param.values[0])}
    left = {(rule.subject, rule.severity) for rule in RULES} - said
    untried = {"load_format", "disable_async_output_proc", "scheduler_delay_factor", "otlp_traces_endpoint", "logits_processor_pattern", "max_long_partial_prefills"}  # fmt: skip
    assert {subject for subject, _ in left} == untried  # rows of one shape with those that are tried


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.subject} since {rule.since}")
def test_a_rule_s_span_is_not_empty(rule: Any) -> None:
    assert not rule.before or sort_key(rule.since) < sort_key(rule.before)


def test_nothing_is_said_of_a_plain_engine() -> None:
    assert list(check(case("0.32.0", "vllm serve m --dtype bfloat16"))) == []


@pytest.mark.parametrize(
    ("release", "variables", "cache", "threads"),
    [
        pytest.param("0.9.0.1", {}, "4 GiB", "all cores, not bound", id="V0"),
        pytest.param("0.12.0", {}, "4 GiB", "NUMA node N", id="V1 with V0's cache"),
        pytest.param("0.16.0", {}, "32.0 GiB", "0 core(s) kept free", id="half a node"),
        pytest.param("0.32.0", {}, "up to 58.9 GiB", "1 core(s) kept free", id="a share of a node"),
        pytest.param("0.32.0", {"VLLM_CPU_KVCACHE_SPACE": "7"}, "7 GiB", "NUMA node N", id="given in GiB"),
        pytest.param("0.32.0", {"VLLM_CPU_OMP_THREADS_BIND": "0-3"}, "up to", "bound to cores 0-3", id="bound by hand"),
        pytest.param("0.32.0", {"VLLM_CPU_NUM_OF_RESERVED_CPU": "5"}, "up to", "5 core(s) kept free", id="reserved"),
    ],
)
def test_settings(release: str, variables: dict[str, str], cache: str, threads: str) -> None:
    found = {setting.name: setting.value for setting in settings(case(release, **variables))}
    assert cache in found["KV cache"] and threads in found["threads"]


@pytest.mark.parametrize(
    ("words", "values", "options"),
    [
        pytest.param(["vllm", "serve", "m", "-tp", "2"], {"model": "m", "tensor_parallel_size": 2}, ("-tp",), id="short"),
        pytest.param(["A=1 python -m vllm.entrypoints.openai.api_server --model m"], {"model": "m"}, ("--model",), id="the module, after an assignment"),
        pytest.param(["vllm serve m --no-enable-prefix-caching --enforce-eager"], {"model": "m", "enable_prefix_caching": False, "enforce_eager": True}, ("--no-enable-prefix-caching", "--enforce-eager"), id="switches"),
        pytest.param(["vllm serve m --speculative-config.method ngram"], {"model": "m", "speculative_config": {"method": "ngram"}}, ("--speculative-config.method",), id="a key of a table"),
        pytest.param(["vllm serve m --hf-overrides '{\"a\": 1}'"], {"model": "m", "hf_overrides": {"a": 1}}, ("--hf-overrides",), id="JSON"),
        pytest.param(["LLM('m', **{'dtype': 'half'})"], {"model": "m", "dtype": "half"}, ("--model", "--dtype"), id="unpacked keywords"),
        pytest.param(["x = vllm.LLM(model='m', seed=-1)"], {"model": "m", "seed": -1}, ("--model", "--seed"), id="a statement"),
    ],
)  # fmt: skip
def test_arguments(words: list[str], values: dict[str, Any], options: tuple[str, ...]) -> None:
    found = arguments.read(words)
    assert found is not None and found.values == values and found.options == options


def test_words_that_are_no_numbers_stay_words() -> None:
    found = arguments.read(["vllm serve m --a null --b true --c '\"x\"' --d 1.5"])
    assert found is not None and found.values == {"model": "m", "a": "null", "b": "true", "c": '"x"', "d": 1.5}


@pytest.mark.parametrize(
    ("release", "column"),
    [("0.9.2", "v0"), ("0.10.0", "g1"), ("0.11.0", "g1"), ("0.11.1", "g2"), ("0.31.0", "g2"), ("0.32.0", "g3")],
)
def test_the_table_s_column_for_a_release(release: str, column: str) -> None:
    assert capabilities.column(release) == column
    assert all(row[column] for row in capabilities.rows().values()) and "mla" in capabilities.rows()


def test_assignments_before_a_command() -> None:
    found = arguments.read(["A=b=c D= vllm serve m"])
    assert found is not None and found.variables == {"A": "b=c", "D": ""}


@pytest.mark.parametrize(
    ("release", "words", "cache"),
    [
        pytest.param("0.32.0", "kv_cache_memory_bytes=123", "123 bytes", id="read"),
        pytest.param("0.19.1", "kv_cache_memory_bytes=123", "32.0 GiB", id="not yet read"),
    ],
)
def test_a_cache_given_in_bytes(release: str, words: str, cache: str) -> None:
    assert cache in settings(case(release, words))[0].value


def test_memory_of_this_machine() -> None:
    nodes = probe.memory_nodes()
    assert nodes and all(0 < node["available"] <= node["total"] for node in nodes)


@pytest.mark.parametrize(
    ("config", "features"),
    [
        pytest.param({"model_type": "mistral", "sliding_window": 8}, ["sliding-window"], id="a window"),
        pytest.param({"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": False}, [], id="a window that is off"),
        pytest.param({"text_config": {"attn_logit_softcapping": 5.0}}, ["soft-cap"], id="the text part of a multimodal model"),
        pytest.param({"model_type": "bloom"}, ["alibi"], id="ALiBi by its kind"),
        pytest.param({"model_type": "mpt", "attn_config": {"alibi": True}}, ["alibi"], id="ALiBi by its setting"),
        pytest.param({"kv_lora_rank": 512}, ["mla"], id="MLA"),
        pytest.param({"model_type": "deepseek_v4", "index_topk": 8}, [], id="DeepSeek-V4 has layers of its own"),
        pytest.param({"is_encoder_decoder": True}, ["cross-attention"], id="cross-attention"),
        pytest.param({"model_type": "gpt_oss", "sliding_window": 8}, ["sliding-window", "sinks"], id="sinks"),
        pytest.param({"text_config": {"attention_chunk_size": 8}}, ["chunked-local"], id="chunked local attention"),
    ],
)  # fmt: skip
def test_what_a_model_needs(config: dict[str, Any], features: list[str]) -> None:
    assert from_config("m", config).features() == features


@pytest.mark.parametrize(
    ("config", "size"),
    [
        pytest.param({"hidden_size": 128, "num_attention_heads": 4}, 32, id="divided"),
        pytest.param({"hidden_size": 128, "num_attention_heads": 4, "head_dim": 64}, 64, id="given"),
        pytest.param({}, None, id="unknown"),
    ],
)
def test_head_size(config: dict[str, Any], size: int | None) -> None:
    assert from_config("m", config).head_size == size


@pytest.mark.parametrize(
    ("config", "dtype", "latent", "plain_rope", "sparse", "own_layers"),
    [
        pytest.param({"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 96, "torch_dtype": "float16"}, "float16", (512, 64, 128, 96), True, False, False, id="DeepSeek-V2, small"),
        pytest.param({"kv_lora_rank": 512, "index_topk": 2048, "dtype": "torch.bfloat16"}, "bfloat16", None, True, True, False, id="an indexer, and sizes that are not said"),
        pytest.param({"model_type": "deepseek_v4", "index_topk": 512, "rope_scaling": {"type": "yarn"}}, "", None, False, False, True, id="DeepSeek-V4"),
        pytest.param({"kv_lora_rank": 512, "rope_parameters": {"rope_type": "yarn"}}, "", None, False, False, False, id="positions scaled, as they are said now"),
        pytest.param({"kv_lora_rank": 512, "rope_parameters": {"rope_type": "default"}}, "", None, True, False, False, id="positions not scaled"),
    ],
)  # fmt: skip
def test_what_a_model_says_of_its_latents(
    config: dict[str, Any], dtype: str, latent: Any, plain_rope: bool, sparse: bool, own_layers: bool
) -> None:
    found = from_config("m", config)
    assert (found.dtype, found.latent, found.plain_rope) == (dtype, latent, plain_rope)
    assert (found.sparse, found.own_layers) == (sparse, own_layers)


def test_a_model_s_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json"):
        model.read(str(tmp_path))
    (tmp_path / "config.json").write_text("[1")
    with pytest.raises(ValueError, match="no JSON"):
        model.read(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["A"]}))
    found = model.read(str(tmp_path))
    assert found is not None and found.architecture == "A"
