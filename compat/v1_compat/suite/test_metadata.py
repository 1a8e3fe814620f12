"""V0's metadata: what it says about itself, and what code does with it between two calls."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest
import torch

from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Driver, V0Driver
from v1_compat.suite.reference import Layer, assert_close

LAYER = Layer()


@pytest.fixture
def v0(driver: Driver) -> V0Driver:
    if not isinstance(driver, V0Driver):
        pytest.skip("the backend is V1's kind; this test is about V0's metadata")
    return driver


def test_a_batch_with_prefills_and_decodes_is_both(v0: V0Driver) -> None:
    metadata = v0.metadata(LAYER, Batch.of(LAYER, (0, 6), (20, 1)))
    assert metadata.prefill_metadata is not None
    assert metadata.decode_metadata is not None
    assert metadata.prefill_metadata.prefill_metadata is not None
    assert metadata.get_seq_lens("decoder") == ([6], [6])
    lens, longest, tables = metadata.get_seq_len_block_table_args("decoder")
    assert (lens.tolist(), longest, tables.shape[0]) == ([21], 21, 1)


@pytest.mark.parametrize(
    ("lens", "missing"),
    [([(0, 6)], "decode_metadata"), ([(20, 1)], "prefill_metadata")],
    ids=["prefills only", "decodes only"],
)
def test_the_half_that_is_not_there_is_none(v0: V0Driver, lens: list[tuple[int, int]], missing: str) -> None:
    assert getattr(v0.metadata(LAYER, Batch.of(LAYER, *lens)), missing) is None


def test_an_unknown_attention_type_is_an_attribute_error(v0: V0Driver) -> None:
    metadata = v0.metadata(LAYER, Batch.of(LAYER, (0, 6)))
    for question in (metadata.get_seq_lens, metadata.get_attn_bias, metadata.get_seq_len_block_table_args):
        with pytest.raises(AttributeError, match="sideways"):
            question("sideways")


COPIES = [
    pytest.param(copy.copy, id="copy.copy"),
    pytest.param(copy.deepcopy, id="copy.deepcopy"),
    pytest.param(lambda m: pickle.loads(pickle.dumps(m)), id="pickle and back"),
    pytest.param(dataclasses.replace, id="dataclasses.replace"),
    pytest.param(lambda m: type(m)(**m.asdict_zerocopy()), id="asdict_zerocopy and back"),
]


@pytest.mark.parametrize("duplicate", COPIES)
def test_a_copy_means_the_same_batch(v0: V0Driver, duplicate: object) -> None:
    assert callable(duplicate)
    batch = Batch.of(LAYER, (0, 6), (20, 1))
    cache = v0.new_cache(LAYER, batch.num_blocks)
    v0.step(LAYER, cache, batch.earlier())
    metadata = v0.metadata(LAYER, batch)
    copied = duplicate(metadata)
    assert type(copied) is type(metadata)
    assert repr(copied) == repr(metadata)
    key, value = batch.new_keys()
    out = v0._forward(LAYER, batch.query(), key, value, cache, copied)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)


def test_metadata_that_is_advanced_in_place_means_the_next_step(v0: V0Driver) -> None:
    batch = Batch.of(LAYER, (20, 1), (33, 1))
    cache = v0.new_cache(LAYER, batch.num_blocks)
    v0.step(LAYER, cache, batch.earlier())
    shorter = Batch(  # the step before this one
        tuple(
            dataclasses.replace(r, context=r.context - 1, query=r.query, key=r.key[:-1], value=r.value[:-1])
            for r in batch.requests
        ),
        batch.num_blocks,
    )
    metadata = v0.metadata(LAYER, shorter)
    v0._forward(LAYER, shorter.query(), *shorter.new_keys(), cache, metadata)
    metadata.seq_lens_tensor += 1
    metadata.slot_mapping = torch.cat([r.slots(LAYER.block_size, r.context, r.length) for r in batch.requests])
    metadata.max_decode_seq_len += 1
    out = v0._forward(LAYER, batch.query(), *batch.new_keys(), cache, metadata)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)
