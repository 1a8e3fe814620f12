"""The machine's limits: reading the blocks of a case, and peak multiply-add rates (limits.cpp)."""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import torch
from cases import Case, Tensors
from peers import Peer, Run


@functools.cache
def library() -> ctypes.CDLL:
    target = Path(tempfile.mkdtemp()) / "limits.so"
    flags = ["-O3", "-fPIC", "-shared", "-fopenmp", "-mavx512f", "-mavx512bw", "-mavx512dq"]
    subprocess.run(["g++", *flags, str(Path(__file__).with_name("limits.cpp")), "-o", str(target)], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.multiply_add_rate.restype = ctypes.c_double
    loaded.multiply_add_rate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_double]
    loaded.read_blocks.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_int]
    return loaded


KINDS = {"fma": 0, "dpbf16": 1, "amx": 2}
"""Multiply-add instructions, by the number that limits.cpp gives them."""


def multiply_add_rate(kind: str, millions: float = 2.0) -> float:
    """Operations per second of all threads with float32 FMA, bf16 dot products or bf16 AMX tiles; 0 if absent."""
    rate: float = library().multiply_add_rate(KINDS[kind], torch.get_num_threads(), millions)
    return rate


def fastest(dtype: torch.dtype, tiles: bool = True) -> str:
    """The kind of instruction with the highest rate here that can multiply numbers of this type, tiles or not."""
    kinds = [kind for kind in KINDS if tiles or kind != "amx"] if dtype is torch.bfloat16 else ["fma"]
    return max(kinds, key=lambda kind: max(multiply_add_rate(kind) for _ in range(3)))


class Read(Peer):
    """Plain vector reads of the blocks that the case's requests see."""

    name = "read"

    def prepare(self, case: Case, data: Tensors) -> Run:
        size = data.kv_cache[0].numel() * data.kv_cache.element_size()
        lists = []
        for table in data.block_tables:
            rows = []
            for row, (q, n) in enumerate(case.requests):
                first = (n - case.visible(q, n)) // case.block_size
                rows.append(table[row, first : -(-n // case.block_size)])
            lists.append(torch.cat(rows).contiguous())
        threads = torch.get_num_threads()

        def run(i: int) -> int:
            blocks = lists[i % len(lists)]
            return library().read_blocks(
                data.kv_cache.data_ptr(), blocks.data_ptr(), blocks.numel(), size, size, threads
            )

        return run
