"""The four classes: what a builder builds, and what a layer then computes, in the styles of vLLM 0.10 and 0.32."""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from batches import BOUNDS, Batch, expected, make_batch, worst_error
from reference import Rules, attend

from v1_cpu.backend import TorchSDPABackend, TorchSDPABackendImpl, TorchSDPAMetadata, TorchSDPAMetadataBuilderV1
from v1_cpu.specs import AttentionSpec, AttentionType, CommonAttentionMetadata

BLOCK, HEADS, KV_HEADS, SIZE = 16, 4, 2, 32
SPEC = AttentionSpec(block_size=BLOCK, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=torch.float32)
MIXED = [(1, 33), (40, 40), (3, 90), (1, 64), (17, 50)]


def common_of(batch: Batch, slots: torch.Tensor | None = None, **rest: Any) -> CommonAttentionMetadata:
    """What a runner would hand over for this batch."""
    tokens = int(batch.query_start_loc[-1])
    return CommonAttentionMetadata(
        query_start_loc=batch.query_start_loc,
        seq_lens=batch.seq_lens,
        block_table_tensor=batch.block_table,
        slot_mapping=new_slots(batch) if slots is None else slots,
        num_reqs=len(batch.keys),
        num_actual_tokens=tokens,
        max_query_len=int(batch.query_start_loc.diff().max()) if batch.keys else 0,
        max_seq_len=int(batch.seq_lens.max()) if batch.keys else 0,
        **rest,
    )


def new_slots(batch: Batch) -> torch.Tensor:
    """The slots of the new tokens."""
    slots = []
    for row, (query_len, seq_len) in enumerate(zip(batch.query_start_loc.diff(), batch.seq_lens, strict=True)):
        positions = torch.arange(int(seq_len - query_len), int(seq_len))
        slots.append(batch.block_table[row].long()[positions // BLOCK] * BLOCK + positions % BLOCK)
    return torch.cat(slots) if slots else torch.empty(0, dtype=torch.int64)


def new_rows(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of the new tokens."""
    lens = [(int(q), int(s)) for q, s in zip(batch.query_start_loc.diff(), batch.seq_lens, strict=True)]
    keys = [k[s - q :] for k, (q, s) in zip(batch.keys, lens, strict=True)]
    values = [v[s - q :] for v, (q, s) in zip(batch.values, lens, strict=True)]
    return torch.cat(keys), torch.cat(values)


def layer_of(**kwargs: Any) -> TorchSDPABackendImpl:
    return TorchSDPABackendImpl(HEADS, SIZE, SIZE**-0.5, KV_HEADS, None, None, "auto", **kwargs)


def erase_new(batch: Batch) -> None:
    """Take the new tokens out of the cache, so that the layer has to write them."""
    flat = batch.kv_cache.transpose(1, 2).reshape(-1, KV_HEADS, 2 * SIZE)
    flat[new_slots(batch)] = torch.nan
    batch.kv_cache.copy_(flat.view(batch.kv_cache.shape[0], BLOCK, KV_HEADS, -1).transpose(1, 2))


def assert_right(out: torch.Tensor, batch: Batch, rules: Rules) -> None:
    wanted, _ = expected(batch, rules)
    tokens = wanted.shape[0]
    assert worst_error(out[:tokens].view(tokens, HEADS, -1), wanted) <= BOUNDS[batch.query.dtype]


def test_010_style_forward_writes_and_returns_two_dimensions(kernel: str) -> None:
    batch = make_batch(MIXED, padding=2)
    erase_new(batch)
    key, value = new_rows(batch)
    metadata = TorchSDPAMetadataBuilderV1(SPEC, SimpleNamespace(), torch.device("cpu")).build(0, common_of(batch))
    out = layer_of(kernel=kernel).forward(
        None, batch.query.flatten(1), key.flatten(1), value.flatten(1), batch.kv_cache, metadata
    )
    assert out.shape == (batch.query.shape[0], HEADS * SIZE)
    assert_right(out, batch, Rules(scale=SIZE**-0.5))
    assert not out[-2:].any()


def test_032_style_update_and_forward_into_the_given_output(kernel: str) -> None:
    class Layer(TorchSDPABackendImpl):
        forward_includes_kv_cache_update = False

    batch = make_batch(MIXED, padding=2)
    erase_new(batch)
    key, value = new_rows(batch)
    common = common_of(batch)
    metadata = TorchSDPAMetadataBuilderV1(SPEC, ["layer.0"], None, torch.device("cpu")).build(0, common)
    layer = Layer(HEADS, SIZE, SIZE**-0.5, KV_HEADS, None, -1, "auto", kernel=kernel)
    padded = torch.cat([common.slot_mapping, torch.tensor([-1, -1])])
    rows = [torch.cat([x, torch.full((2, KV_HEADS, SIZE), torch.nan)]) for x in (key, value)]
    layer.do_kv_cache_update(None, rows[0], rows[1], batch.kv_cache, padded)
    output = torch.full((batch.query.shape[0], HEADS, SIZE), 7.0)
    before = batch.kv_cache.clone()
    result = layer.forward(None, batch.query, rows[0], rows[1], batch.kv_cache, metadata, output)
    assert result is output
    assert torch.equal(batch.kv_cache.nan_to_num(), before.nan_to_num()), "forward must not write again"
    assert_right(output, batch, Rules(scale=SIZE**-0.5))
    assert bool((output[-2:] == 7.0).all()), "padding rows stay as they are"


@pytest.mark.parametrize(
    "option",
    [
        {"sliding_window": 20},
        {"attention_chunk_size": 24},
        {"logits_soft_cap": 1.5},
        {"alibi_slopes": [0.1, 0.2, 0.3, 0.4]},
        {"sinks": [0.5, -1.0, 2.0, 0.0]},
    ],
    ids=lambda o: next(iter(o)),
)
def test_options_of_a_layer_reach_the_kernel(option: dict[str, Any], kernel: str) -> None:
    batch = make_batch(MIXED)
    given = {k: torch.tensor(v) if k == "sinks" else v for k, v in option.items()}
    layer = TorchSDPABackendImpl(HEADS, SIZE, SIZE**-0.5, KV_HEADS, kernel=kernel, **given)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    out = layer.forward(None, batch.query, None, None, batch.kv_cache, metadata)
    tensors = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in option.items()}
    assert_right(out, batch, Rules(scale=SIZE**-0.5, **tensors))


def test_a_batch_in_the_middle_of_prefill_and_decode_matches_each_request_alone(kernel: str) -> None:
    """vllm #27034: with one decode before a prefill, the prefill once started at token 0."""
    batch = make_batch([(1, 9), (3, 3)])
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    out = layer_of(kernel=kernel).forward(None, batch.query, None, None, batch.kv_cache, metadata)
    for row, tokens in ((0, slice(0, 1)), (1, slice(1, 4))):
        wanted, _ = attend(batch.query[tokens], batch.keys[row], batch.values[row], Rules(scale=SIZE**-0.5), row)
        assert worst_error(out[tokens].view(-1, HEADS, SIZE), wanted) <= 1e-4


def test_the_builder_says_prefills_and_decodes_apart_in_any_order() -> None:
    batch = make_batch(MIXED)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    assert (metadata.num_prefills, metadata.num_prefill_tokens, metadata.num_decode_tokens) == (3, 60, 2)
    assert metadata.num_actual_tokens == 62
    assert metadata.seq_lens == [40, 90, 50]
    assert metadata.max_kv_len == 90
    assert metadata.prefill_query_start_loc.tolist() == [0, 40, 43, 60]
    assert metadata.kv_start_loc.tolist() == [0, 40, 130, 180]
    assert torch.equal(metadata.prefill_block_tables, batch.block_table[[1, 2, 4]])
    assert metadata.seq_lens_tensor.tolist() == [33, 64]
    assert torch.equal(metadata.block_tables, batch.block_table[[0, 3]])
    assert metadata.prefill_metadata is metadata
    assert metadata.decode_metadata is metadata
    assert metadata.get_seq_lens(AttentionType.DECODER) == ([40, 90, 50], [40, 90, 50])
    lens, longest, tables = metadata.get_seq_len_block_table_args("decoder")
    assert lens is metadata.seq_lens_tensor
    assert longest == 64
    assert tables is metadata.block_tables


def test_is_prefilling_of_the_runner_decides_over_the_guess() -> None:
    batch = make_batch([(1, 9), (2, 30)])
    told = torch.tensor([True, False])  # the last prompt token alone; a decode with a draft token
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch, is_prefilling=told))
    assert (metadata.num_prefills, metadata.num_prefill_tokens, metadata.num_decode_tokens) == (1, 1, 2)
    assert metadata.seq_lens_tensor.tolist() == [30]


@pytest.mark.parametrize("lens", [[], [(1, 5)], [(7, 7)]], ids=["no request", "decode only", "prefill only"])
def test_one_sided_batches(lens: list[tuple[int, int]], kernel: str) -> None:
    batch = make_batch(lens)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    assert (metadata.prefill_metadata is None) == (not any(q > 1 for q, _ in lens))
    assert (metadata.decode_metadata is None) == (not any(q == 1 for q, _ in lens))
    out = layer_of(kernel=kernel).forward(None, batch.query, None, None, batch.kv_cache, metadata)
    if lens:
        assert_right(out, batch, Rules(scale=SIZE**-0.5))
    else:
        assert out.shape == (0, HEADS * SIZE)


def test_the_builder_changes_nothing_it_was_given() -> None:
    batch = make_batch(MIXED)
    common = common_of(batch)
    held = {f.name: getattr(common, f.name) for f in dataclasses.fields(common)}
    before = copy.deepcopy(common)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common)
    layer_of().forward(None, batch.query, *new_rows(batch), batch.kv_cache, metadata)
    for name, value in held.items():
        now = getattr(common, name)
        assert now is value, f"{name} was replaced"
        if isinstance(now, torch.Tensor):
            assert torch.equal(now, getattr(before, name)), f"{name} was written to"


def test_the_builder_remembers_nothing_between_batches() -> None:
    builder = TorchSDPAMetadataBuilderV1(SPEC)
    order = FakeInput(computed=[5, 0], prompt=[5, 9])
    builder.reorder_batch(order, None)
    small = make_batch([(1, 3)])
    metadata = builder.build(0, common_of(small))
    assert (metadata.num_prefills, metadata.num_decode_tokens) == (0, 1)


class FakeInput:
    """The part of a runner's input batch that reordering uses."""

    def __init__(self, computed: list[int], prompt: list[int]) -> None:
        self.num_computed_tokens_cpu, self.num_prompt_tokens = list(computed), list(prompt)
        self.num_reqs = len(computed)
        self.rows = list(range(self.num_reqs))

    def swap_states(self, i: int, j: int) -> None:
        for values in (self.num_computed_tokens_cpu, self.num_prompt_tokens, self.rows):
            values[i], values[j] = values[j], values[i]


@pytest.mark.parametrize(
    ("computed", "moved"),
    [
        pytest.param([], False, id="no request"),
        pytest.param([0, 0], False, id="prefills only"),
        pytest.param([9, 9], False, id="decodes only"),
        pytest.param([0, 9], False, id="already in order"),
        pytest.param([9, 0], True, id="one swap"),
        pytest.param([9, 0, 9, 0, 0], True, id="several swaps"),
    ],
)
def test_reorder_batch_puts_prefills_first(computed: list[int], moved: bool) -> None:
    order = FakeInput(computed, [5] * len(computed))
    assert TorchSDPAMetadataBuilderV1(SPEC).reorder_batch(order, None) is moved
    prefilling = [c < 5 for c in order.num_computed_tokens_cpu]
    assert prefilling == sorted(prefilling, reverse=True)
    assert sorted(order.rows) == list(range(len(computed)))


def test_two_cache_groups_share_a_batch(kernel: str) -> None:
    first, second = make_batch(MIXED, seed=1), make_batch(MIXED, seed=2)
    builder = TorchSDPAMetadataBuilderV1(SPEC)
    metadata = builder.build(0, common_of(first))
    other = builder.update_block_table(metadata, second.block_table, new_slots(second))
    for batch, built in ((first, metadata), (second, other)):
        query = batch.query
        out = layer_of(kernel=kernel).forward(None, query, None, None, batch.kv_cache, built)
        assert_right(out, batch, Rules(scale=SIZE**-0.5))
    assert torch.equal(other.block_tables, second.block_table[[0, 3]])


def test_a_group_may_mix_windowed_and_global_layers(kernel: str) -> None:
    batch = make_batch(MIXED)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    for window in (None, 20, None, 7):
        layer = TorchSDPABackendImpl(HEADS, SIZE, SIZE**-0.5, KV_HEADS, sliding_window=window, kernel=kernel)
        out = layer.forward(None, batch.query, None, None, batch.kv_cache, metadata)
        assert_right(out, batch, Rules(scale=SIZE**-0.5, sliding_window=window))


def test_layers_of_one_kind_share_one_plan(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    from v1_cpu import backend

    real = backend.make_plan
    monkeypatch.setattr(backend, "make_plan", lambda **kw: made.append(1) or real(**kw))
    batch = make_batch(MIXED)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    for _ in range(3):
        layer_of(kernel=kernel).forward(None, batch.query, None, None, batch.kv_cache, metadata)
    assert len(made) == 1


def test_a_layer_that_shares_a_cache_reads_it_and_writes_nothing(kernel: str) -> None:
    batch = make_batch(MIXED)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    before = batch.kv_cache.clone()
    key, value = (torch.full_like(x, 9.0) for x in new_rows(batch))
    layer = layer_of(kernel=kernel, kv_sharing_target_layer_name="layer.0")
    out = layer.forward(None, batch.query, key, value, batch.kv_cache, metadata)
    layer.do_kv_cache_update(None, key, value, batch.kv_cache, metadata.slot_mapping)
    assert torch.equal(before.nan_to_num(), batch.kv_cache.nan_to_num())
    assert_right(out, batch, Rules(scale=SIZE**-0.5))


@pytest.mark.parametrize("scales", ["floats", "tensors"])
@pytest.mark.parametrize("cache_dtype", ["fp8_e4m3", "fp8_e5m2", "fp8"])
def test_float8_caches_that_arrive_as_uint8(scales: str, cache_dtype: str, kernel: str) -> None:
    named = "fp8_e4m3" if cache_dtype == "fp8" else cache_dtype
    batch = make_batch(MIXED, kv_cache_dtype=named)
    full = make_batch(MIXED)  # same seed: the unquantised rows
    cache = batch.kv_cache.view(torch.uint8)
    layer = (
        SimpleNamespace(_k_scale_float=batch.k_scale, _v_scale_float=batch.v_scale)
        if scales == "floats"
        else SimpleNamespace(_k_scale=torch.tensor(batch.k_scale), _v_scale=torch.tensor(batch.v_scale))
    )
    impl = TorchSDPABackendImpl(HEADS, SIZE, SIZE**-0.5, KV_HEADS, kv_cache_dtype=cache_dtype, kernel=kernel)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    out = impl.forward(layer, batch.query, *new_rows(full), cache, metadata)
    assert_right(out, batch, Rules(scale=SIZE**-0.5))


@pytest.mark.parametrize("attn_type", [AttentionType.ENCODER_ONLY, AttentionType.ENCODER])
@pytest.mark.parametrize("window", [None, 5])
def test_encoders_see_both_ways_and_need_no_cache(attn_type: str, window: int | None, kernel: str) -> None:
    lens = [(9, 9), (1, 1), (20, 20)]
    batch = make_batch(lens)
    spec = dataclasses.replace(SPEC, attn_type=attn_type)
    common = common_of(batch, slots=torch.empty(0, dtype=torch.int64))
    metadata = TorchSDPAMetadataBuilderV1(spec).build(0, common)
    layer = layer_of(kernel=kernel, attn_type=attn_type)
    layer.sliding_window = window
    key, value = torch.cat(batch.keys), torch.cat(batch.values)
    out = layer.forward(None, batch.query, key, value, torch.empty(0), metadata)
    assert_right(out, batch, Rules(scale=SIZE**-0.5, causal=False, sliding_window=window))


def test_the_encoder_of_an_encoder_decoder_model_has_lengths_of_its_own(kernel: str) -> None:
    batch = make_batch([(6, 6), (11, 11)])
    metadata = TorchSDPAMetadata(
        num_prefills=2,
        num_prefill_tokens=4,
        seq_lens=[2, 2],
        encoder_seq_lens=[6, 11],
        encoder_seq_lens_tensor=torch.tensor([6, 11], dtype=torch.int32),
        max_encoder_seq_len=11,
        num_encoder_tokens=17,
    )
    assert metadata.is_all_encoder_attn_metadata_set
    assert not metadata.is_all_cross_attn_metadata_set
    layer = layer_of(kernel=kernel, attn_type=AttentionType.ENCODER)
    out = layer.forward(None, batch.query, torch.cat(batch.keys), torch.cat(batch.values), torch.empty(0), metadata)
    assert_right(out, batch, Rules(scale=SIZE**-0.5, causal=False))


def test_cross_attention_takes_its_keys_once(kernel: str) -> None:
    lens = [(3, 14), (1, 29)]  # decoder tokens, encoder tokens: written whole in the first step
    batch = make_batch(lens)
    cache = torch.zeros_like(batch.kv_cache)
    positions = [torch.arange(s) for _, s in lens]
    slots = torch.cat([batch.block_table[r].long()[p // BLOCK] * BLOCK + p % BLOCK for r, p in enumerate(positions)])
    spec = dataclasses.replace(SPEC, attn_type=AttentionType.ENCODER_DECODER)
    common = common_of(batch, slots=slots, encoder_seq_lens=batch.seq_lens)
    common.seq_lens = torch.tensor([3, 8], dtype=torch.int32)  # the decoder's own
    layer = layer_of(kernel=kernel, attn_type=AttentionType.ENCODER_DECODER)
    key, value = torch.cat(batch.keys), torch.cat(batch.values)
    for rows in [(key, value), (None, None)]:
        metadata = TorchSDPAMetadataBuilderV1(spec).build(0, common)
        out = layer.forward(None, batch.query, *rows, cache, metadata)
        assert_right(out, batch, Rules(scale=SIZE**-0.5, causal=False))


@pytest.mark.parametrize("with_tables", [True, False], ids=["prefill tables given", "prefill blocks read from slots"])
def test_metadata_built_field_by_field_as_in_010(with_tables: bool, kernel: str) -> None:
    """Prefills first, decodes after, as the old engine laid them."""
    lens = [(5, 5), (20, 20), (1, 33), (1, 64)]
    batch = make_batch(lens)
    metadata = TorchSDPAMetadata(
        num_prefills=2,
        num_prefill_tokens=25,
        num_decode_tokens=2,
        slot_mapping=new_slots(batch),
        multi_modal_placeholder_index_maps=None,
        enable_kv_scales_calculation=False,
        seq_lens_tensor=batch.seq_lens[2:],
        max_decode_seq_len=64,
        block_tables=batch.block_table[2:],
        chunked_prefill=with_tables,
        seq_lens=[5, 20],
        prefill_query_start_loc=torch.tensor([0, 5, 25], dtype=torch.int32) if with_tables else None,
        prefill_block_tables=batch.block_table[:2] if with_tables else None,
    )
    out = layer_of(kernel=kernel).forward(None, batch.query, *new_rows(batch), batch.kv_cache, metadata)
    assert_right(out, batch, Rules(scale=SIZE**-0.5))


def test_a_profiling_run_without_cache_or_metadata(kernel: str) -> None:
    batch = make_batch([(5, 5)])
    key, value = new_rows(batch)
    layer = layer_of(kernel=kernel)
    out = layer.forward(None, batch.query, key, value, torch.empty(0), None)
    assert out.shape == (5, HEADS * SIZE)
    assert not out.any()
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    assert_right(layer.forward(None, batch.query, key, value, torch.empty(0), metadata), batch, Rules(scale=SIZE**-0.5))


def test_dynamic_causality_from_the_common_metadata(kernel: str) -> None:
    batch = make_batch(MIXED)
    causal = torch.tensor([True, False, False, True, True])
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch, causal=causal))
    out = layer_of(kernel=kernel).forward(None, batch.query, None, None, batch.kv_cache, metadata)
    assert_right(out, batch, Rules(scale=SIZE**-0.5, causal=causal))


def test_the_metadata_has_what_every_reader_reads() -> None:
    """vllm #25630: builder and dataclass once disagreed after a clean-up."""
    batch = make_batch(MIXED)
    metadata = TorchSDPAMetadataBuilderV1(SPEC).build(0, common_of(batch))
    missing = [f.name for f in dataclasses.fields(TorchSDPAMetadata) if not hasattr(metadata, f.name)]
    assert not missing
    for name in ("query_start_loc", "slot_mapping", "block_table", "kv_lens", "block_tables", "num_actual_tokens"):
        assert getattr(metadata, name) is not None, name
    assert dataclasses.replace(metadata, num_prefills=9).num_prefills == 9


@pytest.mark.parametrize("attn_type", ["decoder", "encoder", "encoder_only", "encoder_decoder"])
def test_bias_is_kept_by_kind(attn_type: str) -> None:
    metadata = TorchSDPAMetadata()
    assert metadata.get_attn_bias(attn_type) is None
    bias = [torch.zeros(1)]
    metadata.set_attn_bias(bias, attn_type)
    assert metadata.get_attn_bias(attn_type) is bias


@pytest.mark.parametrize("query", ["get_seq_lens", "get_attn_bias", "get_seq_len_block_table_args"])
def test_an_unknown_kind_is_an_attribute_error(query: str) -> None:
    with pytest.raises(AttributeError, match="sideways"):
        getattr(TorchSDPAMetadata(), query)("sideways")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        pytest.param({"kv_cache_dtype": "int8"}, NotImplementedError, "kv_cache_dtype: 'int8'", id="cache dtype"),
        pytest.param({"attn_type": "sideways"}, NotImplementedError, "attn_type", id="attention type"),
        pytest.param({"dtype": torch.float64}, NotImplementedError, "float64", id="dtype"),
        pytest.param({"head_size": 0}, ValueError, "head_size: 0", id="head size"),
        pytest.param({"num_kv_heads": 3}, ValueError, "multiple of num_kv_heads", id="heads"),
        pytest.param({"alibi_slopes": [0.1]}, ValueError, "alibi_slopes", id="slopes of another head count"),
        pytest.param({"blocksparse_params": {"a": 1}}, NotImplementedError, "blocksparse_params", id="unknown option"),
        pytest.param({"kernel": "cuda"}, ValueError, "kernel='cuda'", id="kernel"),
    ],
)
def test_what_cannot_be_served_is_refused_when_a_layer_is_built(
    change: dict[str, Any], error: type[Exception], words: str
) -> None:
    """vllm #39065, #14741: at start, not at the first request."""
    wanted = {"num_heads": 4, "head_size": 32, "scale": 1.0, "num_kv_heads": 2, **change}
    with pytest.raises(error, match=words):
        TorchSDPABackendImpl(**wanted)


def test_fused_output_quantisation_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="output_scale"):
        layer_of().forward(None, torch.zeros(1, 4, 32), None, None, torch.empty(0), None, output_scale=torch.ones(1))


def test_the_static_facts() -> None:
    assert TorchSDPABackend.get_name() == "TORCH_SDPA"
    assert TorchSDPABackend.get_impl_cls() is TorchSDPABackendImpl
    assert TorchSDPABackend.get_builder_cls() is TorchSDPAMetadataBuilderV1
    assert TorchSDPABackend.get_metadata_cls() is TorchSDPAMetadata
    assert TorchSDPABackend.get_kv_cache_shape(3, 16, 2, 64) == (3, 2, 16, 128)
    assert TorchSDPABackend.use_cascade_attention(1, x=2) is False
    for size in (8, 80, 576):
        TorchSDPABackend.validate_head_size(size)
    for bad in (0, -3, 1.5, True):
        with pytest.raises(ValueError, match="head_size"):
            TorchSDPABackend.validate_head_size(bad)
    assert TorchSDPABackend.supports_kv_cache_dtype("fp8")
    assert not TorchSDPABackend.supports_kv_cache_dtype("int8")
    assert TorchSDPABackend.supports_attn_type("encoder_decoder")
    assert not TorchSDPABackend.supports_attn_type("sideways")
