"""The native kernel in a process: choice of the instruction set, threads, schedules, forks, one OpenMP runtime."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import v1_cpu
from v1_cpu import native, select

pytestmark = pytest.mark.skipif(
    select.unavailable("native") is not None, reason=f"no native kernel: {select.unavailable('native')}"
)


def child(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | env,
        timeout=120,
    )


def batch(lens: list[tuple[int, int]], heads: int = 8, kv_heads: int = 2, size: int = 64) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    tokens, blocks = sum(q for q, _ in lens), [-(-n // 16) for _, n in lens]
    cache = torch.randn(sum(blocks), kv_heads, 16, 2 * size, generator=generator)
    table = torch.zeros(len(lens), max(blocks), dtype=torch.int32)
    used = 0
    for row, n in enumerate(blocks):
        table[row, :n] = torch.arange(used, used + n)
        used += n
    return {
        "query": torch.randn(tokens, heads, size, generator=generator),
        "kv_cache": cache,
        "query_start_loc": torch.tensor([0, *(q for q, _ in lens)]).cumsum(0).int(),
        "seq_lens": torch.tensor([n for _, n in lens], dtype=torch.int32),
        "block_table": table,
        "scale": size**-0.5,
        "kernel": "native",
    }


def plan_for(call: dict[str, Any], **options: Any) -> v1_cpu.Plan:
    _, heads, size = call["query"].shape
    return v1_cpu.make_plan(
        query_start_loc=call["query_start_loc"],
        seq_lens=call["seq_lens"],
        num_heads=heads,
        num_kv_heads=call["kv_cache"].shape[1],
        head_size=size,
        block_size=16,
        dtype=call["query"].dtype,
        kernel="native",
        **options,
    )


LENS = [
    pytest.param([(1, 9000)], id="one long context, divided by keys"),
    pytest.param([(1500, 1500)], id="one prefill, divided by queries"),
    pytest.param([(1, 4000), (700, 900), (3, 50), (1, 1)], id="a mix"),
]


@pytest.fixture
def threads() -> Any:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("lens", LENS)
def test_dividing_work_among_threads_changes_no_result_beyond_rounding(
    lens: list[tuple[int, int]], threads: Any
) -> None:
    call = batch(lens)
    results = []
    for n in (1, 2, 3, 8):
        threads(n)
        results.append(v1_cpu.paged_attention(**call))
        assert torch.equal(results[-1], v1_cpu.paged_attention(**call)), "not the same from run to run"
    for other in results[1:]:
        torch.testing.assert_close(results[0], other, rtol=0, atol=2e-5)


def header(schedule: Tensor) -> dict[str, int]:
    names = ["magic", "size", "requests", "tokens", "heads", "kv_heads", "items", "groups", "partial_rows", "threads"]
    return dict(zip(names, schedule[:10].tolist(), strict=True))


def test_a_schedule_divides_what_is_large_and_leaves_small_work_on_one_thread(threads: Any) -> None:
    threads(4)
    small = header(plan_for(batch([(1, 16)])).schedule)
    assert (small["threads"], small["items"], small["groups"]) == (1, 2, 0)
    keys = header(plan_for(batch([(1, 9000)])).schedule)
    assert keys["threads"] == 4 and keys["groups"] == 2 and keys["items"] >= 8
    queries = header(plan_for(batch([(1500, 1500)])).schedule)
    assert queries["threads"] == 4 and queries["groups"] == 0 and queries["items"] >= 12


@pytest.mark.parametrize(
    ("lens", "kv_heads", "number", "items"),
    [
        pytest.param([(1, 4000)] * 2, 2, 4, 4, id="as many as threads, all alike: a head is an item"),
        pytest.param([(1, 4000), (1, 1900), (1, 2000)], 1, 2, 3, id="two small ones beside a large one"),
        pytest.param([(1, 4000)] * 3, 1, 2, 6, id="three alike on two threads are divided"),
        pytest.param([(1, 8192)], 1, 2, 2, id="a lone head: a part for each thread"),
        pytest.param([(1, 8192)], 1, 3, 3, id="a lone head on three threads"),
    ],
)
def test_work_is_divided_where_it_would_come_out_uneven(
    lens: list[tuple[int, int]], kv_heads: int, number: int, items: int, threads: Any
) -> None:
    threads(number)
    assert header(plan_for(batch(lens, kv_heads=kv_heads)).schedule)["items"] == items


def key_ranges(schedule: Tensor) -> list[tuple[int, int]]:
    """The keys of each item; the first and the last part of divided keys are open."""
    items = schedule[10:].view(-1)[: 8 * header(schedule)["items"]].view(-1, 8)
    return [(begin, end) for *_, begin, end, _, _ in items.tolist()]


@pytest.mark.parametrize("keys", [150, 384, 640, 3500])
@pytest.mark.parametrize("number", [2, 3])
def test_a_lone_head_is_divided_evenly(keys: int, number: int, threads: Any) -> None:
    threads(number)
    ranges = key_ranges(plan_for(batch([(1, keys)], heads=32, kv_heads=1, size=256)).schedule)
    parts = min(number, keys // 64)
    assert len(ranges) == parts and ranges[0][0] == 0
    assert all(end == begin for (_, end), (begin, _) in itertools.pairwise(ranges))
    sizes = [min(end, keys) - begin for begin, end in ranges]
    assert min(sizes) >= 64 - 32 and max(sizes) - min(sizes) <= 2 * 32


def test_short_keys_of_several_requests_are_not_divided(threads: Any) -> None:
    threads(2)
    assert header(plan_for(batch([(1, 200)] * 3, heads=32, kv_heads=1, size=256)).schedule)["items"] == 3


def test_a_schedule_without_a_window_serves_a_layer_with_one(threads: Any) -> None:
    threads(2)
    call = batch([(1, 5000), (400, 800)])
    plan = plan_for(call, causal=False)
    for options in ({}, {"sliding_window": 100}, {"attention_chunk_size": 64}, {"causal": False}):
        torch.testing.assert_close(
            v1_cpu.paged_attention(**call, **options, plan=plan),
            v1_cpu.paged_attention(**call, **options),
            rtol=0,
            atol=2e-5,
        )


def test_a_forked_child_computes_too() -> None:
    done = child(
        """
        import os, sys
        sys.path.insert(0, "tests/v1_cpu/native")
        import torch, v1_cpu
        from test_native import batch
        torch.set_num_threads(2)
        call = batch([(300, 300), (1, 3000)])
        wanted = v1_cpu.paged_attention(**call).numpy().tobytes()
        child = os.fork()
        if child == 0:  # torch's own parallel operations would hang here: bytes are compared without torch
            os._exit(0 if v1_cpu.paged_attention(**call).numpy().tobytes() == wanted else 1)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_process_has_one_openmp_runtime() -> None:
    done = child(
        """
        import torch, v1_cpu
        from v1_cpu import native
        native.load()
        names = ("libgomp", "libiomp", "libomp")
        loaded = {line.split()[-1] for line in open("/proc/self/maps") if any(name in line for name in names)}
        assert len(loaded) == 1, loaded
        """
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "isa", [name for name, runs in (native.instruction_sets() if native.LIBRARY.exists() else {}).items() if runs]
)
def test_the_instruction_set_can_be_named(isa: str) -> None:
    done = child("import v1_cpu; print(v1_cpu.which().isa)", V1_CPU_ISA=isa, V1_CPU_KERNEL="native")
    assert done.stdout.strip() == isa, done.stderr[-2000:]


def test_an_unknown_instruction_set_is_refused_with_those_there_are() -> None:
    done = child("import v1_cpu; v1_cpu.which()", V1_CPU_ISA="mmx", V1_CPU_KERNEL="native")
    assert done.returncode != 0
    assert "V1_CPU_ISA=mmx: this build has" in done.stderr and "generic" in done.stderr
    assert child("import v1_cpu; v1_cpu.which()", V1_CPU_ISA="mmx").returncode != 0  # not the torch kernel instead
    assert child("import v1_cpu; print(v1_cpu.which().isa)", V1_CPU_ISA=" Generic").stdout.strip() == "generic"


def test_amx_that_computes_wrongly_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = native.instruction_sets()
    if not sets.get("amx"):
        pytest.skip("this CPU has no AMX")
    monkeypatch.delenv("V1_CPU_ISA", raising=False)
    monkeypatch.setattr(native, "_amx_agrees", lambda library: False)
    try:
        assert native.load.__wrapped__().isa == "avx512"
    finally:
        monkeypatch.undo()
        native.load.__wrapped__()  # the library's choice is the process's
    assert native._amx_agrees(native._open())
    native.load.__wrapped__()


SMALL_SIGNAL_STACK = """
import ctypes

class Stack(ctypes.Structure):
    _fields_ = [("memory", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(8192)  # a signal frame with tiles in it takes more: Linux refuses AMX
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, len(memory))), None) == 0
"""


def test_without_amx_slow_dot_products_are_not_chosen_unasked() -> None:
    """Intel's bf16 dot products are slower than its float32 multiply-adds; AMD's are faster."""
    if not native.instruction_sets().get("avx512_bf16"):
        pytest.skip("this CPU has no AVX-512-BF16")
    done = child(SMALL_SIGNAL_STACK + "import v1_cpu\nprint(v1_cpu.which().isa)", V1_CPU_KERNEL="native")
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    assert done.stdout.strip() == ("avx512" if intel else "avx512_bf16"), done.stderr[-2000:]


WRITTEN_ROWS = [
    pytest.param(64, 0, id="rows of whole cache lines"),
    pytest.param(64, 5, id="as many bytes across cache lines"),
    pytest.param(80, 0, id="rows that end within a cache line"),
]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("head_size", "skipped"), WRITTEN_ROWS)
@pytest.mark.parametrize("tokens", [3, 700], ids="{} tokens".format)
def test_a_write_changes_its_slots_and_nothing_else(
    tokens: int, head_size: int, skipped: int, dtype: torch.dtype
) -> None:
    shape = (64, 2, 16, 2 * head_size)
    memory = torch.randn(skipped + torch.Size(shape).numel()).to(dtype)
    cache, wanted = memory[skipped:].view(shape), memory[skipped:].clone().view(shape)
    slots = torch.randperm(64 * 16)[:tokens]
    key, value = torch.randn(2, tokens, 2, head_size).to(dtype)
    wanted[slots // 16, :, slots % 16] = torch.cat([key, value], -1)
    v1_cpu.write_kv_cache(key, value, cache, slots, kernel="native")
    assert torch.equal(cache, wanted)


LONG_CONTEXT = """
import torch, v1_cpu
torch.set_num_threads({threads})
torch.manual_seed(0)
keys, queries, heads, size = {keys}, 20, 1, {size}
cache = v1_cpu.allocate_kv_cache(keys // 16, 16, heads, size, torch.float16)
cache.copy_(torch.randn(cache.shape))
call = dict(
    query_start_loc=torch.tensor([0, queries], dtype=torch.int32),
    seq_lens=torch.tensor([keys], dtype=torch.int32),
    block_table=torch.arange(keys // 16, dtype=torch.int32)[None],
    scale=size**-0.5,
)
query = torch.randn(queries, heads, size).half()
ours, wanted = (v1_cpu.paged_attention(query, cache, **call, kernel=name) for name in ("native", "torch"))
print(float((ours.float() - wanted.float()).abs().max()))
"""


@pytest.mark.parametrize(
    ("threads", "keys", "size"),
    [
        pytest.param(2, 24576, 128, id="two threads"),
        pytest.param(8, 4096, 128, id="many threads, whose share of memory is smaller"),
        pytest.param(8, 1024, 512, id="a large head"),
    ],
)
def test_float16_over_more_keys_than_are_kept_packed(threads: int, keys: int, size: int) -> None:
    """In a process of its own: scratch memory left larger by another call would hide one that is too small."""
    done = child(LONG_CONTEXT.format(threads=threads, keys=keys, size=size))
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < 2e-3
