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
    loaded.read_blocks.argtypes = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_int]
    return loaded


def peaks() -> dict[str, float]:
    """Operations per second with all threads: float32 FMA, bf16 dot products, bf16 AMX tiles (0: none)."""
    threads = torch.get_num_threads()
    return {
        name: max(library().multiply_add_rate(kind, threads) for _ in range(3))
        for kind, name in enumerate(("fma", "dpbf16", "amx"))
    }


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
