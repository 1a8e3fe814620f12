"""Caches of other engines and releases to ours, and back: for tools that exchange caches, and for caches saved to disk.

Every layout is unpacked to plain keys and values and packed from them. NB blocks, KH heads, BS tokens of a block, D
and Dv.

======== ================================================ ======================================================
layout   tensor                                           inside a block and head
======== ================================================ ======================================================
row      ``[NB, KH, BS, D + Dv]``                         a token's key, then its value (this package)
v0       ``[2, NB, BS * KH * D]`` (0.8.5 to 0.11.0)       key ``[D // x, BS, x]``, x = 16 bytes; value ``[D, BS]``
v0-ipex  ``[2, NB, BS * KH * D]`` (the same, with IPEX)   key and value ``[BS, D]``
0.11.2   ``[2, NB, KH, BS, D]`` (0.11.2 to 0.16.0)        key ``[D, BS]``, whatever its shape says; value ``[BS, D]``
0.32.0   ``[NB, KH, BS, 2 * D]``                          first half key ``[D, BS]``, second half value ``[BS, D]``
======== ================================================ ======================================================

The last two are what vLLM's vector kernels (`vec`, `vec16`) write; its AMX, NEON and RVV kernels pack otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from v1_cpu.kernels import ROW_LAYOUT
from v1_cpu.layouts import split_kv

LAYOUTS = (ROW_LAYOUT, "v0", "v0-ipex", "0.11.2", "0.32.0")


def convert_kv_cache(
    kv_cache: Tensor,
    *,
    source: str,
    target: str = ROW_LAYOUT,
    num_kv_heads: int | None = None,
    head_size: int | None = None,
) -> Tensor:
    """A copy of `kv_cache` in another layout; see `unpack_kv_cache` for the arguments."""
    keys, values = unpack_kv_cache(kv_cache, source, num_kv_heads=num_kv_heads, head_size=head_size)
    return pack_kv_cache(keys, values, target)


def unpack_kv_cache(
    kv_cache: Tensor, layout: str, *, num_kv_heads: int | None = None, head_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Keys ``[NB, KH, BS, D]`` and values ``[NB, KH, BS, Dv]``, views where the layout allows it.

    Parameters
    ----------
    kv_cache
        The tensor that the layout's table entry says.
    layout
        One of `LAYOUTS`.
    num_kv_heads, head_size
        KH and D: needed for "v0" and "v0-ipex", whose shape does not say them, and D for "row" where Dv differs from D.
    """
    _known(layout)
    rank = {"v0": 3, "v0-ipex": 3, "0.11.2": 5}.get(layout, 4)
    if kv_cache.dim() != rank or (rank != 4 and kv_cache.shape[0] != 2):
        raise ValueError(f"kv_cache: shape {tuple(kv_cache.shape)}; is not of layout {layout!r} ({_SHAPES[layout]})")
    if layout == ROW_LAYOUT:
        return split_kv(kv_cache, _half(kv_cache) if head_size is None else head_size)
    if layout in ("v0", "v0-ipex"):
        return _unpack_flat(kv_cache, layout, num_kv_heads, head_size)
    if layout == "0.11.2":
        keys, values = kv_cache.unbind(0)
        return _turn(keys), values
    num_blocks, heads, block_size, _ = kv_cache.shape
    size = _half(kv_cache)
    halves = kv_cache.reshape(num_blocks, heads, 2, block_size * size)
    keys = halves[:, :, 0].reshape(num_blocks, heads, block_size, size)
    return _turn(keys), halves[:, :, 1].reshape(num_blocks, heads, block_size, size)


def unpack_v0(key_cache: Tensor, value_cache: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the two views of a V0 cache: ``[NB, KH, D // x, BS, x]`` and ``[NB, KH, D, BS]``."""
    if key_cache.dim() != 5 or value_cache.dim() != 4:
        raise ValueError(
            f"key_cache, value_cache: shapes {tuple(key_cache.shape)}, {tuple(value_cache.shape)}; "
            "must be [NB, KH, D // x, BS, x] and [NB, KH, D, BS]"
        )
    num_blocks, heads, chunks, block_size, x = key_cache.shape
    keys = key_cache.permute(0, 1, 3, 2, 4).reshape(num_blocks, heads, block_size, chunks * x)
    return keys, value_cache.transpose(2, 3)


def pack_kv_cache(keys: Tensor, values: Tensor, layout: str) -> Tensor:
    """A new cache of `layout` from keys ``[NB, KH, BS, D]`` and values ``[NB, KH, BS, Dv]``."""
    _known(layout)
    if layout == ROW_LAYOUT:
        return torch.cat([_plain(keys), _plain(values)], dim=-1).view(keys.dtype)
    if keys.shape != values.shape:
        raise ValueError(f"values: shape {tuple(values.shape)}; layout {layout!r} needs Dv = D, {tuple(keys.shape)}")
    num_blocks, heads, block_size, size = keys.shape
    keys, values, dtype = _plain(keys), _plain(values), keys.dtype
    if layout == "v0":
        x = _chunk(keys, size)
        keys = keys.view(num_blocks, heads, block_size, size // x, x).permute(0, 1, 3, 2, 4)
        values = values.transpose(2, 3)
    elif layout in ("0.11.2", "0.32.0"):
        keys = keys.transpose(2, 3)
    flat = [half.reshape(num_blocks, heads, -1) for half in (keys, values)]
    if layout == "0.32.0":
        return torch.stack(flat, dim=2).view(num_blocks, heads, block_size, 2 * size).view(dtype)
    stacked = torch.stack(flat)
    shape = (2, num_blocks, heads, block_size, size) if layout == "0.11.2" else (2, num_blocks, -1)
    return stacked.view(shape).view(dtype)


_SHAPES = {
    ROW_LAYOUT: "[NB, KH, BS, D + Dv]",
    "v0": "[2, NB, BS * KH * D]",
    "v0-ipex": "[2, NB, BS * KH * D]",
    "0.11.2": "[2, NB, KH, BS, D]",
    "0.32.0": "[NB, KH, BS, 2 * D]",
}


def _unpack_flat(kv_cache: Tensor, layout: str, heads: int | None, size: int | None) -> tuple[Tensor, Tensor]:
    if heads is None or size is None:
        raise ValueError(f"num_kv_heads, head_size: {heads}, {size}; layout {layout!r} does not say them, give both")
    if kv_cache.shape[2] % (heads * size):
        raise ValueError(
            f"kv_cache: blocks of {kv_cache.shape[2]} elements; must be a multiple of KH * D = {heads * size}"
        )
    num_blocks, block_size = kv_cache.shape[1], kv_cache.shape[2] // (heads * size)
    keys, values = kv_cache.unbind(0)
    if layout == "v0-ipex":
        shape = (num_blocks, heads, block_size, size)
        return keys.view(shape), values.view(shape)
    x = _chunk(kv_cache, size)
    return unpack_v0(
        keys.view(num_blocks, heads, size // x, block_size, x), values.view(num_blocks, heads, size, block_size)
    )


def _turn(keys: Tensor) -> Tensor:
    """Keys whose blocks hold ``[D, BS]`` under the shape ``[BS, D]``."""
    num_blocks, heads, block_size, size = keys.shape
    return keys.reshape(num_blocks, heads, size, block_size).transpose(2, 3)


def _plain(states: Tensor) -> Tensor:
    """Contiguous, and in a dtype that every torch operation knows: float8 as its bytes."""
    states = states.contiguous()
    return states.view(torch.uint8) if states.element_size() == 1 else states


def _chunk(cache: Tensor, size: int) -> int:
    x = 16 // cache.element_size()
    if size % x:
        raise ValueError(f"head_size: {size}; layout 'v0' packs keys in chunks of {x}, it must be a multiple of it")
    return x


def _half(kv_cache: Tensor) -> int:
    if kv_cache.shape[3] % 2:
        raise ValueError(f"kv_cache: shape {tuple(kv_cache.shape)}; last dimension is not 2 * D, give head_size")
    return kv_cache.shape[3] // 2


def _known(layout: str) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"layout: {layout!r}; must be one of {', '.join(map(repr, LAYOUTS))}")
