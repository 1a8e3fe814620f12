"""The kernels of the absorbed form: multi-query attention whose values are the first R of its keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from v1_cpu import native
from v1_cpu.kernels import ROW_LAYOUT
from v1_cpu.kernels import torch_kernel as blocks
from v1_cpu.layouts import token_rows
from v1_cpu.select import default_kernel, serving

_pack_call, _TYPES, _get_num_threads = native.CALL.pack, native.TYPES, torch.get_num_threads

Absorbed = Callable[..., None]
"""(query, kv_cache, query_start_loc, seq_lens, block_table, out, lse, scale, causal, kv_scale, schedule)"""


def serving_mla(
    name: str | None,
    dtype: torch.dtype,
    cache_dtype: torch.dtype,
    num_heads: int,
    kv_lora_rank: int,
    rope_head_dim: int,
    block_size: int,
) -> str:
    """ "native" or "torch": what serves such a call. A default that reads another layout leaves it to torch.

    Raises NotImplementedError where the kernel asked for by name reads no latent cache.
    """
    if name is None and default_kernel().layout != ROW_LAYOUT:
        name = "torch"
    width = kv_lora_rank + rope_head_dim
    chosen = serving(name, dtype, cache_dtype, num_heads, 1, width, kv_lora_rank, block_size)
    if chosen.layout != ROW_LAYOUT:
        raise NotImplementedError(f"kernel={name!r} reads no latent cache; kernel='torch' always does")
    return chosen.name


def absorbed_torch(
    query: Tensor,  # [T, H, R + P]
    kv_cache: Tensor,  # [num_blocks, block_size, R + P]
    query_start_loc: Tensor,  # int32 [B + 1]
    seq_lens: Tensor,  # int32 [B]
    block_table: Tensor,  # int32 [B, max_blocks]
    out: Tensor,  # [T, H, R]
    lse: Tensor | None,  # float32 [H, T]
    scale: float,
    causal: bool | Tensor,
    kv_scale: float,
    schedule: Tensor | None,
) -> None:
    """In plain torch operations: the tiles of the torch kernel, each latent fetched once for keys and values."""
    block_size, width = kv_cache.shape[1:]
    rank = out.shape[2]
    cache = kv_cache[:, None]

    def fetch(tile: blocks.Tile, positions: Tensor) -> tuple[Tensor, Tensor]:
        used = positions < tile.kv_lens[:, None]  # the table says nothing of the rest
        columns = positions.div(block_size, rounding_mode="floor") * used
        numbers = block_table[tile.requests[:, None], columns].long() * used
        keys, _ = token_rows(cache, numbers, positions.remainder(block_size), width, torch.float32)
        return keys, keys[..., :rank]

    masks = blocks.Masks(blocks._per_request(causal, seq_lens), 0, 0, None, None, 0.0)
    for tile in blocks._tiles(query_start_loc, seq_lens, masks, query.shape[1], width):
        blocks._attend(tile, fetch, query, 1, masks, scale * kv_scale, kv_scale, None, out, lse)


def absorbed_native(
    query: Tensor,
    kv_cache: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scale: float,
    causal: bool | Tensor,
    kv_scale: float,
    schedule: Tensor | None,
) -> None:
    """In C++: `key` and `value` of the call are one address, which its kernels for latents look for (csrc/mla.h)."""
    # A short decode takes no longer than this function: every question to a tensor counts, so each is asked once.
    _, num_heads, head_size = query.shape
    query_token, query_head, _ = query.stride()
    out_token, out_head, _ = out.stride()
    block, row, _ = kv_cache.stride()
    cache, per_request = kv_cache.data_ptr(), isinstance(causal, Tensor)
    native.load().attend(
        _pack_call(
            query.data_ptr(),
            cache,
            cache,
            out.data_ptr(),
            0 if lse is None else lse.data_ptr(),
            query_start_loc.data_ptr(),
            seq_lens.data_ptr(),
            block_table.data_ptr() or native.NO_BLOCKS,
            0,
            0,
            0,
            causal.data_ptr() if per_request else 0,  # type: ignore[union-attr]
            0 if schedule is None else schedule.data_ptr(),
            query_token,
            query_head,
            block,
            0,
            row,
            block,
            0,
            row,
            out_token,
            out_head,
            0 if lse is None else lse.stride(0),
            block_table.stride(0),
            0,
            seq_lens.shape[0],
            num_heads,
            1,
            head_size,
            out.shape[2],
            kv_cache.shape[1],
            _TYPES[query.dtype],
            _TYPES[kv_cache.dtype],
            1 if per_request else causal,
            0,
            0,
            _get_num_threads(),
            scale,
            0.0,
            kv_scale,
            kv_scale,
        )
    )


def expanded_native(
    query: Tensor,  # [T, H, N + P]
    latents: Tensor,  # [S, R + P], of the query's dtype
    kv_up: Tensor,  # [H, N + V, R]
    query_start_loc: Tensor,  # int32 [B + 1]
    kv_start_loc: Tensor,  # int32 [B + 1]
    out: Tensor,  # [T, H, V]
    lse: Tensor | None,  # float32 [H, T]
    scale: float,
    causal: bool | Tensor,
) -> None:
    """Ordinary attention in C++ whose keys and values are made from the latents (csrc/mla_expand.h)."""
    kv_up = kv_up if kv_up.stride(2) == 1 else kv_up.contiguous()
    rank, heads, width = kv_up.shape[2], query.shape[1], query.shape[2]
    nope = width - (latents.shape[1] - rank)
    addresses = (
        query.data_ptr(),
        latents.data_ptr(),
        latents.data_ptr(),
        out.data_ptr(),
        0 if lse is None else lse.data_ptr(),
        query_start_loc.data_ptr(),
        kv_start_loc.data_ptr(),
        *(0, 0, 0, 0),
        causal.data_ptr() if isinstance(causal, Tensor) else 0,
        0,
    )
    strides = (
        *query.stride()[:2],
        *(0, 0, latents.stride(0)),
        *(0, 0, latents.stride(0)),
        *out.stride()[:2],
        *(0 if lse is None else lse.stride(0), 0, 0),
    )
    sizes = (kv_start_loc.shape[0] - 1, heads, heads, width, out.shape[2], 0)
    types = (native.TYPES[query.dtype], native.TYPES[latents.dtype])
    rules = (1 if isinstance(causal, Tensor) else causal, 0, 0, torch.get_num_threads())
    up = (kv_up.data_ptr(), *kv_up.stride()[:2], rank, nope)
    native.load().attend(
        native.EXPANDED_CALL.pack(*addresses, *strides, *sizes, *types, *rules, scale, 0.0, 1.0, 1.0, *up)
    )


ABSORBED: dict[str, Absorbed] = {"native": absorbed_native, "torch": absorbed_torch}
