"""A plan: what all layers of a batch share, read and checked once."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import torch
from torch import Tensor

from v1_cpu import validate as check
from v1_cpu.kernels import Batch, Kernel, KernelConfig
from v1_cpu.layouts import resolve_cache_dtype
from v1_cpu.select import serving


class OfOneProcess:
    """Neither pickled nor copied deeply: bound to its process's library and to the very tensors it was made from."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied deeply: it belongs to one process and to the "
            "tensors it was made from; hand on those tensors and call make_plan or make_mla_plan with them there"
        )


@dataclass(frozen=True, slots=True)
class Plan(OfOneProcess):
    """Made by `make_plan`; holds for the tensors it was made from, with the values they had then, in one process."""

    kernel: Kernel
    config: KernelConfig
    query_start_loc: Tensor
    seq_lens: Tensor
    block_table: Tensor | None  # checked against num_blocks, where given
    num_blocks: int
    num_tokens: int  # query_start_loc[-1]
    max_query_len: int
    max_seq_len: int
    causal: bool | Tensor
    sliding_window: int  # 0: none
    attention_chunk_size: int  # 0: none
    schedule: Tensor | None  # the kernel's own
    versions: tuple[int, ...]  # of the tensors, to notice a change
    signature: tuple[Any, ...]  # dtype, (H, D), cache dtype, (KH, block_size, D + Dv)

    def knows(self, query: Any, kv_cache: Any, query_start_loc: Any, seq_lens: Any, block_table: Any) -> bool:
        """Whether these are the plan's own, already checked tensors, with a query and a cache of its shapes."""
        return (
            query_start_loc is self.query_start_loc
            and seq_lens is self.seq_lens
            and block_table is self.block_table
            and isinstance(query, Tensor)
            and isinstance(kv_cache, Tensor)
            and query.dim() == 3
            and kv_cache.dim() == 4
            and (query.dtype, query.shape[1:], kv_cache.dtype, kv_cache.shape[1:]) == self.signature
            and query.is_contiguous()
            and kv_cache.is_contiguous()
            and query.is_cpu
            and kv_cache.is_cpu
        )

    def check(self, query: Tensor, kv_cache: Tensor, query_start_loc: Tensor, seq_lens: Tensor) -> None:
        """That the plan was made for this call; ValueError says what differs."""
        if self.query_start_loc is not query_start_loc and not torch.equal(self.query_start_loc, query_start_loc):
            raise ValueError("plan: made for another query_start_loc; make one plan per batch")
        if self.seq_lens is not seq_lens and not torch.equal(self.seq_lens, seq_lens):
            raise ValueError("plan: made for another seq_lens; make one plan per batch")
        called = (query.dtype, query.shape[1:], kv_cache.dtype, kv_cache.shape[1:])
        if called != self.signature:
            raise ValueError(
                f"plan: made for dtype, (H, D), cache dtype, (KH, block_size, D + Dv) = {self.signature}; the call has "
                f"{called}; layers of another shape need a plan of their own"
            )

    def check_unchanged(self, rows: int) -> None:
        """That the plan's tensors hold what they held, and that its tokens have rows."""
        if self.versions != _versions(self.query_start_loc, self.seq_lens, self.block_table):
            raise ValueError("plan: a tensor it was made from has changed since; make a plan for the new values")
        if self.num_tokens > rows:
            raise ValueError(f"plan: made for {self.num_tokens} tokens; query has {rows} rows")

    def check_masks(self, causal: bool | Tensor, sliding_window: int, attention_chunk_size: int) -> None:
        """That the plan's view is the call's or a wider one."""
        for name, mine, theirs in (
            ("sliding_window", self.sliding_window, sliding_window),
            ("attention_chunk_size", self.attention_chunk_size, attention_chunk_size),
        ):
            if mine and mine != theirs:
                raise ValueError(
                    f"{name}: {theirs or None}; the plan was made for {mine}; make it without one to serve both"
                )
        if self.causal is not False and self.causal is not causal and not _same_causal(self.causal, causal):
            raise ValueError(
                f"causal: {causal!r}; the plan was made for {self.causal!r}; causal=False serves every layer"
            )


def make_plan(
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    block_size: int,
    dtype: torch.dtype,
    head_size_v: int | None = None,
    kv_cache_dtype: str | torch.dtype = "auto",
    causal: bool | Tensor = True,
    sliding_window: int | None = None,
    attention_chunk_size: int | None = None,
    block_table: Tensor | None = None,
    num_blocks: int | None = None,
    kernel: str | None = None,
    validate: bool = True,
) -> Plan:
    """Plan one batch for all layers that share its shapes: pass it as `paged_attention(..., plan=plan)`.

    Parameters
    ----------
    query_start_loc, seq_lens
        int32 ``[B + 1]`` and ``[B]``, the very tensors of the later calls. A plan holds for the values they have now.
    num_heads, num_kv_heads, head_size, head_size_v, block_size, dtype, kv_cache_dtype
        H, KH, D, Dv (default D), the tokens of a block, the query's dtype, and the cache's as in `allocate_kv_cache`.
    causal, sliding_window, attention_chunk_size
        As in the calls. A plan for a wider view (``causal=False``, no window, no chunks) serves narrower layers too.
    block_table, num_blocks
        int32 ``[B, max_blocks]`` and the blocks of the cache: given both, block numbers are checked here, not per
        layer.
    kernel
        "torch", "native", "ipex", or None for `which()`.

    Raises
    ------
    TypeError, ValueError
        An argument does not fit; the message names it.
    NotImplementedError
        The kernel cannot serve these sizes or types.
    """
    head_size_v = head_size if head_size_v is None else head_size_v
    if validate:
        _check_sizes(num_heads, num_kv_heads, head_size, head_size_v, block_size, dtype)
        check.tensor("query_start_loc", query_start_loc, torch.int32, 1, "[B + 1]")
        check.tensor("seq_lens", seq_lens, torch.int32, 1, "[B]")
        if query_start_loc.shape[0] != seq_lens.shape[0] + 1:
            raise ValueError(
                f"query_start_loc: shape {tuple(query_start_loc.shape)}; must be [B + 1], one more than seq_lens has "
                f"({seq_lens.shape[0]})"
            )
        check.options(num_heads, seq_lens.shape[0], 1.0, causal, sliding_window, attention_chunk_size, None, None, None)
    starts, lengths = query_start_loc.tolist(), seq_lens.tolist()
    if validate:
        check.start_locations("query_start_loc", starts, starts[-1], "query")
        if min(lengths, default=0) < 0:
            raise ValueError(f"seq_lens: {min(lengths)}; must not be negative")
        if block_table is not None and num_blocks is not None:
            check.tensor("block_table", block_table, torch.int32, 2, "[B, max_blocks]", contiguous=False)
            check.lengths(lengths, block_table, block_size, num_blocks)
    cache_dtype = resolve_cache_dtype(kv_cache_dtype, dtype)
    chosen = serving(kernel, dtype, cache_dtype, num_heads, num_kv_heads, head_size, head_size_v, block_size)
    batch = Batch(
        config=KernelConfig(dtype, cache_dtype, num_heads, num_kv_heads, head_size, head_size_v, block_size),
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        num_tokens=starts[-1],
        max_query_len=max((b - a for a, b in itertools.pairwise(starts)), default=0),
        max_seq_len=max(lengths, default=0),
        causal=causal,
        sliding_window=sliding_window or 0,
        attention_chunk_size=attention_chunk_size or 0,
        num_threads=torch.get_num_threads(),
    )
    checked = block_table if num_blocks is not None else None
    return Plan(
        kernel=chosen,
        config=batch.config,
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        block_table=checked,
        num_blocks=num_blocks or 0,
        num_tokens=batch.num_tokens,
        max_query_len=batch.max_query_len,
        max_seq_len=batch.max_seq_len,
        causal=causal,
        sliding_window=batch.sliding_window,
        attention_chunk_size=batch.attention_chunk_size,
        schedule=chosen.schedule(batch),
        versions=_versions(query_start_loc, seq_lens, checked),
        signature=(
            dtype,
            (num_heads, head_size),
            cache_dtype,
            (num_kv_heads, block_size, head_size + head_size_v),
        ),
    )


def _check_sizes(
    num_heads: int, num_kv_heads: int, head_size: int, head_size_v: int, block_size: int, dtype: torch.dtype
) -> None:
    for name, value in (
        ("num_heads", num_heads),
        ("num_kv_heads", num_kv_heads),
        ("head_size", head_size),
        ("head_size_v", head_size_v),
        ("block_size", block_size),
    ):
        check.count(name, value, "a size")
    if num_heads % num_kv_heads:
        raise ValueError(f"num_heads: {num_heads}; must be a multiple of num_kv_heads ({num_kv_heads})")
    if dtype not in check.DTYPES:
        raise TypeError(f"dtype: {dtype}; must be float32, bfloat16 or float16")


def _same_causal(mine: bool | Tensor, theirs: bool | Tensor) -> bool:
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return torch.equal(mine, theirs)
    return isinstance(mine, Tensor) and theirs is True  # causal everywhere is narrower than causal here and there


def _versions(*tensors: Tensor | None) -> tuple[int, ...]:
    """The in-place change counters; inference tensors keep none."""
    return tuple([t._version for t in tensors if t is not None and not t.is_inference()])
