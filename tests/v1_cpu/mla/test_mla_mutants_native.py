"""Wrong native kernels for latents are caught: faults of their four files, all in one library with small tiles.

Each is one text of the sources replaced by a wrong one, behind a number that the process sets; some case must notice.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from latents import LatentBatch, compare, dense, make
from torch import Tensor

from v1_cpu import mla, native, select
from v1_cpu.kernels.native_kernel import _NativePagedAttention

NATIVE = Path(__file__).parents[1] / "native"


def shared(name: str) -> ModuleType:
    """A module of the native kernels' tests."""
    sys.path.insert(0, str(NATIVE))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(NATIVE))


builds, mutants = shared("builds"), shared("mutants")
Site = mutants.Site
SMALL_TILES = [
    ("mla.h", "int64_t LATENT_ROWS = 128;", "int64_t LATENT_ROWS = 32;"),
    ("mla.h", "int64_t LATENT_FEW = 48;", "int64_t LATENT_FEW = 12;"),
    ("amx_mla.h", "int64_t LATENT_TILE = 128;", "int64_t LATENT_TILE = 64;"),
    *(change for change in mutants.SMALL_TILES if change[0] in ("schedule.cpp", "packed.h")),
]
SITES = [
    Site(
        "mla.h",
        "larger(row_keys[i].end - key, 0)",
        {"a query sees the next key": "larger(row_keys[i].end - key + 1, 0)"},
    ),
    Site(
        "mla.h",
        "vfma(vload(sum + row), rescale, total)",
        {"running sum not rescaled": "vadd(vload(sum + row), total)"},
    ),
    Site(
        "mla.h",
        "vmul(vset(alpha[r]), vload(o + r * o_stride + column + i * W))",
        {"output not rescaled": "vload(o + r * o_stride + column + i * W)"},
    ),
    Site("mla.h", "weights[j * stride + r]", {"weights of the first row for all": "weights[j * stride]"}),
    Site(
        "mla.h",
        "sums[j][i] = vfma(x, line[i], sums[j][i]);",
        {
            "scores of the last elements alone": "sums[j][i] = vmul(x, line[i]);",
            "scores of the first vector for all": "sums[j][i] = vfma(x, line[0], sums[j][i]);",
        },
    ),
    Site("mla.h", "vquads(sums[j])", {"scores of the first key for all": "vquads(sums[0])"}),
    Site("mla.h", "row / W * W * d", {"queries of all vectors in one place": "0"}),
    Site("mla.h", "row % 4 * W", {"queries of four rows in one place": "0"}),
    Site("mla.h", "row % W / 4 * 4", {"queries of all groups of lanes in one place": "0"}, "amx"),
    Site(
        "mla.h",
        "copied ? round_up(call.head_size, 2 * W) : call.head_size",
        {"elements that fill no vector left out": "call.head_size / W * W"},
    ),
    Site("mla.h", "keys_of(c, r, from + row / group)", {"all queries see what the first sees": "keys_of(c, r, from)"}),
    Site("mla.h", "smaller(k.end, item.key_end)", {"keys of the next part, too": "k.end"}),
    Site("mla.h", "larger(k.begin, item.key_begin)", {"keys of the part before, too": "k.begin"}),
    Site(
        "mla.h",
        "load_query(c, r.token + from + row / group, row % group, line);",
        {"query of the first head for all": "load_query(c, r.token + from + row / group, 0, line);"},
    ),
    Site(
        "mla.h",
        "exchange(rows_of, next_rows);",
        {"rows of another tile": "if (key == 0) exchange(rows_of, next_rows);"},
    ),
    Site(
        "mla.h",
        "part.partial_row += (from - item.query_begin) * group;",
        {"all queries leave their part in one place": "part.partial_row += 0;"},
    ),
    Site("mla.h", "Order<T>::paired", {"order of widened elements forgotten": "false"}),
    Site(
        "words_mla.h",
        "vdot(sums[j][p][i], (Words)line[i], (Words)vset(word))",
        {
            "scores of the first vector for all (words)": "vdot(sums[j][p][i], (Words)line[0], (Words)vset(word))",
            "scores of the last words alone": "vdot(vzero(), (Words)line[i], (Words)vset(word))",
        },
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "sum = vadd(sum, sums[j][p][i]);",
        {"scores of every other word": "(void)0;"},
        "avx512_bf16",
    ),
    Site("words_mla.h", "key[j] + 2 * (k + p)", {"the first word of a key for all": "key[j] + 2 * p"}, "avx512_bf16"),
    Site(
        "words_mla.h",
        "vmul(vset(alpha[r]), vload(o + r * o_stride + i * W))",
        {"output not rescaled (words)": "vload(o + r * o_stride + i * W)"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "weights[k * stride + r]",
        {"weights of the first row (words)": "weights[k * stride]"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "row % group * c.query_head",
        {"query of the first head for all (words)": "0 * c.query_head"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "first * words",
        {"queries of all vectors in one place (words)": "0 * words"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "call.head_size % (2 * W)",
        {"keys that fill no vector read as they lie": "0"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "(V)zip_words(a, b)",
        {"weights of two keys exchanged (words)": "(V)zip_words(b, a)"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "j + 1 < n ? vexp2_coarse(vfma(vload(s + (j + 1) * stride), factor, minus_base)) : vzero()",
        {"a weight past the end": "vexp2_coarse(vfma(vload(s + (j + 1) * stride), factor, minus_base))"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "load_words(keys[j + 1] + i)",
        {"values of the key before (words)": "load_words(keys[j] + i)"},
        "avx512_bf16",
    ),
    Site(
        "words_mla.h",
        "Pack<T, PairWords>::output(row, n);",
        {"columns left in the packed order (words)": "(void)0;"},
        "avx512_bf16",
    ),
    Site(
        "mla_expand.h",
        "(const T*)c.up + head * c.up_head",
        {"up-projection of the first head for all": "(const T*)c.up"},
    ),
    Site(
        "mla_expand.h",
        "smaller(column + i, c.nope + c.head_size_v - 1)",
        {"up-projection of the next row": "smaller(column + i + 1, c.nope + c.head_size_v - 1)"},
    ),
    Site("mla_expand.h", "request.kv_start * call.key_token", {"latents of the first request for all": "0"}),
    Site("mla_expand.h", "latents + first * c.key_token", {"latents of the first keys for all": "latents"}),
    Site(
        "mla_expand.h",
        "latents + (begin + j + i) * c.key_token + c.rank",
        {"rope key of the first key for all": "latents + c.rank"},
    ),
    Site(
        "mla_expand.h",
        "made + (j + i) * shape.made * 4",
        {"rows of all blocks in one place": "made + i * shape.made * 4"},
    ),
    Site("mla_expand.h", "products + i * shape.stride + c.nope", {"keys for values": "products + i * shape.stride"}),
    Site("mla_expand.h", "to_element_order<T>(to, stride);", {"order of widened latents forgotten": "(void)0;"}),
    Site(
        "amx_mla.h",
        "larger(k.end - key, 0)",
        {"a query sees the next key (tiles)": "larger(k.end - key + 1, 0)"},
        "amx",
    ),
    Site(
        "amx_mla.h",
        "vfma(vload(sum + g * 16), rescale, total)",
        {"running sum not rescaled (tiles)": "vadd(vload(sum + g * 16), total)"},
        "amx",
    ),
    Site("amx_mla.h", "!first && alpha[i] != 1.0f", {"output not rescaled (tiles)": "false"}, "amx"),
    Site(
        "amx_mla.h",
        "row % group * c.query_head",
        {"query of the first head for all (tiles)": "0 * c.query_head"},
        "amx",
    ),
    Site(
        "amx_mla.h",
        "keys_of(c, r, from + row / group)",
        {"all queries see what the first sees (tiles)": "keys_of(c, r, from)"},
        "amx",
    ),
    Site("amx_mla.h", "first + 16 <= n", {"what is past the end read as it lies (tiles)": "first < n"}, "amx"),
    Site(
        "amx_mla.h",
        "smaller(row_keys[row].end, item.key_end)",
        {"keys of the next part, too (tiles)": "row_keys[row].end"},
        "amx",
    ),
    Site(
        "amx_mla.h", "words(row + stride[g] / 2, left)", {"values of the key before (tiles)": "words(row, left)"}, "amx"
    ),
    Site("amx_mla.h", "pack_words(a, b)", {"weights of two keys exchanged (tiles)": "pack_words(b, a)"}, "amx"),
    Site("amx_mla.h", "unzip_columns(a, b);", {"columns left in the packed order (tiles)": "(void)0;"}, "amx"),
    Site(
        "amx_mla.h",
        "part.partial_row += (from - item.query_begin) * group;",
        {"all queries leave their part in one place (tiles)": "part.partial_row += 0;"},
        "amx",
    ),
]
NAMES = [(name, site.isa, number) for number, (site, name) in enumerate(((s, n) for s in SITES for n in s.wrong), 1)]
LENS = [(1, 250), (6, 200), (3, 20), (40, 60), (1, 5)]
CASES: dict[str, dict[str, Any]] = {
    "sixteen heads": {"heads": 16, "rank": 64, "rope": 32},
    "forty heads, elements that fill no step": {"heads": 40, "rank": 40, "rope": 10},
    "twelve heads": {"heads": 12, "rank": 64, "rope": 32},
    "ten heads, elements that fill no vector": {"heads": 10, "rank": 40, "rope": 9},
    "twelve heads, a rope that fills no vector": {"heads": 12, "rank": 64, "rope": 9},
    "later keys weigh more": {"heads": 16, "rank": 64, "rope": 32, "seed": 1},
}
DTYPES = {
    "generic": (torch.float32, torch.bfloat16),
    "avx512_bf16": (torch.bfloat16,),
    "amx": (torch.bfloat16, torch.float32),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hook = builds.build_hook()
    try:
        hook.Compiler.find()
    except hook.CompilerMissing as error:
        pytest.skip(str(error))
    target = tmp_path_factory.mktemp("mutants") / "libv1_cpu.so"
    mutants.build(target, {"avx512_bf16", "amx"}, SITES, SMALL_TILES)
    return target


@pytest.fixture
def mutant(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A function that makes a kernel, with a mutant's number, the one that is called; two threads, so work is divided."""
    monkeypatch.setattr(native, "LIBRARY", library)
    opened = native._open()
    number = ctypes.c_int.in_dll(opened, "v1_mutant")
    threads = torch.get_num_threads()
    torch.set_num_threads(2)

    def choose(isa: str, which: int) -> None:
        if not opened.v1_select(isa.encode()):
            pytest.skip(f"this CPU has no {isa}")
        loaded = native.library_of(opened, isa)
        monkeypatch.setattr(native, "load", lambda: loaded)
        kernel, get_kernel = _NativePagedAttention(), select.get_kernel  # the plan is the mutant's, too
        monkeypatch.setattr(select, "get_kernel", lambda name: get_kernel(name) if name == "torch" else kernel)
        select.serving.cache_clear()
        number.value = which

    yield choose
    number.value = 0
    select.serving.cache_clear()
    torch.set_num_threads(threads)


@functools.cache
def batch_of(name: str, dtype: torch.dtype) -> tuple[LatentBatch, tuple[Tensor, Tensor]]:
    batch = make(LENS, dtype=dtype, kernel="torch", **CASES[name])
    if name == "later keys weigh more":
        batch.query *= 4  # exact; the running maximum rises from tile to tile
    return batch, dense(batch)


def failed(isa: str) -> Iterator[str]:
    """The cases that the kernel fails, one by one."""
    for dtype, form in itertools.product(DTYPES[isa], ("absorbed", "expanded")):
        for name in CASES:
            batch, wanted = batch_of(name, dtype)
            bound = 0.25 if name == "later keys weigh more" and dtype is torch.bfloat16 else None
            out, lse = mla.mla_attention(
                batch.query, batch.kv_cache, batch.kv_up, **batch.tensors, return_lse=True, form=form,
                kernel="native",
            )  # fmt: skip
            try:
                compare(batch, out, lse if bound is None else wanted[1], wanted, bound)
            except AssertionError:
                yield name


@pytest.mark.parametrize("isa", DTYPES)
def test_the_kernel_itself_fails_nothing(isa: str, mutant: Any) -> None:
    mutant(isa, 0)
    assert list(failed(isa)) == []


@pytest.mark.parametrize(("isa", "number"), [pytest.param(isa, number, id=name) for name, isa, number in NAMES])
def test_a_wrong_kernel_is_caught(isa: str, number: int, mutant: Any) -> None:
    mutant(isa, number)
    assert next(failed(isa), None), "this mutant computes wrongly and no case noticed"
