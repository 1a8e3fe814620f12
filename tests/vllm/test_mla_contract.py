"""What vLLM 0.32's runner and `MLAAttention` ask of a backend for latents, checked without an engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm.v1.attention.backend", reason="vLLM is not installed here")
torch = pytest.importorskip("torch")

from vllm.model_executor.layers.rotary_embedding.base import RotaryEmbedding  # noqa: E402
from vllm.v1.kv_cache_interface import KVCacheLayout, MLAAttentionSpec  # noqa: E402

from v1_cpu.mla import mla_attention  # noqa: E402
from v1_cpu.vllm_plugin import choice, mla, mla_0_32  # noqa: E402

HEADS, RANK, ROPE, NOPE, VALUE, BLOCK = 4, 32, 16, 24, 20, 16
PLAIN_ROPE = {"rope_type": "default"}


@pytest.fixture(autouse=True)
def warnings(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the plugin warns of; each test starts with nothing said."""
    said: list[str] = []
    log = SimpleNamespace(warning=lambda text, *a: said.append(text % a if a else text), info=lambda *a: None)
    monkeypatch.setattr(choice, "logger", lambda: log)
    mla._warn_of_rotary.cache_clear()
    yield said
    mla._warn_of_rotary.cache_clear()


def layer(monkeypatch: pytest.MonkeyPatch, rope: dict[str, Any], **more: Any) -> Any:
    """One, as `MLAAttention` makes it."""
    text = SimpleNamespace(rope_parameters=rope)
    config = SimpleNamespace(model_config=SimpleNamespace(hf_text_config=text))
    monkeypatch.setattr(mla_0_32, "get_current_vllm_config", lambda: config)
    weight = torch.randn(HEADS * (NOPE + VALUE), RANK, generator=torch.Generator().manual_seed(1)) * RANK**-0.5
    return mla_0_32.MLAImpl(
        num_heads=HEADS,
        head_size=RANK + ROPE,
        scale=0.2,
        num_kv_heads=1,
        alibi_slopes=None,
        sliding_window=None,
        logits_soft_cap=None,
        attn_type="decoder",
        kv_sharing_target_layer_name=None,
        q_lora_rank=None,
        kv_lora_rank=RANK,
        qk_nope_head_dim=NOPE,
        qk_rope_head_dim=ROPE,
        qk_head_dim=NOPE + ROPE,
        v_head_dim=VALUE,
        kv_b_proj=weight,
        indexer=None,
        **more,
    )


def batch() -> Any:
    """A prefill of 5 tokens, a decode and a chunk of 3, as the runner describes them; and its metadata."""
    common = SimpleNamespace(
        num_reqs=3,
        query_start_loc=torch.tensor([0, 5, 6, 9], dtype=torch.int32),
        seq_lens=torch.tensor([5, 20, 19], dtype=torch.int32),
        block_table_tensor=torch.tensor([[3, 0], [1, 4], [2, 5]], dtype=torch.int32),
        slot_mapping=torch.tensor([48, 49, 50, 51, 52, 67, 80, 81, 82]),
        max_query_len=5,
        causal=True,
    )
    spec = MLAAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=RANK + ROPE, dtype=torch.float32)
    builder = mla_0_32.MLABackend.get_builder_cls()(spec, ["a"], None, torch.device("cpu"))
    return common, builder, builder.build(0, common)


def test_facts_the_runner_reads() -> None:
    backend = mla_0_32.MLABackend
    assert backend.is_mla() is True and backend.is_sparse() is False
    assert backend.forward_includes_kv_cache_update is False
    assert backend.supported_kv_cache_layouts() == (KVCacheLayout.LBHNC,)
    for size in (1, 16, 48):
        assert backend.supports_block_size(size)
    assert backend.get_supported_kernel_block_sizes() == backend.get_supported_kernel_block_sizes(None)
    assert backend.get_impl_cls() is mla_0_32.MLAImpl
    assert backend.get_impl_cls().forward_includes_kv_cache_update is False


def test_the_layer_makes_no_weights_of_its_own() -> None:
    """`MLAAttention` would hold a copy of the up-projection beside ours, and keep the projection's weight alive."""
    assert mla_0_32.MLAImpl.uses_amx_bmm is True
    assert mla_0_32.MLAImpl.q_pad_num_heads is None and mla_0_32.MLAImpl.supports_quant_query_input is False


def test_every_request_counts_as_a_prefill() -> None:
    """`MLAAttention` then hands all tokens, in the runner's order, to `forward_mha`."""
    common, builder, metadata = batch()
    other = builder.update_block_table(metadata, common.block_table_tensor.flip(0), common.slot_mapping)
    for built in (metadata, other):
        assert (built.num_decodes, built.num_decode_tokens) == (0, 0)
        assert (built.num_prefills, built.num_prefill_tokens, built.num_actual_tokens) == (3, 9, 9)
    assert torch.equal(other.all_blocks(BLOCK), common.block_table_tensor.flip(0))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("auto", torch.float32, id="the model's dtype"),
        pytest.param("fp8", torch.float8_e4m3fn, id="e4m3"),
        pytest.param("fp8_e5m2", torch.float8_e5m2, id="e5m2, which vLLM views as e4m3, too"),
    ],
)
def test_what_is_written_is_attended_to(monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any) -> None:
    """As vLLM calls it: bytes to write to, a view as e4m3 to attend to, and a scale with both."""
    generator = torch.Generator().manual_seed(2)
    one = layer(monkeypatch, {"rope_type": "yarn"}, kv_cache_dtype=name)
    common, _, metadata = batch()
    scale = torch.tensor(0.5)
    size = 6, BLOCK, RANK + ROPE
    typed = torch.randn(size, generator=generator).to(dtype)
    stored = typed.view(torch.uint8) if typed.itemsize == 1 else typed
    latents, rope_keys = (torch.randn(9, n, generator=generator) for n in (RANK, ROPE))
    one.do_kv_cache_update(latents, rope_keys[:, None], stored, common.slot_mapping, name, scale)
    factor = 0.5 if typed.itemsize == 1 else 1.0
    rows = typed.view(-1, RANK + ROPE)[common.slot_mapping]
    assert torch.equal(rows, (torch.cat([latents, rope_keys], -1) / factor).to(dtype))
    query = torch.randn(9, HEADS, NOPE + ROPE, generator=generator)
    got, want = torch.zeros(9, HEADS * VALUE), torch.zeros(9, HEADS, VALUE)
    seen = stored.view(torch.float8_e4m3fn) if typed.itemsize == 1 else stored
    one.forward_mha(query, latents, rope_keys[:, None], seen, metadata, scale, got)
    mla_attention(
        query,
        typed,
        one.kv_b_proj.view(HEADS, NOPE + VALUE, RANK),
        query_start_loc=common.query_start_loc,
        seq_lens=common.seq_lens,
        block_table=common.block_table_tensor,
        scale=0.2,
        kv_scale=factor,
        out=want,
    )
    assert torch.equal(got.view_as(want), want) and bool(want.abs().sum(-1).ne(0).all())


@pytest.mark.parametrize(
    ("rope", "enabled", "warned"),
    [
        pytest.param(PLAIN_ROPE, True, True, id="no scaling, through the operator"),
        pytest.param({}, True, True, id="nothing said of the rope"),
        pytest.param(PLAIN_ROPE, False, False, id="the operator left out"),
        pytest.param({"rope_type": "yarn"}, True, False, id="scaled, which vLLM computes in torch"),
    ],
)
def test_a_layer_warns_of_vllm_s_rotary_operator_once(
    monkeypatch: pytest.MonkeyPatch, warnings: list[str], rope: dict[str, Any], enabled: bool, warned: bool
) -> None:
    monkeypatch.setattr(RotaryEmbedding, "enabled", classmethod(lambda cls: enabled))
    for _ in range(2):
        layer(monkeypatch, rope, kv_cache_dtype="auto")
    assert len(warnings) == int(warned)
    assert all("-rotary_embedding" in text for text in warnings)
