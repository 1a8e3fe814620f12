"""Encoders see both sides; cross-attention sees the encoder's keys, given in the first step and cached after it."""

from __future__ import annotations

import pytest
import torch

from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Driver, V0Driver, encoder_fields
from v1_compat.suite.reference import Layer, assert_close, attention

DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_encoder_only_layer_is_not_causal(driver: Driver, dtype: torch.dtype) -> None:
    layer = driver.fit(Layer(attn_type="encoder_only", dtype=dtype))
    batch = Batch.of(layer, (0, 7), (0, 1), (0, 18))
    out = driver.step(layer, torch.zeros(0, dtype=dtype), batch)
    assert_close(out, batch.expected(layer), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_encoder_of_an_encoder_decoder_is_not_causal(driver: Driver, dtype: torch.dtype) -> None:
    layer = driver.fit(Layer(attn_type="encoder", dtype=dtype))
    source = Batch.of(layer, (0, 9), (0, 17))
    if isinstance(driver, V0Driver):  # V0 said the encoder's lengths in fields of their own
        metadata = driver.metadata(layer, Batch.of(layer, (0, 2), (0, 3)))
        for name, value in encoder_fields(layer, source, first=True).items():
            setattr(metadata, name, value)
        out = driver._forward(layer, source.query(), *source.new_keys(), torch.zeros(0, dtype=dtype), metadata)
    else:
        out = driver.step(layer, torch.zeros(0, dtype=dtype), source)
    assert_close(out, source.expected(layer), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cross_attention_sees_all_of_the_encoder_in_every_step(driver: Driver, dtype: torch.dtype) -> None:
    layer = driver.fit(Layer(attn_type="encoder_decoder", dtype=dtype))
    encoder = Batch.of(layer, (0, 19), (0, 5), seed=1)
    cache = driver.new_cache(layer, encoder.num_blocks)
    prompt, decode = Batch.of(layer, (0, 3), (0, 1)), Batch.of(layer, (3, 1), (1, 1))
    for batch, first in ((prompt, True), (decode, False)):
        out = driver.cross_step(layer, cache, batch, encoder, first=first)
        wanted = [
            attention(layer, request.query, source.key, source.value, causal=False)
            for request, source in zip(batch.requests, encoder.requests, strict=True)
        ]
        assert_close(out, torch.cat(wanted), dtype)


def test_an_encoder_window_is_symmetric(driver: Driver) -> None:
    layer = driver.fit(Layer(attn_type="encoder_only", sliding_window=4))
    batch = Batch.of(layer, (0, 15))
    out = driver.step(layer, torch.zeros(0), batch)
    assert_close(out, batch.expected(layer), layer.dtype)
