"""Requests for the suite: keys, values and queries of each, and the blocks it owns, shuffled."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from v1_compat.suite.reference import Layer, attention


@dataclass(frozen=True, slots=True)
class Request:
    """One request in one step: `new` tokens after `context` tokens whose keys an earlier step has stored."""

    context: int
    query: Tensor  # [new, H, D]
    key: Tensor  # [context + new, KH, D]
    value: Tensor  # [context + new, KH, D]
    blocks: Tensor  # int64 [n]

    @property
    def new(self) -> int:
        return self.query.shape[0]

    @property
    def length(self) -> int:
        return self.key.shape[0]

    @property
    def is_decode(self) -> bool:
        return self.context > 0 and self.new == 1

    def slots(self, block_size: int, first: int, last: int) -> Tensor:
        """int64: where tokens `first` to `last - 1` lie."""
        position = torch.arange(first, last)
        return self.blocks[position // block_size] * block_size + position % block_size

    def earlier(self) -> Request:
        """The step that stored the context."""
        query = torch.zeros((self.context, *self.query.shape[1:]), dtype=self.query.dtype)
        return Request(0, query, self.key[: self.context], self.value[: self.context], self.blocks)


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one step, prefills first, as V0 had them."""

    requests: tuple[Request, ...]
    num_blocks: int

    @classmethod
    def of(cls, layer: Layer, *lens: tuple[int, int], seed: int = 0) -> Batch:
        """`lens`: (context, new) of each request."""
        gen = torch.Generator().manual_seed(seed)
        needed = [-(-(context + new) // layer.block_size) for context, new in lens]
        num_blocks = sum(needed) + 2
        order, used, requests = torch.randperm(num_blocks, generator=gen), 0, []
        for (context, new), count in zip(lens, needed, strict=True):
            length, states = context + new, (layer.num_kv_heads, layer.head_size)
            key, value = (torch.randn(length, *states, generator=gen).to(layer.dtype) for _ in range(2))
            query = torch.randn(new, layer.num_heads, layer.head_size, generator=gen).to(layer.dtype)
            requests.append(Request(context, query, key, value, order[used : used + count]))
            used += count
        return cls(tuple(sorted(requests, key=lambda r: r.is_decode)), num_blocks)

    def earlier(self) -> Batch:
        """The step before: the contexts as prefills."""
        return Batch(tuple(r.earlier() for r in self.requests if r.context), self.num_blocks)

    def query(self) -> Tensor:
        return torch.cat([r.query for r in self.requests])

    def new_keys(self) -> tuple[Tensor, Tensor]:
        return torch.cat([r.key[r.context :] for r in self.requests]), torch.cat(
            [r.value[r.context :] for r in self.requests]
        )

    def expected(self, layer: Layer) -> Tensor:
        """float64 ``[T, H, D]``."""
        causal = layer.attn_type == "decoder"
        return torch.cat([attention(layer, r.query, r.key, r.value, causal=causal) for r in self.requests])
