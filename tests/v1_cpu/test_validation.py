"""What is refused, in which words; and that a plan serves only what it was made for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from batches import Batch, check, expected, make_batch, worst_error
from reference import Rules

import v1_cpu

I32 = torch.int32


def given(**change: Any) -> dict[str, Any]:
    """A right call, with changes."""
    return {
        "query": torch.zeros(3, 4, 8),
        "kv_cache": torch.zeros(5, 2, 4, 16),
        "query_start_loc": torch.tensor([0, 1, 3], dtype=I32),
        "seq_lens": torch.tensor([5, 2], dtype=I32),
        "block_table": torch.tensor([[0, 1], [2, 9]], dtype=I32),
        "scale": 0.5,
        **change,
    }


def attend(arguments: dict[str, Any]) -> Any:
    rest = {k: v for k, v in arguments.items() if k not in ("query", "kv_cache")}
    return v1_cpu.paged_attention(arguments["query"], arguments["kv_cache"], **rest)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        pytest.param(
            {"query": torch.zeros(3, 4, 8).double()},
            TypeError,
            "query: dtype torch.float64; must be a float32",
            id="double query",
        ),
        pytest.param(
            {"query": torch.zeros(3, 32)}, ValueError, r"query: shape \(3, 32\); must be \[T, H, D\]", id="flat query"
        ),
        pytest.param(
            {"query": torch.zeros(3, 3, 8)}, ValueError, "3 query heads must be a multiple of the cache's 2", id="heads"
        ),
        pytest.param({"query": torch.zeros(3, 4, 16)}, ValueError, "last dimension must be D", id="head size"),
        pytest.param({"query": torch.zeros(3, 8, 4).transpose(1, 2)}, ValueError, "query: strides", id="strided query"),
        pytest.param({"query": None}, TypeError, "query: NoneType", id="no query"),
        pytest.param(
            {"kv_cache": torch.zeros(5, 2, 4, 16).half()},
            TypeError,
            "kv_cache: dtype torch.float16; must be torch.float32",
            id="cache dtype",
        ),
        pytest.param({"kv_cache": torch.zeros(2, 5, 64)}, ValueError, "convert_kv_cache", id="a V0 cache"),
        pytest.param(
            {"query_start_loc": torch.tensor([0, 1, 3])},
            TypeError,
            "query_start_loc: dtype torch.int64; must be a torch.int32",
            id="int64 starts",
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([0, 3], dtype=I32)},
            ValueError,
            r"query_start_loc: shape \(2,\); must be \[B \+ 1\]",
            id="one start too few",
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([0, 2, 1], dtype=I32)},
            ValueError,
            r"query_start_loc\[2\] = 1 after 2; must not fall",
            id="falling starts",
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([1, 2, 3], dtype=I32)},
            ValueError,
            r"query_start_loc\[0\] = 1; must be 0",
            id="starts not from 0",
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([0, 1, 4], dtype=I32)},
            ValueError,
            r"query_start_loc\[-1\] = 4; .*3 rows of query",
            id="more tokens than rows",
        ),
        pytest.param(
            {"seq_lens": torch.tensor([5, -2], dtype=I32)}, ValueError, r"seq_lens\[1\] = -2", id="negative length"
        ),
        pytest.param(
            {"seq_lens": torch.tensor([5, 9], dtype=I32)},
            ValueError,
            r"seq_lens\[1\] = 9; .*2 blocks of 4 tokens .* room for 8",
            id="length past the table",
        ),
        pytest.param(
            {"seq_lens": torch.tensor([5, 5], dtype=I32)},
            ValueError,
            r"block_table\[1, 1\] = 9; .* 0 to 4",
            id="no such block",
        ),
        pytest.param(
            {"block_table": torch.tensor([[-1, 1], [2, 3]], dtype=I32)},
            ValueError,
            r"block_table\[0, 0\] = -1",
            id="negative block",
        ),
        pytest.param(
            {"block_table": torch.zeros(3, 2, dtype=I32)}, ValueError, "with B = 2, that of seq_lens", id="table rows"
        ),
        pytest.param(
            {"block_table": torch.zeros(2, 2)}, TypeError, "block_table: dtype torch.float32", id="float table"
        ),
        pytest.param({"scale": torch.tensor(0.5)}, TypeError, "scale: .*use .item", id="tensor scale"),
        pytest.param({"scale": float("nan")}, ValueError, "scale: nan; must be finite", id="nan scale"),
        pytest.param(
            {"causal": None}, TypeError, "causal: NoneType None; must be a torch.bool tensor", id="causal None"
        ),
        pytest.param(
            {"causal": torch.tensor([True])}, ValueError, r"causal: shape \(1,\)", id="causal of another batch"
        ),
        pytest.param({"sliding_window": 0}, ValueError, "sliding_window: 0; must be at least 1", id="window 0"),
        pytest.param({"sliding_window": -1}, ValueError, "sliding_window: -1", id="window -1"),
        pytest.param({"sliding_window": 2.0}, TypeError, "sliding_window: float 2.0", id="window 2.0"),
        pytest.param({"sliding_window": (3, 0)}, TypeError, "sliding_window: tuple", id="window pair"),
        pytest.param({"attention_chunk_size": 0}, ValueError, "attention_chunk_size: 0", id="chunk 0"),
        pytest.param(
            {"logits_soft_cap": 0.0}, ValueError, "logits_soft_cap: 0.0; must be finite and greater than 0", id="cap 0"
        ),
        pytest.param(
            {"alibi_slopes": torch.zeros(2)},
            ValueError,
            r"alibi_slopes: shape \(2,\); must be \[H\] with H = 4",
            id="slopes of KV heads",
        ),
        pytest.param({"alibi_slopes": [0.1] * 4}, TypeError, "alibi_slopes: list", id="list of slopes"),
        pytest.param(
            {"sinks": torch.zeros(4).bfloat16()},
            TypeError,
            "sinks: dtype torch.bfloat16; must be a torch.float32",
            id="bf16 sinks",
        ),
        pytest.param(
            {"tree_mask": torch.ones(3, 1, dtype=torch.bool)}, ValueError, r"here \(3, 2\)", id="narrow tree mask"
        ),
        pytest.param(
            {"tree_mask": torch.ones(3, 3, dtype=torch.bool)}, ValueError, r"here \(3, 2\)", id="wide tree mask"
        ),
        pytest.param(
            {"tree_mask": torch.ones(4, 2, dtype=torch.bool)}, ValueError, r"here \(3, 2\)", id="long tree mask"
        ),
        pytest.param(
            {"tree_mask": torch.ones(3, 2, dtype=torch.bool), "causal": False},
            ValueError,
            "causal: False; must be True with a tree_mask",
            id="tree without causality",
        ),
        pytest.param(
            {"k_scale": 2.0},
            ValueError,
            "k_scale: 2.0; must be 1.0 for a torch.float32 cache",
            id="scale without float8",
        ),
        pytest.param({"out": torch.zeros(3, 4, 9)}, ValueError, r"out: shape .*here \(3, 4, 8\)", id="out shape"),
        pytest.param({"out": torch.zeros(3, 4, 8).half()}, TypeError, "out: dtype torch.float16", id="out dtype"),
        pytest.param({"layout": "v0"}, ValueError, "layout: 'v0'", id="layout"),
        pytest.param({"kernel": "cuda"}, ValueError, "kernel='cuda'", id="kernel"),
        pytest.param({"query": torch.zeros(3, 4, 8, device="meta")}, ValueError, "query: on device meta", id="device"),
    ],
)
def test_paged_attention_refuses(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        attend(given(**change))


@pytest.mark.parametrize("planned", [False, True], ids=["no plan", "plan"])
def test_a_scale_that_is_a_tensor_is_refused_even_if_it_holds_one(planned: bool) -> None:
    batch = make_batch([(1, 40)])
    plan = plan_for(batch, block_table=batch.block_table, num_blocks=batch.kv_cache.shape[0]) if planned else None
    with pytest.raises(TypeError, match=r"v_scale: .*use \.item"):
        run(batch, plan, v_scale=torch.tensor(1.0))


def test_the_plain_call_passes_and_padding_of_the_table_may_be_anything() -> None:
    out = attend(given(block_table=torch.tensor([[0, 1], [2, -77]], dtype=I32)))
    assert out.shape == (3, 4, 8)


def test_validate_false_leaves_the_checks_out() -> None:
    batch = make_batch([(3, 20), (1, 7)])
    loose = v1_cpu.paged_attention(batch.query, batch.kv_cache, **batch.tensors, scale=0.2, validate=False)
    strict = v1_cpu.paged_attention(batch.query, batch.kv_cache, **batch.tensors, scale=0.2)
    assert torch.equal(loose, strict)
    attend(given(k_scale=2.0, validate=False))  # refused above


def test_a_large_table_is_checked_too() -> None:
    table = torch.zeros(2, 2000, dtype=I32)
    table[1, 1] = 5
    with pytest.raises(ValueError, match=r"block_table\[1, 1\] = 5"):
        attend(given(seq_lens=torch.tensor([5, 8], dtype=I32), block_table=table))
    table[1, 1], table[1, 3] = 0, 5  # not used
    attend(given(seq_lens=torch.tensor([5, 8], dtype=I32), block_table=table))


def test_out_must_not_share_memory_with_an_input() -> None:
    query = torch.zeros(3, 4, 8)
    with pytest.raises(ValueError, match="out: shares memory with query"):
        attend(given(query=query, out=query))
    cache = torch.zeros(5, 2, 4, 16)
    with pytest.raises(ValueError, match="out: shares memory with kv_cache"):
        attend(given(kv_cache=cache, out=cache.view(-1)[: 3 * 4 * 8].view(3, 4, 8)))
    packed = torch.zeros(3, 8, 8)  # query and out interleaved row by row: no element in common
    assert attend(given(query=packed[:, :4], out=packed[:, 4:])).shape == (3, 4, 8)
    with pytest.raises(ValueError, match="shares memory"):
        attend(given(query=packed[:, :4], out=packed[:, 3:7]))


def plan_for(batch: Batch, **change: Any) -> v1_cpu.Plan:
    _, heads, size = batch.query.shape
    sizes = {"num_heads": heads, "num_kv_heads": batch.kv_cache.shape[1], "head_size": size}
    return v1_cpu.make_plan(
        **{
            "query_start_loc": batch.query_start_loc,
            "seq_lens": batch.seq_lens,
            **sizes,
            "head_size_v": batch.kv_cache.shape[3] - size,
            "block_size": batch.kv_cache.shape[2],
            "dtype": batch.query.dtype,
            **change,
        }
    )


def run(batch: Batch, plan: v1_cpu.Plan | None, kernel: str | None = None, **change: Any) -> torch.Tensor:
    return v1_cpu.paged_attention(
        batch.query, batch.kv_cache, **{**batch.tensors, "scale": 0.2, "plan": plan, "kernel": kernel, **change}
    )


@pytest.mark.parametrize(
    "feature", [{}, {"sliding_window": 9}, {"attention_chunk_size": 8}, {"causal": False}], ids=str
)
@pytest.mark.parametrize("planned", ["as called", "widest"])
def test_with_a_plan_the_results_are_right(feature: dict[str, Any], planned: str, kernel: str) -> None:
    batch = make_batch([(3, 40), (1, 77), (20, 20), (1, 1), (0, 5)], padding=2)
    wide = {} if planned == "as called" else {"causal": False, "sliding_window": None, "attention_chunk_size": None}
    plan = plan_for(batch, kernel=kernel, **{**feature, **wide})
    assert (plan.num_tokens, plan.max_query_len, plan.max_seq_len) == (25, 20, 77)
    wanted, _ = expected(batch, Rules(scale=0.2, **feature))
    for _ in range(2):
        assert worst_error(run(batch, plan, kernel, **feature)[:25], wanted) <= 1e-4


def test_a_plan_with_the_table_checks_it_once() -> None:
    batch = make_batch([(1, 40)])
    with pytest.raises(ValueError, match=r"block_table\[0, 0\]"):
        plan_for(batch, block_table=torch.full((1, 5), 99, dtype=I32), num_blocks=6)
    plan = plan_for(batch, block_table=batch.block_table, num_blocks=batch.kv_cache.shape[0])
    run(batch, plan)
    with pytest.raises(ValueError, match=r"block_table\[0, 0\]"):
        run(batch, plan, block_table=torch.full((1, 5), 99, dtype=I32))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            {"seq_lens": torch.tensor([39, 2], dtype=I32)}, "plan: made for another seq_lens", id="other lengths"
        ),
        pytest.param({"sliding_window": 5}, "sliding_window: 5; the plan was made for 9", id="another window"),
        pytest.param({}, "sliding_window: None; the plan was made for 9", id="no window"),
        pytest.param(
            {"causal": False, "sliding_window": 9}, "causal: False; the plan was made for True", id="wider view"
        ),
        pytest.param(
            {"query_start_loc": torch.tensor([0, 2, 3], dtype=I32)}, "another query_start_loc", id="other starts"
        ),
    ],
)
def test_a_plan_refuses_another_call(change: dict[str, Any], words: str) -> None:
    batch = make_batch([(1, 40), (2, 2)])
    with pytest.raises(ValueError, match=words):
        run(batch, plan_for(batch, sliding_window=9), **change)


def test_a_plan_refuses_another_shape_and_another_kernel() -> None:
    batch, other = make_batch([(1, 40)]), make_batch([(1, 40)], heads=8)
    with pytest.raises(ValueError, match=r"plan: made for dtype, .H, D"):
        run(other, plan_for(batch), query_start_loc=batch.query_start_loc, seq_lens=batch.seq_lens)


def test_a_plan_notices_that_its_tensors_changed() -> None:
    batch = make_batch([(1, 40)])
    plan = plan_for(batch)
    batch.seq_lens[0] = 39
    with pytest.raises(ValueError, match="has changed since"):
        run(batch, plan)


def test_plans_under_inference_mode() -> None:
    with torch.inference_mode():
        batch = make_batch([(1, 40), (3, 3)])
        check(batch, Rules(scale=0.2), None)
        assert worst_error(run(batch, plan_for(batch)), expected(batch, Rules(scale=0.2))[0]) <= 1e-4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"num_heads": 3}, "num_heads: 3; must be a multiple", id="heads"),
        pytest.param({"head_size": 0}, "head_size: 0", id="head size"),
        pytest.param({"dtype": torch.float64}, "dtype: torch.float64", id="dtype"),
        pytest.param({"kv_cache_dtype": "int4"}, "kv_cache_dtype: 'int4'", id="cache dtype"),
        pytest.param({"seq_lens": torch.tensor([-1, 2], dtype=I32)}, "seq_lens: -1", id="negative length"),
        pytest.param({"seq_lens": torch.tensor([1], dtype=I32)}, "one more than seq_lens", id="other batch"),
        pytest.param({"kernel": "cuda"}, "kernel='cuda'", id="kernel"),
    ],
)
def test_make_plan_refuses(change: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        plan_for(make_batch([(1, 40), (2, 2)]), **change)


@pytest.mark.parametrize(
    "out",
    [
        torch.empty(1, 4, 8).expand(3, -1, -1),
        torch.empty(3, 1, 8).expand(-1, 4, -1),
        torch.empty(64).as_strided((3, 4, 8), (8, 8, 1)),
    ],
    ids=["one row", "one head", "rows that meet"],
)
def test_an_out_that_overlaps_itself_is_refused(out: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"out: strides .* must not share memory"):
        attend(given(out=out))


@pytest.mark.parametrize("take", [pickle.dumps, copy.deepcopy])
def test_a_plan_says_that_it_belongs_to_one_process(take: Callable[[object], object]) -> None:
    starts, lens = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)
    plan = v1_cpu.make_plan(
        query_start_loc=starts,
        seq_lens=lens,
        num_heads=1,
        num_kv_heads=1,
        head_size=8,
        block_size=16,
        dtype=torch.float32,
    )
    with pytest.raises(TypeError, match=r"belongs to one process .* call make_plan"):
        take(plan)
