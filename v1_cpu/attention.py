"""The attention functions: tensors in, tensors out.

T tokens, H query heads, KH KV heads, D head size, Dv value head size, B requests. Inference only: no gradients.
"""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from v1_cpu import ops
from v1_cpu import validate as check
from v1_cpu.plan import Plan
from v1_cpu.prepare import prepare_paged, prepare_varlen


@overload
def paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    sliding_window: int | None = ...,
    attention_chunk_size: int | None = ...,
    alibi_slopes: Tensor | None = ...,
    logits_soft_cap: float | None = ...,
    sinks: Tensor | None = ...,
    tree_mask: Tensor | None = ...,
    k_scale: float = ...,
    v_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[False] = ...,
    plan: Plan | None = ...,
    kernel: str | None = ...,
    layout: str | None = ...,
    validate: bool = ...,
) -> Tensor: ...


@overload
def paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    sliding_window: int | None = ...,
    attention_chunk_size: int | None = ...,
    alibi_slopes: Tensor | None = ...,
    logits_soft_cap: float | None = ...,
    sinks: Tensor | None = ...,
    tree_mask: Tensor | None = ...,
    k_scale: float = ...,
    v_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[True],
    plan: Plan | None = ...,
    kernel: str | None = ...,
    layout: str | None = ...,
    validate: bool = ...,
) -> tuple[Tensor, Tensor]: ...


def paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = True,
    sliding_window: int | None = None,
    attention_chunk_size: int | None = None,
    alibi_slopes: Tensor | None = None,
    logits_soft_cap: float | None = None,
    sinks: Tensor | None = None,
    tree_mask: Tensor | None = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    out: Tensor | None = None,
    return_lse: bool = False,
    plan: Plan | None = None,
    kernel: str | None = None,
    layout: str | None = None,
    validate: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of new tokens over a paged cache that already holds their keys: any mix of prefill, chunk and decode.

    Parameters
    ----------
    query
        ``[T, H, D]``, float32, bfloat16 or float16; the requests' new tokens one after the other. H is a multiple of
        KH; query head h reads KV head ``h // (H // KH)``.
    kv_cache
        ``[num_blocks, KH, block_size, D + Dv]`` of `allocate_kv_cache`, in the query's dtype or float8.
    query_start_loc
        int32 ``[B + 1]``: request b owns rows ``query_start_loc[b]`` to ``query_start_loc[b + 1] - 1`` of `query`.
        Rows from ``query_start_loc[B]`` on are padding.
    seq_lens
        int32 ``[B]``: all tokens of a request, the new ones included. Its query i stands at ``seq_len - query_len +
        i``.
    block_table
        int32 ``[B, max_blocks]``: token t of request b lies in block ``block_table[b, t // block_size]``.
    scale
        Multiplies q . k, usually ``D ** -0.5``.
    causal
        A bool, or a bool tensor ``[B]``. Without it a query sees every key of its request.
    sliding_window
        w >= 1: a query sees the last w keys, itself included; without `causal`, the keys with ``|q - k| < w``.
    attention_chunk_size
        c >= 1: a query sees only keys of its own chunk of c positions.
    alibi_slopes
        float32 ``[H]``: slope * (k_pos - q_pos) is added to the logit.
    logits_soft_cap
        cap > 0: the logit x becomes cap * tanh(x / cap), before bias and mask.
    sinks
        float32 ``[H]``: one more logit per head, whose value is zero.
    tree_mask
        bool ``[T, max_query_len]``: entry (t, j) says whether token t sees new token j of its request; replaces
        causality among the new tokens (speculative decoding).
    k_scale, v_scale
        Scales of a float8 cache, whose entries are x / scale.
    out
        ``[T, H, Dv]`` in the query's dtype, sharing no memory with an input; padding rows stay as they are. Allocated,
        with zeros in them, where None.
    return_lse
        Also return float32 ``[H, T]``, the natural logarithm of the sum of exp(logit), sink included.
    plan
        Of `make_plan`, for the layers of one batch.
    kernel
        "torch", "native", "ipex", or None for `which()`.
    layout
        The cache's layout, refused where the kernel reads another. None: that of the kernel.
    validate
        False leaves the checks out; wrong arguments then read and write wrong memory.

    Returns
    -------
    Tensor or (Tensor, Tensor)
        `out`, with `lse` after it if asked for. A query that sees no key gives zeros and -inf (with a sink: the sink).

    Raises
    ------
    TypeError, ValueError
        A wrong type or dtype; a wrong shape, stride, device, range or layout. The message names the argument and the
        rule.
    NotImplementedError
        The kernel asked for cannot serve this.
    """
    if ops.traced(query):
        return ops.traced_paged(
            query,
            kv_cache,
            query_start_loc,
            seq_lens,
            block_table,
            scale,
            causal,
            sliding_window,
            attention_chunk_size,
            alibi_slopes,
            logits_soft_cap,
            sinks,
            tree_mask,
            k_scale,
            v_scale,
            out,
            return_lse,
            plan,
            kernel,
            layout,
            validate,
        )
    chosen, num_tokens = prepare_paged(
        query,
        kv_cache,
        query_start_loc,
        seq_lens,
        block_table,
        scale,
        causal,
        sliding_window,
        attention_chunk_size,
        alibi_slopes,
        logits_soft_cap,
        sinks,
        tree_mask,
        k_scale,
        v_scale,
        out,
        plan,
        kernel,
        layout,
        validate,
    )
    if out is None:
        out = _rows(query, kv_cache.shape[3] - query.shape[2], num_tokens)
    lse = _lse(query, num_tokens) if return_lse else None
    chosen.paged(
        query,
        kv_cache,
        query_start_loc,
        seq_lens,
        block_table,
        out,
        lse,
        scale,
        causal,
        sliding_window or 0,
        attention_chunk_size or 0,
        alibi_slopes,
        logits_soft_cap or 0.0,
        sinks,
        tree_mask,
        k_scale,
        v_scale,
        plan.schedule if plan is not None else None,
    )
    return out if lse is None else (out, lse)


@overload
def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    query_start_loc: Tensor,
    kv_start_loc: Tensor,
    scale: float,
    causal: bool | Tensor,
    sliding_window: int | None = ...,
    alibi_slopes: Tensor | None = ...,
    logits_soft_cap: float | None = ...,
    sinks: Tensor | None = ...,
    out: Tensor | None = ...,
    return_lse: Literal[False] = ...,
    kernel: str | None = ...,
    validate: bool = ...,
) -> Tensor: ...


@overload
def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    query_start_loc: Tensor,
    kv_start_loc: Tensor,
    scale: float,
    causal: bool | Tensor,
    sliding_window: int | None = ...,
    alibi_slopes: Tensor | None = ...,
    logits_soft_cap: float | None = ...,
    sinks: Tensor | None = ...,
    out: Tensor | None = ...,
    return_lse: Literal[True],
    kernel: str | None = ...,
    validate: bool = ...,
) -> tuple[Tensor, Tensor]: ...


def varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    query_start_loc: Tensor,
    kv_start_loc: Tensor,
    scale: float,
    causal: bool | Tensor,
    sliding_window: int | None = None,
    alibi_slopes: Tensor | None = None,
    logits_soft_cap: float | None = None,
    sinks: Tensor | None = None,
    out: Tensor | None = None,
    return_lse: bool = False,
    kernel: str | None = None,
    validate: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention over dense keys and values, without a cache: encoders, cross-attention with keys given once.

    Parameters
    ----------
    query, key, value
        ``[T, H, D]``, ``[S, KH, D]``, ``[S, KH, Dv]``, one dtype.
    query_start_loc, kv_start_loc
        int32 ``[B + 1]`` each: the rows of request b in `query`, and in `key` and `value`.
    causal
        A bool or a bool tensor ``[B]``. Queries are aligned to the last key: query i stands at ``kv_len - query_len +
        i``.
    scale, sliding_window, alibi_slopes, logits_soft_cap, sinks, out, return_lse, kernel, validate
        As in `paged_attention`, as are the result and the errors.
    """
    if ops.traced(query):
        return ops.traced_varlen(
            query,
            key,
            value,
            query_start_loc,
            kv_start_loc,
            scale,
            causal,
            sliding_window,
            alibi_slopes,
            logits_soft_cap,
            sinks,
            out,
            return_lse,
            kernel,
            validate,
        )
    chosen, num_tokens = prepare_varlen(
        query,
        key,
        value,
        query_start_loc,
        kv_start_loc,
        scale,
        causal,
        sliding_window,
        alibi_slopes,
        logits_soft_cap,
        sinks,
        out,
        kernel,
        validate,
    )
    if out is None:
        out = _rows(query, value.shape[2], num_tokens)
    lse = _lse(query, num_tokens) if return_lse else None
    chosen.varlen(
        query,
        key,
        value,
        query_start_loc,
        kv_start_loc,
        out,
        lse,
        scale,
        causal,
        sliding_window or 0,
        alibi_slopes,
        logits_soft_cap or 0.0,
        sinks,
    )
    return out if lse is None else (out, lse)


def merge_attention_states(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """The attention over two disjoint sets of keys from the attention over each (split or cascade use).

    Parameters
    ----------
    out_a, out_b
        ``[T, H, Dv]``, one dtype.
    lse_a, lse_b
        float32 ``[H, T]``. At most one of the two parts may have seen the sink.

    Returns
    -------
    (Tensor, Tensor)
        ``out`` in the dtype of `out_a`, ``lse`` float32. Where neither part saw a key: zeros and -inf.
    """
    check.states("out_a", out_a, "[T, H, Dv]")
    check.like("out_b", out_b, "out_a", out_a, tuple(out_a.shape), "the shape of out_a")
    for name, value in (("lse_a", lse_a), ("lse_b", lse_b)):
        check.tensor(name, value, torch.float32, 2, "[H, T]", contiguous=False)
        if value.shape != (out_a.shape[1], out_a.shape[0]):
            raise ValueError(
                f"{name}: shape {tuple(value.shape)}; must be [H, T], here {(out_a.shape[1], out_a.shape[0])}"
            )
    lse = torch.logaddexp(lse_a, lse_b)
    base = lse.masked_fill(lse == -torch.inf, 0.0)  # exp(-inf - 0) = 0 where neither part saw a key
    weight_a, weight_b = ((x - base).exp().T[:, :, None] for x in (lse_a, lse_b))
    out = out_a.float() * weight_a + out_b.float() * weight_b
    return out.to(out_a.dtype), lse


def _rows(query: Tensor, head_size_v: int, num_tokens: int) -> Tensor:
    """The output to fill: zeros in the padding rows only."""
    tokens, heads, _ = query.shape
    out = torch.empty((tokens, heads, head_size_v), dtype=query.dtype)
    if num_tokens < tokens:
        out[num_tokens:].zero_()
    return out


def _lse(query: Tensor, num_tokens: int) -> Tensor:
    lse = torch.empty((query.shape[1], query.shape[0]), dtype=torch.float32)
    if num_tokens < query.shape[0]:
        lse[:, num_tokens:].zero_()
    return lse
