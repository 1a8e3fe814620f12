"""Record what V0's compiled operations of latent attention answer: `python record_mla.py path/to/_C.abi3.so`.

The library is that of record.py. Its decode knows one size, a latent of 512 and a rope key of 64, and blocks of 16.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

BLOCK_SIZE, RANK, ROPE = 16, 512, 64
CASES = {
    # name: dtype, heads, lengths
    "float32": (torch.float32, 3, [1, 19]),
    "bfloat16": (torch.bfloat16, 16, [33, 5]),
    "float16": (torch.float16, 2, [16]),
}


def record(dtype: torch.dtype, heads: int, lens: list[int], seed: int) -> dict[str, Tensor]:
    """Write latents into shuffled blocks and decode the last token of each request."""
    gen = torch.Generator().manual_seed(seed)
    needed = [-(-n // BLOCK_SIZE) for n in lens]
    order = torch.randperm(sum(needed) + 1, generator=gen)
    table = torch.zeros(len(lens), max(needed), dtype=torch.int32)
    slots, used = [], 0
    for row, (length, count) in enumerate(zip(lens, needed, strict=True)):
        blocks = order[used : used + count]
        used += count
        table[row, :count] = blocks.int()
        position = torch.arange(length)
        slots.append(blocks[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
    slot_mapping = torch.cat([*slots, torch.tensor([-1])])  # a padding token, written nowhere
    tokens = len(slot_mapping)
    kv_c = torch.randn(tokens, RANK, generator=gen).to(dtype)
    k_pe = torch.randn(tokens, ROPE, generator=gen).to(dtype)
    kv_cache = torch.zeros(len(order), BLOCK_SIZE, RANK + ROPE, dtype=dtype)
    torch.ops._C_cache_ops.concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, "auto", torch.ones(()))
    query = torch.randn(len(lens), heads, RANK + ROPE, generator=gen).to(dtype)
    seq_lens = torch.tensor(lens, dtype=torch.int32)
    out = torch.zeros(len(lens), heads, RANK, dtype=dtype)
    torch.ops._C_cpu.mla_decode_kvcache(out, query, kv_cache, (RANK + ROPE) ** -0.5, table, seq_lens)
    return {
        "kv_c": kv_c,
        "k_pe": k_pe,
        "slot_mapping": slot_mapping,
        "kv_cache": kv_cache,
        "query": query,
        "block_tables": table,
        "seq_lens": seq_lens,
        "out": out,
    }


def stored(tensor: Tensor) -> np.ndarray:
    """numpy has no bfloat16: its bits."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype is torch.bfloat16 else tensor.numpy()


def main() -> None:
    torch.ops.load_library(sys.argv[1])
    folder = Path(__file__).parent / "mla"
    folder.mkdir(exist_ok=True)
    for seed, (name, case) in enumerate(CASES.items()):
        tensors = record(*case, seed)
        np.savez_compressed(folder / f"{name}.npz", **{k: stored(t) for k, t in tensors.items()})
        print(name, {k: tuple(t.shape) for k, t in tensors.items()})


if __name__ == "__main__":
    main()
