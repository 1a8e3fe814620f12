"""The paged cache: allocate, write, read, copy and swap blocks."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from v1_cpu import ops
from v1_cpu import validate as check
from v1_cpu.layouts import FP8_DTYPES, check_interior, resolve_cache_dtype, split_kv
from v1_cpu.prepare import prepare_write
from v1_cpu.select import default_kernel

_HUGE_PAGE = 2 << 20
_SIZES = "v1_cpu_head_sizes"  # attribute of a cache's storage: (D, Dv), so that views of the cache know them too


def allocate_kv_cache(
    num_blocks: int,
    block_size: int,
    num_kv_heads: int,
    head_size: int,
    dtype: torch.dtype,
    *,
    head_size_v: int | None = None,
    kv_cache_dtype: str | torch.dtype = "auto",
    layout: str | None = None,
) -> Tensor:
    """One zeroed tensor ``[num_blocks, KH, block_size, D + Dv]``; block b owns ``kv_cache[b]``.

    Parameters
    ----------
    num_blocks, block_size, num_kv_heads, head_size, head_size_v
        Blocks, tokens of a block, KH, D, and Dv (default D).
    dtype
        The model's: float32, bfloat16 or float16.
    kv_cache_dtype
        "auto" (the model's dtype), "fp8" or "fp8_e4m3" (float8_e4m3fn), "fp8_e5m2".
    layout
        Of the interior of a block; None for that of `which()`, which is settled by the first allocation.
    """
    for name, value in (
        ("num_blocks", num_blocks),
        ("block_size", block_size),
        ("num_kv_heads", num_kv_heads),
        ("head_size", head_size),
    ):
        check.count(name, value, "a size", least=0 if name == "num_blocks" else 1)
    if head_size_v is None:
        head_size_v = head_size
    check.count("head_size_v", head_size_v, "a size")
    if dtype not in check.DTYPES:
        raise TypeError(f"dtype: {dtype}; must be float32, bfloat16 or float16, the model's")
    cache_dtype = resolve_cache_dtype(kv_cache_dtype, dtype)
    check_interior(layout or default_kernel().layout)
    kv_cache = torch.empty((num_blocks, num_kv_heads, block_size, head_size + head_size_v), dtype=cache_dtype)
    ask_for_huge_pages(kv_cache)
    kv_cache.zero_()
    setattr(kv_cache.untyped_storage(), _SIZES, (head_size, head_size_v))
    return kv_cache


def ask_for_huge_pages(kv_cache: Tensor) -> bool:
    """Ask the system for huge pages under a cache, best before it is first written; whether it took the request.

    Attention reads blocks from all over the cache: with pages of 4 KB it waits for their addresses, too, and hardware
    prefetchers stop at each page's end (a quarter to a third more bytes per second with 2 MB; docs/kernels.md).
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux has it
    if advice is None or not kv_cache.is_cpu:
        return False
    storage = kv_cache.untyped_storage()
    first = -(-storage.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    size = storage.data_ptr() + storage.nbytes() - first
    if size < _HUGE_PAGE:
        return False
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return bool(madvise(first, size, advice) == 0)


def write_kv_cache(
    key: Tensor,
    value: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    layout: str | None = None,
    kernel: str | None = None,
    validate: bool = True,
) -> None:
    """Store the keys and values of tokens in their slots.

    Parameters
    ----------
    key, value
        ``[T, KH, D]`` and ``[T, KH, Dv]``, one dtype, that of the cache unless it is float8.
    kv_cache
        ``[num_blocks, KH, block_size, D + Dv]``, changed in place.
    slot_mapping
        int64 ``[T]``: slot = block * block_size + offset; -1 skips the token, any other slot outside the cache is
        refused.
    k_scale, v_scale
        A float8 cache stores x / scale, rounded to nearest even, saturated.
    """
    if ops.traced(key):
        torch.ops.v1_cpu.write_kv_cache(key, value, kv_cache, slot_mapping, k_scale, v_scale, layout, kernel, validate)
        return
    chosen = prepare_write(key, value, kv_cache, slot_mapping, k_scale, v_scale, layout, kernel, validate)
    chosen.write_cache(key, value, kv_cache, slot_mapping, k_scale, v_scale)


def read_kv_cache(
    kv_cache: Tensor,
    block_table_row: Tensor,
    seq_len: int,
    *,
    k_scale: float = 1.0,
    v_scale: float = 1.0,
    layout: str | None = None,
    head_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Dense copies of the first `seq_len` keys ``[seq_len, KH, D]`` and values ``[seq_len, KH, Dv]`` of a request.

    Parameters
    ----------
    block_table_row
        int32 ``[n]``: the request's blocks, ``n * block_size >= seq_len``.
    k_scale, v_scale
        Multiply what a float8 cache holds; the copies are float32 then, else of the cache's dtype.
    head_size
        D. None: as allocated, or half the last dimension of a tensor that `allocate_kv_cache` did not make.
    """
    check.cache(kv_cache)
    check.scales(k_scale, v_scale, kv_cache.dtype)
    check.tensor("block_table_row", block_table_row, torch.int32, 1, "[n]", contiguous=False)
    check.count("seq_len", seq_len, "the tokens to read", least=0)
    check.lengths([seq_len], block_table_row[None], kv_cache.shape[2], kv_cache.shape[0])
    layout = default_kernel().layout if layout is None else layout
    check_interior(layout)
    positions = torch.arange(seq_len)
    blocks = block_table_row.long()[positions // kv_cache.shape[2]]
    offsets = positions % kv_cache.shape[2]
    states = split_kv(_bytes(kv_cache).detach(), _head_size(kv_cache, head_size), layout)
    key, value = (half[blocks, :, offsets].view(kv_cache.dtype) for half in states)
    if kv_cache.dtype in FP8_DTYPES:
        return key.float() * k_scale, value.float() * v_scale
    return key, value


def copy_blocks(kv_caches: Sequence[Tensor], block_mapping: Tensor) -> None:
    """Copy whole blocks inside each cache: int64 ``[n, 2]`` pairs of (source, destination).

    Every source is read before any destination is written; no two pairs may have one destination.
    """
    for index, kv_cache in enumerate(kv_caches):
        _blocks(f"kv_caches[{index}]", kv_cache)
        _pairs(block_mapping, kv_cache.shape[0], kv_cache.shape[0])
    for kv_cache in kv_caches:
        data = _bytes(kv_cache)
        default_kernel().copy_blocks(data, data, block_mapping)


def swap_blocks(source: Tensor, destination: Tensor, block_mapping: Tensor) -> None:
    """Copy whole blocks of one cache into another: int64 ``[n, 2]`` of (block of source, block of destination)."""
    _blocks("source", source)
    _blocks("destination", destination)
    if destination.dtype is not source.dtype:
        raise TypeError(f"destination: dtype {destination.dtype}; must be {source.dtype} like source")
    if destination.shape[1:] != source.shape[1:]:
        raise ValueError(
            f"destination: blocks of shape {tuple(destination.shape[1:])}; source has {tuple(source.shape[1:])}"
        )
    _pairs(block_mapping, source.shape[0], destination.shape[0])
    default_kernel().copy_blocks(_bytes(source), _bytes(destination), block_mapping)


def _head_size(kv_cache: Tensor, head_size: int | None) -> int:
    width = kv_cache.shape[3]
    if head_size is not None:
        check.count("head_size", head_size, "the head size of keys")
        if head_size >= width:
            raise ValueError(f"head_size: {head_size}; must be less than the cache's last dimension D + Dv = {width}")
        return head_size
    sizes = getattr(kv_cache.untyped_storage(), _SIZES, None)
    if sizes is not None and sum(sizes) == width:
        return int(sizes[0])
    if width % 2:
        raise ValueError(f"head_size: None; must be given, as D + Dv = {width} is not twice anything")
    return width // 2


def _blocks(name: str, kv_cache: Any) -> None:
    if not isinstance(kv_cache, Tensor):
        raise TypeError(f"{name}: {type(kv_cache).__name__}; must be a tensor [num_blocks, ...]")
    if kv_cache.dim() < 2:
        raise ValueError(f"{name}: shape {tuple(kv_cache.shape)}; must be [num_blocks, ...]")


def _pairs(block_mapping: Any, num_source: int, num_destination: int) -> None:
    check.tensor("block_mapping", block_mapping, torch.int64, 2, "[n, 2]", contiguous=False)
    if block_mapping.shape[1] != 2:
        raise ValueError(f"block_mapping: shape {tuple(block_mapping.shape)}; must be [n, 2] of (source, destination)")
    for column, limit, what in ((0, num_source, "source"), (1, num_destination, "destination")):
        for row, block in enumerate(block_mapping[:, column].tolist()):
            if not 0 <= block < limit:
                raise ValueError(
                    f"block_mapping[{row}, {column}] = {block}; must be a block of the {what}, 0 to {limit - 1}"
                )
    if block_mapping[:, 1].unique().numel() != block_mapping.shape[0]:
        raise ValueError("block_mapping: a destination occurs twice; each block can be written once")


def _bytes(kv_cache: Tensor) -> Tensor:
    """The same memory in a dtype that indexing knows."""
    return kv_cache.view(torch.uint8) if kv_cache.dtype in FP8_DTYPES else kv_cache
