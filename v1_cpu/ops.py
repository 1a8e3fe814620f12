"""The operators that `torch.compile` and fake tensors see: `torch.ops.v1_cpu.*`.

The plain functions call their kernel directly (an operator costs a few microseconds); under tracing they call these.
Each writes into outputs that are given, and says so in its schema; the fakes therefore have nothing to do.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu.plan import Plan
from v1_cpu.prepare import prepare_paged, prepare_varlen, prepare_write

_library = torch.library.Library("v1_cpu", "DEF")  # type: ignore[no-untyped-call]
_library.define(  # type: ignore[no-untyped-call]
    "paged_attention(Tensor query, Tensor kv_cache, Tensor query_start_loc, Tensor seq_lens, Tensor block_table, "
    "Tensor(a!) out, Tensor(b!)? lse, float scale, bool causal, Tensor? causal_per_request, int? sliding_window, "
    "int? attention_chunk_size, Tensor? alibi_slopes, float? logits_soft_cap, Tensor? sinks, Tensor? tree_mask, "
    "float k_scale, float v_scale, Tensor? schedule, str? kernel, str? layout, bool validate) -> ()"
)
_library.define(  # type: ignore[no-untyped-call]
    "varlen_attention(Tensor query, Tensor key, Tensor value, Tensor query_start_loc, Tensor kv_start_loc, "
    "Tensor(a!) out, Tensor(b!)? lse, float scale, bool causal, Tensor? causal_per_request, int? sliding_window, "
    "Tensor? alibi_slopes, float? logits_soft_cap, Tensor? sinks, str? kernel, bool validate) -> ()"
)
_library.define(  # type: ignore[no-untyped-call]
    "write_kv_cache(Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slot_mapping, float k_scale, float v_scale, "
    "str? layout, str? kernel, bool validate) -> ()"
)


def traced(tensor: object) -> bool:
    """Whether a call must go through an operator: under `torch.compile`, or with a tensor subclass (fakes)."""
    return torch.compiler.is_compiling() or (type(tensor) is not Tensor and isinstance(tensor, Tensor))


def traced_paged(
    query: Tensor,
    kv_cache: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor,
    sliding_window: int | None,
    attention_chunk_size: int | None,
    alibi_slopes: Tensor | None,
    logits_soft_cap: float | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None,
    k_scale: float,
    v_scale: float,
    out: Tensor | None,
    return_lse: bool,
    plan: Plan | None,
    kernel: str | None,
    layout: str | None,
    validate: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """`paged_attention` as an operator call."""
    if out is None:
        out = query.new_zeros((query.shape[0], query.shape[1], kv_cache.shape[3] - query.shape[2]))
    lse = query.new_zeros((query.shape[1], query.shape[0]), dtype=torch.float32) if return_lse else None
    per_request = causal if isinstance(causal, Tensor) else None
    torch.ops.v1_cpu.paged_attention(
        query,
        kv_cache,
        query_start_loc,
        seq_lens,
        block_table,
        out,
        lse,
        scale,
        causal if isinstance(causal, bool) else True,
        per_request,
        sliding_window,
        attention_chunk_size,
        alibi_slopes,
        logits_soft_cap,
        sinks,
        tree_mask,
        k_scale,
        v_scale,
        plan.schedule if plan is not None else None,
        plan.kernel.name if plan is not None and kernel is None else kernel,
        layout,
        validate,
    )
    return out if lse is None else (out, lse)


def traced_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_start_loc: Tensor,
    kv_start_loc: Tensor,
    scale: float,
    causal: bool | Tensor,
    sliding_window: int | None,
    alibi_slopes: Tensor | None,
    logits_soft_cap: float | None,
    sinks: Tensor | None,
    out: Tensor | None,
    return_lse: bool,
    kernel: str | None,
    validate: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    """`varlen_attention` as an operator call."""
    if out is None:
        out = query.new_zeros((query.shape[0], query.shape[1], value.shape[2]))
    lse = query.new_zeros((query.shape[1], query.shape[0]), dtype=torch.float32) if return_lse else None
    torch.ops.v1_cpu.varlen_attention(
        query,
        key,
        value,
        query_start_loc,
        kv_start_loc,
        out,
        lse,
        scale,
        causal if isinstance(causal, bool) else True,
        causal if isinstance(causal, Tensor) else None,
        sliding_window,
        alibi_slopes,
        logits_soft_cap,
        sinks,
        kernel,
        validate,
    )
    return out if lse is None else (out, lse)


@torch.library.impl(_library, "paged_attention", "CPU")
def _paged(
    query: Tensor,
    kv_cache: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scale: float,
    causal: bool,
    causal_per_request: Tensor | None,
    sliding_window: int | None,
    attention_chunk_size: int | None,
    alibi_slopes: Tensor | None,
    logits_soft_cap: float | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None,
    k_scale: float,
    v_scale: float,
    schedule: Tensor | None,
    kernel: str | None,
    layout: str | None,
    validate: bool,
) -> None:
    tensors = (query, kv_cache, query_start_loc, seq_lens, block_table)
    seen = causal if causal_per_request is None else causal_per_request
    chosen, _ = prepare_paged(
        *tensors,
        scale,
        seen,
        sliding_window,
        attention_chunk_size,
        alibi_slopes,
        logits_soft_cap,
        sinks,
        tree_mask,
        k_scale,
        v_scale,
        out,
        None,
        kernel,
        layout,
        validate,
    )
    chosen.paged(
        *tensors,
        out,
        lse,
        scale,
        seen,
        sliding_window or 0,
        attention_chunk_size or 0,
        alibi_slopes,
        logits_soft_cap or 0.0,
        sinks,
        tree_mask,
        k_scale,
        v_scale,
        schedule,
    )


@torch.library.impl(_library, "varlen_attention", "CPU")
def _varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_start_loc: Tensor,
    kv_start_loc: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scale: float,
    causal: bool,
    causal_per_request: Tensor | None,
    sliding_window: int | None,
    alibi_slopes: Tensor | None,
    logits_soft_cap: float | None,
    sinks: Tensor | None,
    kernel: str | None,
    validate: bool,
) -> None:
    tensors = (query, key, value, query_start_loc, kv_start_loc)
    seen = causal if causal_per_request is None else causal_per_request
    rules = (sliding_window, alibi_slopes, logits_soft_cap, sinks)
    chosen, _ = prepare_varlen(*tensors, scale, seen, *rules, out, kernel, validate)
    chosen.varlen(*tensors, out, lse, scale, seen, sliding_window or 0, alibi_slopes, logits_soft_cap or 0.0, sinks)


@torch.library.impl(_library, "write_kv_cache", "CPU")
def _write(
    key: Tensor,
    value: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    k_scale: float,
    v_scale: float,
    layout: str | None,
    kernel: str | None,
    validate: bool,
) -> None:
    chosen = prepare_write(key, value, kv_cache, slot_mapping, k_scale, v_scale, layout, kernel, validate)
    chosen.write_cache(key, value, kv_cache, slot_mapping, k_scale, v_scale)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """The fake of an operator that only writes into its arguments."""


for _name in ("paged_attention", "varlen_attention", "write_kv_cache"):
    torch.library.register_fake(f"v1_cpu::{_name}", _nothing, lib=_library)
