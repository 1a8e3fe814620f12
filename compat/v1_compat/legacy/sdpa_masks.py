"""Masks as V0 made them, and attention under masks that a caller has set. V1's kernels make their own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def attend_masked(
    output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_lens: list[int],
    key_lens: list[int],
    masks: list[Tensor],
    scale: float,
) -> None:
    """Attention of each request under its mask, into `output` ``[T, H, D]``: V1's kernels take no mask, torch does."""
    first, first_key = 0, 0
    for query_len, key_len, mask in zip(query_lens, key_lens, masks, strict=True):
        q = query[first : first + query_len].transpose(0, 1)
        k, v = (x[first_key : first_key + key_len].transpose(0, 1) for x in (key, value))
        rows = scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, scale=scale, enable_gqa=True)
        output[first : first + query_len] = rows[0].transpose(0, 1)
        first, first_key = first + query_len, first_key + key_len


def _make_alibi_bias(alibi_slopes: Tensor, dtype: torch.dtype, seq_lens: list[int]) -> list[Tensor]:
    """Causal ALiBi masks ``[1, H, S, S]``, one a request."""
    masks = []
    for length in seq_lens:
        position = torch.arange(length, dtype=dtype)
        bias = alibi_slopes[:, None, None] * (position[None, :] - position[:, None])
        future = torch.full((length, length), -torch.inf).triu(1)
        masks.append((bias + future)[None].to(dtype))
    return masks


def _make_sliding_window_bias(seq_lens: list[int], window_size: int | None, dtype: torch.dtype) -> list[Tensor]:
    """Causal masks ``[1, S, S]`` that let a query see `window_size` keys, one a request."""
    masks = []
    for length in seq_lens:
        position = torch.arange(length)
        distance = position[:, None] - position[None, :]
        seen = (distance >= 0) & (distance < (length if window_size is None else window_size))
        masks.append(torch.zeros((1, length, length), dtype=dtype).masked_fill_(~seen, -torch.inf))
    return masks
