"""The operations on V0's caches beyond what V0's CPU library could do itself, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from v1_compat.legacy import attend, ipex_attn, layouts, paged_attn, torch_sdpa
from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy.layouts import SplitCache
from v1_compat.suite.batches import Batch
from v1_compat.suite.driver import V0Driver, run
from v1_compat.suite.reference import Layer, assert_close, attention

import v1_cpu

ONE = torch.ones(())
PACKED, PLAIN = ipex_attn._PagedAttention, ipex_attn._IPEXPagedAttention
LAYOUTS = [pytest.param(PACKED, id="x-packed keys"), pytest.param(PLAIN, id="the layout of IPEX")]


def cache_of(layer: Layer, batch: Batch, layout: Any, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    shape = layout.get_kv_cache_shape(batch.num_blocks, layer.block_size, layer.num_kv_heads, layer.head_size)
    caches: tuple[Tensor, Tensor] = layout.split_kv_cache(
        torch.zeros(shape, dtype=dtype or layer.dtype), layer.num_kv_heads, layer.head_size
    )
    return caches


def write(layer: Layer, batch: Batch, caches: tuple[Tensor, Tensor], last: int = 0, **options: Any) -> None:
    """Store all but the `last` tokens of each request."""
    for r in batch.requests:
        stop = r.length - last
        slots = r.slots(layer.block_size, 0, stop)
        ops.reshape_and_cache(
            *(r.key[:stop], r.value[:stop], *caches, slots),
            options.get("kv_cache_dtype", "auto"),
            options.get("k_scale", ONE),
            options.get("v_scale", ONE),
        )


def decode(layer: Layer, batch: Batch, caches: tuple[Tensor, Tensor], **changes: Any) -> Tensor:
    query = batch.query()
    lens = torch.tensor([r.length for r in batch.requests], dtype=torch.int32)
    arguments: dict[str, Any] = {
        "out": torch.full_like(query, torch.nan),
        "query": query,
        "key_cache": caches[0],
        "value_cache": caches[1],
        "num_kv_heads": layer.num_kv_heads,
        "scale": layer.scale,
        "block_tables": torch.nn.utils.rnn.pad_sequence([r.blocks.int() for r in batch.requests], batch_first=True),
        "seq_lens": lens,
        "block_size": layer.block_size,
        "max_seq_len": int(lens.max()),
        "alibi_slopes": None if layer.alibi_slopes is None else torch.tensor(layer.alibi_slopes),
        "kv_cache_dtype": "auto",
        "k_scale": ONE,
        "v_scale": ONE,
    } | changes
    ops.paged_attention_v1(**arguments)
    out: Tensor = arguments["out"]
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_decode_reads_what_a_write_stored(layout: Any, dtype: torch.dtype) -> None:
    layer = Layer(dtype=dtype, alibi_slopes=(0.5, 0.25, 0.125, 0.0625))
    batch = Batch.of(layer, (18, 1), (5, 1), (31, 1))
    caches = cache_of(layer, batch, layout)
    write(layer, batch, caches)
    assert_close(decode(layer, batch, caches), batch.expected(layer), dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_are_copied_in_parts_where_they_are_many(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1), (40, 1), (31, 1))
    caches = cache_of(layer, batch, layout)
    write(layer, batch, caches)
    monkeypatch.setattr(layouts, "_COPIED_AT_ONCE", caches[0][:2].nbytes)
    assert_close(decode(layer, batch, caches), batch.expected(layer), layer.dtype)


@pytest.mark.parametrize("offset", [0, 1, 4], ids=["aligned", "off by one number", "off by one run"])
def test_a_cache_that_starts_anywhere_in_its_storage_is_read(offset: int) -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1))
    storage = torch.zeros(2 * batch.num_blocks * 1024 + offset)
    flat = storage[offset:].view(2, batch.num_blocks, 1024)
    caches = PACKED.split_kv_cache(flat, 2, 32)
    write(layer, batch, caches)
    assert_close(decode(layer, batch, caches), batch.expected(layer), layer.dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (torch.float8_e4m3fn, "fp8_e4m3"),
        (torch.float8_e5m2, "fp8_e5m2"),
        (torch.float8_e5m2, "fp8"),
        (torch.uint8, "fp8_e5m2"),
        (torch.uint8, "fp8"),
    ],
    ids=str,
)
def test_a_float8_cache_is_scaled(layout: Any, stored: torch.dtype, said: str) -> None:
    layer = Layer(dtype=torch.bfloat16)
    batch = Batch.of(layer, (18, 1), (5, 1))
    k_scale, v_scale = torch.tensor(0.05), torch.tensor(0.03)
    caches = cache_of(layer, batch, layout, stored)
    scales = {"kv_cache_dtype": said, "k_scale": k_scale, "v_scale": v_scale}
    write(layer, batch, caches, **scales)
    inside = (
        stored if stored is not torch.uint8 else torch.float8_e5m2 if said.endswith("e5m2") else torch.float8_e4m3fn
    )

    def rounded(x: Tensor, scale: Tensor) -> Tensor:
        return (x.float() / scale).to(inside).double() * scale.double()

    wanted = [
        attention(layer, r.query, rounded(r.key, k_scale), rounded(r.value, v_scale), causal=True)
        for r in batch.requests
    ]
    assert_close(decode(layer, batch, caches, **scales), torch.cat(wanted), layer.dtype)


def test_a_float8_number_too_large_is_saturated() -> None:
    layer = Layer(num_kv_heads=1, head_size=16)
    batch = Batch.of(layer, (0, 1))
    keys, values = cache_of(layer, batch, PACKED, torch.float8_e4m3fn)
    huge = torch.full((1, 1, 16), 1e6)
    ops.reshape_and_cache(huge, -huge, keys, values, torch.tensor([0]), "fp8_e4m3", ONE, ONE)
    assert float(keys.float().max()) == 448.0 and float(values.float().min()) == -448.0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", [None, 0, -1, 9], ids=str)
def test_a_prefix_is_read_from_the_cache_and_the_chunk_from_its_arguments(layout: Any, window: int | None) -> None:
    layer = Layer(sliding_window=window if window and window > 0 else None)
    batch = Batch.of(layer, (18, 5), (3, 20), (0, 4))
    caches = cache_of(layer, batch, layout)
    for r in batch.requests:
        stored = r.slots(layer.block_size, 0, r.context)
        ops.reshape_and_cache(r.key[: r.context], r.value[: r.context], *caches, stored, "auto", ONE, ONE)
    before = caches[0].clone()
    key, value = batch.new_keys()
    out = paged_attn.PagedAttention.forward_prefix(
        *(batch.query(), key, value, "auto", *caches),
        torch.nn.utils.rnn.pad_sequence([r.blocks.int() for r in batch.requests], batch_first=True),
        torch.tensor([0, *(r.new for r in batch.requests)]).cumsum(0).int(),
        torch.tensor([r.length for r in batch.requests], dtype=torch.int32),
        *(20, None, window, ONE, ONE),
    )
    assert_close(out, batch.expected(layer), layer.dtype)
    assert torch.equal(caches[0], before), "the caller's cache must stay as it was"


def test_two_chunks_after_one_partly_filled_block_do_not_meet_in_it() -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 2), (18, 2))
    first, second = batch.requests
    caches = cache_of(layer, batch, PACKED)
    ops.reshape_and_cache(first.key[:18], first.value[:18], *caches, first.slots(16, 0, 18), "auto", ONE, ONE)
    out = paged_attn.PagedAttention.forward_prefix(
        *(batch.query(), *batch.new_keys(), "auto", *caches, first.blocks.int().expand(2, -1)),
        *(torch.tensor([0, 2, 4], dtype=torch.int32), torch.tensor([20, 20], dtype=torch.int32)),
        *(2, None, None, ONE, ONE),
    )
    wanted = [
        attention(
            layer,
            r.query,
            torch.cat([first.key[:18], r.key[18:]]),
            torch.cat([first.value[:18], r.value[18:]]),
            causal=True,
        )
        for r in (first, second)
    ]
    assert_close(out, torch.cat(wanted), layer.dtype)


@pytest.mark.parametrize("name", ["k_scale", "v_scale"])
def test_a_scale_of_a_cache_that_is_not_quantised_is_not_read(name: str) -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1))
    caches = cache_of(layer, batch, PACKED)
    write(layer, batch, caches, **{name: torch.tensor(0.5)})
    assert_close(decode(layer, batch, caches, **{name: torch.tensor(0.5)}), batch.expected(layer), layer.dtype)


def test_a_request_without_keys_gives_zeros() -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1))
    caches = cache_of(layer, batch, PACKED)
    assert not bool(decode(layer, batch, caches, seq_lens=torch.tensor([0], dtype=torch.int32)).any())


def test_a_prefix_shared_by_two_requests_is_read_by_both() -> None:
    layer = Layer()
    batch = Batch.of(layer, (32, 1), (32, 1))
    first, second = batch.requests
    caches = cache_of(layer, batch, PACKED)
    write(layer, batch, caches)
    table = torch.tensor([first.blocks.tolist(), [*first.blocks[:2].tolist(), int(second.blocks[2])]]).int()
    out = decode(layer, batch, caches, block_tables=table)
    keys = torch.cat([first.key[:32], second.key[32:]]), torch.cat([first.value[:32], second.value[32:]])
    assert_close(out[1:], attention(layer, second.query, *keys, causal=True), layer.dtype)


def test_blocks_are_copied_and_swapped_in_both_halves() -> None:
    cache = torch.randn(2, 6, 32)
    other, before = torch.zeros_like(cache), cache.clone()
    paged_attn.PagedAttention.copy_blocks([cache], torch.tensor([[1, 4], [0, 5]]))
    assert torch.equal(cache[:, [4, 5]], before[:, [1, 0]]) and torch.equal(cache[:, :4], before[:, :4])
    paged_attn.PagedAttention.swap_blocks(cache, other, torch.tensor([[2, 0]]))
    assert torch.equal(other[:, 0], before[:, 2]) and not bool(other[:, 1:].any())


def test_a_mapping_as_a_dict_of_lists_is_taken() -> None:
    cache = torch.randn(2, 6, 32)
    before = cache.clone()
    ipex_attn.PagedAttention.copy_blocks([cache], {1: [4, 5], 0: 3})
    assert torch.equal(cache[:, [4, 5, 3]], before[:, [1, 1, 0]])


def test_the_callers_tensors_stay_as_they_were() -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1))
    caches = cache_of(layer, batch, PACKED)
    write(layer, batch, caches)
    given = {"seq_lens": torch.tensor([19]), "block_tables": batch.requests[0].blocks[None].clone()}  # int64, both
    kept = {name: tensor.clone() for name, tensor in given.items()} | {"key": caches[0].clone()}
    assert_close(decode(layer, batch, caches, **given), batch.expected(layer), layer.dtype)
    assert all(torch.equal(given[name], kept[name]) for name in given) and torch.equal(caches[0], kept["key"])


LAYER = Layer()
REFUSED = [
    pytest.param({"blocksparse_vert_stride": 8}, NotImplementedError, "blocksparse_vert_stride: 8", id="block-sparse"),
    pytest.param({"num_kv_heads": 4}, ValueError, "num_kv_heads: 4; the cache has 2", id="other KV heads"),
    pytest.param({"block_size": 32}, ValueError, "block_size: 32; the cache has 16", id="another block size"),
    pytest.param({"seq_lens": torch.tensor([60], dtype=torch.int32)}, ValueError, "room for 32", id="too long"),
    pytest.param(
        {"block_tables": torch.tensor([[0, 99]], dtype=torch.int32)}, ValueError, "block_tables: 99", id="no such block"
    ),
    pytest.param({"query": torch.zeros(1, 4, 64), "out": torch.zeros(1, 4, 64)}, ValueError, "head size 64", id="head"),
    pytest.param({"out": torch.zeros(1, 4, 32).double()}, ValueError, "out: torch.float64", id="another out"),
    pytest.param({"key_cache": torch.zeros(4, 2, 32)}, ValueError, "key_cache, value_cache: shapes", id="flat keys"),
    pytest.param({"key_cache": None}, TypeError, "key_cache: NoneType", id="no keys"),
    pytest.param(
        {"query": torch.zeros(1, 4, 32).half(), "out": torch.zeros(1, 4, 32).half()},
        TypeError,
        "nothing is converted silently",
        id="another dtype",
    ),
    pytest.param(
        {"query": torch.zeros(1, 4, 32).half(), "out": torch.zeros(1, 4, 32).half(), "kv_cache_dtype": "int4"},
        ValueError,
        "kv_cache_dtype: 'int4'",
        id="an unknown cache dtype",
    ),
]


@pytest.mark.parametrize(("changes", "error", "words"), REFUSED)
def test_a_wrong_argument_is_named(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    batch = Batch.of(LAYER, (18, 1))
    caches = cache_of(LAYER, batch, PACKED)
    write(LAYER, batch, caches)
    with pytest.raises(error, match=words):
        decode(LAYER, batch, caches, **changes)


@pytest.mark.parametrize(
    ("slots", "tokens", "words"),
    [([0, 64], 2, "slot_mapping: 64; must be negative"), ([0], 2, "key: shape .* for 1 slots")],
    ids=["a slot outside the cache", "fewer slots than keys"],
)
def test_a_wrong_write_is_refused_before_anything_is_stored(slots: list[int], tokens: int, words: str) -> None:
    batch = Batch.of(LAYER, (18, 1))
    caches = cache_of(LAYER, batch, PACKED)
    states = torch.randn(tokens, 2, 32)
    with pytest.raises(ValueError, match=words):
        ops.reshape_and_cache(states, states, *caches, torch.tensor(slots), "auto", ONE, ONE)
    assert not bool(caches[0].any())


def test_a_scale_for_each_head_is_refused() -> None:
    batch = Batch.of(LAYER, (18, 1))
    caches = cache_of(LAYER, batch, PACKED, torch.float8_e5m2)
    with pytest.raises(ValueError, match="must be one number"):
        decode(LAYER, batch, caches, kv_cache_dtype="fp8_e5m2", k_scale=torch.ones(2))


def test_e5m2_is_not_read_as_e4m3() -> None:
    batch = Batch.of(LAYER, (18, 1))
    caches = cache_of(LAYER, batch, PACKED, torch.float8_e5m2)
    with pytest.raises(TypeError, match="float8_e5m2; with kv_cache_dtype='fp8_e4m3' it must hold"):
        decode(LAYER, batch, caches, kv_cache_dtype="fp8_e4m3")


def test_keys_that_do_not_pack_are_refused_with_the_rule() -> None:
    with pytest.raises(ValueError, match="must be a multiple of 8"):
        PACKED.split_kv_cache(torch.zeros(2, 4, 16 * 2 * 36, dtype=torch.bfloat16), 2, 36)


def test_the_answer_is_that_of_v1_over_the_converted_cache() -> None:
    layer = Layer()
    batch = Batch.of(layer, (18, 1), (5, 1))
    flat = torch.zeros(2, batch.num_blocks, 16 * 2 * 32)
    caches = PACKED.split_kv_cache(flat, 2, 32)
    write(layer, batch, caches)
    new = v1_cpu.convert_kv_cache(flat, source="v0", num_kv_heads=2, head_size=32)
    wanted = v1_cpu.paged_attention(
        batch.query(),
        new,
        query_start_loc=torch.tensor([0, 1, 2], dtype=torch.int32),
        seq_lens=torch.tensor([r.length for r in batch.requests], dtype=torch.int32),
        block_table=torch.nn.utils.rnn.pad_sequence([r.blocks.int() for r in batch.requests], batch_first=True),
        scale=layer.scale,
    )
    torch.testing.assert_close(decode(layer, batch, caches), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("held", [1, 5, 1 << 30], ids=["a request at a time", "some", "all at once"])
def test_the_answer_does_not_depend_on_how_much_is_copied_at_once(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    layer = Layer()
    batch = Batch.of(layer, (16, 9), (0, 4), (50, 1), (18, 1), (70, 1))
    sizes: list[int] = []
    gather = SplitCache.gather

    def counted(self: SplitCache, lens: Tensor, tables: Tensor, **more: Any) -> Any:
        sizes.append(lens.numel())
        return gather(self, lens, tables, **more)

    block = 2 * 16 * layer.num_kv_heads * layer.head_size * 4  # bytes
    monkeypatch.setattr(attend, "_COPIED_AT_ONCE", held * block)
    monkeypatch.setattr(SplitCache, "gather", counted)
    out = run(V0Driver(torch_sdpa.TorchSDPABackend), layer, batch, chunked=True)
    monkeypatch.undo()
    assert_close(out, batch.expected(layer), layer.dtype)
    decodes = {1: [1, 1, 1], 5: [1, 1, 1], 1 << 30: [3]}[held]
    assert sizes[-len(decodes) :] == decodes and len(sizes) > len(decodes)
