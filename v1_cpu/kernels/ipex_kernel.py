"""The IPEX kernel: Intel Extension for PyTorch computes what it computes rightly, our own kernels do the rest.

IPEX knows two operations: one query token per request (`single_query_cached_kv_attention`), and many
(`flash_attn_varlen_func`). Which feature each of them serves was found by holding it to the formula of the tests, and
is `route` here, a pure function, and the table of docs/ipex.md. What it does not serve goes to the native kernel, or
to torch where that is not there, on a copy of the blocks in use; so every call is answered, and rightly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import Any

import torch
from torch import Tensor

from v1_cpu.kernels import IPEX_LAYOUT, Kernel, KernelConfig, KernelUnavailable
from v1_cpu.kernels.ipex_load import isa_level, load
from v1_cpu.kernels.native_kernel import _NativePagedAttention
from v1_cpu.kernels.torch_kernel import _PagedAttention, quantize
from v1_cpu.layouts import FP8_DTYPES, split_kv

PARTITION = 128
"""Keys that IPEX's decode takes at a time."""

SMALLEST = 8
"""Head size from which its prefill is used; of 1, it was seen to give wrong numbers in half precision."""
FLOAT8_STEP = 32
"""Head sizes of which its prefill reads a float8 cache are multiples of this vector; of 1 and 8, it crashed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What decides who computes a batch."""

    dtype: torch.dtype
    cache_dtype: torch.dtype
    head_size: int
    head_size_v: int
    block_size: int
    decodes: bool  # some request has one query token
    prefills: bool  # some request has more
    keyless: bool  # some request has more queries than keys
    causal: bool | Tensor
    sliding_window: int
    attention_chunk_size: int
    alibi: bool
    soft_cap: bool
    sinks: bool
    tree_mask: bool
    lse: bool
    v_scale: float


def route(asked: Asked) -> str | None:
    """None where IPEX computes the batch, else what keeps it from it (docs/ipex.md has the measured errors)."""
    if asked.lse:
        return "it returns no log-sum-exp"
    if asked.sinks:
        return "it knows no sinks"
    if asked.tree_mask:
        return "it knows no tree mask"
    if asked.attention_chunk_size:
        return "it knows no attention chunks"
    if asked.head_size_v != asked.head_size:
        return "it reads values at the keys' strides"
    if asked.keyless:
        return "it does not define queries before the first key"
    if asked.cache_dtype in FP8_DTYPES:
        reason = _route_float8(asked)
        if reason is not None:
            return reason
    if asked.decodes and PARTITION % asked.block_size:
        return "its decode writes past its buffers where blocks do not divide 128 tokens"
    return _route_prefill(asked) if asked.prefills else None


def _route_float8(asked: Asked) -> str | None:
    if asked.cache_dtype is torch.float8_e4m3fn:
        return "it knows no float8 e4m3 cache"
    if asked.dtype is torch.float16:
        return "it reads no float8 cache for float16 queries"
    if asked.decodes and asked.dtype is torch.float32:
        return "its decode reads no float8 cache for float32 queries"
    if asked.prefills and asked.head_size % FLOAT8_STEP:
        return "its prefill reads float8 keys 32 at a time"
    if frexp(asked.v_scale)[0] != 0.5:  # scaling its rounded result by anything else would round it twice
        return "it does not apply v_scale"
    return None


def _route_prefill(asked: Asked) -> str | None:
    if asked.alibi:
        return "its prefill knows no ALiBi"
    if isinstance(asked.causal, Tensor):
        return "its prefill is causal for all requests or for none"
    if asked.head_size < SMALLEST:
        return "its prefill is wrong for very small heads"
    if asked.sliding_window == 1:
        return "its prefill takes a window of 1 for none"
    return None


class _IPEXPagedAttention(Kernel):
    """`kernel="ipex"`."""

    name = "ipex"
    layout = IPEX_LAYOUT

    def __init__(self) -> None:
        self._ops: Any = load()
        self._own = own_kernel()

    @property
    def isa(self) -> str:
        return isa_level()

    def unsupported(self, config: KernelConfig) -> str | None:
        return None  # what IPEX cannot, the others do

    def write_cache(
        self, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, k_scale: float, v_scale: float
    ) -> None:
        kept = slot_mapping >= 0
        if not bool(kept.all()):
            key, value, slot_mapping = key[kept], value[kept], slot_mapping[kept]
        if key.shape[0] == 0:
            return
        keys, values = split_kv(kv_cache.detach(), key.shape[2], IPEX_LAYOUT)
        if key.shape[2] == value.shape[2] and kv_cache.dtype is key.dtype:
            states = key.detach().contiguous(), value.detach().contiguous()
            self._ops.reshape_and_cache(*states, keys, values, slot_mapping)
            return
        blocks = torch.div(slot_mapping, kv_cache.shape[2], rounding_mode="floor")
        offsets = slot_mapping - blocks * kv_cache.shape[2]
        for target, source, scale in ((keys, key.detach(), k_scale), (values, value.detach(), v_scale)):
            if target.dtype in FP8_DTYPES:
                source, target = quantize(source, scale, target.dtype).view(torch.uint8), target.view(torch.uint8)
            target[blocks, :, offsets] = source

    def paged(
        self,
        query: Tensor,
        kv_cache: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        out: Tensor,
        lse: Tensor | None,
        scale: float,
        causal: bool | Tensor,
        sliding_window: int,
        attention_chunk_size: int,
        alibi_slopes: Tensor | None,
        logits_soft_cap: float,
        sinks: Tensor | None,
        tree_mask: Tensor | None,
        k_scale: float,
        v_scale: float,
        schedule: Tensor | None,
    ) -> None:
        query_lens = query_start_loc.diff()
        single, several = query_lens == 1, query_lens > 1
        asked = Asked(
            query.dtype,
            kv_cache.dtype,
            query.shape[2],
            out.shape[2],
            kv_cache.shape[2],
            bool(single.any()),
            bool(several.any()),
            bool((query_lens > seq_lens).any()),
            causal,
            sliding_window,
            attention_chunk_size,
            alibi_slopes is not None,
            bool(logits_soft_cap),
            sinks is not None,
            tree_mask is not None,
            lse is not None,
            v_scale,
        )
        if route(asked) is not None:
            cache, table = in_rows(kv_cache, block_table, seq_lens, query.shape[2])
            self._own.paged(
                query,
                cache,
                query_start_loc,
                seq_lens,
                table,
                out,
                lse,
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
                None,
            )
            return
        rules = Rules(scale * k_scale, causal is True, sliding_window or -1, logits_soft_cap or -1.0, alibi_slopes)
        caches = split_kv(kv_cache.detach(), query.shape[2], IPEX_LAYOUT)
        for chosen, compute in ((single, self._single), (several, self._several)):
            rows = chosen.nonzero()[:, 0]
            if len(rows):
                starts, lens = query_start_loc[rows].long(), query_lens[rows].long()
                tokens = _runs(starts, lens)
                # entries past a request's last block may be anything
                table = block_table[rows].clamp(0, kv_cache.shape[0] - 1)
                result = torch.empty((len(tokens), *out.shape[1:]), dtype=out.dtype)
                compute(result, query.detach()[tokens], caches, lens, seq_lens[rows], table, rules)
                out[tokens] = result if v_scale == 1.0 else result * v_scale

    def _single(
        self,
        out: Tensor,
        query: Tensor,
        caches: tuple[Tensor, Tensor],
        query_lens: Tensor,
        seq_lens: Tensor,
        table: Tensor,
        rules: Rules,
    ) -> None:
        """Requests of one query token: `out`, `query` [B, H, D]."""
        num_kv_heads, block_size = caches[0].shape[1:3]
        group = query.shape[1] // num_kv_heads
        heads = torch.arange(num_kv_heads, dtype=torch.int32).repeat_interleave(group)
        self._ops.single_query_cached_kv_attention(
            out,
            query,
            *caches,
            heads,
            rules.scale,
            table,
            seq_lens,
            block_size,
            int(seq_lens.max()),
            rules.alibi_slopes,
            rules.window,
            1.0,
            1.0,
            rules.soft_cap,
        )

    def _several(
        self,
        out: Tensor,
        query: Tensor,
        caches: tuple[Tensor, Tensor],
        query_lens: Tensor,
        seq_lens: Tensor,
        table: Tensor,
        rules: Rules,
    ) -> None:
        """Requests of more than one query token: `out`, `query` [T, H, D]."""
        left = rules.window if rules.window < 0 else rules.window - 1
        self._ops.flash_attn_varlen_func(
            out,
            query,
            *caches,
            _starts(query_lens),
            _starts(seq_lens),
            int(query_lens.max()),
            int(seq_lens.max()),
            rules.scale,
            rules.causal,
            table,
            None,
            left,
            -1 if rules.causal else left,
            "auto",
            1.0,
            1.0,
            rules.soft_cap,
        )

    def varlen(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_start_loc: Tensor,
        kv_start_loc: Tensor,
        out: Tensor,
        lse: Tensor | None,
        scale: float,
        causal: bool | Tensor,
        sliding_window: int,
        alibi_slopes: Tensor | None,
        logits_soft_cap: float,
        sinks: Tensor | None,
    ) -> None:
        self._own.varlen(
            query,
            key,
            value,
            query_start_loc,
            kv_start_loc,
            out,
            lse,
            scale,
            causal,
            sliding_window,
            alibi_slopes,
            logits_soft_cap,
            sinks,
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """A batch's rules in IPEX's terms: -1 is none."""

    scale: float
    causal: bool
    window: int
    soft_cap: float
    alibi_slopes: Tensor | None


def own_kernel() -> Kernel:
    """What computes where IPEX does not: the native kernel, else torch."""
    try:
        return _NativePagedAttention()
    except (KernelUnavailable, ImportError, OSError):
        return _PagedAttention()


def in_rows(kv_cache: Tensor, block_table: Tensor, seq_lens: Tensor, head_size: int) -> tuple[Tensor, Tensor]:
    """The blocks in use, copied into a cache of the `row` layout, and the block table for it."""
    counts = -(-seq_lens.long() // kv_cache.shape[2])
    used = torch.arange(block_table.shape[1]) < counts[:, None]
    blocks, places = block_table[used].long().unique(return_inverse=True)  # type: ignore[no-untyped-call]
    table = torch.zeros(block_table.shape, dtype=torch.int32)
    table[used] = places.int()
    plain = kv_cache.detach().view(torch.uint8) if kv_cache.dtype in FP8_DTYPES else kv_cache.detach()
    keys, values = split_kv(plain[blocks], head_size, IPEX_LAYOUT)
    return torch.cat([keys, values], dim=-1).view(kv_cache.dtype), table


def _runs(starts: Tensor, lens: Tensor) -> Tensor:
    """The token rows of the requests, one request after the other: int64 [sum of lens]."""
    ends = lens.cumsum(0)
    return torch.arange(int(ends[-1])) + (starts - ends + lens).repeat_interleave(lens)


def _starts(lens: Tensor) -> Tensor:
    """int32 [B + 1] start locations of runs of these lengths."""
    return torch.nn.functional.pad(lens.cumsum(0), (1, 0)).int()
