"""Cache layouts: each against its own definition, element by element, and round trips through every pair."""

from __future__ import annotations

import itertools

import pytest
import torch

import v1_cpu
from v1_cpu.convert import LAYOUTS, pack_kv_cache, unpack_kv_cache, unpack_v0

BLOCKS, HEADS, TOKENS, SIZE = 3, 2, 16, 32
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float8_e4m3fn, torch.uint8]


def states(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values in which every element says where it is."""
    count = BLOCKS * HEADS * TOKENS * SIZE
    bits = {4: torch.int32, 2: torch.int16, 1: torch.uint8}[torch.empty(0, dtype=dtype).element_size()]
    keys = (torch.arange(count) % 251).to(bits).view(dtype)
    values = (torch.arange(count) % 239).to(bits).view(dtype)
    shape = (BLOCKS, HEADS, TOKENS, SIZE)
    return keys.view(shape), values.view(shape)


def flat_index(layout: str, half: int, b: int, h: int, t: int, d: int, x: int) -> int:
    """Where element (key or value, block, head, token, dimension) lies in the memory of a layout."""
    block, head = HEADS * TOKENS * SIZE, TOKENS * SIZE
    split = half * BLOCKS * block + b * block + h * head  # layouts with keys and values apart
    if layout == "v0":
        inside = ((d // x) * TOKENS + t) * x + d % x if half == 0 else d * TOKENS + t
        return split + inside
    if layout == "v0-ipex":
        return split + t * SIZE + d
    inside = d * TOKENS + t if half == 0 else t * SIZE + d
    if layout == "0.11.2":
        return split + inside
    if layout == "0.32.0":
        return (b * HEADS + h) * 2 * head + half * head + inside
    return ((b * HEADS + h) * TOKENS + t) * 2 * SIZE + half * SIZE + d  # row


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=lambda d: str(d)[6:])
def test_every_element_is_where_the_layout_says(layout: str, dtype: torch.dtype) -> None:
    keys, values = states(dtype)
    memory = pack_kv_cache(keys, values, layout).flatten()
    x = 16 // keys.element_size()
    for half, source in enumerate((keys, values)):
        for b, h, t, d in itertools.product(range(BLOCKS), range(HEADS), (0, 1, 7, 15), (0, 1, 3, 8, 31)):
            assert memory[flat_index(layout, half, b, h, t, d, x)] == source[b, h, t, d], (half, b, h, t, d)


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(LAYOUTS, 2)), ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_round_trips(source: str, target: str, dtype: torch.dtype) -> None:
    keys, values = states(dtype)
    first = pack_kv_cache(keys, values, source)
    there = v1_cpu.convert_kv_cache(first, source=source, target=target, num_kv_heads=HEADS, head_size=SIZE)
    back = v1_cpu.convert_kv_cache(there, source=target, target=source, num_kv_heads=HEADS, head_size=SIZE)
    assert back.dtype is dtype
    assert back.shape == first.shape
    assert torch.equal(back.view(torch.uint8), first.view(torch.uint8))


def test_a_converted_cache_is_read_by_the_kernels() -> None:
    keys, values = (torch.randn(BLOCKS, HEADS, TOKENS, SIZE) for _ in range(2))
    cache = v1_cpu.convert_kv_cache(pack_kv_cache(keys, values, "0.32.0"), source="0.32.0")
    key, value = v1_cpu.read_kv_cache(cache, torch.tensor([2, 0], dtype=torch.int32), 20)
    assert torch.equal(key, torch.cat([keys[2], keys[0]], dim=1)[:, :20].transpose(0, 1))
    assert torch.equal(value, torch.cat([values[2], values[0]], dim=1)[:, :20].transpose(0, 1))


def test_the_two_views_of_a_v0_cache() -> None:
    keys, values = states(torch.float32)
    flat = pack_kv_cache(keys, values, "v0")
    key_cache = flat[0].view(BLOCKS, HEADS, SIZE // 4, TOKENS, 4)
    value_cache = flat[1].view(BLOCKS, HEADS, SIZE, TOKENS)
    got_keys, got_values = unpack_v0(key_cache, value_cache)
    assert torch.equal(got_keys, keys)
    assert torch.equal(got_values, values)


def test_other_value_head_sizes_in_our_own_layout() -> None:
    keys, values = torch.randn(2, 1, 4, 6), torch.randn(2, 1, 4, 3)
    got = unpack_kv_cache(pack_kv_cache(keys, values, "row"), "row", head_size=6)
    assert torch.equal(got[0], keys)
    assert torch.equal(got[1], values)
    with pytest.raises(ValueError, match="needs Dv = D"):
        pack_kv_cache(keys, values, "0.32.0")


@pytest.mark.parametrize(
    ("shape", "layout", "extra", "words"),
    [
        pytest.param((2, 3, 64), "row", {}, r"is not of layout 'row'", id="flat as row"),
        pytest.param(
            (3, 2, 16, 64), "v0", {"num_kv_heads": 2, "head_size": 32}, "is not of layout 'v0'", id="row as flat"
        ),
        pytest.param((3, 3, 2, 16, 32), "0.11.2", {}, "is not of layout '0.11.2'", id="no pair"),
        pytest.param((2, 3, 64), "v0", {}, "does not say them, give both", id="heads unknown"),
        pytest.param((2, 3, 65), "v0-ipex", {"num_kv_heads": 1, "head_size": 32}, "multiple of KH", id="odd size"),
        pytest.param((2, 3, 60), "v0", {"num_kv_heads": 1, "head_size": 6}, "chunks of 4", id="size not packable"),
        pytest.param((3, 2, 16, 65), "0.32.0", {}, "not 2", id="odd width"),
        pytest.param((3, 2, 16, 64), "0.99", {}, "must be one of 'row'", id="unknown layout"),
    ],
)
def test_a_wrong_shape_is_refused(shape: tuple[int, ...], layout: str, extra: dict[str, int], words: str) -> None:
    """vllm #42740: tools that exchange caches broke silently when the layout changed."""
    with pytest.raises(ValueError, match=words):
        unpack_kv_cache(torch.zeros(shape), layout, **extra)
