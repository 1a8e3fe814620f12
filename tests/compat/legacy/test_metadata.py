"""V0's metadata objects: old pickles, both names for one class, the builder, and the way to V1's metadata and back."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from v1_compat.legacy import abstract, convert, cpu_mla, paged_attn, torch_sdpa
from v1_compat.legacy.torch_sdpa import TorchSDPAMetadata
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import Scales, V0Driver
from v1_compat.suite.reference import Layer, assert_close

import v1_cpu

LAYER = Layer()
DRIVER = V0Driver(torch_sdpa.TorchSDPABackend)
MODULE = "vllm.attention.backends.torch_sdpa"


def metadata(*lens: tuple[int, int], chunked: bool = False) -> TorchSDPAMetadata:
    made: TorchSDPAMetadata = DRIVER.metadata(LAYER, Batch.of(LAYER, *lens), chunked=chunked)
    return made


def pickled_by_v0(state: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> bytes:
    """What pickle wrote for an object of V0's class: its path and its attributes."""
    module = ModuleType(MODULE)
    written = type("TorchSDPAMetadata", (), {"__module__": MODULE})
    module.TorchSDPAMetadata = written  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        for name in ("vllm", "vllm.attention", "vllm.attention.backends"):
            patched.setitem(sys.modules, name, ModuleType(name))
        patched.setitem(sys.modules, MODULE, module)
        value = written()
        vars(value).update(state)
        return pickle.dumps(value)


def state_of(release: str) -> dict[str, Any]:
    """The attributes of a chunked batch with a decode, as a release had them."""
    made = metadata((16, 4), (20, 1), chunked=True)
    state = {f.name: getattr(made, f.name) for f in dataclasses.fields(made)}
    state |= {"attn_bias": None, "encoder_attn_bias": None, "cross_attn_bias": None}
    if release == "0.8.5":
        state["query_start_loc"] = state.pop("prefill_query_start_loc")
    return state


@pytest.mark.parametrize("release", ["0.8.5", "0.9.2"])
def test_an_old_pickle_loads_and_computes(
    release: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    data = pickled_by_v0(state_of(release), monkeypatch)
    request.getfixturevalue("legacy_names")
    loaded = pickle.loads(data)
    assert type(loaded) is TorchSDPAMetadata
    assert loaded.prefill_query_start_loc is not None and loaded.prefill_query_start_loc.tolist() == [0, 4]
    batch = Batch.of(LAYER, (16, 4), (20, 1))
    cache = DRIVER.new_cache(LAYER, batch.num_blocks)
    DRIVER.step(LAYER, cache, batch.earlier(), chunked=True)
    out = DRIVER._forward(LAYER, batch.query(), *batch.new_keys(), cache, loaded)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)
    again = pickle.loads(pickle.dumps(loaded))
    assert repr(again) == repr(loaded)


def test_old_and_new_names_are_one_class_to_isinstance() -> None:
    old, new = metadata((0, 3)), v1_cpu.TorchSDPAMetadata()
    for cls in (
        v1_cpu.TorchSDPAMetadata,
        TorchSDPAMetadata,
        abstract.AttentionMetadata,
        paged_attn.PagedAttentionMetadata,
    ):
        assert isinstance(old, cls), cls
    assert isinstance(new, TorchSDPAMetadata) and isinstance(new, abstract.AttentionMetadata)
    assert not isinstance(object(), TorchSDPAMetadata)
    assert not isinstance(old, cpu_mla.CPUMLAMetadata), "a subclass is no other name"
    for legacy, current in (
        (torch_sdpa.TorchSDPABackend, v1_cpu.TorchSDPABackend),
        (torch_sdpa.TorchSDPABackendImpl, v1_cpu.TorchSDPABackendImpl),
    ):
        assert issubclass(legacy, current) and issubclass(current, legacy)
        assert not issubclass(int, legacy)
        assert not issubclass(current, type("Derived", (legacy,), {}))
    assert issubclass(v1_cpu.TorchSDPABackend, abstract.AttentionBackend)


def test_a_users_subclass_adds_its_fields_after_v0s() -> None:
    @dataclasses.dataclass
    class Extended(TorchSDPAMetadata):
        extra: int = 0

    names = [f.name for f in dataclasses.fields(Extended)]
    assert names == [*(f.name for f in dataclasses.fields(TorchSDPAMetadata)), "extra"]
    made = Extended(**metadata((0, 3)).asdict_zerocopy(), extra=5)
    assert dataclasses.replace(made, extra=6).extra == 6
    assert isinstance(made, v1_cpu.TorchSDPAMetadata)


def test_the_representation_is_v0s() -> None:
    text = repr(metadata((0, 3)))
    assert text.startswith("TorchSDPAMetadata(seq_lens_tensor=")
    assert "kv_lens" not in text and "_plans" not in text


def test_a_required_field_is_required() -> None:
    with pytest.raises(TypeError, match="num_prefills"):
        TorchSDPAMetadata(seq_lens_tensor=None, max_decode_seq_len=0, block_tables=None)  # type: ignore[call-arg]


def input_builder(*, chunked: bool, prefills: int) -> SimpleNamespace:
    """What V0's CPU runner gathered: two prefills of 4 (16 computed before) and 9 tokens, a decode at token 21."""
    data = SimpleNamespace(
        num_prefills=prefills,
        num_prefill_tokens=13 if prefills else 0,
        num_decode_tokens=1,
        slot_mapping=[16, 17, 18, 19, *range(32, 41), 84] if prefills else [84],
        seq_lens=[20, 9, 21][2 - prefills :],
        prefill_block_tables=[[0, 1], [2]][:prefills],
        decode_block_tables=[[4, 5]],
        max_decode_seq_len=21,
        multi_modal_inputs_list=[],
        multi_modal_placeholder_maps={},
    )
    return SimpleNamespace(chunked_prefill=chunked, input_data=data)


def test_the_builder_makes_a_chunked_batch() -> None:
    builder = torch_sdpa.TorchSDPAMetadataBuilder(input_builder(chunked=True, prefills=2))
    builder.prepare()
    made = builder.build([20, 9, 21], [4, 9, 1], -1, -1)
    assert (made.num_prefills, made.num_prefill_tokens, made.num_decode_tokens) == (2, 13, 1)
    assert made.seq_lens == [20, 9] and (made.max_query_len, made.max_kv_len) == (9, 20)
    for found, wanted in (
        (made.prefill_query_start_loc, [0, 4, 13]),
        (made.kv_start_loc, [0, 20, 29]),
        (made.prefill_block_tables, [[0, 1], [2, 0]]),
        (made.block_tables, [[4, 5]]),
        (made.seq_lens_tensor, [21]),
    ):
        assert found is not None and found.dtype is torch.int32 and found.tolist() == wanted
    assert made.slot_mapping.dtype is torch.int64 and made.slot_mapping.numel() == 14
    assert made.multi_modal_placeholder_index_maps is None and made.query_start_loc is None


def test_the_builder_without_chunks_leaves_their_fields_out() -> None:
    builder = torch_sdpa.TorchSDPAMetadataBuilder(input_builder(chunked=False, prefills=0))
    builder.prepare()
    made = builder.build([21], [1], -1, -1)
    assert made.prefill_metadata is None and made.decode_metadata is made
    assert (made.max_query_len, made.max_kv_len, made.prefill_query_start_loc, made.kv_start_loc) == (None,) * 4


@pytest.mark.parametrize("chunked", [True, False])
def test_the_layer_reads_nothing_that_the_builder_left_out(chunked: bool) -> None:
    batch = Batch.of(LAYER, *([(16, 4), (0, 9), (20, 1)] if chunked else [(0, 4), (0, 9), (20, 1)]))
    first, second, decode = batch.requests
    slots = torch.cat([r.slots(16, r.context, r.length) for r in batch.requests]).tolist()
    source = input_builder(chunked=chunked, prefills=2)
    source.input_data.slot_mapping = slots
    source.input_data.seq_lens = [r.length for r in batch.requests]
    source.input_data.prefill_block_tables = [first.blocks.tolist(), second.blocks.tolist()]
    source.input_data.decode_block_tables = [decode.blocks.tolist()]
    builder = torch_sdpa.TorchSDPABackend.get_builder_cls()(source)
    builder.prepare()
    made = builder.build(source.input_data.seq_lens, [r.new for r in batch.requests], -1, -1)
    cache = DRIVER.new_cache(LAYER, batch.num_blocks)
    DRIVER.step(LAYER, cache, batch.earlier())
    out = DRIVER._forward(LAYER, batch.query(), *batch.new_keys(), cache, made)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)


RENAMED = {
    "decode_seq_lens_tensor": "seq_lens_tensor",
    "decode_max_seq_len": "max_decode_seq_len",
    "decode_block_tables": "block_tables",
    "prefill_max_seq_len": "max_kv_len",
    "prefill_seq_start_loc": "kv_start_loc",
}


@pytest.mark.parametrize(("name", "field"), RENAMED.items())
def test_a_name_of_vllms_main_reads_and_writes_the_field(name: str, field: str) -> None:
    made, value = metadata((0, 3), (20, 1)), object()
    with pytest.warns(FutureWarning, match=f"V1M102: TorchSDPAMetadata.{name} is {field}") as said:
        assert getattr(made, name) is getattr(made, field)
        setattr(made, name, value)
    assert getattr(made, field) is value
    assert [each.filename for each in said] == [__file__] * 2
    assert name not in repr(made)


def attend_v1(batch: Batch, made: v1_cpu.TorchSDPAMetadata) -> Tensor:
    """The batch in V1's own layer, over a V1 cache."""
    cache = v1_cpu.allocate_kv_cache(batch.num_blocks, LAYER.block_size, 2, 32, torch.float32)
    for r in batch.requests:
        slots = r.slots(LAYER.block_size, 0, r.context)
        v1_cpu.write_kv_cache(r.key[: r.context], r.value[: r.context], cache, slots)
    layer = v1_cpu.TorchSDPABackendImpl(4, 32, LAYER.scale, 2)
    return layer.forward(Scales(), batch.query(), *batch.new_keys(), cache, made)


@pytest.mark.parametrize(
    ("lens", "chunked"),
    [
        ([(0, 6), (0, 18)], False),
        ([(20, 1), (33, 1)], False),
        ([(0, 6), (20, 1)], False),
        ([(16, 4), (0, 9), (20, 1)], True),
    ],
    ids=["prompts", "decodes", "a prompt and a decode", "a chunk, a prompt and a decode"],
)
@pytest.mark.parametrize("way", ["as it is", "to_v1", "to_common and V1's builder"])
def test_v1s_layer_takes_v0s_metadata(lens: list[tuple[int, int]], chunked: bool, way: str) -> None:
    batch = Batch.of(LAYER, *lens)
    made: Any = DRIVER.metadata(LAYER, batch, chunked=chunked)
    if way == "to_v1":
        made = convert.to_v1(made, LAYER.block_size)
        assert type(made) is v1_cpu.TorchSDPAMetadata
    elif way != "as it is":
        spec = v1_cpu.AttentionSpec(block_size=16, num_kv_heads=2, head_size=32, dtype=torch.float32)
        builder = v1_cpu.TorchSDPAMetadataBuilderV1(spec, ["layer"], None, torch.device("cpu"))
        made = builder.build(0, convert.to_common(made, LAYER.block_size))
    assert_close(attend_v1(batch, made), batch.expected(LAYER), LAYER.dtype)


def test_0_8_5s_start_locations_of_prefills_alone_are_understood() -> None:
    batch = Batch.of(LAYER, (16, 4), (20, 1))
    made: Any = DRIVER.metadata(LAYER, batch, chunked=True)
    made.query_start_loc, made.prefill_query_start_loc = made.prefill_query_start_loc, None
    assert convert.to_v1(made, 16).start_locations().tolist() == [0, 4, 5]
    assert_close(attend_v1(batch, convert.to_v1(made, 16)), batch.expected(LAYER), LAYER.dtype)


@pytest.mark.parametrize(
    ("query_lens", "seq_lens", "prefills"),
    [([4, 9, 1], [20, 9, 21], 2), ([1, 4, 1], [21, 20, 33], 3), ([4, 2], [20, 22], 2)],
    ids=["prefills first", "decodes around a chunk become chunks", "a decode of two tokens is a chunk"],
)
def test_v1s_metadata_becomes_v0s(query_lens: list[int], seq_lens: list[int], prefills: int) -> None:
    batch = Batch.of(LAYER, *[(s - q, q) for q, s in zip(query_lens, seq_lens, strict=True)])
    unordered = Batch.of(LAYER, *[(s - q, q) for q, s in zip(query_lens, seq_lens, strict=True)])
    by_length = {r.length: r for r in unordered.requests}
    batch = Batch(tuple(by_length[s] for s in seq_lens), unordered.num_blocks)  # V1's order
    common = v1_cpu.CommonAttentionMetadata.of(
        query_lens,
        seq_lens,
        torch.nn.utils.rnn.pad_sequence([r.blocks.int() for r in batch.requests], batch_first=True),
        torch.cat([r.slots(16, r.context, r.length) for r in batch.requests]),
        is_prefilling=torch.tensor([q > 1 for q in query_lens]) if prefills != 3 else None,
    )
    spec = v1_cpu.AttentionSpec(block_size=16, num_kv_heads=2, head_size=32, dtype=torch.float32)
    new = v1_cpu.TorchSDPAMetadataBuilderV1(spec, ["layer"]).build(0, common)
    old = convert.from_v1(new)
    assert type(old) is TorchSDPAMetadata and old.num_prefills == prefills
    cache = DRIVER.new_cache(LAYER, batch.num_blocks)
    DRIVER.step(LAYER, cache, batch.earlier())
    out = DRIVER._forward(LAYER, batch.query(), *batch.new_keys(), cache, old)
    assert_close(out, batch.expected(LAYER), LAYER.dtype)
    back = convert.to_v1(old, 16)
    assert back.key_lengths().tolist() == seq_lens
    assert back.start_locations().tolist() == new.start_locations().tolist()
    assert torch.equal(back.all_blocks(16), new.all_blocks(16))


def test_encoder_fields_survive_both_ways() -> None:
    made = metadata((0, 3))
    made.encoder_seq_lens, made.encoder_seq_lens_tensor = [5], torch.tensor([5], dtype=torch.int32)
    made.max_encoder_seq_len = made.num_encoder_tokens = 5
    new = convert.to_v1(made, 16)
    assert convert.from_v1(new).encoder_seq_lens == [5]
    common = convert.to_common(made, 16, "encoder_decoder")
    assert common.causal is False and common.encoder_seq_lens is made.encoder_seq_lens_tensor
