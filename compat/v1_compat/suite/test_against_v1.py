"""The backend and V1's functions answer the same, where both are given the same batch."""

from __future__ import annotations

import pytest
import torch

import v1_cpu
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Driver, run
from v1_compat.suite.reference import Layer, assert_close

LAYERS = [
    pytest.param(Layer(), id="float32"),
    pytest.param(Layer(dtype=torch.bfloat16, head_size=64), id="bfloat16"),
    pytest.param(Layer(sliding_window=9), id="with a window"),
    pytest.param(Layer(logits_soft_cap=2.0), id="with a soft cap"),
    pytest.param(Layer(alibi_slopes=(0.5, 0.25, 0.125, 0.0625)), id="with ALiBi"),
]


def v1(layer: Layer, batch: Batch) -> torch.Tensor:
    """`v1_cpu.paged_attention` over a cache of its own."""
    sizes = layer.block_size, layer.num_kv_heads, layer.head_size
    cache = v1_cpu.allocate_kv_cache(batch.num_blocks, *sizes, layer.dtype)
    for request in batch.requests:
        v1_cpu.write_kv_cache(request.key, request.value, cache, request.slots(layer.block_size, 0, request.length))
    return v1_cpu.paged_attention(
        batch.query(),
        cache,
        query_start_loc=torch.tensor([0, *(r.new for r in batch.requests)]).cumsum(0).int(),
        seq_lens=torch.tensor([r.length for r in batch.requests], dtype=torch.int32),
        block_table=torch.nn.utils.rnn.pad_sequence([r.blocks.int() for r in batch.requests], batch_first=True),
        scale=layer.scale,
        sliding_window=layer.sliding_window,
        alibi_slopes=None if layer.alibi_slopes is None else torch.tensor(layer.alibi_slopes),
        logits_soft_cap=layer.logits_soft_cap,
    )


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("chunked", [False, True], ids=["whole prompts", "chunked prefill"])
def test_a_mixed_batch_is_v1s_answer(driver: Driver, layer: Layer, chunked: bool) -> None:
    layer = driver.fit(layer)
    lens = [(16, 4), (0, 9), (20, 1), (3, 1)] if chunked else [(0, 9), (0, 1), (20, 1), (3, 1)]
    batch = Batch.of(layer, *lens)
    assert_close(run(driver, layer, batch, chunked=chunked), v1(layer, batch).double(), layer.dtype)
