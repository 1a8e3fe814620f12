"""The cases catch wrong native kernels: each mutant of mutants.py must fail one of them.

A mutant that survives means that the cases are too weak. All mutants are in one library, built once.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import batches
import mutants
import pytest
import torch
from batches import BOUNDS, Batch, check, expected, lse_error, make_batch, worst_error
from reference import Rules
from test_mutants import CASES, LENS, rules
from torch import Tensor

import v1_cpu
from v1_cpu import native, select
from v1_cpu.kernels.native_kernel import _NativePagedAttention

GROWING = {"keys that weigh more and more": 40, "keys that weigh far more and more": 1000}
WRITTEN = ("fp8 e4m3", "fp8 e5m2 past its range", "fp8 e4m3 past its range")
NATIVE_CASES: dict[str, tuple[dict[str, Any], Rules]] = CASES | {
    "two tiles and more of queries and keys": ({"lens": [(130, 200), (1, 150)]}, rules()),
    "head sizes that fill no vector": ({"head_size": 36, "head_size_v": 20}, rules()),
    "one request, its keys divided": ({"lens": [(2, 150)]}, rules()),
    "chunks seen whole": ({"lens": [(10, 90), (40, 40)]}, rules(attention_chunk_size=24, causal=False)),
    **dict.fromkeys(GROWING, ({"lens": [(1, 120), (40, 120)]}, rules())),
    "fp8 e4m3 past its range": ({"kv_cache_dtype": "fp8_e4m3", "k_scale": 1e-4}, rules()),
}


@pytest.fixture(scope="module")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("mutants") / "libv1_cpu.so"
    mutants.build(target, {"amx"})
    return target


@pytest.fixture
def two_threads(one_thread: None) -> None:
    """So that work is divided; the fixture of all tests puts the number back."""
    torch.set_num_threads(2)


@pytest.fixture
def mutant(library: Path, monkeypatch: pytest.MonkeyPatch, two_threads: None) -> Iterator[Any]:
    """A function that makes the kernel of an instruction set, with a mutant's number, the one that is called."""
    monkeypatch.setattr(native, "LIBRARY", library)
    opened = native._open()
    number = ctypes.c_int.in_dll(opened, "v1_mutant")

    def choose(isa: str, which: int) -> None:
        isa = isa.split()[0]
        if not opened.v1_select(isa.encode()):
            pytest.skip(f"this CPU has no {isa}")
        loaded = native.library_of(opened, isa)
        monkeypatch.setattr(native, "load", lambda: loaded)
        kernel = _NativePagedAttention()
        get_kernel = select.get_kernel
        monkeypatch.setattr(select, "get_kernel", lambda name: get_kernel(name) if name == "torch" else kernel)
        select.serving.cache_clear()
        number.value = which

    yield choose
    number.value = 0
    select.serving.cache_clear()


@functools.cache
def batch_of(name: str, dtype: torch.dtype) -> tuple[Batch, tuple[Tensor, Tensor]]:
    """The case's batch, written by the torch kernel, and what is expected of it: made once for all mutants."""
    sizes, rule = NATIVE_CASES[name]
    batch = make_batch(**{"lens": LENS, "kernel": "torch", "dtype": dtype} | sizes)
    if name in GROWING:
        grow(batch, GROWING[name])
    return batch, expected(batch, rule)


def grow(batch: Batch, most: float) -> None:
    """Later keys weigh more: the maximum rises tile by tile, and what came before has to be rescaled."""
    query = batch.query.view(-1, 2, 2, batch.query.shape[2])
    for row, key in enumerate(batch.keys):
        key += query.mean(dim=(0, 2))[None] * torch.linspace(0, most, key.shape[0])[:, None, None].to(key.dtype)
        rewrite(batch, row)


def rewrite(batch: Batch, row: int) -> None:
    """Write a request's keys and values again, with the kernel of `select.get_kernel`."""
    positions, size = torch.arange(batch.keys[row].shape[0]), batch.kv_cache.shape[2]
    slots = batch.block_table[row][positions // size].long() * size + positions % size
    dtype = batch.query.dtype
    key, value = batch.keys[row].to(dtype), batch.values[row].to(dtype)
    scales = {"k_scale": batch.k_scale, "v_scale": batch.v_scale}
    v1_cpu.write_kv_cache(key, value, batch.kv_cache, slots, **scales, kernel="torch")


def check_varlen(dtype: torch.dtype) -> None:
    """The plain case on dense keys and values."""
    batch, (wanted, wanted_lse) = batch_of("plain", dtype)
    out, lse = v1_cpu.varlen_attention(
        batch.query,
        torch.cat(batch.keys),
        torch.cat(batch.values),
        query_start_loc=batch.query_start_loc,
        kv_start_loc=torch.tensor([0, *(n for _, n in LENS)]).cumsum(0).int(),
        causal=True,
        scale=NATIVE_CASES["plain"][1].scale,
        return_lse=True,
        kernel="native",
    )
    assert worst_error(out, wanted) <= BOUNDS[dtype]
    assert lse_error(lse, wanted_lse) <= 1e-3


def check_write(name: str, dtype: torch.dtype) -> None:
    """The kernel writes what the torch kernel wrote, bit for bit."""
    sizes = {"lens": [(40, 40)], "dtype": dtype} | NATIVE_CASES[name][0]
    ours, theirs = (make_batch(**sizes, kernel=kernel, poison=False).kv_cache for kernel in ("native", "torch"))
    assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def check_copy(_: torch.dtype) -> None:
    """Blocks of several pieces arrive where their pairs say."""
    cache = torch.arange(6.0 * 30000).view(6, 1, 30000, 1).clone()
    wanted = cache.clone()
    wanted[[5, 2]] = cache[[0, 3]]
    select.get_kernel("native").copy_blocks(cache, cache, torch.tensor([[0, 5], [3, 2]]))
    assert torch.equal(cache, wanted)


def failed(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The cases that the kernel fails, one by one."""
    cases = {f"write: {name}": functools.partial(check_write, name) for name in ("plain", *WRITTEN)}
    for name in NATIVE_CASES:
        cases[name] = functools.partial(check_case, name, monkeypatch)
    for name, case in (cases | {"dense": check_varlen, "blocks": check_copy}).items():
        try:
            case(dtype)
        except (AssertionError, RuntimeError):
            yield name


def check_case(name: str, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    batch, wanted = batch_of(name, dtype)
    monkeypatch.setattr(batches, "expected", lambda *_: wanted)
    check(batch, NATIVE_CASES[name][1], "native")


DTYPES = {"generic": torch.float32, "amx": torch.bfloat16, mutants.IN_PARTS: torch.float32}


@pytest.mark.parametrize("isa", DTYPES)
def test_the_kernel_itself_fails_nothing(isa: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(isa, 0)
    assert list(failed(DTYPES[isa], monkeypatch)) == []


@pytest.mark.parametrize(
    ("isa", "number"), [pytest.param(isa, number, id=name) for name, isa, number in mutants.names()]
)
def test_a_wrong_kernel_is_caught(isa: str, number: int, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(isa, number)
    assert next(failed(DTYPES[isa], monkeypatch), None), "this mutant computes wrongly and no case noticed"
