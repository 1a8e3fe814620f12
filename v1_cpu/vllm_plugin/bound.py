"""A layer bound to its cache and to the native kernel: what its first calls have checked is packed once.

vLLM calls each layer twice in each step, with the same cache and with tensors of the same kind. The first calls go the
long way, through `v1_cpu.attention` and `v1_cpu.cache`, which check everything. Then the layer is bound: what it is
(`BoundLayer`) and what the batch is (`BoundBatch`, for all layers of one kind) stand ready in the order of the
library's structures, and a call adds the addresses and strides of its own tensors.
"""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from v1_cpu import native
from v1_cpu.backend import TorchSDPABackendImpl, TorchSDPAMetadata
from v1_cpu.kernels import Batch, KernelConfig
from v1_cpu.kernels.native_kernel import _NativePagedAttention
from v1_cpu.layouts import FP8_DTYPES

UNSCALED = (1.0, 1.0)
"""The scales of a cache of the model's own dtype."""


class BoundBatch:
    """One batch for layers of one kind: the parts of `struct Call` that are the batch's."""

    __slots__ = ("causal", "kept", "requests", "schedule", "table_row", "tensors", "threads")

    def __init__(self, kernel: _NativePagedAttention, config: KernelConfig, window: int, of: TorchSDPAMetadata) -> None:
        starts, lens, table = of.start_locations(), of.key_lengths(), of.all_blocks(config.block_size)
        self.causal = of.causal is not False
        self.threads = torch.get_num_threads()
        batch = Batch(
            config=config,
            query_start_loc=starts,
            seq_lens=lens,
            num_tokens=of.num_actual_tokens,
            max_query_len=of.max_query_len or 0,
            max_seq_len=of.max_kv_len or 0,
            causal=self.causal,
            sliding_window=window,
            attention_chunk_size=0,
            num_threads=self.threads,
        )
        schedule = kernel.schedule(batch)
        self.kept = (starts, lens, table, schedule)  # their addresses are used
        self.tensors = (starts.data_ptr(), lens.data_ptr(), table.data_ptr() or native.NO_BLOCKS)
        self.table_row = table.stride(0)
        self.requests = lens.shape[0]
        self.schedule = 0 if schedule is None else schedule.data_ptr()


class BoundLayer:
    """One layer: the parts of `struct Call` and `struct Write` that are its own.

    Parameters
    ----------
    impl, kernel
        The layer and the kernel that serves it.
    kv_cache, typed
        The cache as vLLM hands it over, and the same memory in the dtype of what it holds.
    dtype
        The model's.
    """

    __slots__ = (
        "_addresses",
        "_bias",
        "_config",
        "_kernel",
        "_key",
        "_library",
        "_options",
        "_sizes",
        "_slopes",
        "_strides",
        "_write_sizes",
        "cache",
        "dtype",
        "scaled",
    )

    def __init__(
        self,
        impl: TorchSDPABackendImpl,
        kernel: _NativePagedAttention,
        kv_cache: Tensor,
        typed: Tensor,
        dtype: torch.dtype,
    ) -> None:
        _, heads, block_size, width = typed.shape
        block, head, row, _ = typed.stride()
        head_size = impl.head_size
        self.cache = weakref.ref(kv_cache)
        self.dtype = dtype
        self.scaled = typed.dtype in FP8_DTYPES
        self._kernel = kernel
        self._library = native.load()
        self._config = KernelConfig(dtype, typed.dtype, impl.num_heads, heads, head_size, width - head_size, block_size)
        self._slopes = impl.alibi_slopes  # kept: its address is used
        window = impl.sliding_window or 0
        self._key = (self._config, window)
        first = typed.data_ptr()
        self._addresses = (first, first + head_size * typed.element_size())
        self._bias = 0 if self._slopes is None else self._slopes.data_ptr()
        self._strides = (block, head, row)
        types = (native.TYPES[dtype], native.TYPES[typed.dtype])
        self._sizes = (impl.num_heads, heads, head_size, width - head_size, block_size, *types)
        self._write_sizes = (heads, head_size, width - head_size, block_size, *types)
        self._options = (window, impl.attention_chunk_size or 0, impl.scale, impl.logits_soft_cap or 0.0)

    def attend(
        self, query: Tensor, metadata: TorchSDPAMetadata, out: Tensor, sinks: Tensor | None, scales: tuple[float, float]
    ) -> bool:
        """Attention over the cache into `out`; False, and nothing done, where the tensors are of another kind.

        query and out: ``[T, H, D]``, ``[T, H, Dv]``; sinks: contiguous float32 ``[H]``; scales: those of the cache.
        """
        strides, out_strides = query.stride(), out.stride()
        if len(strides) != 3 or len(out_strides) != 3 or strides[2] != 1 or out_strides[2] != 1:
            return False
        if query.dtype is not self.dtype or out.dtype is not self.dtype:
            return False
        batch = metadata.bound.get(self._key)
        if batch is None:
            if isinstance(metadata.causal, Tensor) or metadata.tree_mask is not None:
                return False
            batch = metadata.bound[self._key] = BoundBatch(self._kernel, self._config, self._key[1], metadata)
        keys, values = self._addresses
        window, chunk, scale, soft_cap = self._options
        self._library.attend(
            native.CALL.pack(
                query.data_ptr(),
                keys,
                values,
                out.data_ptr(),
                0,
                *batch.tensors,
                self._bias,
                0 if sinks is None else sinks.data_ptr(),
                0,
                0,
                batch.schedule,
                strides[0],
                strides[1],
                *self._strides,
                *self._strides,
                out_strides[0],
                out_strides[1],
                0,
                batch.table_row,
                0,
                batch.requests,
                *self._sizes,
                batch.causal,
                window,
                chunk,
                batch.threads,
                scale,
                soft_cap,
                *scales,
            )
        )
        return True

    def write(self, key: Tensor, value: Tensor, slots: Tensor, scales: tuple[float, float]) -> bool:
        """Store ``[T, KH, D]`` and ``[T, KH, Dv]``, or fewer where there are fewer slots; False as `attend`."""
        strides, value_strides = key.stride(), value.stride()
        if len(strides) != 3 or len(value_strides) != 3 or strides[2] != 1 or value_strides[2] != 1:
            return False
        if key.dtype is not self.dtype or value.dtype is not self.dtype or slots.dtype is not torch.int64:
            return False
        if not slots.is_contiguous():
            return False
        self._library.write(
            native.WRITE.pack(
                key.data_ptr(),
                value.data_ptr(),
                *self._addresses,
                slots.data_ptr(),
                strides[0],
                strides[1],
                value_strides[0],
                value_strides[1],
                *self._strides,
                min(key.shape[0], slots.shape[0]),
                *self._write_sizes,
                torch.get_num_threads(),
                *scales,
            )
        )
        return True
