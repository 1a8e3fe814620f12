"""The four classes: a layer over several steps, metadata of any origin, and what is refused when a layer is built."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from latents import compare, dense, make

from v1_cpu import mla
from v1_cpu.specs import AttentionSpec, CommonAttentionMetadata

SIZES = {"kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24}
LENS = [(5, 40), (1, 33), (20, 20), (1, 1)]


def layer(weight: Any, **change: Any) -> mla.CPUMLAImpl:
    given = {"num_heads": 4, "head_size": 40, "scale": 24**-0.5, "num_kv_heads": 1, **SIZES, **change}
    return mla.CPUMLABackend.get_impl_cls()(**given, kv_b_proj=weight)


class Projection(torch.nn.Module):
    """A quantised `kv_b_proj`: it has no float weight, and answers as vLLM's linear layers do."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.hidden = weight

    def forward(self, latent: torch.Tensor) -> tuple[torch.Tensor, None]:
        return latent @ self.hidden.T, None


@pytest.mark.parametrize("quantised", [False, True], ids=["a weight", "a module that must be asked"])
def test_a_step_writes_and_attends(quantised: bool, kernel: str) -> None:
    batch = make(LENS, kernel=kernel)
    flat = batch.kv_up.reshape(-1, 32)
    impl = layer(Projection(flat) if quantised else flat, kernel=kernel)
    spec = AttentionSpec(block_size=16, num_kv_heads=1, head_size=40, dtype=torch.float32)
    news, slots = [], []
    for b, (new, length) in enumerate(LENS):
        positions = torch.arange(length - new, length)
        slots.append(batch.block_table[b, positions // 16].long() * 16 + positions % 16)
        news.append((batch.latents[b][length - new :], batch.rope_keys[b][length - new :]))
    slot_mapping = torch.cat(slots)
    cache = batch.kv_cache.clone()
    cache.view(-1, 40)[slot_mapping] = torch.nan  # the layer has to write these
    common = CommonAttentionMetadata.of([q for q, _ in LENS], [s for _, s in LENS], batch.block_table, slot_mapping)
    metadata = mla.CPUMLABackend.get_builder_cls()(spec, ["layer"]).build(0, common)
    latent, rope_key = (torch.cat(part) for part in zip(*news, strict=True))
    out = impl.forward(None, batch.query.flatten(1), latent, rope_key[:, None], cache, metadata)
    wanted, lse = dense(batch)
    compare(batch, out.view(-1, 4, 24), lse.float(), (wanted, lse))
    assert torch.equal(cache.nan_to_num(9.0), batch.kv_cache.nan_to_num(9.0))
    assert isinstance(metadata, mla.CPUMLAMetadata)
    assert (metadata.num_prefills, metadata.num_decode_tokens) == (3, 1)


def test_the_absorbed_form_alone(kernel: str) -> None:
    batch = make([(2, 9), (1, 20)], kernel=kernel)
    impl = layer(batch.kv_up.reshape(-1, 32), kernel=kernel)
    metadata = mla.CPUMLAMetadata(
        num_prefills=2, num_prefill_tokens=3, query_start_loc=batch.query_start_loc, kv_lens=batch.seq_lens,
        block_table=batch.block_table,
    )  # fmt: skip
    q_nope = torch.einsum("thn,hnr->thr", batch.query[..., :16], batch.kv_up[:, :16])
    latents, lse = impl.forward_mqa((q_nope, batch.query[..., 16:]), batch.kv_cache, metadata)
    out = torch.einsum("thr,hvr->thv", latents, batch.kv_up[:, 16:])
    compare(batch, out, lse, dense(batch))


@pytest.mark.parametrize("causal", [False, torch.tensor([True, False])], ids=["none is", "each its own"])
def test_batches_that_are_not_causal(causal: bool | torch.Tensor, kernel: str) -> None:
    batch = make([(2, 9), (5, 20)], kernel=kernel)
    impl = layer(batch.kv_up.reshape(-1, 32), kernel=kernel)
    metadata = mla.CPUMLAMetadata(
        num_prefills=2, num_prefill_tokens=7, query_start_loc=batch.query_start_loc, kv_lens=batch.seq_lens,
        block_table=batch.block_table, causal=causal,
    )  # fmt: skip
    out = torch.empty(7, 96)
    impl.attend(batch.query.flatten(1), batch.kv_cache, metadata, out, 1.0)
    wanted, lse = dense(batch, causal)
    compare(batch, out.view(-1, 4, 24), lse.float(), (wanted, lse))


def test_a_profiling_run_touches_nothing() -> None:
    impl = layer(torch.zeros(160, 32))
    query, latent, rope_key = torch.ones(3, 96), torch.ones(3, 32), torch.ones(3, 8)
    assert not bool(impl.forward(None, query, latent, rope_key, torch.empty(0), None).any())


REFUSED = {
    "a window": ({"sliding_window": 8}, NotImplementedError, "sliding_window"),
    "a soft cap": ({"logits_soft_cap": 3.0}, NotImplementedError, "logits_soft_cap"),
    "ALiBi": ({"alibi_slopes": [0.1]}, NotImplementedError, "alibi_slopes"),
    "an encoder": ({"attn_type": "encoder"}, NotImplementedError, "attn_type"),
    "a shared cache": ({"kv_sharing_target_layer_name": "x"}, NotImplementedError, "kv_sharing"),
    "sparse attention": ({"indexer": object()}, NotImplementedError, "indexer"),
    "an unknown cache": ({"kv_cache_dtype": "int4"}, NotImplementedError, "kv_cache_dtype"),
    "two KV heads": ({"num_kv_heads": 2}, ValueError, "num_kv_heads"),
    "a head size that is not R + P": ({"head_size": 64}, ValueError, "head_size"),
}


@pytest.mark.parametrize(("change", "error", "text"), [pytest.param(*case, id=name) for name, case in REFUSED.items()])
def test_building_refuses(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        layer(torch.zeros(160, 32), **change)


def test_a_weight_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="kv_b_proj"):
        layer(torch.zeros(159, 32)).process_weights_after_loading(torch.float32)
