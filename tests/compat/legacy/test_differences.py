"""Where V1 differs from V0 on purpose: V0's own answer is recorded, ours is another, and a notice says so."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy import torch_sdpa
from v1_compat.legacy.torch_sdpa import PagedAttention, TorchSDPABackend, TorchSDPABackendImpl
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import V0Driver, dropped_blocks
from v1_compat.suite.reference import Layer, assert_close, attention

DRIVER = V0Driver(TorchSDPABackend)


def build(**changes: Any) -> TorchSDPABackendImpl:
    arguments: dict[str, Any] = {
        "num_heads": 4,
        "head_size": 32,
        "scale": 0.1,
        "num_kv_heads": 2,
        "alibi_slopes": None,
        "sliding_window": None,
        "kv_cache_dtype": "auto",
    }
    return TorchSDPABackendImpl(**arguments | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sliding_window": 20}, "sliding_window=20: a decode sees exactly that many keys"),
        ({"logits_soft_cap": 30.0}, "logits_soft_cap is applied; V0's CPU backend ignored it"),
        ({"use_irope": True}, "use_irope is not served"),
        ({"sliding_window": 4, "attn_type": "encoder_only"}, "V0's masks made it causal"),
        ({"alibi_slopes": [0.5] * 4, "attn_type": "encoder"}, "V0's masks made it causal"),
    ],
    ids=["window", "soft cap", "irope", "encoder with a window", "encoder with ALiBi"],
)
def test_a_difference_is_said_where_the_layer_is_built(changes: dict[str, Any], words: str) -> None:
    with pytest.warns(FutureWarning, match=f"V1M003: .*{words}") as said:
        build(**changes)
    assert len(said) == 1
    assert said[0].filename == __file__


@pytest.mark.parametrize("changes", [{}, {"alibi_slopes": [0.5] * 4}, {"attn_type": "encoder_only"}], ids=str)
def test_a_layer_that_computes_what_v0_did_says_nothing(changes: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build(**changes)


def v0_decode(layer: Layer, batch: Batch, cache: Tensor) -> Tensor:
    """V0's decode: whole blocks before the window left out, no window inside the rest, no soft cap."""
    keys, values = PagedAttention.split_kv_cache(cache, 2, 32)
    query = batch.query()
    out = torch.empty_like(query)
    dropped = [dropped_blocks(layer, r) for r in batch.requests]
    lens = [r.length - n * 16 for r, n in zip(batch.requests, dropped, strict=True)]
    table = [r.blocks[n:].int() for r, n in zip(batch.requests, dropped, strict=True)]
    one = torch.ones(())
    ops.paged_attention_v1(
        *(out, query, keys, values, 2, layer.scale, torch.nn.utils.rnn.pad_sequence(table, batch_first=True)),
        *(torch.tensor(lens, dtype=torch.int32), 16, max(lens), None, "auto", one, one),
    )
    return out


@pytest.mark.filterwarnings("ignore:V1M003")
@pytest.mark.parametrize(
    ("layer", "length"),
    [(Layer(sliding_window=20), 45), (Layer(logits_soft_cap=0.05), 30)],
    ids=["a window at decode", "a soft cap"],
)
def test_v0s_answer_is_another_and_the_formula_agrees_with_ours(layer: Layer, length: int) -> None:
    batch = Batch.of(layer, (length, 1))
    cache = DRIVER.new_cache(layer, batch.num_blocks)
    DRIVER.step(layer, cache, batch.earlier())
    ours = DRIVER.step(layer, cache, batch, drop_blocks=True)
    assert_close(ours, batch.expected(layer), layer.dtype)
    theirs = v0_decode(layer, batch, cache).flatten(1)
    assert float((ours - theirs).abs().max()) > 1e-3


@pytest.mark.filterwarnings("ignore:V1M003")
def test_v0_saw_at_most_a_block_more_than_the_window() -> None:
    layer = Layer(sliding_window=20)
    batch = Batch.of(layer, (45, 1))
    request = batch.requests[0]
    cache = DRIVER.new_cache(layer, batch.num_blocks)
    DRIVER.step(layer, cache, batch.earlier())
    DRIVER.step(layer, cache, batch)
    seen = request.length - 16 * dropped_blocks(layer, request)
    assert 20 <= seen < 20 + 16
    wanted = attention(Layer(), request.query, request.key[-seen:], request.value[-seen:], causal=True)
    assert_close(v0_decode(layer, batch, cache), wanted, layer.dtype)


def test_block_sparse_attention_is_refused_where_the_layer_is_built() -> None:
    with pytest.raises(ValueError, match="blocksparse_params: block-sparse attention has no successor"):
        build(blocksparse_params={"local_blocks": 16})


@pytest.mark.filterwarnings("ignore:V1M003")
def test_a_mask_that_the_caller_set_is_used() -> None:
    layer = Layer()
    batch = Batch.of(layer, (0, 5))
    metadata = DRIVER.metadata(layer, batch)
    mask = torch.full((5, 5), -torch.inf).triu(1)
    mask[:, 0] = -torch.inf
    mask[0, 0] = 0.0  # nobody but the first token sees the first token
    metadata.set_attn_bias([mask], "decoder")
    out = DRIVER._forward(layer, batch.query(), *batch.new_keys(), torch.zeros(0), metadata)
    r = batch.requests[0]
    rest = attention(layer, r.query[1:], r.key[1:], r.value[1:], causal=True)
    first = attention(layer, r.query[:1], r.key[:1], r.value[:1], causal=True)
    assert_close(out, torch.cat([first, rest]), layer.dtype)


def test_v0s_mask_functions_make_masks_that_mean_the_same() -> None:
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    for layer, masks in (
        (Layer(alibi_slopes=tuple(slopes.tolist())), torch_sdpa._make_alibi_bias(slopes, torch.float32, [9, 5])),
        (Layer(sliding_window=3), torch_sdpa._make_sliding_window_bias([9, 5], 3, torch.float32)),
        (Layer(), torch_sdpa._make_sliding_window_bias([9, 5], None, torch.float32)),
    ):
        batch = Batch.of(Layer(), (0, 9), (0, 5))
        assert [mask.shape[-2:] for mask in masks] == [(9, 9), (5, 5)]
        metadata = DRIVER.metadata(Layer(), batch)
        metadata.set_attn_bias(masks, "decoder")
        out = DRIVER._forward(Layer(), batch.query(), *batch.new_keys(), torch.zeros(0), metadata)
        assert_close(out, batch.expected(layer), torch.float32)


@pytest.mark.parametrize("inside", [True, False], ids=["a cache made inside", "a cache made outside"])
def test_a_layer_runs_in_inference_mode(inside: bool) -> None:
    layer = Layer()
    batch = Batch.of(layer, (0, 6), (20, 1))
    cache = DRIVER.new_cache(layer, batch.num_blocks)
    with torch.inference_mode():
        if inside:
            cache = DRIVER.new_cache(layer, batch.num_blocks)
        DRIVER.step(layer, cache, batch.earlier())
        assert_close(DRIVER.step(layer, cache, batch), batch.expected(layer), layer.dtype)


def test_a_layer_that_shares_a_cache_writes_none() -> None:
    layer = Layer()
    batch = Batch.of(layer, (7, 1))
    cache = DRIVER.new_cache(layer, batch.num_blocks)
    DRIVER.step(layer, cache, batch.earlier())
    DRIVER.step(layer, cache, batch)
    kept = cache.clone()
    impl = build(scale=layer.scale, kv_sharing_target_layer_name="layers.0")
    noise = torch.randn(1, 64)
    out = impl.forward(None, batch.query().flatten(1), noise, noise, cache, DRIVER.metadata(layer, batch))
    assert torch.equal(cache, kept)
    assert_close(out, batch.expected(layer), layer.dtype)


@pytest.mark.parametrize("attn_type", ["decoder", "encoder_decoder"])
def test_a_decode_of_several_tokens_is_served(attn_type: str) -> None:
    layer = Layer(attn_type=attn_type)
    batch = Batch.of(layer, (18, 3))
    (request,) = batch.requests
    cache = DRIVER.new_cache(layer, batch.num_blocks)
    stored = Layer()
    DRIVER.step(stored, cache, batch.earlier())
    DRIVER.step(stored, cache, batch, chunked=True)
    metadata = DRIVER.metadata(layer, Batch.of(layer, (20, 1)))
    metadata.num_decode_tokens = 3
    metadata.slot_mapping = request.slots(16, 18, 21)
    metadata.block_tables = metadata.cross_block_tables = request.blocks[None].int()
    metadata.encoder_seq_lens, metadata.encoder_seq_lens_tensor = [21], torch.tensor([21], dtype=torch.int32)
    metadata.max_encoder_seq_len, metadata.cross_slot_mapping = 21, torch.zeros(0, dtype=torch.int64)
    states = batch.new_keys() if attn_type == "decoder" else (None, None)
    out = DRIVER._forward(layer, batch.query(), *states, cache, metadata)
    wanted = attention(layer, request.query, request.key, request.value, causal=attn_type == "decoder")
    assert_close(out, wanted, layer.dtype)


def test_a_warm_up_returns_its_query() -> None:
    query = torch.randn(3, 128)
    assert build().forward(None, query, query, query, torch.zeros(0), None) is query


def test_an_output_is_filled_and_quantised_output_refused() -> None:
    layer, batch = Layer(), Batch.of(Layer(), (0, 5))
    query, metadata = batch.query().flatten(1), DRIVER.metadata(layer, batch)
    key, value = (x.flatten(1) for x in batch.new_keys())
    output = torch.full_like(query, torch.nan)
    impl = build(scale=layer.scale)
    out = impl.forward(None, query, key, value, torch.zeros(0), metadata, output)
    assert out.data_ptr() == output.data_ptr()
    assert_close(output, batch.expected(layer), layer.dtype)
    with pytest.raises(NotImplementedError, match="output_scale"):
        impl.forward(None, query, key, value, torch.zeros(0), metadata, output, torch.ones(()))


@pytest.mark.parametrize(
    ("attn_type", "error", "words"),
    [
        ("encoder", AttributeError, "encoder attention needs encoder_seq_lens"),
        ("encoder_decoder", AttributeError, "cross-attention needs .*cross_slot_mapping"),
        ("encoder_only", ValueError, "an encoder-only layer decodes nothing"),
    ],
)
def test_incomplete_metadata_is_refused_with_the_fields(attn_type: str, error: type[Exception], words: str) -> None:
    layer, batch = Layer(), Batch.of(Layer(), (0, 5), (7, 1))
    states = torch.zeros(6, 64)
    with pytest.raises(error, match=words):
        build(attn_type=attn_type).forward(
            None, torch.zeros(6, 128), states, states, torch.zeros(0), DRIVER.metadata(layer, batch)
        )
