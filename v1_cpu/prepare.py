"""What precedes every kernel call: check the arguments, choose the kernel, count the tokens.

Shared by the plain functions and by the operators that `torch.compile` sees (`v1_cpu.ops`), so that both refuse the
same things.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from v1_cpu import validate as check
from v1_cpu.kernels import Kernel
from v1_cpu.plan import Plan
from v1_cpu.select import serving


def prepare_paged(
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
    plan: Plan | None,
    kernel: str | None,
    layout: str | None,
    validate: bool,
) -> tuple[Kernel, int]:
    """The kernel for this `paged_attention` and the number of query tokens, padding excluded."""
    if validate:
        if plan is not None:
            check.made_by(plan, Plan, "make_plan")
        known = plan is not None and plan.knows(query, kv_cache, query_start_loc, seq_lens, block_table)
        if not known:
            check.paged(query, kv_cache, query_start_loc, seq_lens, block_table, k_scale, v_scale)
        elif not check.unscaled(k_scale, v_scale):
            check.scales(k_scale, v_scale, kv_cache.dtype)
        heads, batch = query.shape[1], seq_lens.shape[0]
        check.options(
            heads, batch, scale, causal, sliding_window, attention_chunk_size, alibi_slopes, logits_soft_cap, sinks
        )
        if plan is not None:
            if not known:
                plan.check(query, kv_cache, query_start_loc, seq_lens)
            plan.check_unchanged(query.shape[0])
            plan.check_masks(causal, sliding_window or 0, attention_chunk_size or 0)
            num_tokens, max_query_len = plan.num_tokens, plan.max_query_len
        else:
            starts = query_start_loc.tolist()
            check.start_locations("query_start_loc", starts, query.shape[0], "query")
            num_tokens, max_query_len = starts[-1], 0
            if tree_mask is not None:
                max_query_len = max((b - a for a, b in itertools.pairwise(starts)), default=0)
        if plan is None or plan.block_table is not block_table or plan.num_blocks != kv_cache.shape[0]:
            check.lengths(seq_lens.tolist(), block_table, kv_cache.shape[2], kv_cache.shape[0])
        if tree_mask is not None:
            check.tree_mask(tree_mask, causal, num_tokens, query.shape[0], max_query_len)
        if out is not None and not check.output_fits(out, query, kv_cache):
            check.output(out, query, kv_cache.shape[3] - query.shape[2], (("query", query), ("kv_cache", kv_cache)))
    else:
        num_tokens = plan.num_tokens if plan is not None else int(query_start_loc[-1])
    if plan is not None and (kernel is None or kernel == plan.kernel.name):
        chosen = plan.kernel
    elif plan is not None and plan.schedule is not None:
        raise ValueError(f"kernel: {kernel!r}; the plan was made for {plan.kernel.name!r}")
    else:
        _, heads, head_size = query.shape
        _, num_kv_heads, block_size, width = kv_cache.shape
        chosen = serving(
            kernel, query.dtype, kv_cache.dtype, heads, num_kv_heads, head_size, width - head_size, block_size
        )
    if layout is not None:
        check_layout(layout, chosen)
    return chosen, num_tokens


def prepare_varlen(
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
    kernel: str | None,
    validate: bool,
) -> tuple[Kernel, int]:
    """The kernel for this `varlen_attention` and the number of query tokens, padding excluded."""
    if validate:
        check.states("query", query, "[T, H, D]")
        check.key_value(key, value)
        if key.dtype is not query.dtype:
            raise TypeError(f"key: dtype {key.dtype}; must be {query.dtype} like query; nothing is converted silently")
        if query.shape[1] % key.shape[1] or key.shape[2] != query.shape[2]:
            raise ValueError(
                f"key: shape {tuple(key.shape)}; must be [S, KH, D] with the query's head size {query.shape[2]} and "
                f"KH a divisor of its {query.shape[1]} heads"
            )
        check.tensor("query_start_loc", query_start_loc, torch.int32, 1, "[B + 1]")
        check.tensor("kv_start_loc", kv_start_loc, torch.int32, 1, "[B + 1]")
        if query_start_loc.shape != kv_start_loc.shape or query_start_loc.numel() == 0:
            raise ValueError(
                f"kv_start_loc: shape {tuple(kv_start_loc.shape)}; must be [B + 1] as query_start_loc, "
                f"{tuple(query_start_loc.shape)}"
            )
        batch = query_start_loc.shape[0] - 1
        check.options(query.shape[1], batch, scale, causal, sliding_window, None, alibi_slopes, logits_soft_cap, sinks)
        starts = query_start_loc.tolist()
        check.start_locations("query_start_loc", starts, query.shape[0], "query")
        check.start_locations("kv_start_loc", kv_start_loc.tolist(), key.shape[0], "key")
        num_tokens = starts[-1]
        if out is not None:
            check.output(out, query, value.shape[2], (("query", query), ("key", key), ("value", value)))
    else:
        num_tokens = int(query_start_loc[-1])
    dtype, heads, head_size = query.dtype, query.shape[1], query.shape[2]
    return serving(kernel, dtype, dtype, heads, key.shape[1], head_size, value.shape[2], 0), num_tokens


def prepare_write(
    key: Tensor,
    value: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    k_scale: float,
    v_scale: float,
    layout: str | None,
    kernel: str | None,
    validate: bool,
) -> Kernel:
    """The kernel for this `write_kv_cache`."""
    if validate:
        check.written(key, value, kv_cache, slot_mapping, k_scale, v_scale)
        check.slots(slot_mapping, kv_cache.shape[0] * kv_cache.shape[2])
    _, num_kv_heads, head_size = key.shape
    chosen = serving(
        kernel,
        key.dtype,
        kv_cache.dtype,
        num_kv_heads,
        num_kv_heads,
        head_size,
        value.shape[2],
        kv_cache.shape[2],
    )
    if layout is not None:
        check_layout(layout, chosen)
    return chosen


def check_layout(layout: str, chosen: Kernel) -> None:
    """The caller's layout is the kernel's."""
    if layout != chosen.layout:
        raise ValueError(
            f"layout: {layout!r}; the {chosen.name} kernel reads {chosen.layout!r}; choose another kernel= or convert "
            "the cache with v1_cpu.convert_kv_cache"
        )
