"""The formula every backend is held to: dense attention in float64, one request and one head at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BOUNDS = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""The largest error allowed, as a part of the output vector's root mean square."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One attention layer: sizes, and what shapes its logits and mask."""

    num_heads: int = 4  # H
    num_kv_heads: int = 2  # KH
    head_size: int = 32  # D
    dtype: torch.dtype = torch.float32
    block_size: int = 16
    kv_cache_dtype: str = "auto"
    sliding_window: int | None = None
    alibi_slopes: tuple[float, ...] | None = None
    logits_soft_cap: float | None = None
    attn_type: str = "decoder"

    @property
    def scale(self) -> float:
        return 1.0 / math.sqrt(self.head_size)


def attention(layer: Layer, query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    """float64 ``[Q, H, D]`` of queries ``[Q, H, D]`` that stand at the end of keys and values ``[S, KH, D]``."""
    queries, keys = query.shape[0], key.shape[0]
    group = layer.num_heads // layer.num_kv_heads
    q_pos = torch.arange(queries)[:, None] + keys - queries
    k_pos = torch.arange(keys)[None, :]
    seen = torch.ones(queries, keys, dtype=torch.bool)
    if causal:
        seen &= k_pos <= q_pos
    if layer.sliding_window is not None:
        seen &= (q_pos - k_pos).abs() < layer.sliding_window
    out = torch.empty(query.shape, dtype=torch.float64)
    for head in range(layer.num_heads):
        k, v = key[:, head // group].double(), value[:, head // group].double()
        logits = query[:, head].double() @ k.T * layer.scale
        if layer.logits_soft_cap is not None:
            logits = layer.logits_soft_cap * torch.tanh(logits / layer.logits_soft_cap)
        if layer.alibi_slopes is not None:
            logits = logits + layer.alibi_slopes[head] * (k_pos - q_pos)
        out[:, head] = torch.softmax(logits.masked_fill(~seen, -torch.inf), dim=1) @ v
    return out


def assert_close(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    """`found` ``[T, H * D]`` or ``[T, H, D]`` is `wanted` ``[T, H, D]`` within the dtype's bound, row by row."""
    assert found.dtype is dtype, f"dtype {found.dtype}, must be {dtype}"
    assert found.numel() == wanted.numel(), f"shape {tuple(found.shape)}, must hold {tuple(wanted.shape)}"
    rows = found.reshape(wanted.shape).double()
    assert not bool(rows.isnan().any()), "NaN in the output"
    error = float(((rows - wanted).abs().amax(-1) / wanted.pow(2).mean(-1).sqrt()).max())
    assert error <= BOUNDS[dtype], f"error {error:.2e} of the output's rms, allowed {BOUNDS[dtype]:.0e}"
