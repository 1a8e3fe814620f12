"""The cache: its shape, what a step stores, and what block copies and other writers leave in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from v1_compat.legacy import ipex_attn
from v1_compat.legacy.torch_sdpa import TorchSDPABackend
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Driver, V0Driver, run
from v1_compat.suite.reference import Layer, assert_close
from v1_compat.suite.vllm_driver import VllmDriver

ONE = torch.ones(())


@pytest.fixture
def v0(driver: Driver) -> V0Driver:
    if not isinstance(driver, V0Driver):
        pytest.skip("the backend is V1's kind; this test is about V0's cache shape")
    return driver


@pytest.fixture
def packed(v0: V0Driver) -> V0Driver:
    if not issubclass(v0.backend, TorchSDPABackend) or ipex_attn._use_ipex:
        pytest.skip("the inside of another backend's blocks is its own business")
    return v0


def fill(layer: Layer, batch: Batch, cache: Tensor, contexts_only: bool) -> None:
    """Put a batch's keys and values into V0's own layout with nothing but indexing, as foreign code would."""
    x = 16 // cache.element_size()
    blocks, heads, size = cache.shape[1], layer.num_kv_heads, layer.head_size
    keys = cache[0].view(blocks, heads, size // x, layer.block_size, x)
    values = cache[1].view(blocks, heads, size, layer.block_size)
    for request in batch.requests:
        for token in range(request.context if contexts_only else request.length):
            block, offset = int(request.blocks[token // layer.block_size]), token % layer.block_size
            for d in range(size):
                keys[block, :, d // x, offset, d % x] = request.key[token, :, d]
                values[block, :, d, offset] = request.value[token, :, d]


def test_the_cache_is_two_halves_of_flat_blocks(v0: V0Driver) -> None:
    assert tuple(v0.backend.get_kv_cache_shape(10, 16, 2, 64)) == (2, 10, 16 * 2 * 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_cache_that_other_code_filled_is_read(packed: V0Driver, dtype: torch.dtype) -> None:
    layer = Layer(dtype=dtype, head_size=16)
    batch = Batch.of(layer, (18, 1), (5, 1))
    cache = packed.new_cache(layer, batch.num_blocks).fill_(torch.nan)  # what nobody wrote must not be read
    fill(layer, batch, cache, contexts_only=True)
    assert_close(packed.step(layer, cache, batch), batch.expected(layer), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_step_stores_keys_where_other_code_looks_for_them(packed: V0Driver, dtype: torch.dtype) -> None:
    layer = Layer(dtype=dtype, head_size=16)
    batch = Batch.of(layer, (0, 18), (0, 5))
    found, wanted = packed.new_cache(layer, batch.num_blocks), packed.new_cache(layer, batch.num_blocks)
    packed.step(layer, found, batch)
    fill(layer, batch, wanted, contexts_only=False)
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("block_size", [1, 8, 16, 128])
def test_any_block_size_serves(driver: Driver, block_size: int) -> None:
    layer = driver.fit(Layer(block_size=block_size), exact=True)
    batch = Batch.of(layer, (0, 6), (20, 1))
    assert_close(run(driver, layer, batch), batch.expected(layer), layer.dtype)


def test_a_copied_block_is_read_like_the_original(v0: V0Driver) -> None:
    layer = Layer()
    batch = Batch.of(layer, (12, 1))
    cache = v0.new_cache(layer, batch.num_blocks)
    v0.step(layer, cache, batch.earlier())
    old = int(batch.requests[0].blocks[0])
    new = next(b for b in range(batch.num_blocks) if b != old)
    v0.backend.copy_blocks([cache], torch.tensor([[old, new]]))
    cache[:, old] = torch.nan
    request: Any = batch.requests[0]
    moved = Batch((type(request)(request.context, request.query, request.key, request.value, torch.tensor([new])),), 0)
    assert_close(v0.step(layer, cache, moved), batch.expected(layer), layer.dtype)


def to_nearest(x: Tensor, stored: torch.dtype) -> Tensor:
    return x.to(stored).to(x.dtype)


def toward_zero(x: Tensor, stored: torch.dtype) -> Tensor:
    nearest = x.to(stored)
    larger = nearest.float().abs() > x.float().abs()
    return (nearest.view(torch.uint8) - larger.to(torch.uint8)).view(stored).to(x.dtype)  # one step back


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
def test_a_float8_cache_is_read_as_it_was_rounded(driver: Driver, name: str) -> None:
    """To the nearest, as V0 and torch do; vLLM's own CPU kernel rounds toward zero, and V1 does not say which."""
    layer = driver.fit(Layer(kv_cache_dtype=name, dtype=torch.bfloat16))
    batch = Batch.of(layer, (20, 1), (5, 1))
    stored = torch.float8_e4m3fn if name == "fp8_e4m3" else torch.float8_e5m2

    def rounded(how: Callable[[Tensor, torch.dtype], Tensor]) -> Tensor:
        requests = (replace(r, key=how(r.key, stored), value=how(r.value, stored)) for r in batch.requests)
        return Batch(tuple(requests), batch.num_blocks).expected(layer)

    found = run(driver, layer, batch)
    try:
        assert_close(found, rounded(to_nearest), layer.dtype)
    except AssertionError:
        if not isinstance(driver, VllmDriver):
            raise
        assert_close(found, rounded(toward_zero), layer.dtype)
