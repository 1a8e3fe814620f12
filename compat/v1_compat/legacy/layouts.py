"""V0's paged caches: read blocks of them into a cache that V1's kernels read, and write tokens into them.

NB blocks of BS tokens, KH KV heads, head size D. V0 handed a layer one tensor ``[2, NB, BS * KH * D]`` and cut it into

- ``key_cache [NB, KH, D // x, BS, x]`` with x = 16 bytes, and ``value_cache [NB, KH, D, BS]`` (`PACKED`), or
- ``key_cache`` and ``value_cache [NB, KH, BS, D]`` where Intel Extension for PyTorch was installed (`PLAIN`).

V1's kernels read neither, so `gather` copies the blocks that a batch uses, and no others. Writes go straight into the
caller's memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from v1_cpu.kernels.torch_kernel import quantize
from v1_cpu.layouts import FP8_DTYPES, KV_CACHE_DTYPES

PACKED = "[NB, KH, D // x, BS, x] and [NB, KH, D, BS]"
PLAIN = "[NB, KH, BS, D] and [NB, KH, BS, D]"
_OF_V1 = (
    "A cache of v1_cpu, [NB, KH, BS, D + Dv], is no such: convert it with v1_cpu.convert_kv_cache(cache, source='row', "
    "target='v0', head_size=D), or call v1_cpu.paged_attention, write_kv_cache and copy_blocks on it as it is"
)
_COPIED_AT_ONCE = 1 << 19  # bytes of keys, and of values: what is read once more stays in a core's cache


@dataclass(frozen=True, slots=True)
class SplitCache:
    """The two tensors of a V0 cache, looked at together."""

    key: Tensor
    value: Tensor
    packed: bool  # else plain
    num_blocks: int
    num_kv_heads: int
    block_size: int
    head_size: int

    @classmethod
    def of(cls, key_cache: Tensor, value_cache: Tensor, kv_cache_dtype: str, dtype: torch.dtype) -> SplitCache:
        """Look at a caller's caches for queries, or keys, of `dtype`.

        Raises
        ------
        ValueError
            The shapes are neither of V0's two layouts.
        TypeError
            The caches hold neither `dtype` nor the float8 that `kv_cache_dtype` says.
        """
        for name, cache in (("key_cache", key_cache), ("value_cache", value_cache)):
            if not isinstance(cache, Tensor):
                raise TypeError(f"{name}: {type(cache).__name__}; must be a tensor, {PACKED}, or {PLAIN}")
        key, value = (
            typed(name, cache, kv_cache_dtype, dtype)
            for name, cache in (("key_cache", key_cache), ("value_cache", value_cache))
        )
        if key.dtype is not value.dtype:
            raise TypeError(f"value_cache: dtype {value.dtype}; must be {key.dtype} like key_cache")
        shape, packed, fits = tuple(key.shape), key.dim() == 5, False
        if packed:
            num_blocks, heads, chunks, block_size, x = shape
            head_size = chunks * x
            fits = value.shape == (num_blocks, heads, head_size, block_size)
        elif key.dim() == 4:
            num_blocks, heads, block_size, head_size = shape
            fits = value.shape == key.shape and key_cache is not value_cache  # one tensor is V1's, with both inside
        if not fits:
            raise ValueError(
                f"key_cache, value_cache: shapes {shape} and {tuple(value.shape)}; must be {PACKED} "
                f"(x = 16 bytes), or {PLAIN}: split_kv_cache makes them from the layer's kv_cache, "
                f"[2, NB, BS * KH * D]. {_OF_V1}"
            )
        return cls(key, value, packed, num_blocks, heads, block_size, head_size)

    def gather(self, seq_lens: Tensor, block_tables: Tensor, *, shared: bool = True) -> tuple[Tensor, Tensor]:
        """A V1 cache ``[n, KH, BS, 2 * D]`` of the blocks in use, and the block table ``[B, max_blocks]`` into it.

        Costs one copy of the keys and values that the batch attends to, and their memory until it is done.

        Parameters
        ----------
        seq_lens
            int32 ``[B]``: keys of each request.
        block_tables
            int32 ``[B, max_blocks]``; entries past a request's last block may be anything.
        shared
            A block in two tables is copied once; False: once for each, so that the copies may be written to.
        """
        wanted = -(-seq_lens.long() // self.block_size)
        columns = block_tables.shape[1] if block_tables.dim() == 2 else 0
        if wanted.numel() and int(wanted.max()) > columns:
            row = int(wanted.argmax())
            raise ValueError(
                f"seq_lens[{row}] = {int(seq_lens[row])}; block_tables has {columns} blocks of {self.block_size} "
                f"tokens a request, room for {columns * self.block_size}"
            )
        used = torch.arange(columns) < wanted[:, None]
        blocks = block_tables.reshape(used.shape)[used].long()
        if blocks.numel() and (int(blocks.min()) < 0 or int(blocks.max()) >= self.num_blocks):
            bad = next(b for b in blocks.tolist() if not 0 <= b < self.num_blocks)
            raise ValueError(f"block_tables: {bad}; must be a block of the cache, 0 to {self.num_blocks - 1}")
        places = torch.arange(blocks.numel())
        if shared:
            blocks, places = blocks.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        table = torch.zeros(used.shape, dtype=torch.int32)
        table[used] = places.int()
        return self._copy(blocks), table

    def write(self, key: Tensor, value: Tensor, slot_mapping: Tensor, k_scale: float, v_scale: float) -> None:
        """Store keys and values ``[T, KH, D]`` at int64 ``[T]`` slots; negative slots are skipped."""
        slots = slot_mapping.flatten().long()
        for name, states in (("key", key), ("value", value)):
            if states.dim() != 3 or states.shape != (slots.numel(), self.num_kv_heads, self.head_size):
                raise ValueError(
                    f"{name}: shape {tuple(states.shape)}; must be [T, KH, D], here "
                    f"{(slots.numel(), self.num_kv_heads, self.head_size)} for {slots.numel()} slots"
                )
        if slots.numel() and int(slots.max()) >= self.num_blocks * self.block_size:
            raise ValueError(
                f"slot_mapping: {int(slots.max())}; must be negative (skip) or less than "
                f"{self.num_blocks * self.block_size}, the slots of the cache"
            )
        kept = slots >= 0
        if not bool(kept.all()):
            key, value, slots = key[kept], value[kept], slots[kept]
        blocks = slots.div(self.block_size, rounding_mode="floor")
        offsets = slots % self.block_size
        keys, values = self._stored(key, k_scale), self._stored(value, v_scale)
        key_cache, value_cache = _bytes(self.key), _bytes(self.value)
        if self.packed:
            key_cache[blocks, :, :, offsets, :] = keys.reshape(*keys.shape[:2], *self.key.shape[2:5:2])
            value_cache[blocks, :, :, offsets] = values
        else:
            key_cache[blocks, :, offsets] = keys
            value_cache[blocks, :, offsets] = values

    def _copy(self, blocks: Tensor) -> Tensor:
        """The blocks in V1's layout, a token's key beside its value."""
        size, keys, values = self.head_size, _bytes(self.key), _bytes(self.value)
        kv_cache = torch.empty((blocks.numel(), self.num_kv_heads, self.block_size, 2 * size), dtype=self.key.dtype)
        new_keys, new_values = _bytes(kv_cache)[..., :size], _bytes(kv_cache)[..., size:]
        if self.packed:
            new_keys = new_keys.unflatten(3, keys.shape[2:5:2])  # type: ignore[no-untyped-call]
            if _in_runs(keys) and _in_runs(new_keys):  # move 16 bytes at a time
                keys, new_keys = keys.view(torch.complex128), new_keys.view(torch.complex128)
        step = max(1, _COPIED_AT_ONCE // max(1, self.key[:1].nbytes))
        for first in range(0, blocks.numel(), step):
            part = slice(first, first + step)
            some_keys, some_values = keys.index_select(0, blocks[part]), values.index_select(0, blocks[part])
            if self.packed:
                some_keys, some_values = some_keys.permute(0, 1, 3, 2, 4), some_values.transpose(2, 3)
            new_keys[part] = some_keys
            new_values[part] = some_values
        return kv_cache

    def _stored(self, states: Tensor, scale: float) -> Tensor:
        if self.key.dtype in FP8_DTYPES:
            return quantize(states.detach(), scale, self.key.dtype).view(torch.uint8)
        return states.detach()


def halves(name: str, kv_cache: Tensor, num_kv_heads: int = 1, head_size: int = 1) -> tuple[Tensor, Tensor]:
    """The keys' and the values' part ``[NB, BS * KH * D]`` of a V0 cache. Raises ValueError for another layout."""
    shape = tuple(kv_cache.shape)
    if kv_cache.dim() != 3 or shape[0] != 2 or shape[2] % (num_kv_heads * head_size):
        heads = f", here with KH = {num_kv_heads}, D = {head_size}" if head_size > 1 else ""
        raise ValueError(f"{name}: shape {shape}; must be V0's [2, NB, BS * KH * D]{heads}. {_OF_V1}")
    return kv_cache[0], kv_cache[1]


def chunk(cache: Tensor, head_size: int) -> int:
    """x of a packed key cache: the elements in 16 bytes."""
    x = 16 // cache.element_size()
    if head_size % x:
        raise ValueError(
            f"head_size: {head_size}; V0 packs keys of {cache.dtype} in runs of {x}, it must be a multiple of {x}"
        )
    return x


def block_pairs(block_mapping: object) -> Tensor:
    """int64 ``[n, 2]`` of (source, destination), from that or from the dict of vLLM before 0.4."""
    if isinstance(block_mapping, dict):
        pairs = [(a, b) for a, many in block_mapping.items() for b in (many if isinstance(many, list) else [many])]
        return torch.tensor(pairs, dtype=torch.int64).view(-1, 2)
    if isinstance(block_mapping, Tensor) and not block_mapping.is_floating_point():
        return block_mapping.long()
    if isinstance(block_mapping, Tensor) and block_mapping.numel() == 0:
        return torch.zeros((0, 2), dtype=torch.int64)
    raise TypeError(f"block_mapping: {block_mapping!r}; must be an int64 tensor [n, 2] of (source, destination)")


def typed(name: str, cache: Tensor, kv_cache_dtype: str, dtype: torch.dtype) -> Tensor:
    """The cache as what it holds. A float8 tensor says so itself; uint8 is read as `kv_cache_dtype` says."""
    if cache.dtype is dtype:
        return cache
    if kv_cache_dtype not in KV_CACHE_DTYPES:
        raise ValueError(f"kv_cache_dtype: {kv_cache_dtype!r}; must be one of {', '.join(KV_CACHE_DTYPES)}")
    named = KV_CACHE_DTYPES[kv_cache_dtype]
    if cache.dtype is torch.uint8 and named in FP8_DTYPES:
        return cache.view(named)
    # V0 stored "fp8" as e5m2 when IPEX was there and as e4m3 elsewhere: what the tensor holds decides.
    if cache.dtype in FP8_DTYPES and (kv_cache_dtype == "fp8" or named is cache.dtype):
        return cache
    raise TypeError(
        f"{name}: dtype {cache.dtype}; with kv_cache_dtype={kv_cache_dtype!r} it must hold "
        f"{named if named in FP8_DTYPES else dtype}; nothing is converted silently"
    )


def _in_runs(keys: Tensor) -> bool:
    """Whether the last dimension is runs of 16 bytes that lie at multiples of 16 bytes."""
    run = 16 // keys.element_size()
    starts = (*keys.stride()[:-1], keys.storage_offset())
    return keys.shape[-1] == run and keys.stride(-1) == 1 and not any(start % run for start in starts)


def _bytes(cache: Tensor) -> Tensor:
    """The same memory in a dtype that indexing knows."""
    return cache.view(torch.uint8) if cache.dtype in FP8_DTYPES else cache
