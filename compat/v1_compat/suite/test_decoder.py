"""A decoder layer: prefill, decode, both in one batch, and chunks, give attention over all tokens of a request."""

from __future__ import annotations

import pytest
import torch

from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Driver, run
from v1_compat.suite.reference import Layer, assert_close

SLOPES = (0.5, 0.25, 0.125, 0.0625)
LAYERS = [
    pytest.param(Layer(), id="float32, two query heads a KV head"),
    pytest.param(Layer(num_kv_heads=4), id="float32, a KV head for each query head"),
    pytest.param(Layer(num_kv_heads=1), id="float32, one KV head for all"),
    pytest.param(Layer(dtype=torch.bfloat16), id="bfloat16"),
    pytest.param(Layer(dtype=torch.float16), id="float16"),
    pytest.param(Layer(head_size=80), id="head size 80"),
    pytest.param(Layer(head_size=128, dtype=torch.bfloat16), id="head size 128 in bfloat16"),
    pytest.param(Layer(alibi_slopes=SLOPES), id="ALiBi: slope * (key - query position) on the logit"),
]
BATCHES = [
    pytest.param([(0, 5)], False, id="one prompt"),
    pytest.param([(0, 3), (0, 16), (0, 21)], False, id="three prompts, one of a whole block, one across blocks"),
    pytest.param([(0, 1)], False, id="a prompt of one token"),
    pytest.param([(7, 1)], False, id="one decode"),
    pytest.param([(15, 1), (16, 1), (40, 1)], False, id="decodes that fill a block, open one, and read three"),
    pytest.param([(0, 6), (20, 1), (33, 1)], False, id="a prompt and two decodes in one step"),
    pytest.param([(0, 5), (0, 18)], True, id="prompts, with chunked prefill on"),
    pytest.param([(16, 4), (5, 11)], True, id="chunks after a cached context"),
    pytest.param([(16, 4), (0, 9), (20, 1)], True, id="a chunk, a prompt and a decode in one step"),
]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("lens", "chunked"), BATCHES)
def test_a_batch_is_dense_causal_attention(
    driver: Driver, layer: Layer, lens: list[tuple[int, int]], chunked: bool
) -> None:
    layer = driver.fit(layer)
    batch = Batch.of(layer, *lens)
    assert_close(run(driver, layer, batch, chunked=chunked), batch.expected(layer), layer.dtype)


@pytest.mark.parametrize(
    ("lens", "chunked"),
    [([(0, 30)], False), ([(0, 9), (41, 1), (5, 1)], False), ([(16, 6), (30, 7), (41, 1)], True)],
    ids=["a prompt", "a prompt and decodes", "chunks and a decode"],
)
def test_a_sliding_window_lets_a_query_see_exactly_that_many_keys(
    driver: Driver, lens: list[tuple[int, int]], chunked: bool
) -> None:
    layer = driver.fit(Layer(sliding_window=20))
    batch = Batch.of(layer, *lens)
    assert_close(run(driver, layer, batch, chunked=chunked), batch.expected(layer), layer.dtype)


def test_the_window_is_exact_where_the_runner_dropped_the_blocks_before_it(driver: Driver) -> None:
    layer = driver.fit(Layer(sliding_window=20))
    batch = Batch.of(layer, (41, 1), (63, 1), (5, 1))
    assert_close(run(driver, layer, batch, drop_blocks=True), batch.expected(layer), layer.dtype)


@pytest.mark.parametrize("lens", [[(0, 12)], [(25, 1), (3, 1)]], ids=["a prompt", "decodes"])
def test_a_soft_cap_is_applied_to_the_logits(driver: Driver, lens: list[tuple[int, int]]) -> None:
    layer = driver.fit(Layer(logits_soft_cap=0.5))
    batch = Batch.of(layer, *lens)
    assert_close(run(driver, layer, batch), batch.expected(layer), layer.dtype)


def test_a_request_is_the_same_alone_and_in_a_batch(driver: Driver) -> None:
    layer = driver.fit(Layer())
    together = Batch.of(layer, (0, 6), (20, 1), (33, 1))
    rows = run(driver, layer, together).reshape(-1, layer.num_heads, layer.head_size)
    first = 0
    for request in together.requests:
        alone = run(driver, layer, Batch((request,), together.num_blocks))
        expected = rows[first : first + request.new].double()
        assert_close(alone, expected, layer.dtype)
        first += request.new
