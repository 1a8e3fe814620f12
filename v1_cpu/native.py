"""The compiled kernels: finding the library, choosing the instruction set, and the layout of its C structures.

The library is found beside this file. The instruction set is the best that this CPU runs, or `V1_CPU_ISA`. AMX is
taken only after its results agreed with the vector unit's on this machine.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from v1_cpu.kernels import KernelUnavailable

ABI_VERSION = 3
LIBRARY = Path(__file__).parent / "libv1_cpu.so"

TYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.float8_e4m3fn: 3, torch.float8_e5m2: 4}
"""The library's numbers for element types."""

CALL = struct.Struct("<13q25q4d40x")
"""`struct Call` of csrc/abi.h: 13 addresses, 25 integers, 4 numbers. What follows is zero, but in `EXPANDED_CALL`."""
EXPANDED_CALL = struct.Struct("<13q25q4d5q")
"""The same over latents of MLA that are expanded: after it one address and 4 integers."""
WRITE = struct.Struct("<5q15q2d")
"""`struct Write` of csrc/abi.h: 5 addresses, 15 integers, 2 numbers."""
_NO_BLOCKS = torch.zeros(1, dtype=torch.int32)
NO_BLOCKS = _NO_BLOCKS.data_ptr()
"""The address for a block_table without columns, whose own is 0: that would mean that keys are dense."""
BLOCK_COPY = struct.Struct("<8q")
"""`struct BlockCopy` of csrc/abi.h: 3 addresses, 5 integers."""


@dataclass(frozen=True, slots=True)
class Library:
    """The loaded library. Its functions take the bytes of a packed structure."""

    isa: str
    attend: Callable[[bytes], None]
    schedule: Callable[[bytes, int, int], int]
    write: Callable[[bytes], None]
    copy_blocks: Callable[[bytes], None]


def _open() -> ctypes.CDLL:
    if not LIBRARY.exists():
        raise KernelUnavailable(_missing())
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise KernelUnavailable(f"{LIBRARY.name} cannot be loaded: {error}") from error
    library.v1_abi_version.restype = ctypes.c_int64
    library.v1_abi_version.argtypes = ()
    if (version := library.v1_abi_version()) != ABI_VERSION:
        raise KernelUnavailable(
            f"{LIBRARY} is of another release (ABI {version}, wanted {ABI_VERSION}): install the package again"
        )
    for name, result, arguments in (
        ("v1_select", ctypes.c_char_p, (ctypes.c_char_p,)),
        ("v1_isa", ctypes.c_char_p, (ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))),
        ("v1_attend", None, (ctypes.c_char_p,)),
        ("v1_write", None, (ctypes.c_char_p,)),
        ("v1_copy_blocks", None, (ctypes.c_char_p,)),
        ("v1_schedule", ctypes.c_int64, (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _missing() -> str:
    """Why the library is not there: a folder of sources comes first on the path, or nothing was compiled."""
    said = f"{LIBRARY.name} is not in {LIBRARY.parent}, which v1_cpu is imported from"
    for entry in sys.path:
        other = Path(entry or ".").resolve() / "v1_cpu"
        if other != LIBRARY.parent.resolve() and (other / LIBRARY.name).exists():
            return f"{said}; it shadows the installed copy in {other}: start in another directory"
    return (
        f"{said}: the package was built without a C++ compiler, or this is a checkout that was not built. "
        "Install g++ or clang++ and run `pip install --force-reinstall --no-deps v1-migrate`"
    )


def instruction_sets() -> dict[str, bool]:
    """The instruction sets of this build, best first, each with whether this CPU runs it."""
    library, usable = _open(), ctypes.c_int64()
    sets: dict[str, bool] = {}
    while name := library.v1_isa(len(sets), ctypes.byref(usable)):
        sets[name.decode()] = bool(usable.value)
    return sets


@functools.cache
def load() -> Library:
    """The library with its instruction set chosen; raises `KernelUnavailable`; ValueError for a wrong V1_CPU_ISA."""
    library = _open()
    wanted = os.environ.get("V1_CPU_ISA", "").strip().lower()
    if wanted and not library.v1_select(wanted.encode()):
        known = ", ".join(name if runs else f"{name} (not on this CPU)" for name, runs in instruction_sets().items())
        raise ValueError(f"V1_CPU_ISA={wanted}: this build has {known}; unset it for the best of them")
    isa = wanted or library.v1_select(None).decode()
    if isa == "amx" and not wanted and not _amx_agrees(library):
        isa = "avx512"  # AMX is Intel's, whose dot products of bf16 are slower than multiply-adds
        library.v1_select(isa.encode())
    return library_of(library, isa)


def library_of(opened: ctypes.CDLL, isa: str) -> Library:
    """The functions of an opened library that has chosen `isa`."""
    return Library(isa, opened.v1_attend, opened.v1_schedule, opened.v1_write, opened.v1_copy_blocks)


def _amx_agrees(library: ctypes.CDLL) -> bool:
    """Whether prefills on AMX tiles give what the vector unit gives, within the rounding of their types."""
    bounds = {torch.bfloat16: 0.05, torch.float16: 5e-3, torch.float32: 1e-5}
    return all(_prefills_agree(library, dtype, bound) for dtype, bound in bounds.items())


def _prefills_agree(library: ctypes.CDLL, dtype: torch.dtype, bound: float) -> bool:
    tokens, heads, size = 80, 2, 72
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(tokens, heads, size, generator=generator).to(dtype) for _ in range(3))
    starts = torch.tensor([0, tokens], dtype=torch.int32)
    results = []
    for isa in (b"avx512", b"amx"):
        out = torch.full_like(q, float("nan"))
        row, head = q.stride(0), q.stride(1)
        addresses = (q, k, v, out, None, starts, starts, *[None] * 6)
        strides = (row, head, 0, head, row, 0, head, row, row, head, 0, 0, 0)
        sizes = (1, heads, heads, size, size, 0, TYPES[dtype], TYPES[dtype], 1, 0, 0, 1)
        call = CALL.pack(
            *(0 if x is None else x.data_ptr() for x in addresses), *strides, *sizes, size**-0.5, 0.0, 1.0, 1.0
        )
        if not library.v1_select(isa):
            return False
        library.v1_attend(call)
        results.append(out.float())
    return bool((results[0] - results[1]).abs().max() < bound)
