"""Wrong arguments: each is refused with the argument's name and the rule, before anything is read or written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from latents import make

import v1_cpu
from v1_cpu import mla

LENS = [(2, 9), (1, 20)]
I32 = torch.int32


def arguments() -> dict[str, Any]:
    batch = make(LENS)
    return {"query": batch.query, "kv_cache": batch.kv_cache, "kv_up": batch.kv_up, **batch.tensors}


ATTENTION = {
    "query in int": ({"query": torch.zeros(3, 4, 24, dtype=I32)}, TypeError, "query"),
    "query of two dimensions": ({"query": torch.zeros(3, 96)}, ValueError, "query"),
    "query without rope": ({"query": torch.zeros(3, 4, 8)}, ValueError, "query"),
    "cache of another dtype": ({"kv_cache": torch.zeros(8, 16, 40, dtype=torch.float16)}, TypeError, "kv_cache"),
    "cache as uint8": ({"kv_cache": torch.zeros(8, 16, 40, dtype=torch.uint8)}, TypeError, "view it as"),
    "cache with a head": ({"kv_cache": torch.zeros(8, 1, 16, 40)}, ValueError, "kv_cache\\[:, 0\\]"),
    "cache with gaps": ({"kv_cache": torch.zeros(8, 16, 80)[..., :40]}, ValueError, "kv_cache"),
    "weight of other heads": ({"kv_up": torch.zeros(3, 40, 32)}, ValueError, "kv_up"),
    "weight as wide as the cache": ({"kv_up": torch.zeros(4, 40, 40)}, ValueError, "kv_up"),
    "weight of another dtype": ({"kv_up": torch.zeros(4, 40, 32).half()}, TypeError, "kv_up"),
    "weight without values": ({"kv_up": torch.zeros(4, 16, 32)}, ValueError, "kv_up"),
    "start locations in int64": ({"query_start_loc": torch.tensor([0, 2, 3])}, TypeError, "query_start_loc"),
    "start locations too few": ({"query_start_loc": torch.tensor([0, 3], dtype=I32)}, ValueError, "query_start_loc"),
    "start locations that fall": ({"query_start_loc": torch.tensor([0, 3, 2], dtype=I32)}, ValueError, "must not fall"),
    "more tokens than rows": ({"query_start_loc": torch.tensor([0, 2, 9], dtype=I32)}, ValueError, "query_start_loc"),
    "lengths past the table": ({"seq_lens": torch.tensor([9, 90], dtype=I32)}, ValueError, "seq_lens"),
    "negative lengths": ({"seq_lens": torch.tensor([9, -1], dtype=I32)}, ValueError, "seq_lens"),
    "a block outside the cache": ({"block_table": torch.full((2, 3), 99, dtype=I32)}, ValueError, "block_table"),
    "a table for other requests": ({"block_table": torch.zeros((3, 3), dtype=I32)}, ValueError, "block_table"),
    "scale as a tensor": ({"scale": torch.tensor(0.2)}, TypeError, "scale"),
    "scale that is infinite": ({"scale": float("inf")}, ValueError, "scale"),
    "a cache scale without float8": ({"kv_scale": 0.5}, ValueError, "kv_scale"),
    "a negative cache scale": ({"kv_scale": -1.0}, ValueError, "kv_scale"),
    "causal as an int": ({"causal": 1}, TypeError, "causal"),
    "causal for other requests": ({"causal": torch.ones(3, dtype=torch.bool)}, ValueError, "causal"),
    "an unknown form": ({"form": "folded"}, ValueError, "form"),
    "an unknown kernel": ({"kernel": "cuda"}, ValueError, "kernel"),
    "out of another shape": ({"out": torch.zeros(3, 4, 16)}, ValueError, "out"),
    "out of another dtype": ({"out": torch.zeros(3, 4, 24).half()}, TypeError, "out"),
    "a plan of ordinary attention": ({"plan": "plan"}, TypeError, "plan: str; must be what make_mla_plan makes"),
}


@pytest.mark.parametrize(
    ("change", "error", "text"), [pytest.param(*case, id=name) for name, case in ATTENTION.items()]
)
def test_attention_refuses(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mla.mla_attention(**{**arguments(), **change})


def test_the_arguments_of_these_tests_are_right_otherwise() -> None:
    assert mla.mla_attention(**arguments()).shape == (3, 4, 24)


def test_an_output_that_is_the_query_is_refused() -> None:
    batch = make([(2, 9)], nope=16, rope=8, v=24)
    with pytest.raises(ValueError, match="shares memory with query"):
        mla.mla_attention(batch.query, batch.kv_cache, batch.kv_up, out=batch.query, **batch.tensors)


PAGED = {
    "query not absorbed": ({"query": torch.zeros(3, 4, 24)}, ValueError, "absorbed"),
    "rank of the whole": ({"kv_lora_rank": 40}, ValueError, "kv_lora_rank"),
    "rank 0": ({"kv_lora_rank": 0}, ValueError, "kv_lora_rank"),
    "rank as a float": ({"kv_lora_rank": 32.0}, TypeError, "kv_lora_rank"),
    "a block outside the cache": ({"block_table": torch.full((2, 3), 99, dtype=I32)}, ValueError, "block_table"),
    "out of another rank": ({"out": torch.zeros(3, 4, 40)}, ValueError, "out"),
}


@pytest.mark.parametrize(("change", "error", "text"), [pytest.param(*case, id=name) for name, case in PAGED.items()])
def test_paged_attention_refuses(change: dict[str, Any], error: type[Exception], text: str) -> None:
    batch = make(LENS)
    right = {"query": torch.zeros(3, 4, 40), "kv_cache": batch.kv_cache, "kv_lora_rank": 32, **batch.tensors}
    with pytest.raises(error, match=text):
        mla.mla_paged_attention(**{**right, **change})


WRITE = {
    "latents of three dimensions": ({"latent": torch.zeros(3, 1, 32)}, ValueError, "latent\\[:, 0\\]"),
    "rope keys of other tokens": ({"rope_key": torch.zeros(2, 8)}, ValueError, "rope_key"),
    "rope keys of another dtype": ({"rope_key": torch.zeros(3, 8).half()}, TypeError, "rope_key"),
    "sizes that do not add up": ({"latent": torch.zeros(3, 31)}, ValueError, "kv_cache"),
    "slots in int32": ({"slot_mapping": torch.zeros(3, dtype=I32)}, TypeError, "slot_mapping"),
    "a slot past the end": ({"slot_mapping": torch.tensor([0, 1, 32])}, ValueError, "slot_mapping"),
    "a slot of -2": ({"slot_mapping": torch.tensor([0, 1, -2])}, ValueError, "slot_mapping"),
    "slots of other tokens": ({"slot_mapping": torch.tensor([0, 1])}, ValueError, "slot_mapping"),
    "a scale of 0": ({"kv_scale": 0.0}, ValueError, "kv_scale"),
}


@pytest.mark.parametrize(("change", "error", "text"), [pytest.param(*case, id=name) for name, case in WRITE.items()])
def test_writing_refuses_and_writes_nothing(change: dict[str, Any], error: type[Exception], text: str) -> None:
    cache = mla.allocate_latent_cache(2, 16, 32, 8, torch.float32)
    right = {"latent": torch.ones(3, 32), "rope_key": torch.ones(3, 8), "slot_mapping": torch.arange(3)}
    with pytest.raises(error, match=text):
        mla.write_latent_cache(kv_cache=cache, **{**right, **change})
    assert not bool(cache.any())


@pytest.mark.parametrize(
    ("sizes", "error", "text"),
    [
        pytest.param((-1, 16, 32, 8, torch.float32), ValueError, "num_blocks", id="negative blocks"),
        pytest.param((2, 0, 32, 8, torch.float32), ValueError, "block_size", id="blocks of nothing"),
        pytest.param((2, 16, 32, 0, torch.float32), ValueError, "rope_head_dim", id="no rope"),
        pytest.param((2, 16, 32, 8, torch.float64), TypeError, "dtype", id="float64"),
    ],
)
def test_allocating_refuses(sizes: tuple[Any, ...], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        mla.allocate_latent_cache(*sizes)


def test_plans_serve_their_batch_and_no_other(kernel: str) -> None:
    batch = make(LENS, kernel=kernel)
    given = {n: getattr(batch, n) for n in ("query_start_loc", "seq_lens", "block_table")}
    sizes = {"num_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24}
    shape = {"num_blocks": batch.kv_cache.shape[0], "block_size": 16, "dtype": torch.float32, "kernel": kernel}
    call = (batch.query, batch.kv_cache, batch.kv_up)
    wanted = mla.mla_attention(*call, **batch.tensors, kernel=kernel)
    for form in ("auto", "absorbed", "expanded"):
        plan = mla.make_mla_plan(**given, **sizes, **shape, form=form)
        out = mla.mla_attention(*call, **batch.tensors, plan=plan, kernel=kernel)
        assert torch.allclose(out, wanted, atol=1e-5), form
    for change in ({"num_heads": 3}, {"v_head_dim": 20}, {"dtype": torch.float16}, {"num_blocks": 50}):
        other = mla.make_mla_plan(**given, **{**sizes, **shape, **change})
        with pytest.raises(ValueError, match="plan"):
            mla.mla_attention(*call, **batch.tensors, plan=other)
    plan = mla.make_mla_plan(**given, **sizes, **shape)
    with pytest.raises(ValueError, match="plan"):
        mla.mla_attention(batch.query[:2], *call[1:], **batch.tensors, plan=plan)
    with pytest.raises(ValueError, match="plan: made for causal=True; the call has causal=False"):
        mla.mla_attention(*call, **batch.tensors, plan=plan, causal=False)
    for wrong in (torch.float64, "float32"):
        with pytest.raises(TypeError, match=f"dtype: {wrong}; must be float32"):
            mla.make_mla_plan(**given, **sizes, **{**shape, "dtype": wrong})
    for function, arguments in (
        (v1_cpu.paged_attention, (torch.zeros(3, 4, 8), torch.zeros(8, 2, 16, 16))),
        (mla.mla_paged_attention, (torch.zeros(3, 4, 40), batch.kv_cache)),
    ):
        more = {"kv_lora_rank": 32} if function is mla.mla_paged_attention else {}
        with pytest.raises(TypeError, match="plan: MLAPlan; must be what make_plan makes"):
            function(*arguments, **given, **more, scale=0.2, plan=plan)
    mixed = torch.tensor([True, False])
    plan = mla.make_mla_plan(**given, **sizes, **shape, causal=mixed)
    mla.mla_attention(*call, **batch.tensors, plan=plan, causal=mixed.clone())
    with pytest.raises(ValueError, match="plan: made for causal="):
        mla.mla_attention(*call, **batch.tensors, plan=plan, causal=~mixed)
    with pytest.raises(ValueError, match="block_table"):
        mla.make_mla_plan(**{**given, "block_table": batch.block_table + 50}, **sizes, **shape)


def test_a_plan_of_make_plan_serves_the_absorbed_form(kernel: str) -> None:
    batch = make(LENS, kernel=kernel)
    query = torch.randn(3, 4, 40)
    sizes = {"num_heads": 4, "num_kv_heads": 1, "head_size": 40, "head_size_v": 32, "block_size": 16}
    plan = v1_cpu.make_plan(
        query_start_loc=batch.query_start_loc, seq_lens=batch.seq_lens, dtype=torch.float32, kernel=kernel, **sizes
    )
    wanted = mla.mla_paged_attention(query, batch.kv_cache, kv_lora_rank=32, **batch.tensors, kernel=kernel)
    given = mla.mla_paged_attention(query, batch.kv_cache, kv_lora_rank=32, **batch.tensors, plan=plan)
    assert torch.equal(wanted, given)
    with pytest.raises(ValueError, match="plan"):
        mla.mla_paged_attention(query, batch.kv_cache, kv_lora_rank=31, **batch.tensors, plan=plan)
