"""Our operations on V0's caches answer what V0's own compiled operations answered (golden/record.py made the vectors)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy import ipex_attn, paged_attn

VECTORS = sorted((Path(__file__).parent / "golden").glob("*.npz"))
ONE = torch.ones(())


def load(path: Path) -> dict[str, Tensor]:
    arrays = np.load(path)
    tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return {k: t.view(torch.bfloat16) if t.dtype is torch.uint16 else t for k, t in tensors.items()}


def close(ours: Tensor, v0: Tensor) -> None:
    """float32 within 1e-5; a half type within one rounding of the larger number."""
    assert ours.dtype is v0.dtype
    if ours.dtype is torch.float32:
        torch.testing.assert_close(ours, v0, atol=1e-5, rtol=0)
        return
    step = torch.finfo(v0.dtype).eps * torch.maximum(ours.float().abs(), v0.float().abs())
    assert bool(((ours.float() - v0.float()).abs() <= step).all())


@pytest.fixture(params=VECTORS, ids=lambda p: p.stem)
def vector(request: pytest.FixtureRequest) -> dict[str, Tensor]:
    return load(request.param)


def empty_caches(v: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(v["key_cache"]), torch.zeros_like(v["value_cache"])


def decode_arguments(v: dict[str, Tensor]) -> tuple[object, ...]:
    heads = v["value_cache"].shape[1]
    scale = v["query"].shape[-1] ** -0.5
    lens = v["seq_lens"]
    return heads, scale, v["block_tables"], lens, 16, int(lens.max()), v.get("alibi_slopes"), "auto", ONE, ONE


def test_there_are_vectors_of_every_dtype() -> None:
    assert {load(path)["key"].dtype for path in VECTORS} == {torch.float32, torch.bfloat16, torch.float16}


def test_a_write_leaves_the_same_bits_in_the_cache(vector: dict[str, Tensor]) -> None:
    keys, values = empty_caches(vector)
    ops.reshape_and_cache(vector["key"], vector["value"], keys, values, vector["slot_mapping"], "auto", ONE, ONE)
    assert torch.equal(keys, vector["key_cache"])
    assert torch.equal(values, vector["value_cache"])
    assert bool(keys.any()) and bool(values.any())


def test_decode_v1_answers_the_same_over_the_cache_that_v0_filled(vector: dict[str, Tensor]) -> None:
    out = torch.full_like(vector["query"], torch.nan)
    ops.paged_attention_v1(out, vector["query"], vector["key_cache"], vector["value_cache"], *decode_arguments(vector))
    close(out, vector["out_v1"])


def test_decode_v2_answers_the_same_over_the_cache_that_v0_filled(vector: dict[str, Tensor]) -> None:
    out, scratch = torch.full_like(vector["query"], torch.nan), torch.zeros(1)
    ops.paged_attention_v2(
        *(out, scratch, scratch, scratch, vector["query"], vector["key_cache"], vector["value_cache"]),
        *decode_arguments(vector),
    )
    close(out, vector["out_v2"])


def test_the_class_of_the_cpu_backend_answers_the_same(vector: dict[str, Tensor]) -> None:
    flat = torch.stack([vector["key_cache"].flatten(1), vector["value_cache"].flatten(1)])  # [2, NB, BS * KH * D]
    _, heads, size, block_size = vector["value_cache"].shape
    assert flat.shape == ipex_attn._PagedAttention.get_kv_cache_shape(flat.shape[1], block_size, heads, size)
    keys, values = ipex_attn._PagedAttention.split_kv_cache(flat, heads, size)
    assert torch.equal(keys, vector["key_cache"]) and torch.equal(values, vector["value_cache"])
    out = torch.full_like(vector["query"], torch.nan)
    lens = vector["seq_lens"]
    ipex_attn._PagedAttention.forward_decode(
        *(out, vector["query"], keys, values, vector["block_tables"], lens, int(lens.max()), "auto", heads),
        *(size**-0.5, vector.get("alibi_slopes"), ONE, ONE),
    )
    close(out, vector["out_v1"])


def test_the_class_of_the_gpu_backends_answers_the_same(vector: dict[str, Tensor]) -> None:
    _, heads, size, _ = vector["value_cache"].shape
    lens = vector["seq_lens"]
    out = paged_attn.PagedAttention.forward_decode(
        *(vector["query"], vector["key_cache"], vector["value_cache"], vector["block_tables"], lens, int(lens.max())),
        *("auto", heads, size**-0.5, vector.get("alibi_slopes"), ONE, ONE),
    )
    close(out, vector["out_v1"])


def test_a_block_copy_leaves_the_same_bits(vector: dict[str, Tensor]) -> None:
    keys, values = vector["key_cache"].clone(), vector["value_cache"].clone()
    ops.copy_blocks([keys], [values], vector["pairs"])
    destination = int(vector["pairs"][0, 1])
    assert torch.equal(keys[destination], vector["copied_key_block"])
    assert torch.equal(values[destination], vector["copied_value_block"])
    assert bool(vector["copied_key_block"].any())
