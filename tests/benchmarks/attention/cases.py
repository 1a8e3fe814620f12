"""What is measured: the cells of the tables, and the tensors of one cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

import v1_cpu

COLD_BYTES = 256 << 20
"""Block tables rotate over at least this much cache, so that keys and values come from memory, as between layers."""

HEADS = {"32/8x128": (32, 8, 128), "12/12x64": (12, 12, 64), "64/8x128": (64, 8, 128)}
BF16, F32 = torch.bfloat16, torch.float32


@dataclass(frozen=True)
class Case:
    """One cell: requests of (new tokens, context with them) under one shape of heads."""

    table: str
    name: str
    dtype: torch.dtype
    heads: tuple[int, int, int]  # H, KH, D
    block_size: int
    requests: tuple[tuple[int, int], ...]
    features: dict[str, Any] = field(default_factory=dict)
    cache_dtype: torch.dtype | None = None
    calls: int = 1  # made in a row each time, for what is too short to time alone

    @property
    def title(self) -> str:
        h, kh, d = self.heads
        cache = f", cache {str(self.cache_dtype)[6:]}" if self.cache_dtype else ""
        return f"{str(self.dtype)[6:]} {h}/{kh}x{d} block {self.block_size} {self.name}{cache}"

    @property
    def plain(self) -> Case:
        """The same without features; of a decode's context what a window leaves."""
        window = self.features.get("sliding_window")
        decodes = all(q == 1 for q, _ in self.requests)
        requests = tuple((q, min(n, window)) for q, n in self.requests) if window and decodes else self.requests
        return replace(self, features={}, requests=requests)

    @property
    def element_size(self) -> int:
        return (self.cache_dtype or self.dtype).itemsize

    @property
    def kv_bytes(self) -> int:
        """The bytes of keys and values that the requests see."""
        return sum(self.visible(q, n) for q, n in self.requests) * self.heads[1] * 2 * self.heads[2] * self.element_size

    def visible(self, query_len: int, seq_len: int) -> int:
        window = self.features.get("sliding_window")
        return seq_len if window is None else min(seq_len, window + query_len - 1)

    @property
    def flops(self) -> int:
        """Multiply-adds times two of the keys that causality and the window leave."""
        h, _, d = self.heads
        window = self.features.get("sliding_window") or 1 << 40
        pairs = sum(min(n - q + i + 1, window) for q, n in self.requests for i in range(q))
        return 4 * h * d * pairs


@dataclass
class Tensors:
    """The tensors of a case, with several block tables to rotate over."""

    query: Tensor
    key: Tensor  # the new tokens' [T, KH, D]
    value: Tensor
    kv_cache: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    block_tables: list[Tensor]
    out: Tensor


def build(case: Case, seed: int = 0) -> Tensors:
    """Random data; the cache holds normal numbers in whatever way a peer reads them."""
    generator = torch.Generator().manual_seed(seed)
    h, kh, d = case.heads
    tokens = sum(q for q, _ in case.requests)
    needed = [-(-n // case.block_size) for _, n in case.requests]
    block_bytes = kh * case.block_size * 2 * d * case.element_size
    copies = 1 if case.table in ("prefill", "varlen") else max(1, min(24, COLD_BYTES // (sum(needed) * block_bytes)))
    num_blocks = sum(needed) * copies
    chunk = torch.randn(1 << 20, generator=generator).to(case.cache_dtype or case.dtype)
    view = v1_cpu.allocate_kv_cache(num_blocks, case.block_size, kh, d, case.dtype, kv_cache_dtype=chunk.dtype)
    cache = view.flatten()  # every peer reads this memory, in its own way
    for start in range(0, cache.numel(), chunk.numel()):
        cache[start : start + chunk.numel()] = chunk[: cache.numel() - start]
    tables = []
    order = torch.randperm(num_blocks, generator=generator).int()
    for copy in range(copies):
        table = torch.zeros(len(needed), max(needed), dtype=torch.int32)
        used = copy * sum(needed)
        for row, n in enumerate(needed):
            table[row, :n] = order[used : used + n]
            used += n
        tables.append(table)
    query, key, value = (torch.randn(tokens, n, d, generator=generator).to(case.dtype) for n in (h, kh, kh))
    starts = torch.tensor([0, *itertools.accumulate(q for q, _ in case.requests)], dtype=torch.int32)
    lens = torch.tensor([n for _, n in case.requests], dtype=torch.int32)
    return Tensors(query, key, value, view, starts, lens, tables, torch.empty_like(query))


def decode(dtype: torch.dtype, heads: str, block: int, batch: int, context: int, **features: Any) -> Case:
    cache = features.pop("cache_dtype", None)
    suffix = "".join(f", {k}" for k in features)
    return Case(
        "decode",
        f"B={batch} ctx={context}{suffix}",
        dtype,
        HEADS[heads],
        block,
        ((1, context),) * batch,
        features,
        cache,
    )


RAGGED = (37, 512, 133, 1024, 64, 700, 255, 1371)  # 4096 tokens together
CHUNK = ((512, 4096),)
MIXED = (*CHUNK, *((1, 2048),) * 8)


def all_cases(quick: bool) -> Iterator[Case]:
    """The tables of the native kernels' goals; `quick` keeps a few cells of each."""
    dtypes = [BF16, F32]
    shapes = ["32/8x128", "12/12x64"]
    for dtype, heads, block in itertools.product(dtypes, shapes, [32] if quick else [16, 32, 128]):
        for batch, context in itertools.product(
            [1, 8] if quick else [1, 8, 32], [512, 2048] if quick else [512, 2048, 8192]
        ):
            if batch * context <= 131072 or (block == 32 and heads == "32/8x128"):
                yield decode(dtype, heads, block, batch, context)
    for dtype, block in itertools.product(dtypes, [32] if quick else [16, 32, 128]):
        yield decode(dtype, "64/8x128", block, 8, 2048)
    for dtype, heads in itertools.product(dtypes, [*shapes, "64/8x128"]):
        for block in [32] if quick or heads == "64/8x128" else [16, 32, 128]:
            for n in [512, 2048] if quick else [512, 2048, 8192]:
                if n < 8192 or (block == 32 and heads == "32/8x128"):
                    yield Case("prefill", f"{n}", dtype, HEADS[heads], block, ((n, n),))
            yield Case("prefill", "ragged 8 requests", dtype, HEADS[heads], block, tuple((n, n) for n in RAGGED))
        yield Case("chunk", "512 over 4k", dtype, HEADS[heads], 32, CHUNK)
        yield Case("chunk", "512 over 4k + 8 decodes", dtype, HEADS[heads], 32, MIXED)
    h = HEADS["32/8x128"][0]
    special: list[dict[str, Any]] = [
        {"sliding_window": 256},
        {"logits_soft_cap": 30.0},
        {"alibi_slopes": torch.linspace(0.01, 0.5, h)},
        {"sinks": torch.linspace(-1, 1, h)},
    ]
    for dtype in dtypes:
        for features in special:
            yield Case(
                "features",
                f"decode B=8 ctx=8192 {next(iter(features))}",
                dtype,
                HEADS["32/8x128"],
                32,
                ((1, 8192),) * 8,
                features,
            )
            yield Case(
                "features",
                f"prefill 2048 {next(iter(features))}",
                dtype,
                HEADS["32/8x128"],
                32,
                ((2048, 2048),),
                features,
            )
    for cache in (None, torch.float8_e4m3fn, torch.float8_e5m2):
        yield Case("fp8", "decode B=8 ctx=8192", BF16, HEADS["32/8x128"], 32, ((1, 8192),) * 8, {}, cache)
    for dtype, h, context in itertools.product(dtypes, [32, 128], [8192] if quick else [8192, 32768]):
        yield Case("one KV head", f"decode ctx={context}", dtype, (h, 1, 128), 32, ((1, context),))
    for dtype, heads in itertools.product(dtypes, shapes):
        yield replace(decode(dtype, heads, 32, 1, 16), table="call", calls=300)
    for dtype, d in itertools.product(dtypes, [80, 96, 112, 256, 576]):
        yield Case("head sizes", "decode B=8 ctx=2048", dtype, (16, 4, d), 32, ((1, 2048),) * 8)
        yield Case("head sizes", "prefill 1024", dtype, (16, 4, d), 32, ((1024, 1024),))
