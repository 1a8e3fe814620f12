"""What vLLM's own attention over latents (MLA) cannot do on a CPU: CPU_MLA since 0.28.0, AMX_MLA since 0.29.0.

Little of it is refused when the engine starts: most stops its first request, and float16 is answered wrongly. Read from
0.32.0, and run there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..findings import Severity
from .case import Case, Rule

CPU_MLA, AMX_MLA = "CPU_MLA", "AMX_MLA"
_HEADS = (320, 512, 576)  # rank and rope together, that vLLM's metadata lets pass
_OURS = "from 0.32.0 on V1_CPU_BACKEND=1 serves it"


def own_backend(case: Case) -> str | None:
    """vLLM's own class for the latents of this case; None where there are none, or v1_cpu attends to them."""
    served = case.served_by_v1_cpu and case.within("0.32.0", "")
    if served or not case.mla or case.within("", "0.28.0"):
        return None
    config = case.get("attention_config")
    asked = case.get("attention_backend") or (config.get("backend") if isinstance(config, dict) else None)
    amx = "amx_tile" in case.flags and case.within("0.29.0", "")
    return AMX_MLA if amx and str(asked).upper() != CPU_MLA else CPU_MLA


def _of(backend: str, test: Callable[[Case], Any]) -> Callable[[Case], Any]:
    return lambda case: test(case) if own_backend(case) == backend else None


def _cache_dtype(case: Case) -> Any:
    value = str(case.settled.get("kv_cache_dtype") or case.get("kv_cache_dtype", "auto"))
    return value if value != "auto" else None


def _cache_of_fp8(case: Case) -> Any:
    value = _cache_dtype(case)
    return value if value is not None and value.startswith("fp8") else None


def _odd_parts(case: Case) -> Any:
    """A head's part without rope and its value, where 32 does not divide them."""
    if case.model is None or case.model.latent is None:
        return None
    parts = zip(("qk_nope_head_dim", "v_head_dim"), case.model.latent[2:], strict=True)
    return " and ".join(f"{name}={size}" for name, size in parts if size % 32) or None


def _head(fits: Callable[[int, int], bool]) -> Callable[[Case], Any]:
    """Rank and rope, where they do not fit."""

    def other(case: Case) -> Any:
        if case.model is None or case.model.latent is None:
            return None
        rank, rope, _, _ = case.model.latent
        return None if fits(rank, rope) else f"{rank} + {rope}"

    return other


def _block_size(case: Case) -> Any:
    size = case.get("block_size")
    return size if size not in (None, 16) else None


def _switched_off(case: Case) -> Any:
    asked = [name for name in ("enable_chunked_prefill", "enable_prefix_caching") if case.get(name) is True]
    return " and ".join(asked) or None


def _rotary_operator(case: Case) -> Any:
    """A model whose queries vLLM turns with its operator for CPUs: no scaling of positions, no compilation."""
    if not case.mla or case.model is None or not case.model.plain_rope or case.get("enforce_eager") is not True:
        return None
    config = case.get("compilation_config")
    operators = config.get("custom_ops", ()) if isinstance(config, dict) else ()
    return case.model.name if "-rotary_embedding" not in operators and "none" not in operators else None


RULES = (
    Rule("dtype", "0.29.0", "", _of(AMX_MLA, lambda c: c.dtype == "float32" or None),
         "AMX_MLA, which vLLM takes for latents where there is AMX, loads no float32 model: 'expect weight to be "
         "bfloat16, float16, int8, ...'",
         f"Say bfloat16, or attention_backend=CPU_MLA; {_OURS}."),
    Rule("dtype", "0.29.0", "", _of(AMX_MLA, lambda c: c.dtype == "float16" or None),
         "AMX_MLA, which vLLM takes for latents where there is AMX, answers wrongly in float16, and nothing says so "
         "(seen on a processor whose AMX multiplies bfloat16 alone)",
         f"Say bfloat16, or attention_backend=CPU_MLA; {_OURS}."),
    Rule("kv_cache_dtype", "0.29.0", "", _of(AMX_MLA, _cache_dtype),
         "kv_cache_dtype={value}: AMX_MLA knows auto alone, even where that means the same, and stops at the first "
         "request", f"Leave it at auto; {_OURS}."),
    Rule("kv_cache_dtype", "0.28.0", "", _of(CPU_MLA, _cache_of_fp8),
         "kv_cache_dtype={value}: CPU_MLA keeps no float8 cache, and stops at the first request",
         f"Leave it at auto; {_OURS}."),
    Rule("latents", "0.29.0", "", _of(AMX_MLA, _odd_parts),
         "AMX_MLA takes multiples of 32, and the model has {value}: it does not load, or stops at the first request",
         f"Say attention_backend=CPU_MLA, if rank and rope are 512 + 64; {_OURS}."),
    Rule("latents", "0.29.0", "", _of(AMX_MLA, _head(lambda rank, rope: rank + rope in _HEADS and rank % 32 == 0)),
         "a latent and its rope key of {value} numbers: AMX_MLA takes multiples of 32 that make 320, 512 or 576 "
         "together, and does not load, or stops at the first request ('Head dimension ... is not supported by MLA')",
         f"Set VLLM_MLA_DISABLE=1 (slower, larger cache); {_OURS}."),
    Rule("latents", "0.28.0", "", _of(CPU_MLA, _head(lambda rank, rope: (rank, rope) == (512, 64))),
         "a latent and its rope key of {value} numbers: CPU_MLA has a kernel for 512 + 64 alone, and stops at the "
         "first request", f"Set VLLM_MLA_DISABLE=1 (slower, larger cache); {_OURS}."),
    Rule("block_size", "0.28.0", "", _of(CPU_MLA, _block_size),
         "block_size={value} becomes 16, the only one of CPU_MLA", f"Leave it out; {_OURS}.", Severity.WARNING),
    Rule("CPU_MLA", "0.28.0", "", _of(CPU_MLA, _switched_off),
         "{value}: switched off for CPU_MLA, and a step takes whole prompts", f"Leave it out; {_OURS}.",
         Severity.WARNING),
    Rule("rotary embedding", "0.32.0", "", _rotary_operator,
         "{value} answers by what else is in the batch, with v1_cpu, too: without compilation vLLM turns the queries "
         "of latents with an operator that takes them for those of one head",
         "Say compilation_config={'custom_ops': ['all', '-rotary_embedding']}, or leave out enforce_eager."),
    Rule("sparse attention", "0.28.0", "", lambda c: c.mla and c.model is not None and c.model.sparse and c.model.name,
         "{value} picks what it attends to (index_topk): 'Sparse Attention is not supported on CPU', by v1_cpu neither",
         "Take a model without an indexer, such as DeepSeek-V3."),
)  # fmt: skip
