"""One V0 attention call as calls of V1: copy the blocks in use into a V1 cache, attend, fill the caller's rows.

A few requests at a time, so that the copies stay small: the memory of one is used again by the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import v1_cpu
from v1_compat.legacy.layouts import SplitCache
from v1_cpu.layouts import FP8_DTYPES

_COPIED_AT_ONCE = 1 << 23  # bytes of keys and values


def attend_paged(
    out: Tensor,
    query: Tensor,
    cache: SplitCache,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_tables: Tensor,
    scale: float,
    alibi_slopes: Tensor | None = None,
    causal: bool = True,
    sliding_window: int | None = None,
    logits_soft_cap: float | None = None,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    new: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Attention over a V0 cache, into `out`, which must be `query`'s shape and dtype.

    `new` are keys and values ``[T, KH, D]`` of the query tokens that the cache need not hold yet; they are stored in
    the copy only. The other arguments are those of `v1_cpu.paged_attention`.
    """
    if out.shape != query.shape or out.dtype is not query.dtype:
        raise ValueError(f"out: {out.dtype} {tuple(out.shape)}; must be as query, {query.dtype} {tuple(query.shape)}")
    if query.shape[-1] != cache.head_size:
        raise ValueError(f"query: head size {query.shape[-1]}; the cache has {cache.head_size}")
    seq_lens, starts = seq_lens.int().contiguous(), query_start_loc.int().contiguous()
    if cache.key.dtype not in FP8_DTYPES:
        k_scale = v_scale = 1.0  # V0 read no scale of a cache that is not quantised
    slopes = None if alibi_slopes is None else alibi_slopes.float().contiguous()
    for some in _portions(seq_lens, cache):
        lens, begins = seq_lens[some], starts[some.start : some.stop + 1]
        rows = slice(int(begins[0]), int(begins[-1]))
        begins = begins - begins[0]
        kv_cache, table = cache.gather(lens, block_tables[some], shared=new is None)
        if new is not None:
            slots = _slots(begins, lens, table, cache.block_size)
            v1_cpu.write_kv_cache(new[0][rows], new[1][rows], kv_cache, slots, k_scale=k_scale, v_scale=v_scale)
        out[rows] = v1_cpu.paged_attention(
            query[rows].detach(),
            kv_cache,
            query_start_loc=begins,
            seq_lens=lens,
            block_table=table,
            scale=float(scale),
            causal=causal,
            sliding_window=sliding_window,
            alibi_slopes=slopes,
            logits_soft_cap=logits_soft_cap,
            k_scale=k_scale,
            v_scale=v_scale,
        )


def _portions(seq_lens: Tensor, cache: SplitCache) -> Iterator[slice]:
    """Requests whose blocks are copied together: as many as fit, at least one."""
    block = max(1, cache.key[:1].nbytes + cache.value[:1].nbytes)
    first = held = 0
    for i, blocks in enumerate((-(-seq_lens.long() // cache.block_size)).tolist()):
        if i > first and (held + blocks) * block > _COPIED_AT_ONCE:
            yield slice(first, i)
            first, held = i, 0
        held += blocks
    if seq_lens.numel():
        yield slice(first, seq_lens.numel())


def scale_of(value: Any) -> float:
    """A V0 scale, a tensor of one element or a number, as the float V1 takes."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"k_scale, v_scale: shape {tuple(value.shape)}; must be one number, V1 scales a whole cache")
    return 1.0 if value is None else float(value)


def _slots(starts: Tensor, seq_lens: Tensor, table: Tensor, block_size: int) -> Tensor:
    """int64 ``[T]``: where each query token lies in the cache that `table` is of."""
    query_lens = starts.diff().long()
    rows = torch.arange(len(query_lens)).repeat_interleave(query_lens)
    positions = torch.arange(int(starts[-1])) - starts[rows] + (seq_lens.long() - query_lens)[rows]
    return table[rows, positions // block_size].long() * block_size + positions % block_size
