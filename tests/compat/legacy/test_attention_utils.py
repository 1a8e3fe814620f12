"""The helper functions and classes of V0's attention modules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from v1_compat.legacy import abstract, cpu_mla
from v1_compat.legacy import attention_utils as utils

LENS, TABLES = torch.tensor([5]), torch.tensor([[0]])
ENCODER_LENS, CROSS_TABLES = torch.tensor([9]), torch.tensor([[3]])


def metadata(**changes: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {
        "seq_lens_tensor": LENS,
        "max_prefill_seq_len": 4,
        "max_decode_seq_len": 5,
        "block_tables": TABLES,
        "encoder_seq_lens": [9],
        "encoder_seq_lens_tensor": ENCODER_LENS,
        "max_encoder_seq_len": 9,
        "num_encoder_tokens": 9,
        "cross_slot_mapping": torch.tensor([1]),
        "cross_block_tables": CROSS_TABLES,
        "is_all_encoder_attn_metadata_set": True,
        "num_prefill_tokens": 4,
        "num_decode_tokens": 2,
    }
    return SimpleNamespace(**fields | changes)


def test_slots_are_computed_as_v0_did() -> None:
    slots: list[int] = []
    start = utils.compute_slot_mapping_start_idx(True, 10, 0, 8)
    utils.compute_slot_mapping(False, slots, 7, 10, 0, start, 4, {7: [5, 3, 9]})
    assert slots == [-1, -1, 22, 23, 12, 13, 14, 15, 36, 37]
    slots.clear()
    utils.compute_slot_mapping(False, slots, 7, 600, 298, 0, 4, {7: list(range(200))})
    assert slots == list(range(298, 600))
    slots.clear()
    utils.compute_slot_mapping(False, slots, 7, 10, 5, 8, 4, {7: [5, 3, 9]})
    assert slots == [-1, -1, -1, 36, 37], "a chunk: the tokens before the window that are new"
    slots.clear()
    utils.compute_slot_mapping(True, slots, 7, 3, 0, 0, 4, {})
    assert slots == [utils.PAD_SLOT_ID] * 3 == [-1] * 3


@pytest.mark.parametrize(
    ("arguments", "start"),
    [((True, 10, 0, 8), 2), ((True, 5, 0, 8), 0), ((False, 10, 0, 8), 0), ((True, 10, 0, None), 0)],
    ids=["a long prompt", "a short prompt", "a decode", "no window"],
)
def test_where_slots_start(arguments: tuple[Any, ...], start: int) -> None:
    assert utils.compute_slot_mapping_start_idx(*arguments) == start


def test_block_tables_of_nothing_are_empty() -> None:
    assert utils.is_block_tables_empty(None) and utils.is_block_tables_empty({1: None})
    assert not utils.is_block_tables_empty({1: None, 2: [0]})


@pytest.mark.parametrize(
    ("attn_type", "tokens"),
    [("decoder", (4, 4, 2)), ("encoder_only", (4, 4, 2)), ("encoder", (9, 9, 0)), ("encoder_decoder", (4, 9, 2))],
)
def test_tokens_by_kind_of_attention(attn_type: str, tokens: tuple[int, int, int]) -> None:
    assert utils.get_num_prefill_decode_query_kv_tokens(metadata(), attn_type) == tokens
    if attn_type.startswith("encoder") and attn_type != "encoder_only":
        with pytest.raises(AssertionError, match="num_encoder_tokens: None"):
            utils.get_num_prefill_decode_query_kv_tokens(metadata(num_encoder_tokens=None), attn_type)


@pytest.mark.parametrize(
    ("attn_type", "is_prompt", "found"),
    [
        ("decoder", True, (LENS, 4, TABLES)),
        ("decoder", False, (LENS, 5, TABLES)),
        ("encoder_decoder", True, (ENCODER_LENS, 9, CROSS_TABLES)),
        ("encoder", True, (ENCODER_LENS, 9, None)),
    ],
)
def test_lengths_and_tables_by_kind_of_attention(attn_type: str, is_prompt: bool, found: tuple[Any, ...]) -> None:
    answer = utils.get_seq_len_block_table_args(metadata(), is_prompt, attn_type)
    assert all(a is b for a, b in zip(answer, found, strict=True))


@pytest.mark.parametrize("attn_type", ["sideways", "encoder_only"])
def test_a_kind_it_does_not_know_is_an_attribute_error(attn_type: str) -> None:
    with pytest.raises(AttributeError, match=attn_type):
        utils.get_seq_len_block_table_args(metadata(), True, attn_type)


def test_what_is_missing_is_seen() -> None:
    assert utils.is_all_encoder_attn_metadata_set(metadata())
    for name in ("encoder_seq_lens", "encoder_seq_lens_tensor", "max_encoder_seq_len"):
        assert not utils.is_all_encoder_attn_metadata_set(metadata(**{name: None})), name
    assert utils.is_all_cross_attn_metadata_set(metadata())
    for name in ("cross_slot_mapping", "cross_block_tables", "is_all_encoder_attn_metadata_set"):
        assert not utils.is_all_cross_attn_metadata_set(metadata(**{name: None})), name


def test_latent_sizes_are_read_from_the_configuration() -> None:
    config = SimpleNamespace(kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128)
    sizes = utils.get_mla_dims(SimpleNamespace(hf_text_config=config))
    assert sizes == utils.MLADims(None, 512, 128, 64, 128)


def test_a_state_has_no_graphs() -> None:
    state = utils.CommonAttentionState("runner")
    assert state.runner == "runner" and isinstance(state, abstract.AttentionState)
    state.begin_forward(None)
    for call in (
        lambda: state.graph_capture(8).__enter__(),
        lambda: state.graph_clone(8),
        lambda: state.graph_capture_get_metadata_for_batch(8),
        lambda: state.get_graph_input_buffers(metadata()),  # type: ignore[arg-type]
        lambda: state.prepare_graph_input_buffers({}, metadata()),  # type: ignore[arg-type]
    ):
        with pytest.raises(NotImplementedError, match="no CUDA graphs on a CPU"):
            call()


def test_the_gpu_builder_may_be_subclassed_and_not_made() -> None:
    class Own(utils.CommonMetadataBuilder[Any]):
        _metadata_cls = object

    with pytest.raises(NotImplementedError, match="CommonAttentionMetadata"):
        Own(None)


def test_v0s_rule_for_a_quantised_cache() -> None:
    assert not abstract.is_quantized_kv_cache("auto")
    assert abstract.is_quantized_kv_cache("fp8") and abstract.is_quantized_kv_cache("bfloat16")


def test_latent_attention_says_its_facts() -> None:
    backend = cpu_mla.CPUMLABackend
    assert backend.get_kv_cache_shape(10, 16, 1, 576) == (10, 16, 576) and backend.get_supported_head_sizes() == [576]
    cache = torch.randn(4, 16, 576)
    before = cache.clone()
    backend.copy_blocks([cache], torch.tensor([[0, 3]]))
    assert torch.equal(cache[3], before[0])
    other = torch.zeros_like(cache)
    backend.swap_blocks(cache, other, torch.tensor([[1, 2]]))
    assert torch.equal(other[2], before[1])
    made = cpu_mla.CPUMLAMetadata(None, 0, None, 0, 0, 0, torch.zeros(0), None, False, False, input_positions=LENS)
    assert made.input_positions is LENS and made.is_profile_run is False


def test_a_subclass_of_v0s_backend_must_say_what_v0_asked() -> None:
    class Own(abstract.AttentionBackend):
        @staticmethod
        def get_metadata_cls() -> Any:
            return dict

    assert Own.make_metadata(a=1) == {"a": 1}
    with pytest.raises(TypeError, match="abstract"):
        Own()
    with pytest.raises(NotImplementedError):
        Own.get_kv_cache_stride_order()


def test_metadata_of_ones_own_has_v0s_fields_and_shortcuts() -> None:
    made = abstract.AttentionMetadata(1, 2, 3, torch.zeros(5), None, False)
    assert list(made.asdict_zerocopy({"slot_mapping"}).values()) == [1, 2, 3, None, False]
    assert made.prefill_metadata is None and made.decode_metadata is None
