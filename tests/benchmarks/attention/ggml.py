"""ggml's CPU flash attention through its shared libraries, as a peer: keys and values dense, one node per request.

The libraries are those of the folder GGML_LIBRARY, else those that the package pywhispercpp carries. Of several builds
for processors in one folder (`libggml-cpu-*.so`, as node-llama-cpp carries) it is the one that ggml's loader would take.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from cases import Case, Tensors
from torch import Tensor

TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}
"""ggml's numbers of its types."""

Handle = ctypes.c_void_p
_SIZE, _INT, _FLOAT = ctypes.c_size_t, ctypes.c_int, ctypes.c_float
SIZES = [ctypes.c_int64] * 4


class InitParams(ctypes.Structure):
    _fields_ = (("mem_size", _SIZE), ("mem_buffer", Handle), ("no_alloc", ctypes.c_bool))


class Plan(ctypes.Structure):
    """ggml's plan of a graph's computation, with room for fields of later versions."""

    _fields_ = (("work_size", _SIZE), ("work_data", Handle), ("n_threads", _INT), ("rest", ctypes.c_uint64 * 32))


FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "ggml_version": (ctypes.c_char_p, []),
    "ggml_tensor_overhead": (_SIZE, []),
    "ggml_graph_overhead_custom": (_SIZE, [_SIZE, ctypes.c_bool]),
    "ggml_init": (Handle, [InitParams]),
    "ggml_free": (None, [Handle]),
    "ggml_new_tensor_4d": (Handle, [Handle, _INT, *SIZES]),
    "ggml_permute": (Handle, [Handle, Handle, *[_INT] * 4]),
    "ggml_backend_cpu_buffer_from_ptr": (Handle, [Handle, _SIZE]),
    "ggml_backend_buffer_free": (None, [Handle]),
    "ggml_backend_tensor_alloc": (_INT, [Handle, Handle, Handle]),
    "ggml_flash_attn_ext": (Handle, [*[Handle] * 5, *[_FLOAT] * 3]),
    "ggml_flash_attn_ext_set_prec": (None, [Handle, _INT]),
    "ggml_flash_attn_ext_add_sinks": (None, [Handle, Handle]),
    "ggml_new_graph_custom": (Handle, [Handle, _SIZE, ctypes.c_bool]),
    "ggml_build_forward_expand": (None, [Handle, Handle]),
    "ggml_threadpool_params_init": (None, [Handle, _INT]),
    "ggml_threadpool_new": (Handle, [Handle]),
    "ggml_threadpool_pause": (None, [Handle]),
    "ggml_graph_plan": (Plan, [Handle, _INT, Handle]),
    "ggml_graph_compute": (_INT, [Handle, ctypes.POINTER(Plan)]),
}
"""What is called: result and arguments."""

NODES = 8
"""More than the nodes and tensors that a request takes in a graph."""


def folder() -> Path:
    """Where the libraries are; raises `ImportError`."""
    if given := os.environ.get("GGML_LIBRARY"):
        return Path(given)
    spec = importlib.util.find_spec("pywhispercpp")
    if spec is None or spec.origin is None:
        raise ImportError("no libraries: set GGML_LIBRARY to their folder, or install pywhispercpp")
    return Path(spec.origin).parents[1] / "pywhispercpp.libs"


class Library:
    """ggml's functions, typed, and one pool of threads."""

    def __init__(self, threads: int) -> None:
        where = folder()
        builds, bases = sorted(where.glob("libggml-cpu*.so*")), sorted(where.glob("libggml-base*.so*"))
        if not builds or not bases:
            raise ImportError(f"no libggml-cpu*.so or no libggml-base*.so in {where}")
        base = ctypes.CDLL(str(bases[0]), mode=ctypes.RTLD_GLOBAL)  # before the builds, which ask for it
        self.cpu = ctypes.CDLL(str(max(builds, key=score)))
        self.threads = threads
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(self.cpu if hasattr(self.cpu, name) else base, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        params = ctypes.create_string_buffer(4096)  # a struct of some 530 bytes
        self.ggml_threadpool_params_init(params, threads)
        self.pool = self.ggml_threadpool_new(params)
        self.version = self.ggml_version().decode()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AttributeError(f"ggml's function {name} is not in FUNCTIONS")

    def instructions(self) -> str:
        """The widest instructions that the build was compiled for."""
        for name in ("avx512_bf16", "avx512", "avx2", "avx", "sve", "neon"):
            if hasattr(self.cpu, f"ggml_cpu_has_{name}") and getattr(self.cpu, f"ggml_cpu_has_{name}")():
                return name
        return "baseline"


def score(build: Path) -> int:
    """ggml's own rank of a build on this processor: 0 if it cannot run here, and 1 for a folder's only build."""
    library = ctypes.CDLL(str(build))
    return int(library.ggml_backend_score()) if hasattr(library, "ggml_backend_score") else 1


class Graphs:
    """The graphs of a case, one for each block table, and the memory that they stand on."""

    def __init__(self, library: Library, case: Case, copies: int) -> None:
        self.library, self.case, self.requests = library, case, len(case.requests)
        tensors, graph = library.ggml_tensor_overhead(), self.requests * NODES
        size = copies * (graph * tensors + library.ggml_graph_overhead_custom(graph, False) + 1024)
        self.context = library.ggml_init(InitParams(size, None, True))
        weakref.finalize(self, library.ggml_free, self.context)
        self.kept: list[Any] = []
        self.graphs: list[tuple[int, Plan]] = []

    def tensor(self, memory: Tensor, sizes: tuple[int, ...]) -> int:
        """A tensor of ggml over contiguous memory of torch; `sizes` are ggml's, the fastest first."""
        sizes = sizes + (1,) * (4 - len(sizes))
        made: int = self.library.ggml_new_tensor_4d(self.context, TYPES[memory.dtype], *sizes)
        self.place(made, memory)
        return made

    def place(self, tensor: int, memory: Tensor) -> None:
        address, size = memory.data_ptr(), memory.numel() * memory.element_size()
        start = address & -64  # a buffer's first address is aligned, a tensor's need not be
        buffer = self.library.ggml_backend_cpu_buffer_from_ptr(start, address - start + size)
        weakref.finalize(self, self.library.ggml_backend_buffer_free, buffer)
        if self.library.ggml_backend_tensor_alloc(buffer, tensor, address):
            raise RuntimeError("ggml refused the memory of a tensor")
        self.kept.append(memory)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, out: Tensor) -> int:
        """The node of one request: query and out ``[q, H, D]``, keys and values ``[KH, n, D]``, mask ``[q, n]``."""
        (q, h, d), (kh, n, _) = query.shape, key.shape
        rows = self.library.ggml_permute(self.context, self.tensor(query, (d, h, q)), 0, 2, 1, 3)
        k, v = (self.tensor(x, (d, n, kh)) for x in (key, value))
        m = None if mask is None else self.tensor(mask, (n, q))
        cap = self.case.features.get("logits_soft_cap", 0.0)
        node: int = self.library.ggml_flash_attn_ext(self.context, rows, k, v, m, d**-0.5, 0.0, cap)
        self.library.ggml_flash_attn_ext_set_prec(node, 10)  # GGML_PREC_F32
        if (sinks := self.case.features.get("sinks")) is not None:
            self.library.ggml_flash_attn_ext_add_sinks(node, self.tensor(sinks.float().contiguous(), (h,)))
        self.place(node, out)
        return node

    def add(self, nodes: list[int]) -> None:
        """Plan one graph of these nodes, with its memory for work."""
        graph = self.library.ggml_new_graph_custom(self.context, self.requests * NODES, False)
        for node in nodes:
            self.library.ggml_build_forward_expand(graph, node)
        plan = self.library.ggml_graph_plan(graph, self.library.threads, self.library.pool)
        work = torch.empty(plan.work_size + 64, dtype=torch.uint8)
        plan.work_data = work.data_ptr()
        self.kept.append(work)
        self.graphs.append((graph, plan))

    def compute(self, i: int) -> None:
        """Run graph i, then let the threads sleep: they would spin on into the next peer's time."""
        graph, plan = self.graphs[i % len(self.graphs)]
        if self.library.ggml_graph_compute(graph, plan):
            raise RuntimeError("ggml failed to compute the graph")
        self.library.ggml_threadpool_pause(self.library.pool)


def visible(queries: int, context: int, window: int) -> Tensor | None:
    """The mask ``[queries, context]`` of causality and the window, None if all is seen."""
    if queries == 1 and window >= context:
        return None
    last = torch.arange(context - queries, context)[:, None]
    seen, position = torch.zeros(queries, context, dtype=torch.float16), torch.arange(context)
    return seen.masked_fill_((position > last) | (position <= last - window), float("-inf"))


def graphs(library: Library, case: Case, data: Tensors, dtype: torch.dtype) -> tuple[Graphs, Tensor]:
    """The case on keys and values of `dtype`, and the float32 output ``[T, H, D]`` of all its graphs."""
    _, kh, d = case.heads
    found = Graphs(library, case, len(data.block_tables))
    query = data.query.float()
    out, flat = torch.empty_like(query), data.kv_cache.flatten()
    if dtype != flat.dtype:
        flat = flat.to(dtype)
    starts, used = data.query_start_loc.tolist(), 0
    window = case.features.get("sliding_window", 1 << 40)
    kept = [(q, case.visible(q, n)) for q, n in case.requests]  # a cache of the window keeps no more
    masks = {(q, n): visible(q, n, window) for q, n in dict.fromkeys(kept)}
    for _copy in data.block_tables:
        nodes = []
        for row, (q, n) in enumerate(kept):
            key, value = (flat[used + j * n * kh * d :][: n * kh * d].view(kh, n, d) for j in (0, 1))
            used += 2 * n * kh * d
            here = slice(starts[row], starts[row + 1])
            nodes.append(found.attend(query[here], key, value, masks[q, n], out[here]))
        found.add(nodes)
    return found, out
