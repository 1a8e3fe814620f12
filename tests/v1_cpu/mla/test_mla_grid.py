"""The grid: both forms with every dtype, shape and mix of phases, held to the unabsorbed formula in float64."""

from __future__ import annotations

import pytest
import torch
from latents import check, compare, dense, make

import v1_cpu
from v1_cpu import mla

MIXES = {
    "decode": [(1, 1), (1, 17), (1, 48), (1, 130)],
    "prefill": [(5, 5), (64, 64), (33, 33)],
    "chunks over a cached prefix": [(7, 40), (16, 64), (20, 151)],
    "long prefills between decodes": [(1, 33), (120, 120), (1, 64), (100, 110), (3, 50)],
    "any order": [(1, 33), (40, 40), (3, 90), (1, 64), (17, 50), (0, 12), (2, 2)],
}
SHAPES = {
    "4 heads, 32+8": {"heads": 4},
    "1 head, 40+16, block 7": {"heads": 1, "rank": 40, "rope": 16, "nope": 8, "v": 8, "block_size": 7},
    "16 heads, 64+32, block 32": {"heads": 16, "rank": 64, "rope": 32, "nope": 32, "v": 32, "block_size": 32},
    "3 heads, 24+10, V 5, block 1": {"heads": 3, "rank": 24, "rope": 10, "nope": 6, "v": 5, "block_size": 1},
}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FORMS = ["absorbed", "expanded", "auto"]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mix", MIXES)
def test_agrees_with_the_formula(mix: str, shape: str, form: str, dtype: torch.dtype, kernel: str) -> None:
    check(make(MIXES[mix], dtype=dtype, padding=2, seed=len(mix), kernel=kernel, **SHAPES[shape]), kernel, form)


@pytest.mark.parametrize("causal", [False, "alternate"], ids=["not causal", "causal per request"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mix", MIXES)
def test_other_views(mix: str, form: str, causal: bool | str, kernel: str) -> None:
    seen = torch.arange(len(MIXES[mix])) % 2 == 0 if causal == "alternate" else False
    check(make(MIXES[mix], seed=1, kernel=kernel), kernel, form, causal=seen)


DEEPSEEK = {"rank": 512, "rope": 64, "nope": 128, "v": 128}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("form", ["absorbed", "expanded"])
@pytest.mark.parametrize("heads", [1, 2, 5, 8, 16, 17, 40, 64, 128])
def test_every_number_of_heads_at_the_size_of_deepseek(heads: int, form: str, dtype: torch.dtype, kernel: str) -> None:
    lens = [(1, 300), (3, 20)] if heads > 16 else [(1, 300), (9, 40), (1, 17), (12, 12)]
    check(make(lens, heads=heads, dtype=dtype, kernel=kernel, **DEEPSEEK), kernel, form)


RANKS = [(512, 64), (256, 32), (128, 64), (384, 64), (96, 16), (33, 3), (8, 1), (4, 2), (1024, 64), (500, 60)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize(("rank", "rope"), RANKS)
def test_every_rank(rank: int, rope: int, dtype: torch.dtype, kernel: str) -> None:
    batch = make([(1, 70), (4, 21), (19, 19)], heads=12, rank=rank, rope=rope, dtype=dtype, kernel=kernel)
    for form in ("absorbed", "expanded"):
        check(batch, kernel, form)


@pytest.mark.parametrize("heads", [16, 32, 33, 128])
@pytest.mark.parametrize("block_size", [1, 2, 5, 16, 17, 32, 48, 64, 128, 500])
def test_every_block_size(block_size: int, heads: int, kernel: str) -> None:
    lens = [(1, 100), (30, 45), (1, 1)] if heads < 64 else [(1, 100), (2, 33), (1, 1)]
    for dtype in (torch.float32, torch.bfloat16):
        batch = make(lens, heads=heads, block_size=block_size, rank=64, rope=32, dtype=dtype, kernel=kernel)
        check(batch, kernel, "absorbed")


@pytest.mark.parametrize("cache", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_float8_latents(shape: str, form: str, dtype: torch.dtype, cache: str, kernel: str) -> None:
    lens = MIXES["any order"]
    batch = make(lens, dtype=dtype, kv_cache_dtype=cache, padding=1, kernel=kernel, **SHAPES[shape])
    check(batch, kernel, form)


@pytest.mark.parametrize("cache", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("heads", [16, 128])
def test_float8_latents_at_the_size_of_deepseek(heads: int, cache: str, kernel: str) -> None:
    lens = [(1, 200), (1, 17), (2, 60)]
    batch = make(lens, heads=heads, dtype=torch.bfloat16, kv_cache_dtype=cache, kernel=kernel, **DEEPSEEK)
    check(batch, kernel, "absorbed")


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_contexts_longer_than_a_tile(dtype: torch.dtype, kernel: str) -> None:
    batch = make([(1, 1200), (2, 700), (1, 5)], heads=24, rank=64, rope=32, dtype=dtype, kernel=kernel)
    check(batch, kernel, "absorbed")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lens", [[], [(0, 0)], [(0, 5), (0, 0)]], ids=["none", "one, empty", "idle ones"])
def test_no_requests(lens: list[tuple[int, int]], form: str, kernel: str) -> None:
    check(make(lens, padding=3, kernel=kernel), kernel, form)


@pytest.mark.parametrize("form", FORMS)
def test_more_queries_than_keys(form: str, kernel: str) -> None:
    check(make([(6, 2), (3, 0), (1, 4)], kernel=kernel), kernel, form)


@pytest.mark.parametrize("heads", [8, 40])
def test_large_logits(heads: int, kernel: str) -> None:
    """Logits of hundreds: the running maximum carries."""
    for dtype in (torch.float32, torch.bfloat16):
        batch = make([(1, 700), (3, 300)], heads=heads, rank=64, rope=32, dtype=dtype, kernel=kernel)
        batch.query *= 16  # exact
        out, lse = mla.mla_attention(
            batch.query, batch.kv_cache, batch.kv_up, **batch.tensors, return_lse=True, form="absorbed", kernel=kernel
        )
        wanted = dense(batch)
        if dtype is torch.float32:
            compare(batch, out, lse / 16, (wanted[0], wanted[1] / 16), bound=1e-3)
        else:
            assert float((lse.double() - wanted[1]).abs().max()) < 2.0
            assert float((out.double() - wanted[0]).abs().mean()) < 0.05


@pytest.mark.parametrize("form", FORMS)
def test_chunk_by_chunk_equals_at_once(form: str, kernel: str) -> None:
    """A prompt written and attended to in chunks, over what the chunks before have cached."""
    whole = make([(90, 90)], kernel=kernel)
    wanted, _ = dense(whole)
    cache = torch.full_like(whole.kv_cache, torch.nan)
    table, done = whole.block_table, 0
    for size in (32, 1, 7, 50):
        positions = torch.arange(done, done + size)
        slots = table[0, positions // 16].long() * 16 + positions % 16
        chunk = slice(done, done + size)
        mla.write_latent_cache(whole.latents[0][chunk], whole.rope_keys[0][chunk], cache, slots, kernel=kernel)
        done += size
        out = mla.mla_attention(
            whole.query[chunk], cache, whole.kv_up, scale=whole.scale, block_table=table, form=form, kernel=kernel,
            query_start_loc=torch.tensor([0, size], dtype=torch.int32),
            seq_lens=torch.tensor([done], dtype=torch.int32),
        )  # fmt: skip
        assert float((out.double() - wanted[chunk]).abs().max()) < 1e-4


def test_two_requests_share_the_blocks_of_a_prefix(kernel: str) -> None:
    batch = make([(3, 50), (2, 47)], kernel=kernel)
    shared = batch.block_table.clone()
    shared[1, :2] = shared[0, :2]  # the first 32 tokens
    batch.block_table = shared
    batch.latents[1] = torch.cat([batch.latents[0][:32], batch.latents[1][32:]])
    batch.rope_keys[1] = torch.cat([batch.rope_keys[0][:32], batch.rope_keys[1][32:]])
    for form in FORMS:
        check(batch, kernel, form)


def test_merging_two_halves_of_the_keys(kernel: str) -> None:
    """Attention over a prefix and over the rest, merged, is attention over all: in the latent space, too."""
    batch = make([(4, 48)], rank=32, kernel=kernel)
    wanted, wanted_lse = dense(batch)
    starts = batch.query_start_loc

    def part(blocks: slice, length: int, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
        return mla.mla_attention(
            batch.query, batch.kv_cache, batch.kv_up, query_start_loc=starts, scale=batch.scale, causal=causal,
            seq_lens=torch.tensor([length], dtype=torch.int32), block_table=batch.block_table[:, blocks],
            return_lse=True, kernel=kernel, form="absorbed" if causal else "expanded",
        )  # fmt: skip

    out, lse = v1_cpu.merge_attention_states(*part(slice(0, 2), 32, False), *part(slice(2, 4), 16, True))
    compare(batch, out, lse, (wanted, wanted_lse))


def test_a_batch_can_take_both_forms() -> None:
    """What "auto" does with the grid's mix of long prefills and decodes, so that the grid has such a batch."""
    batch = make(MIXES["long prefills between decodes"])
    sizes = {"num_heads": 4, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 24}
    plan = mla.make_mla_plan(
        query_start_loc=batch.query_start_loc, seq_lens=batch.seq_lens, block_table=batch.block_table,
        num_blocks=batch.kv_cache.shape[0], block_size=16, dtype=torch.float32, **sizes,
    )  # fmt: skip
    assert plan.absorbed is not None
    assert plan.absorbed.seq_lens.tolist() == [33, 64, 50]
    assert [part.kv_start_loc.tolist() for part in plan.expanded] == [[0, 120, 230]]


@pytest.mark.parametrize(
    ("heads", "kernel_name", "fused"),
    [
        pytest.param(4, "native", True, id="two heads a thread: made tile by tile in the kernel"),
        pytest.param(3, "native", False, id="fewer: heads are divided by queries, so keys are made once before"),
        pytest.param(4, "torch", False, id="the torch kernel has none that makes them"),
    ],
)
def test_where_keys_and_values_are_made(
    heads: int, kernel_name: str, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel_name == "native" and v1_cpu.which().name != "native":
        pytest.skip("the native kernel is not built here")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    batch = make([(40, 100)], heads=heads)
    plan = mla.make_mla_plan(
        query_start_loc=batch.query_start_loc, seq_lens=batch.seq_lens, block_table=batch.block_table,
        num_blocks=batch.kv_cache.shape[0], block_size=16, dtype=torch.float32, num_heads=heads, kv_lora_rank=32,
        qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24, form="expanded", kernel=kernel_name,
    )  # fmt: skip
    assert [part.fused for part in plan.expanded] == [fused]


@pytest.mark.parametrize("form", ["absorbed", "expanded", "auto"])
@pytest.mark.parametrize("columns", [0, 1], ids=["a table without columns", "a table of one column"])
@pytest.mark.parametrize("tokens", [1, 30])
def test_queries_without_a_key_give_zeros(tokens: int, columns: int, form: str, kernel: str) -> None:
    int32 = torch.int32
    for dtype in (torch.float32, torch.bfloat16):
        out, lse = mla.mla_attention(
            torch.randn(tokens, 4, 24).to(dtype),
            mla.allocate_latent_cache(3, 16, 32, 8, dtype),
            torch.randn(4, 40, 32).to(dtype),
            query_start_loc=torch.tensor([0, tokens], dtype=int32),
            seq_lens=torch.zeros(1, dtype=int32),
            block_table=torch.zeros(1, columns, dtype=int32),
            scale=0.2,
            form=form,
            return_lse=True,
            kernel=kernel,
        )
        assert not out.any() and (lse == -torch.inf).all()
