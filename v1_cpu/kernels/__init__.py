"""The one interface between the backend and a kernel.

A kernel is one file in this folder with one subclass of `Kernel`, listed in `v1_cpu.select.KERNELS`. The public
functions (`v1_cpu.attention`, `v1_cpu.cache`) check their arguments, allocate the outputs and call a kernel with
plain tensors and numbers; a kernel computes, and checks nothing twice. Its constructor takes nothing, loads what it
needs and raises `KernelUnavailable` with a reason where it cannot run; importing its module loads no binary.

What a kernel may rely on, in every call
    T tokens, H query heads, KH KV heads (H % KH == 0), D head size of queries and keys, Dv of values, B requests.
    Tensors are on the CPU. `query`, `key`, `value`, `out` are float32, bfloat16 or float16, one dtype in a call, with
    `stride(-1) == 1`; the other strides are free (a slice of a packed qkv projection is common). `kv_cache` is
    contiguous, of the query's dtype or float8_e4m3fn / float8_e5m2. `query_start_loc`, `kv_start_loc`, `seq_lens` are
    int32 and contiguous, `block_table` is int32 with `stride(-1) == 1`, `slot_mapping` is int64 and contiguous.
    `alibi_slopes` and `sinks` are contiguous float32 [H], `lse` float32 [H, T], `tree_mask` bool [T, M] with
    `stride(-1) == 1`, a tensor `causal` contiguous bool [B]. T may exceed `query_start_loc[-1]` (padding).
    With `validate=True` (the public default) the values hold too: start locations rise from 0, block numbers of used
    blocks and slots lie in the cache. With `validate=False` nothing of that is known.

Encodings: `sliding_window` 0 is none, `attention_chunk_size` 0 is none, `logits_soft_cap` 0.0 is none.

What a kernel computes (`tests/v1_cpu/reference.py` is the same as a formula)
    Query i of a request stands at p = kv_len - query_len + i, where kv_len is `seq_lens[b]`, or the number of the
    request's keys in `varlen`; p may be negative. Key k (from 0) is seen when all of these hold:
        k < kv_len;
        causal: k <= p; with a tree mask instead: k < kv_len - query_len, or tree_mask[t, k - (kv_len - query_len)];
        window w: p - k < w, and without causal also k - p < w;
        chunk c: floor(k / c) == floor(p / c).
    logit = scale * k_scale * (q . k), then cap * tanh(logit / cap), then + slope * (k - p); a sink is one more logit.
    out = v_scale * sum(softmax * v), computed in float32 or better and rounded once.
    A query that sees nothing gives zeros and lse -inf (with a sink: zeros and the sink).
    Query head h reads KV head h // (H // KH).
    Rows of `out` and columns of `lse` from `query_start_loc[-1]` on are not touched.
    Cache content at or past `seq_lens[b]`, NaN included, never reaches a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

ROW_LAYOUT = "row"
"""Of block b, KV head h, token t, `kv_cache[b, h, t, :D]` is the key and `[..., D:]` the value (`v1_cpu.layouts`)."""

IPEX_LAYOUT = "ipex"
"""A block holds the keys of all its KV heads, `[KH, block_size, D]`, then their values, `[KH, block_size, Dv]`."""


class KernelUnavailable(Exception):
    """A kernel cannot be loaded on this machine; the text is the reason, without a full stop."""


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """What a kernel is asked to serve: fixed per layer, known before the first batch."""

    dtype: torch.dtype
    cache_dtype: torch.dtype
    num_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    block_size: int  # 0: no cache (varlen)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a schedule is made from: one batch, shared by all layers of one KV-cache group."""

    config: KernelConfig
    query_start_loc: Tensor  # int32 [B + 1]
    seq_lens: Tensor  # int32 [B]
    num_tokens: int
    max_query_len: int
    max_seq_len: int
    causal: bool | Tensor
    sliding_window: int
    attention_chunk_size: int
    num_threads: int


class Kernel(ABC):
    """Base of `_PagedAttention`, `_NativePagedAttention`, `_IPEXPagedAttention`: one stateless object per process."""

    name: ClassVar[str]
    """What `kernel=` and `V1_CPU_KERNEL` call it: "torch", "native", "ipex"."""
    layout: ClassVar[str]
    """The interior of a cache block; kernels of one layout read what the other wrote."""

    @property
    @abstractmethod
    def isa(self) -> str:
        """The instruction set in use, for `which()`: "avx512_bf16", "avx2", "generic", ..."""

    @abstractmethod
    def unsupported(self, config: KernelConfig) -> str | None:
        """None if the kernel serves `config`, else the reason. Called when a backend is built, and cached."""

    @abstractmethod
    def write_cache(
        self, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, k_scale: float, v_scale: float
    ) -> None:
        """Store `key` [T, KH, D], `value` [T, KH, Dv] at slot = block * block_size + offset, int64 [T]; -1 is skipped.

        A float8 cache stores float32(x) / float32(scale), rounded to nearest even, saturated; NaN stays NaN.
        """

    def copy_blocks(self, source: Tensor, destination: Tensor, pairs: Tensor) -> None:
        """Copy block `pairs[i, 0]` of `source` to `pairs[i, 1]` of `destination`, int64 [n, 2]; all are read first."""
        destination[pairs[:, 1]] = source[pairs[:, 0]]

    def schedule(self, batch: Batch) -> Tensor | None:
        """The kernel's division of work for one batch, made once and handed back to `paged` for every layer.

        Any 1-d CPU tensor, opaque to the caller (a tensor, so that it passes through `torch.ops`), or None. It
        divides work and never decides what is seen: one made for a wider view (no causality, no window, no chunk) must
        also serve the narrower, as a group may mix layers, and one made for a causal batch must serve a tree mask.
        """
        return None

    @abstractmethod
    def paged(
        self,
        query: Tensor,  # [T, H, D]
        kv_cache: Tensor,  # [num_blocks, KH, block_size, D + Dv]
        query_start_loc: Tensor,  # int32 [B + 1]
        seq_lens: Tensor,  # int32 [B]
        block_table: Tensor,  # int32 [B, max_blocks]
        out: Tensor,  # [T, H, Dv]
        lse: Tensor | None,  # float32 [H, T]
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
        """Attention over the paged cache, any mix of decode, chunk and prefill in any order. Writes `out` and `lse`."""

    @abstractmethod
    def varlen(
        self,
        query: Tensor,  # [T, H, D]
        key: Tensor,  # [S, KH, D]
        value: Tensor,  # [S, KH, Dv]
        query_start_loc: Tensor,  # int32 [B + 1]
        kv_start_loc: Tensor,  # int32 [B + 1]
        out: Tensor,  # [T, H, Dv]
        lse: Tensor | None,  # float32 [H, T]
        scale: float,
        causal: bool | Tensor,
        sliding_window: int,
        alibi_slopes: Tensor | None,
        logits_soft_cap: float,
        sinks: Tensor | None,
    ) -> None:
        """Attention over dense keys and values: encoder, encoder-only, cross-attention with keys given once."""
