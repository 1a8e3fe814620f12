"""What all MLA layers of a batch share: which requests take which form of attention, and the tensors for each.

The absorbed form costs ``2 R + P`` multiply-adds for each query, key and head and reads the latents as they lie. The
expanded form costs ``N + P + V``, less than a third for DeepSeek's sizes, but first makes keys and values of all heads
from the latents: ``R (N + V)`` for each key and head. Many queries over their keys pay for that, a decode does not.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from v1_cpu import validate as check
from v1_cpu.plan import OfOneProcess, Plan, make_plan

EXPAND_COST = 0.75
"""A multiply-add of the expansion against one of attention: measured, see docs/decisions/0100."""
TOKENS_AT_ONCE = 32768
"""Requests are expanded together up to so many keys; a longer one alone."""
FUSED_ITEMS = 2
"""Heads of requests a thread from which on none is divided by queries: each part would make the same keys again."""


@dataclass(frozen=True, slots=True)
class MLASizes:
    """The sizes of a layer."""

    num_heads: int  # H
    kv_lora_rank: int  # R
    qk_nope_head_dim: int  # N
    qk_rope_head_dim: int  # P
    v_head_dim: int  # V


@dataclass(frozen=True, slots=True)
class AbsorbedPart:
    """Requests that attend to the latents."""

    rows: Tensor | None  # int64: their rows of query and out; None: the first `num_rows`
    num_rows: int
    query_start_loc: Tensor  # int32
    seq_lens: Tensor
    block_table: Tensor
    causal: bool | Tensor
    plan: Plan


@dataclass(frozen=True, slots=True)
class ExpandedPart:
    """Requests whose keys and values are made from their latents, at most `TOKENS_AT_ONCE` keys unless it is one."""

    rows: Tensor | None
    num_rows: int
    query_start_loc: Tensor  # int32
    kv_start_loc: Tensor  # int32
    slots: Tensor  # int64: where the keys lie in the cache, request by request
    causal: bool | Tensor
    fused: bool  # keys and values are made tile by tile where they are multiplied, by the native kernel


@dataclass(frozen=True, slots=True)
class MLAPlan(OfOneProcess):
    """Made by `make_mla_plan`; holds for one batch, all layers of one shape."""

    sizes: MLASizes
    dtype: torch.dtype
    cache_dtype: torch.dtype
    cache_shape: tuple[int, int]  # num_blocks, block_size
    num_tokens: int  # query_start_loc[-1]
    causal: bool | Tensor
    absorbed: AbsorbedPart | None
    expanded: tuple[ExpandedPart, ...]

    def check(self, sizes: MLASizes, query: Tensor, kv_cache: Tensor, causal: bool | Tensor) -> None:
        """That the plan was made for such a call; ValueError says what differs."""
        mine = (self.sizes, self.dtype, self.cache_dtype, self.cache_shape)
        theirs = (sizes, query.dtype, kv_cache.dtype, tuple(kv_cache.shape[:2]))
        if mine != theirs:
            raise ValueError(
                f"plan: made for sizes, dtype, cache dtype, (num_blocks, block_size) = {mine}; the call has {theirs}"
            )
        if self.num_tokens > query.shape[0]:
            raise ValueError(f"plan: made for {self.num_tokens} tokens; query has {query.shape[0]} rows")
        if not _same(self.causal, causal):
            raise ValueError(f"plan: made for causal={self.causal}; the call has causal={causal}. Make a plan for each")


def _same(mine: bool | Tensor, theirs: bool | Tensor) -> bool:
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return mine is theirs or torch.equal(mine, theirs)
    return mine is theirs


def expands(query_len: int, seq_len: int, causal: bool, sizes: MLASizes) -> bool:
    """Whether making keys and values costs less than attending to the latents: multiply-adds of one head."""
    query_len = min(query_len, seq_len)  # queries before the first key see nothing
    pairs = query_len * seq_len - (query_len * (query_len - 1) // 2 if causal else 0)
    through = sizes.qk_nope_head_dim + sizes.v_head_dim
    absorbed = query_len * sizes.kv_lora_rank * through + pairs * (2 * sizes.kv_lora_rank + sizes.qk_rope_head_dim)
    expanded = EXPAND_COST * seq_len * sizes.kv_lora_rank * through + pairs * (through + sizes.qk_rope_head_dim)
    return expanded < absorbed


def divide(
    sizes: MLASizes,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    cache_shape: tuple[int, int],
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    causal: bool | Tensor,
    form: str,
    kernel: str,
    rows: int,
    validate: bool,
) -> MLAPlan:
    """The plan of one batch; `rows` are those of query, `kernel` is "native" or "torch"."""
    starts, lens = query_start_loc.tolist(), seq_lens.tolist()
    if validate:
        check.start_locations("query_start_loc", starts, rows, "query")
        check.lengths(lens, block_table, cache_shape[1], cache_shape[0])
    seen = causal.tolist() if isinstance(causal, Tensor) else [causal] * len(lens)
    query_lens = [b - a for a, b in itertools.pairwise(starts)]
    forms = [
        form == "expanded" or (form == "auto" and expands(q, s, c, sizes))
        for q, s, c in zip(query_lens, lens, seen, strict=True)
    ]
    expanded = [i for i, wide in enumerate(forms) if wide and query_lens[i]]
    absorbed = [i for i, wide in enumerate(forms) if not wide and query_lens[i]]
    part = None
    if absorbed:
        part = _absorbed(
            absorbed, sizes, dtype, cache_dtype, cache_shape, starts, seq_lens, block_table, causal, kernel
        )
    batches = _batches(expanded, lens)
    return MLAPlan(
        sizes=sizes,
        dtype=dtype,
        cache_dtype=cache_dtype,
        cache_shape=cache_shape,
        num_tokens=starts[-1],
        causal=causal,
        absorbed=part,
        expanded=tuple(
            _expanded(each, starts, lens, block_table, cache_shape[1], causal, sizes.num_heads, kernel)
            for each in batches
        ),
    )


def _absorbed(
    requests: list[int],
    sizes: MLASizes,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    cache_shape: tuple[int, int],
    starts: list[int],
    seq_lens: Tensor,
    block_table: Tensor,
    causal: bool | Tensor,
    kernel: str,
) -> AbsorbedPart:
    picked = torch.tensor(requests)
    query_start_loc, rows = _rows(requests, starts)
    lens, table, seen = seq_lens[picked], block_table[picked], causal[picked] if isinstance(causal, Tensor) else causal
    num_blocks, block_size = cache_shape
    plan = make_plan(
        query_start_loc=query_start_loc,
        seq_lens=lens,
        num_heads=sizes.num_heads,
        num_kv_heads=1,
        head_size=sizes.kv_lora_rank + sizes.qk_rope_head_dim,
        head_size_v=sizes.kv_lora_rank,
        block_size=block_size,
        dtype=dtype,
        kv_cache_dtype=cache_dtype,
        causal=seen,
        block_table=table,
        num_blocks=num_blocks,
        kernel=kernel,
        validate=False,
    )
    return AbsorbedPart(rows, int(query_start_loc[-1]), query_start_loc, lens, table, seen, plan)


def _expanded(
    requests: list[int],
    starts: list[int],
    lens: list[int],
    block_table: Tensor,
    block_size: int,
    causal: bool | Tensor,
    num_heads: int,
    kernel: str,
) -> ExpandedPart:
    query_start_loc, rows = _rows(requests, starts)
    kv_start_loc = torch.tensor([0, *itertools.accumulate(lens[i] for i in requests)], dtype=torch.int32)
    slots = []
    for i in requests:
        positions = torch.arange(lens[i])
        blocks = block_table[i].long()[positions.div(block_size, rounding_mode="floor")]
        slots.append(blocks * block_size + positions.remainder(block_size))
    seen = causal[torch.tensor(requests)] if isinstance(causal, Tensor) else causal
    fused = kernel == "native" and len(requests) * num_heads >= FUSED_ITEMS * torch.get_num_threads()
    return ExpandedPart(rows, int(query_start_loc[-1]), query_start_loc, kv_start_loc, torch.cat(slots), seen, fused)


def _rows(requests: list[int], starts: list[int]) -> tuple[Tensor, Tensor | None]:
    """Start locations of some requests alone, and their rows in the batch (None where these are the first)."""
    lens = [starts[i + 1] - starts[i] for i in requests]
    alone = torch.tensor([0, *itertools.accumulate(lens)], dtype=torch.int32)
    if starts[requests[-1] + 1] == sum(lens):
        return alone, None
    return alone, torch.cat([torch.arange(starts[i], starts[i + 1]) for i in requests])


def _batches(requests: list[int], lens: list[int]) -> list[list[int]]:
    """The requests in order, in groups of at most `TOKENS_AT_ONCE` keys."""
    groups: list[list[int]] = []
    held = 0
    for i in requests:
        if not groups or held + lens[i] > TOKENS_AT_ONCE:
            groups.append([])
            held = 0
        groups[-1].append(i)
        held += lens[i]
    return groups
