"""The latent cache: what is written is read, slots that pad are skipped, and a block is as large as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from batches import FP8, quantised

import v1_cpu
from v1_cpu import mla

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("rank", "rope"), [(512, 64), (33, 7), (1, 1)])
def test_what_is_written_is_read(rank: int, rope: int, dtype: torch.dtype, kernel: str) -> None:
    cache = mla.allocate_latent_cache(5, 4, rank, rope, dtype)
    latent, rope_key = torch.randn(10, rank).to(dtype), torch.randn(10, rope).to(dtype)
    table = torch.tensor([3, 0, 4], dtype=torch.int32)
    positions = torch.arange(10)
    mla.write_latent_cache(latent, rope_key, cache, table[positions // 4] * 4 + positions % 4, kernel=kernel)
    read = mla.read_latent_cache(cache, table, 10, kv_lora_rank=rank)
    assert torch.equal(read[0], latent)
    assert torch.equal(read[1], rope_key)
    assert torch.equal(cache[3, 1], torch.cat([latent[1], rope_key[1]])), "a token's latent, then its rope key"
    assert not bool(cache[[1, 2]].any()), "blocks that nobody wrote"


def test_a_padded_slot_writes_nothing(kernel: str) -> None:
    cache = mla.allocate_latent_cache(2, 4, 6, 2, torch.float32)
    latent, rope_key = torch.ones(3, 6), torch.ones(3, 2)
    mla.write_latent_cache(latent, rope_key, cache, torch.tensor([-1, 5, -1]), kernel=kernel)
    assert cache.view(8, 8).sum(1).tolist() == [0, 0, 0, 0, 0, 8, 0, 0]


@pytest.mark.parametrize("cache_dtype", FP8)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_float8_is_the_nearest_number_under_the_scale(dtype: torch.dtype, cache_dtype: str, kernel: str) -> None:
    cache = mla.allocate_latent_cache(2, 4, 16, 8, dtype, kv_cache_dtype=cache_dtype)
    latent, rope_key = torch.randn(8, 16).to(dtype) * 3, torch.randn(8, 8).to(dtype)
    latent[0, 0] = 3e4  # saturates
    mla.write_latent_cache(latent, rope_key, cache, torch.arange(8), kv_scale=0.25, kernel=kernel)
    table = torch.tensor([0, 1], dtype=torch.int32)
    read = mla.read_latent_cache(cache, table, 8, kv_lora_rank=16, kv_scale=0.25)
    for got, given in zip(read, (latent, rope_key), strict=True):
        assert torch.equal(got, quantised(given, 0.25, FP8[cache_dtype]).float() * 0.25)


def test_slices_of_a_projection_are_taken_as_they_are(kernel: str) -> None:
    cache = mla.allocate_latent_cache(2, 4, 6, 2, torch.float32)
    projected = torch.randn(5, 20)
    mla.write_latent_cache(projected[:, 4:10], projected[:, 12:14], cache, torch.arange(5), kernel=kernel)
    assert torch.equal(cache.view(8, 8)[:5], torch.cat([projected[:, 4:10], projected[:, 12:14]], dim=1))


@pytest.mark.parametrize("kv_cache_dtype", ["auto", "fp8"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_block_bytes_have_no_factor_2(dtype: torch.dtype, kv_cache_dtype: str) -> None:
    size = mla.latent_block_bytes(16, 512, 64, dtype, kv_cache_dtype=kv_cache_dtype)
    cache = mla.allocate_latent_cache(3, 16, 512, 64, dtype, kv_cache_dtype=kv_cache_dtype)
    assert cache.nbytes == 3 * size
    assert size == 16 * 576 * (1 if kv_cache_dtype == "fp8" else dtype.itemsize)
    assert tuple(cache.shape) == mla.CPUMLABackend.get_kv_cache_shape(3, 16, 1, 576)


def test_blocks_are_copied_and_swapped() -> None:
    cache, other = torch.randn(4, 2, 5), torch.zeros(3, 2, 5)
    before = cache.clone()
    mla.CPUMLABackend.copy_blocks([cache], torch.tensor([[0, 2]]))
    assert torch.equal(cache[2], before[0])
    mla.CPUMLABackend.swap_blocks(cache, other, torch.tensor([[3, 1]]))
    assert torch.equal(other[1], before[3])


def test_a_latent_cache_is_a_cache_of_one_kv_head(kernel: str) -> None:
    """The ordinary functions read it, viewed: what tools for caches rely on."""
    cache = mla.allocate_latent_cache(2, 4, 6, 2, torch.float32)
    mla.write_latent_cache(torch.randn(8, 6), torch.randn(8, 2), cache, torch.arange(8), kernel=kernel)
    table = torch.tensor([0, 1], dtype=torch.int32)
    key, value = v1_cpu.read_kv_cache(cache[:, None], table, 8, head_size=6, layout="row")
    latent, rope_key = mla.read_latent_cache(cache, table, 8, kv_lora_rank=6)
    assert torch.equal(key[:, 0], latent)
    assert torch.equal(value[:, 0], rope_key)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux tells which memory may have huge pages")
def test_a_large_cache_asks_for_huge_pages_and_is_zeros() -> None:
    cache = mla.allocate_latent_cache(1024, 16, 512, 64, torch.bfloat16)
    assert not bool(cache.any())
    middle, inside, flags = cache.data_ptr() + cache.nbytes // 2, False, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= middle < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            flags = line
    assert " hg" in flags
