"""Cache functions: what is written is read back, bit for bit or rounded as said; nothing else is touched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from batches import FP8, quantised

import v1_cpu
from v1_cpu import select

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def rows(tokens: int, heads: int, size: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, heads, size, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("sizes", [(32, 32), (24, 40), (40, 24)], ids=str)
def test_written_tokens_are_read_back(dtype: torch.dtype, sizes: tuple[int, int], kernel: str) -> None:
    """vllm #17225: float16 writes were once not implemented."""
    size, size_v = sizes
    cache = v1_cpu.allocate_kv_cache(7, 5, 3, size, dtype, head_size_v=size_v)
    assert cache.shape == (7, 3, 5, size + size_v)
    assert not cache.any()
    table = torch.tensor([6, 0, 3], dtype=torch.int32)
    positions = torch.arange(13)
    slots = table.long()[positions // 5] * 5 + positions % 5
    key, value = rows(13, 3, size, dtype, 1), rows(13, 3, size_v, dtype, 2)
    v1_cpu.write_kv_cache(key, value, cache, slots, kernel=kernel)
    got_key, got_value = v1_cpu.read_kv_cache(cache, table, 13)
    assert torch.equal(got_key, key)
    assert torch.equal(got_value, value)
    assert not cache[[1, 2, 4, 5]].any(), "other blocks stay empty"
    assert not cache[3, :, 3:].any(), "other slots stay empty"


def test_minus_one_skips_a_token_and_everything_else_is_written(kernel: str) -> None:
    cache = v1_cpu.allocate_kv_cache(2, 4, 1, 8, torch.float32)
    key = rows(4, 1, 8, torch.float32)
    key[1] = torch.nan
    v1_cpu.write_kv_cache(key, key, cache, torch.tensor([7, -1, 0, -1]), kernel=kernel)
    assert torch.equal(cache[1, 0, 3, :8], key[0, 0])
    assert torch.equal(cache[0, 0, 0, 8:], key[2, 0])
    assert int((cache != 0).any(-1).sum()) == 2


@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_all_skipped_and_nothing_to_write(tokens: int, kernel: str) -> None:
    cache = v1_cpu.allocate_kv_cache(2, 4, 1, 8, torch.float32)
    key = rows(tokens, 1, 8, torch.float32)
    v1_cpu.write_kv_cache(key, key, cache, torch.full((tokens,), -1), kernel=kernel)
    assert not cache.any()


def test_rows_of_a_packed_projection_are_written(kernel: str) -> None:
    packed = rows(6, 3, 16, torch.bfloat16)  # q, k, v side by side
    cache = v1_cpu.allocate_kv_cache(2, 4, 1, 16, torch.bfloat16)
    v1_cpu.write_kv_cache(packed[:, 1:2], packed[:, 2:], cache, torch.arange(6), kernel=kernel)
    key, value = v1_cpu.read_kv_cache(cache, torch.tensor([0, 1], dtype=torch.int32), 6)
    assert torch.equal(key, packed[:, 1:2])
    assert torch.equal(value, packed[:, 2:])


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_float8_is_the_nearest_number_ties_to_even_and_saturates(name: str, dtype: torch.dtype, kernel: str) -> None:
    spread = torch.logspace(-6, 5, 500, dtype=torch.float64).float()
    ties = torch.tensor([17.0, 19.0, 1.0625, 1.1875, 1.125, 1.375, 2.0**-10, 3 * 2.0**-10, 2.0**-17, 3 * 2.0**-17])
    numbers = torch.cat([spread, -spread, ties, -ties, torch.tensor([0.0, 1e30 if dtype != torch.float16 else 6e4])])
    key = numbers.to(dtype).view(-1, 1, 2)
    cache = v1_cpu.allocate_kv_cache(1, len(key), 1, 2, dtype, kv_cache_dtype=name)
    v1_cpu.write_kv_cache(key, key, cache, torch.arange(len(key)), k_scale=1.0, v_scale=0.37, kernel=kernel)
    assert cache.dtype is FP8[name]
    table = torch.zeros(1, dtype=torch.int32)
    got_key, got_value = v1_cpu.read_kv_cache(cache, table, len(key), v_scale=0.37)
    assert torch.equal(got_key, quantised(key, 1.0, FP8[name]).float())
    assert torch.equal(got_value, quantised(key, 0.37, FP8[name]).float() * 0.37)
    assert got_key.isfinite().all()


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
def test_float8_keeps_nan_and_saturates_infinity(name: str, kernel: str) -> None:
    key = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0]).view(-1, 1, 1)
    cache = v1_cpu.allocate_kv_cache(1, 4, 1, 1, torch.float32, kv_cache_dtype=name)
    v1_cpu.write_kv_cache(key, key, cache, torch.arange(4), kernel=kernel)
    got, _ = v1_cpu.read_kv_cache(cache, torch.zeros(1, dtype=torch.int32), 4)
    most = torch.finfo(FP8[name]).max
    assert got[0].isnan().all()
    assert got[1:].flatten().tolist() == [most, -most, 1.0]


def test_fp8_is_e4m3_and_never_quietly_e5m2() -> None:
    """vllm #14741."""
    for name in ("fp8", "fp8_e4m3"):
        assert v1_cpu.allocate_kv_cache(1, 1, 1, 8, torch.float32, kv_cache_dtype=name).dtype is torch.float8_e4m3fn


@pytest.mark.parametrize("name", ["auto", "fp8_e4m3", "fp8_e5m2"])
def test_blocks_are_copied_inside_each_cache(name: str) -> None:
    caches = [v1_cpu.allocate_kv_cache(5, 2, 1, 4, torch.float32, kv_cache_dtype=name) for _ in range(2)]
    for index, cache in enumerate(caches):
        cache.copy_((torch.arange(5.0) + 10 * index).view(5, 1, 1, 1).expand(cache.shape))
    v1_cpu.copy_blocks(caches, torch.tensor([[0, 1], [1, 4], [2, 0]]))
    assert [float(c) for c in caches[0].float()[:, 0, 0, 0]] == [2.0, 0.0, 2.0, 3.0, 1.0], "all read, then written"
    assert torch.equal(caches[1].float()[4], caches[1].float()[4].clone().fill_(caches[1].float()[4, 0, 0, 0]))
    assert float(caches[1].float()[3, 0, 0, 0]) == float(torch.tensor(13.0).to(caches[1].dtype).float())


def test_blocks_are_swapped_to_another_cache() -> None:
    source, target = (v1_cpu.allocate_kv_cache(n, 2, 1, 4, torch.bfloat16) for n in (3, 5))
    source.copy_(torch.arange(3.0).view(3, 1, 1, 1).expand(source.shape))
    v1_cpu.swap_blocks(source, target, torch.tensor([[2, 4], [1, 0]]))
    assert target[:, 0, 0, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 2.0]
    assert source[:, 0, 0, 0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("chain", "part"),
    [
        pytest.param(False, False, id="no block is both read and written"),
        pytest.param(True, False, id="blocks are both read and written"),
        pytest.param(False, True, id="the blocks of a cache do not lie side by side"),
        pytest.param(False, None, id="a block is not contiguous"),
    ],
)
def test_a_kernel_copies_blocks_as_indexing_does(chain: bool, part: bool | None, kernel: str) -> None:
    torch.set_num_threads(2)
    whole = torch.randn(12, 3, 70, 64, generator=torch.Generator().manual_seed(5))
    cache = whole[::2] if part else whole[:, :, ::2] if part is None else whole
    pairs = torch.tensor([[0, 1], [1, 2], [2, 0]] if chain else [[0, 5], [0, 4], [3, 2]])
    wanted = cache.clone()
    wanted[pairs[:, 1]] = wanted[pairs[:, 0]]
    untouched = whole[1::2].clone()
    select.get_kernel(kernel).copy_blocks(cache, cache, pairs)
    assert torch.equal(cache, wanted)
    assert not part or torch.equal(whole[1::2], untouched)
    other = torch.zeros(8, *cache.shape[1:])
    select.get_kernel(kernel).copy_blocks(cache, other, pairs)
    assert torch.equal(other[pairs[:, 1]], cache[pairs[:, 0]])
    assert not other[[b for b in range(8) if b not in pairs[:, 1].tolist()]].any()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells which memory may have huge pages")
def test_a_large_cache_asks_for_huge_pages() -> None:
    cache = v1_cpu.allocate_kv_cache(64, 128, 8, 128, torch.bfloat16)
    assert not cache.any()
    middle, inside, flags = cache.data_ptr() + cache.nbytes // 2, False, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= middle < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    assert " hg" in flags


def test_read_knows_the_head_sizes_of_a_view_of_the_cache() -> None:
    cache = v1_cpu.allocate_kv_cache(2, 4, 1, 6, torch.float32, head_size_v=2)
    cache[..., :6] = 1.0
    key, value = v1_cpu.read_kv_cache(cache[:], torch.zeros(1, dtype=torch.int32), 3)
    assert key.shape == (3, 1, 6)
    assert value.shape == (3, 1, 2)
    assert bool((key == 1).all())
    assert not value.any()


def test_read_of_a_tensor_from_elsewhere_needs_an_even_width_or_the_head_size() -> None:
    table = torch.zeros(1, dtype=torch.int32)
    key, _ = v1_cpu.read_kv_cache(torch.zeros(1, 1, 4, 8), table, 2)
    assert key.shape == (2, 1, 4)
    key, value = v1_cpu.read_kv_cache(torch.zeros(1, 1, 4, 7), table, 2, head_size=5)
    assert (key.shape[2], value.shape[2]) == (5, 2)
    with pytest.raises(ValueError, match="head_size"):
        v1_cpu.read_kv_cache(torch.zeros(1, 1, 4, 7), table, 2)


CACHE = {"num_blocks": 4, "block_size": 4, "num_kv_heads": 2, "head_size": 8, "dtype": torch.float32}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        pytest.param({"block_size": 0}, ValueError, "block_size: 0; must be at least 1", id="no block size"),
        pytest.param({"num_blocks": -1}, ValueError, "num_blocks: -1", id="negative blocks"),
        pytest.param({"head_size": 1.5}, TypeError, "head_size: float 1.5", id="fractional head size"),
        pytest.param({"num_kv_heads": True}, TypeError, "num_kv_heads", id="bool heads"),
        pytest.param({"dtype": torch.float64}, TypeError, "dtype: torch.float64", id="double"),
        pytest.param({"kv_cache_dtype": "int8"}, ValueError, "'int8'; must be one of auto", id="unknown cache dtype"),
        pytest.param({"kv_cache_dtype": "float16"}, TypeError, "must be the model's dtype", id="another float type"),
        pytest.param(
            {"layout": "v0"}, ValueError, "layout: 'v0'; must be 'row' or 'ipex'", id="a layout no kernel reads"
        ),
    ],
)
def test_allocation_refuses(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        v1_cpu.allocate_kv_cache(**{**CACHE, **change})


def call(**change: Any) -> None:
    key = torch.zeros(2, 2, 8)
    given = {
        "key": key,
        "value": key,
        "kv_cache": torch.zeros(4, 2, 4, 16),
        "slot_mapping": torch.tensor([0, 1]),
        "k_scale": 1.0,
        "v_scale": 1.0,
        **change,
    }
    tensors = [given.pop(name) for name in ("key", "value", "kv_cache", "slot_mapping")]
    v1_cpu.write_kv_cache(*tensors, **given, kernel="torch")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        pytest.param(
            {"slot_mapping": torch.tensor([0, 16])},
            ValueError,
            r"slot_mapping\[1\] = 16; .*0 to 15",
            id="slot past the end",
        ),
        pytest.param(
            {"slot_mapping": torch.tensor([-2, 1])}, ValueError, r"slot_mapping\[0\] = -2", id="slot below -1"
        ),
        pytest.param({"slot_mapping": torch.tensor([0])}, ValueError, "slot_mapping: shape", id="too few slots"),
        pytest.param(
            {"slot_mapping": torch.tensor([0, 1], dtype=torch.int32)},
            TypeError,
            "slot_mapping: dtype torch.int32; must be a torch.int64",
            id="int32 slots",
        ),
        pytest.param({"key": torch.zeros(2, 2, 8).double()}, TypeError, "key: dtype torch.float64", id="double key"),
        pytest.param(
            {"key": torch.zeros(2, 2, 8).half(), "value": torch.zeros(2, 2, 8).half()},
            TypeError,
            "kv_cache: dtype torch.float32; must be torch.float16",
            id="no silent conversion",
        ),
        pytest.param(
            {"value": torch.zeros(2, 2, 8).half()},
            TypeError,
            "value: dtype torch.float16; must be torch.float32 like key",
            id="mixed dtypes",
        ),
        pytest.param({"value": torch.zeros(3, 2, 8)}, ValueError, "value: shape", id="other tokens"),
        pytest.param({"value": torch.zeros(2, 2, 9)}, ValueError, r"D \+ Dv = 8 \+ 9", id="wrong width"),
        pytest.param({"key": torch.zeros(2, 16)}, ValueError, "key: shape", id="flat key"),
        pytest.param({"key": torch.zeros(2, 8, 2).transpose(1, 2)}, ValueError, "stride", id="strided key"),
        pytest.param({"value": torch.zeros(2, 8, 2).transpose(1, 2)}, ValueError, "stride", id="strided value"),
        pytest.param({"kv_cache": torch.zeros(4, 3, 4, 16)}, ValueError, "with 2 KV heads", id="other heads"),
        pytest.param({"kv_cache": torch.zeros(4, 2, 4, 32)[..., ::2]}, ValueError, "contiguous", id="strided cache"),
        pytest.param({"kv_cache": torch.zeros(2, 4, 64)}, ValueError, "convert_kv_cache", id="a V0 cache"),
        pytest.param(
            {"kv_cache": torch.zeros(4, 2, 4, 16, dtype=torch.uint8)}, TypeError, "float8_e4m3fn", id="uint8 cache"
        ),
        pytest.param({"k_scale": 0.5}, ValueError, "k_scale: 0.5; must be 1.0", id="a scale without float8"),
        pytest.param({"k_scale": torch.tensor(1.0)}, TypeError, "use .item", id="tensor scale"),
        pytest.param(
            {"kv_cache": torch.zeros(4, 2, 4, 16).to(torch.float8_e5m2), "v_scale": 0.0},
            ValueError,
            "v_scale",
            id="zero scale",
        ),
        pytest.param({"layout": "v0"}, ValueError, "layout: 'v0'", id="another layout"),
        pytest.param({"key": [1.0]}, TypeError, "key: list", id="not a tensor"),
        pytest.param(
            {"kv_cache": torch.zeros(4, 2, 4, 16, device="meta")}, ValueError, "must be on the CPU", id="device"
        ),
    ],
)
def test_write_refuses(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(**change)


def test_write_accepts_the_plain_call() -> None:
    call()


@pytest.mark.parametrize(
    ("mapping", "error", "words"),
    [
        pytest.param(torch.tensor([[0, 4]]), ValueError, r"block_mapping\[0, 1\] = 4", id="no such block"),
        pytest.param(torch.tensor([[-1, 1]]), ValueError, r"block_mapping\[0, 0\] = -1", id="negative block"),
        pytest.param(torch.tensor([[0, 1], [2, 1]]), ValueError, "occurs twice", id="two sources"),
        pytest.param(torch.tensor([0, 1]), ValueError, "block_mapping: shape", id="flat"),
        pytest.param(torch.tensor([[0, 1]], dtype=torch.int32), TypeError, "int64", id="int32"),
    ],
)
def test_copy_refuses_and_changes_nothing(mapping: torch.Tensor, error: type[Exception], words: str) -> None:
    caches = [torch.rand(4, 1, 2, 4), torch.rand(4, 1, 2, 4)]
    before = [c.clone() for c in caches]
    with pytest.raises(error, match=words):
        v1_cpu.copy_blocks(caches, mapping)
    assert all(torch.equal(a, b) for a, b in zip(caches, before, strict=True))


def test_swap_refuses_other_blocks() -> None:
    with pytest.raises(ValueError, match="destination: blocks of shape"):
        v1_cpu.swap_blocks(torch.zeros(2, 1, 2, 4), torch.zeros(2, 1, 3, 4), torch.tensor([[0, 1]]))
    with pytest.raises(TypeError, match="destination: dtype"):
        v1_cpu.swap_blocks(torch.zeros(2, 1, 2, 4), torch.zeros(2, 1, 2, 4).half(), torch.tensor([[0, 1]]))


@pytest.mark.parametrize(
    ("row", "seq_len", "words"),
    [
        pytest.param([0, 9], 5, r"block_table\[0, 1\] = 9", id="no such block"),
        pytest.param([0], 5, "room for 4", id="more tokens than blocks"),
        pytest.param([0], -1, "seq_len: -1", id="negative length"),
    ],
)
def test_read_refuses(row: list[int], seq_len: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        v1_cpu.read_kv_cache(torch.zeros(4, 1, 4, 8), torch.tensor(row, dtype=torch.int32), seq_len)
