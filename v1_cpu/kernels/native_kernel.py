"""The native kernel: our C++, called with raw addresses."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from v1_cpu import native
from v1_cpu.kernels import ROW_LAYOUT, Batch, Kernel, KernelConfig

_pack_write, _pack_call = native.WRITE.pack, native.CALL.pack
_TYPES, _get_num_threads = native.TYPES, torch.get_num_threads


def _read_and_written(source: Tensor, destination: Tensor, pairs: Tensor) -> bool:
    """Whether a block may be one pair's source and another's destination."""
    if source.untyped_storage().data_ptr() != destination.untyped_storage().data_ptr():
        return False
    return source.data_ptr() != destination.data_ptr() or bool(torch.isin(pairs[:, 1], pairs[:, 0]).any())


class _NativePagedAttention(Kernel):
    """Paged attention in C++. Raises `KernelUnavailable` where the library is missing or does not load."""

    name: ClassVar[str] = "native"
    layout: ClassVar[str] = ROW_LAYOUT

    def __init__(self) -> None:
        self._library = native.load()

    @property
    def isa(self) -> str:
        return self._library.isa

    def unsupported(self, config: KernelConfig) -> str | None:
        for what, dtype in (("dtype", config.dtype), ("cache_dtype", config.cache_dtype)):
            if dtype not in native.TYPES:
                return f"{what} {dtype}: the native kernel has {', '.join(str(known) for known in native.TYPES)}"
        return None

    def write_cache(
        self, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, k_scale: float, v_scale: float
    ) -> None:
        # A step writes one token: every question to a tensor counts, so each is asked once.
        num_tokens, num_kv_heads, head_size = key.shape
        _, _, block_size, width = kv_cache.shape
        key_token, key_head, _ = key.stride()
        value_token, value_head, _ = value.stride()
        block, head, row, _ = kv_cache.stride()
        cache, dtype = kv_cache.data_ptr(), kv_cache.dtype
        self._library.write(
            _pack_write(
                key.data_ptr(),
                value.data_ptr(),
                cache,
                cache + head_size * dtype.itemsize,
                slot_mapping.data_ptr(),
                key_token,
                key_head,
                value_token,
                value_head,
                block,
                head,
                row,
                num_tokens,
                num_kv_heads,
                head_size,
                width - head_size,
                block_size,
                _TYPES[key.dtype],
                _TYPES[dtype],
                _get_num_threads(),
                k_scale,
                v_scale,
            )
        )

    def copy_blocks(self, source: Tensor, destination: Tensor, pairs: Tensor) -> None:
        blocks = (source[:1], destination[:1])
        plain = pairs.numel() and all(block.is_cpu and block.is_contiguous() for block in blocks)
        if not plain or _read_and_written(source, destination, pairs):
            super().copy_blocks(source, destination, pairs)
            return
        pairs = pairs.contiguous()
        self._library.copy_blocks(
            native.BLOCK_COPY.pack(
                source.data_ptr(),
                destination.data_ptr(),
                pairs.data_ptr(),
                source.stride(0) * source.element_size(),
                destination.stride(0) * destination.element_size(),
                blocks[0].numel() * source.element_size(),
                pairs.shape[0],
                torch.get_num_threads(),
            )
        )

    def schedule(self, batch: Batch) -> Tensor | None:
        config, causal = batch.config, batch.causal
        if not config.block_size:
            return None
        requests = batch.seq_lens.shape[0]
        if isinstance(causal, Tensor):
            causal = bool(causal.any())
        call = native.CALL.pack(
            *(0, 0, 0, 0, 0, batch.query_start_loc.data_ptr(), batch.seq_lens.data_ptr()),
            *(batch.seq_lens.data_ptr(), 0, 0, 0, 0, 0),  # any table: only its presence counts
            *(0,) * 13,
            *(requests, config.num_heads, config.num_kv_heads, config.head_size, config.head_size_v, config.block_size),
            *(native.TYPES[config.dtype], native.TYPES[config.cache_dtype]),
            *(causal, batch.sliding_window, batch.attention_chunk_size, batch.num_threads),
            *(1.0, 0.0, 1.0, 1.0),
        )
        room = torch.empty(64 + 16 * requests * config.num_kv_heads, dtype=torch.int64)
        size = self._library.schedule(call, room.data_ptr(), room.numel())
        if size > room.numel():
            room = torch.empty(size, dtype=torch.int64)
            self._library.schedule(call, room.data_ptr(), size)
        return room[:size]

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
        _, num_kv_heads, block_size, width = kv_cache.shape
        block, head, row, _ = kv_cache.stride()
        _, num_heads, head_size = query.shape
        query_token, query_head, _ = query.stride()
        out_token, out_head, _ = out.stride()
        cache, dtype = kv_cache.data_ptr(), kv_cache.dtype
        per_request = isinstance(causal, Tensor)
        self._library.attend(
            _pack_call(
                query.data_ptr(),
                cache,
                cache + head_size * dtype.itemsize,
                out.data_ptr(),
                0 if lse is None else lse.data_ptr(),
                query_start_loc.data_ptr(),
                seq_lens.data_ptr(),
                block_table.data_ptr() or native.NO_BLOCKS,
                0 if alibi_slopes is None else alibi_slopes.data_ptr(),
                0 if sinks is None else sinks.data_ptr(),
                0 if tree_mask is None else tree_mask.data_ptr(),
                causal.data_ptr() if per_request else 0,  # type: ignore[union-attr]
                0 if schedule is None else schedule.data_ptr(),
                query_token,
                query_head,
                block,
                head,
                row,
                block,
                head,
                row,
                out_token,
                out_head,
                0 if lse is None else lse.stride(0),
                block_table.stride(0),
                0 if tree_mask is None else tree_mask.stride(0),
                seq_lens.shape[0],
                num_heads,
                num_kv_heads,
                head_size,
                width - head_size,
                block_size,
                _TYPES[query.dtype],
                _TYPES[dtype],
                1 if per_request else causal,
                sliding_window,
                attention_chunk_size,
                _get_num_threads(),
                scale,
                logits_soft_cap,
                k_scale,
                v_scale,
            )
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
        per_request = isinstance(causal, Tensor)
        self._library.attend(
            native.CALL.pack(
                query.data_ptr(),
                key.data_ptr(),
                value.data_ptr(),
                out.data_ptr(),
                0 if lse is None else lse.data_ptr(),
                query_start_loc.data_ptr(),
                kv_start_loc.data_ptr(),
                0,
                0 if alibi_slopes is None else alibi_slopes.data_ptr(),
                0 if sinks is None else sinks.data_ptr(),
                0,
                causal.data_ptr() if per_request else 0,  # type: ignore[union-attr]
                0,
                query.stride(0),
                query.stride(1),
                0,
                key.stride(1),
                key.stride(0),
                0,
                value.stride(1),
                value.stride(0),
                out.stride(0),
                out.stride(1),
                0 if lse is None else lse.stride(0),
                0,
                0,
                kv_start_loc.shape[0] - 1,
                query.shape[1],
                key.shape[1],
                query.shape[2],
                value.shape[2],
                0,
                native.TYPES[query.dtype],
                native.TYPES[key.dtype],
                1 if per_request else causal,
                sliding_window,
                0,
                torch.get_num_threads(),
                scale,
                logits_soft_cap,
                1.0,
                1.0,
            )
        )
