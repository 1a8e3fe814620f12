"""What a release's V1 engine refuses on a CPU, or takes for something else: one table, read from the releases' source.

vLLM's own configuration, which the probe builds, refuses much of this itself; but it needs the model's config, says it
in its own words, and leaves what is refused by a layer or a worker for later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..findings import Severity
from ..names.flags import gone_options, gone_variables
from . import latents
from .case import GIB, Case, Remark, Rule
from .model import Model


def _model(test: Callable[[Model], Any]) -> Callable[[Case], Any]:
    return lambda case: test(case.model) if case.model else None


def _other_than(name: str, *usual: Any) -> Callable[[Case], Any]:
    return lambda case: case.get(name) if case.get(name) not in (None, *usual) else None


def _ignored_backend(case: Case) -> Any:
    name = case.get("attention_backend")
    mla = case.model is None or case.model.mla
    usual = ("auto", "CPU_ATTN", *(("CPU_MLA", "AMX_MLA") if mla else ()))
    return name if name not in (None, *usual) else None


def _fp8(case: Case) -> Any:
    value = str(case.get("kv_cache_dtype", ""))
    return value if value.startswith("fp8") else None


def _fp8_with_prefixes(case: Case) -> Any:
    on = case.get("enable_chunked_prefill", True) or case.get("enable_prefix_caching", True)
    return _fp8(case) if on else None


def _block_size(multiple: int) -> Callable[[Case], Any]:
    def odd(case: Case) -> Any:
        size = case.get("block_size")
        own_layers = case.model is not None and case.model.own_layers
        replaced = own_layers or latents.own_backend(case) == latents.CPU_MLA  # by 256, by 16
        if not isinstance(size, int) or replaced or case.served_by_v1_cpu:
            return None
        if case.model is not None and case.model.all_windowed and case.within("0.32.0", ""):
            return None  # a layer with a window takes a block size of its backend's, whatever is asked for
        return size if size % multiple else None

    return odd


def _head_size(*sizes: int) -> Callable[[Case], Any]:
    def unknown(case: Case) -> Any:
        size = case.model.head_size if case.model and not case.model.mla else None
        return size if size and size not in sizes and not case.served_by_v1_cpu else None

    return unknown


def _memory(case: Case) -> Any:
    """The share of the first node that the engine will claim, where that is more than is free."""
    if case.get("kv_cache_memory_bytes") or case.variables.get("VLLM_CPU_KVCACHE_SPACE") or not case.nodes:
        return None
    share = case.get("gpu_memory_utilization", 0.92)
    total, free = case.nodes[0]
    if not isinstance(share, (int, float)) or share * total <= free:
        return None
    return f"{share:g} of {total / GIB:.1f} GiB is {share * total / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free"


def _given_cache(case: Case) -> Any:
    """A cache of a given size that the first node has no room for; the worker compares them after the weights."""
    space = case.variables.get("VLLM_CPU_KVCACHE_SPACE", "").strip()
    size = int(space) * GIB if space.isdigit() else case.get("kv_cache_memory_bytes")
    if not isinstance(size, int) or not case.nodes or size <= case.nodes[0][1]:
        return None
    return f"{size / GIB:.1f} GiB, and {case.nodes[0][1] / GIB:.1f} of {case.nodes[0][0] / GIB:.1f} GiB are free"


def _cache_space(case: Case) -> Any:
    value = case.variables.get("VLLM_CPU_KVCACHE_SPACE", "")
    return value if value and not value.strip().isdigit() else None


def _bind(case: Case) -> str:
    return case.variables.get("VLLM_CPU_OMP_THREADS_BIND", "")


def _bind_lists(case: Case) -> Any:
    bind = _bind(case)
    if bind in ("", "auto", "nobind", "all") or bind.count("|") + 1 == case.world_size:
        return None
    return f"{bind} ({bind.count('|') + 1} for {case.world_size})"


def _too_few_nodes(case: Case) -> Any:
    """Ranks and nodes, where threads are bound by themselves and there are fewer nodes than ranks."""
    by_hand = _bind(case) not in ("", "auto") or case.variables.get("VLLM_CPU_SIM_MULTI_NUMA", "0") != "0"
    if by_hand or not case.nodes or case.world_size <= len(case.nodes):
        return None
    return f"{case.world_size} ranks and {len(case.nodes)} NUMA node(s)"


def _v0_backend(*allowed: str) -> Callable[[Case], Any]:
    def refused(case: Case) -> Any:
        value = case.variables.get("VLLM_ATTENTION_BACKEND")
        return value if value and value not in allowed else None

    return refused


_FALLBACK = (
    "{value}: the engine falls back to V0, which has no CPU code left, and stops with 'CPU backend only supports V1'"
)
_ORACLE = (
    ("load_format", ("auto",), "0.10.0", "0.10.1", lambda v: v == "sharded_state"),
    ("preemption_mode", (), "0.10.0", "0.11.0", bool),
    ("disable_async_output_proc", (False,), "0.10.0", "0.11.0", bool),
    ("num_scheduler_steps", (1,), "0.10.0", "0.10.1", bool),
    ("scheduler_delay_factor", (0, 0.0), "0.10.0", "0.11.0", bool),
    ("enable_prompt_embeds", (False,), "0.10.0", "0.11.0", bool),
    ("kv_cache_dtype", ("auto",), "0.10.0", "0.11.0", bool),
    ("otlp_traces_endpoint", (), "0.10.0", "0.10.2", bool),
    ("logits_processor_pattern", (), "0.10.0", "0.11.1", bool),
    ("max_num_partial_prefills", (1,), "0.10.0", "0.11.1", bool),
    ("max_long_partial_prefills", (1,), "0.10.0", "0.11.1", bool),
)


def _oracle(name: str, usual: tuple[Any, ...], test: Callable[[Any], bool]) -> Callable[[Case], Any]:
    def refused(case: Case) -> Any:
        value = case.get(name)
        return f"{name}={value!r}" if value is not None and value not in usual and test(value) else None

    return refused


RULES = (
    Rule("VLLM_USE_V1", "0.10.0", "0.11.1", lambda c: c.variables.get("VLLM_USE_V1") == "0" or None,
         "VLLM_USE_V1=0 asks for V0, which has no CPU code left: 'CPU backend only supports V1'",
         "Unset it, and look below for the option that it was set for."),
    *(Rule(name, since, before, _oracle(name, usual, test), _FALLBACK, "Leave the option out.")
      for name, usual, since, before, test in _ORACLE),
    Rule("sliding window", "0.10.0", "0.11.1", _model(lambda m: m.sliding_window),
         "the model's window of {value} tokens makes the engine fall back to V0, which has no CPU code left",
         "Take 0.11.1 or later; disable_sliding_window=True serves prompts up to the window's length.",
         reports=("19901", "20412")),
    Rule("encoder-decoder", "0.10.0", "0.13.0", _model(lambda m: m.encoder_decoder and m.architecture),
         "{value} is an encoder-decoder model, and {release} has no CPU path for cross-attention",
         "It needs 0.13.0 or later; VLLM_USE_V1 does not help.", reports=("30062", "mlcommons/inference#2254")),
    Rule("MLA", "0.9.1", "0.28.0", _model(lambda m: m.mla and m.name),
         "{value} has multi-head latent attention: 'MLA is not supported on CPU'",
         "Set VLLM_MLA_DISABLE=1 (slower, larger cache), or take 0.28.0 or later.", reports=("14744", "49453")),
    Rule("kv_cache_dtype", "0.11.0", "0.21.0", _fp8_with_prefixes,
         "kv_cache_dtype={value} is refused together with chunked prefill and prefix caching, which are on by default",
         "Leave it at auto, or take 0.21.0 or later.", reports=("14741",)),
    Rule("kv_cache_dtype", "0.8.5", "0.11.1", lambda c: _fp8(c) in ("fp8", "fp8_e4m3") or None,
         "the cache becomes e5m2 whatever is asked for", "Say fp8_e5m2, or take 0.21.0 or later.",
         Severity.WARNING, ("14741",)),
    Rule("kv_cache_dtype", "0.11.1", "0.21.0", lambda c: None if _fp8_with_prefixes(c) else _fp8(c),
         "kv_cache_dtype={value} is replaced by auto", "Leave it out, or take 0.21.0 or later.", Severity.WARNING),
    Rule("block_size", "0.9.1", "0.11.1", lambda c: c.get("block_size") if c.get("block_size", 16) != 16 else None,
         "block_size={value} needs Intel Extension for PyTorch in this release", "Say 16.", Severity.WARNING),
    Rule("block_size", "0.11.1", "0.29.0", _block_size(32),
         "block_size={value} is no multiple of 32: attention takes a slower kernel", "Say 32, 64 or 128.",
         Severity.WARNING),
    Rule("block_size", "0.29.0", "", _block_size(32),
         "block_size={value} is no multiple of 32: 'No common block size' for layers without a sliding window",
         "Say 32, 64 or 128; with V1_CPU_BACKEND=1 every size works."),
    Rule("head size", "0.11.1", "0.14.0", _head_size(32, 64, 96, 128, 160, 192, 224, 256),
         "the model's head size of {value} has no kernel: the first request fails",
         "Take 0.14.0 or later for 80 and 112.", reports=("39065", "38676")),
    Rule("head size", "0.14.0", "0.20.0", _head_size(32, 64, 80, 96, 112, 128, 160, 192, 224, 256),
         "the model's head size of {value} has no kernel: the first request fails",
         "With 0.32.0 and V1_CPU_BACKEND=1 every size works.", reports=("39065", "38676")),
    Rule("head size", "0.20.0", "", _head_size(32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512),
         "the model's head size of {value} has no kernel", "With V1_CPU_BACKEND=1 every size works.",
         reports=("39065", "38676")),
    Rule("distributed_executor_backend", "0.8.5", "", lambda c: c.get("distributed_executor_backend") == "ray" or None,
         "'current platform cpu does not support ray'", "Say mp, which starts a process per rank on one machine."),
    Rule("enable_sleep_mode", "0.8.5", "", lambda c: c.get("enable_sleep_mode") or None,
         "'Sleep mode is not supported on current platform'", "Leave it out; end the process to free its memory."),
    Rule("VLLM_CPU_KVCACHE_SPACE", "0.8.5", "", _cache_space,
         "VLLM_CPU_KVCACHE_SPACE={value} is no whole number of GiB: a ValueError", "Say 4 for 4 GiB."),
    Rule("VLLM_CPU_KVCACHE_SPACE", "0.10.0", "", lambda c: c.variables.get("VLLM_CPU_KVCACHE_SPACE") == "0" or None,
         "VLLM_CPU_KVCACHE_SPACE=0 is a cache of no bytes; up to 0.9.2 it meant the default of 4 GiB",
         "Unset it, or say how many GiB."),
    Rule("memory", "0.20.0", "", _memory,
         "the engine claims a share of the first memory node and will not start: {value}",
         "Say VLLM_CPU_KVCACHE_SPACE=4 (GiB), or a smaller --gpu-memory-utilization."),
    Rule("memory", "0.20.0", "", _given_cache,
         "the KV cache of a given size does not fit into the first memory node, and the engine will not start: {value}",
         "Say a smaller VLLM_CPU_KVCACHE_SPACE (GiB) or kv_cache_memory_bytes; the weights need room as well."),
    Rule("VLLM_CPU_OMP_THREADS_BIND", "0.20.0", "", lambda c: _bind(c) == "all" or None,
         "VLLM_CPU_OMP_THREADS_BIND=all was V0's default; this release takes core lists, auto or nobind, and stops",
         "Say nobind for threads that no core is set for."),
    Rule("VLLM_CPU_OMP_THREADS_BIND", "0.9.1", "", _bind_lists,
         "VLLM_CPU_OMP_THREADS_BIND={value} must hold one list of cores for each rank, divided by |",
         "For two ranks say 0-15|16-31, or auto."),
    Rule("ranks", "0.10.0", "", _too_few_nodes,
         "{value}: each rank takes the cores of a node of its own, and the workers stop without one",
         "Divide the cores by hand: VLLM_CPU_OMP_THREADS_BIND=0-7|8-15 for two ranks.", reports=("43240",)),
    Rule("VLLM_CPU_OMP_THREADS_BIND", "0.8.5", "", lambda c: _bind(c) not in ("", "nobind", "all", "auto") or None,
         "binding moves memory to a node, which an unprivileged container may not ('numa_migrate_pages failed')",
         "Give the container SYS_NICE, or say nobind.", Severity.INFO, ("10556", "19241")),
    Rule("threads", "0.13.0", "0.14.0", lambda c: c.cores if c.cores > 16 else None,
         "{value} cores: 0.13.0 fails with more than 16 threads by report",
         "Bind fewer, such as VLLM_CPU_OMP_THREADS_BIND=0-15, or take another release.", Severity.WARNING, ("32651",)),
    Rule("VLLM_ATTENTION_BACKEND", "0.10.0", "0.11.0", _v0_backend("TORCH_SDPA_VLLM_V1"),
         "VLLM_ATTENTION_BACKEND={value} makes the engine fall back to V0: 'CPU backend only supports V1'",
         "Unset it; the name of this release is TORCH_SDPA_VLLM_V1.", reports=("14320",)),
    Rule("VLLM_ATTENTION_BACKEND", "0.11.0", "0.11.1", _v0_backend("TORCH_SDPA"),
         "VLLM_ATTENTION_BACKEND={value}: not a backend of V1 on a CPU", "Unset it.", reports=("14320",)),
    Rule("VLLM_ATTENTION_BACKEND", "0.11.1", "0.15.0", _v0_backend("CPU_ATTN"),
         "VLLM_ATTENTION_BACKEND={value} is no backend of this release's, or is ignored on a CPU", "Unset it.",
         Severity.WARNING, ("14320",)),
    Rule("attention_backend", "0.15.0", "", _ignored_backend,
         "attention_backend={value} is ignored on a CPU: CPU_ATTN serves",
         "Leave it out; V1_CPU_BACKEND=1 puts v1_cpu in its place.", Severity.WARNING),
    *latents.RULES,
    Rule("V1_CPU_BACKEND", "0.10.0", "", lambda c: c.variables.get("VLLM_PLUGINS")
         if c.variables.get("V1_CPU_BACKEND", "0") not in ("", "0")
         and "v1_cpu" not in c.variables.get("VLLM_PLUGINS", "v1_cpu").split(",") else None,
         "VLLM_PLUGINS={value} leaves out v1_cpu, so V1_CPU_BACKEND has no effect", "Add v1_cpu to VLLM_PLUGINS.",
         Severity.WARNING),
)  # fmt: skip


def check(case: Case) -> Iterator[Remark]:
    """Everything in the table that holds for this case, then options and variables that the release does not read."""
    for rule in RULES:
        value = rule.when(case) if case.within(rule.since, rule.before) else None
        if value is not None and value is not False:
            message = rule.message.format(value=value, release=case.release)
            yield Remark(rule.severity, rule.subject, message, rule.advice, rule.reports)
    yield from _gone(case)


def _gone(case: Case) -> Iterator[Remark]:
    given = case.arguments.options if case.arguments else ()
    call = case.arguments is not None and case.arguments.form == "llm"
    options = gone_options(case.release)
    for name in dict.fromkeys(given):
        flag = options.get(name) or options.get("--" + name[5:] if name.startswith("--no-") else "")
        if flag is None:
            continue
        shown = name[2:].replace("-", "_") if call else name
        advice = flag.advice or f"Leave it out; {flag.last} was the last release that read it."
        if flag.action == "rename":
            advice = f"Say {flag.to[2:].replace('-', '_') if call else flag.to}. {flag.advice}".strip()
        yield Remark(Severity.ERROR, shown, f"{shown} is gone since {flag.gone}: the engine does not start", advice)
    for name, flag in gone_variables(case.release).items():
        if name in case.variables:
            advice = flag.advice or ("Unset it." if name != "VLLM_USE_V1" else "Unset it: V1 is the only engine.")
            severity = Severity.INFO if flag.action == "drop" or name == "VLLM_USE_V1" else Severity.WARNING
            yield Remark(severity, name, f"{name} is not read since {flag.gone}", advice)
