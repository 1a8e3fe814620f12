"""vLLM 0.32.0's own structures go into the builder and the layer as they are; skipped where vLLM is not installed."""

from __future__ import annotations

import copy

import pytest
import torch
from batches import make_batch
from reference import Rules
from test_backend import BLOCK, HEADS, KV_HEADS, SIZE, assert_right, new_rows, new_slots

from v1_cpu.backend import TorchSDPABackendImpl, TorchSDPAMetadataBuilderV1

vllm_attention = pytest.importorskip("vllm.v1.attention.backend", reason="vLLM is not installed; CI installs 0.32.0")
vllm_specs = pytest.importorskip("vllm.v1.kv_cache_interface")

LENS = [(1, 33), (40, 40), (3, 90), (1, 64)]
SIZES = {"block_size": BLOCK, "num_kv_heads": KV_HEADS, "head_size": SIZE, "dtype": torch.float32}


def common_of(batch, **rest):  # type: ignore[no-untyped-def]
    """vLLM's metadata of the batch."""
    return vllm_attention.CommonAttentionMetadata(
        query_start_loc=batch.query_start_loc,
        query_start_loc_cpu=batch.query_start_loc,
        seq_lens=batch.seq_lens,
        num_reqs=len(batch.keys),
        num_actual_tokens=int(batch.query_start_loc[-1]),
        max_query_len=int(batch.query_start_loc.diff().max()),
        max_seq_len=int(batch.seq_lens.max()),
        block_table_tensor=batch.block_table,
        slot_mapping=new_slots(batch),
        **rest,
    )


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        pytest.param("FullAttentionSpec", "DECODER", id="decoder"),
        pytest.param("EncoderOnlyAttentionSpec", "ENCODER_ONLY", id="encoder only"),
        pytest.param("CrossAttentionSpec", "ENCODER_DECODER", id="cross"),
    ],
)
def test_vllm_structures_are_understood(spec: str, kind: str, kernel: str) -> None:
    lens = [(q, q) for q, _ in LENS] if kind == "ENCODER_ONLY" else LENS
    batch = make_batch(lens)
    rest = {"encoder_seq_lens": batch.seq_lens} if kind == "ENCODER_DECODER" else {}
    common = common_of(batch, **rest)
    before = copy.deepcopy(common)
    builder = TorchSDPAMetadataBuilderV1(getattr(vllm_specs, spec)(**SIZES), ["layer.0"], None, torch.device("cpu"))
    metadata = builder.build(0, common)
    layer = TorchSDPABackendImpl(
        HEADS, SIZE, SIZE**-0.5, KV_HEADS, None, None, "auto", None,
        getattr(vllm_attention.AttentionType, kind), None, kernel=kernel,
    )  # fmt: skip
    assert layer.attn_type == builder.attn_type
    rows = (None, None) if kind == "ENCODER_DECODER" else new_rows(batch)
    output = torch.empty_like(batch.query)
    assert layer.forward(None, batch.query, *rows, batch.kv_cache, metadata, output) is output
    assert_right(output, batch, Rules(scale=SIZE**-0.5, causal=kind == "DECODER"))
    for name in ("query_start_loc", "seq_lens", "block_table_tensor", "slot_mapping"):
        assert torch.equal(getattr(common, name), getattr(before, name)), f"{name} was changed"
