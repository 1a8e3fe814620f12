"""What may be passed to the functions of `v1_cpu.mla`: each check names the argument, its value and the rule."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu import validate as check
from v1_cpu.layouts import FP8_DTYPES
from v1_cpu.plan import Plan

FORMS = ("auto", "absorbed", "expanded")
_CACHE = "[num_blocks, block_size, R + P]"


def cache(kv_cache: Any, dtype: torch.dtype | None = None) -> None:
    """A latent cache, of the model's dtype or float8."""
    if not isinstance(kv_cache, Tensor):
        raise TypeError(f"kv_cache: {type(kv_cache).__name__} {kv_cache!r}; must be a tensor {_CACHE}")
    allowed = (*FP8_DTYPES, *(check.DTYPES if dtype is None else (dtype,)))
    if kv_cache.dtype not in allowed:
        hint = ", view it as torch.float8_e4m3fn or torch.float8_e5m2" if kv_cache.dtype is torch.uint8 else ""
        names = ", ".join(str(d) for d in allowed)
        raise TypeError(f"kv_cache: dtype {kv_cache.dtype}; must be one of {names}{hint}")
    if kv_cache.dim() != 3:
        hint = "; leave out the head dimension: kv_cache[:, 0]" if kv_cache.dim() == 4 else ""
        raise ValueError(f"kv_cache: shape {tuple(kv_cache.shape)}; must be {_CACHE}{hint}")
    check.tensor("kv_cache", kv_cache, kv_cache.dtype, 3, _CACHE)


def rank(kv_lora_rank: Any, kv_cache: Tensor) -> None:
    """The latent's part of the cache's last dimension."""
    check.count("kv_lora_rank", kv_lora_rank, "the numbers of a latent")
    if kv_lora_rank >= kv_cache.shape[2]:
        raise ValueError(
            f"kv_lora_rank: {kv_lora_rank}; must be less than the cache's last dimension R + P = {kv_cache.shape[2]}"
        )


def scale(kv_scale: Any, cache_dtype: torch.dtype) -> None:
    """A positive number, and 1.0 where the cache is not float8."""
    check.number("kv_scale", kv_scale, positive=True)
    if cache_dtype not in FP8_DTYPES and kv_scale != 1.0:
        raise ValueError(
            f"kv_scale: {kv_scale!r}; must be 1.0 for a {cache_dtype} cache; only float8 caches are scaled"
        )


def write(latent: Any, rope_key: Any, kv_cache: Any, slot_mapping: Any, kv_scale: Any) -> None:
    """The arguments of `write_latent_cache`."""
    _rows("latent", latent, "[T, R]")
    _rows("rope_key", rope_key, "[T, P]")
    if rope_key.dtype is not latent.dtype:
        raise TypeError(
            f"rope_key: dtype {rope_key.dtype}; must be {latent.dtype} like latent; nothing is converted silently"
        )
    if rope_key.shape[0] != latent.shape[0]:
        raise ValueError(
            f"rope_key: shape {tuple(rope_key.shape)}; must be [T, P] with T = {latent.shape[0]}, that of latent"
        )
    cache(kv_cache, latent.dtype)
    if kv_cache.shape[2] != latent.shape[1] + rope_key.shape[1]:
        raise ValueError(
            f"kv_cache: shape {tuple(kv_cache.shape)}; its last dimension must be R + P = "
            f"{latent.shape[1]} + {rope_key.shape[1]}"
        )
    check.tensor("slot_mapping", slot_mapping, torch.int64, 1, "[T]")
    if slot_mapping.shape[0] != latent.shape[0]:
        raise ValueError(
            f"slot_mapping: shape {tuple(slot_mapping.shape)}; must be [T], T = {latent.shape[0]}, that of latent"
        )
    scale(kv_scale, kv_cache.dtype)
    check.slots(slot_mapping, kv_cache.shape[0] * kv_cache.shape[1])


def _rows(name: str, value: Any, rule: str) -> None:
    if not isinstance(value, Tensor) or value.dtype not in check.DTYPES:
        got = f"dtype {value.dtype}" if isinstance(value, Tensor) else f"{type(value).__name__} {value!r}"
        raise TypeError(f"{name}: {got}; must be a float32, bfloat16 or float16 tensor {rule}")
    if value.dim() != 2 or value.shape[1] == 0:
        hint = f"; squeeze its head dimension: {name}[:, 0]" if value.dim() == 3 and value.shape[1] == 1 else ""
        raise ValueError(f"{name}: shape {tuple(value.shape)}; must be {rule}{hint}")
    check.tensor(name, value, value.dtype, 2, rule, contiguous=False)


def batch(query_start_loc: Any, seq_lens: Any, block_table: Any) -> None:
    """The tensors that say what belongs to which request."""
    check.tensor("query_start_loc", query_start_loc, torch.int32, 1, "[B + 1]")
    check.tensor("seq_lens", seq_lens, torch.int32, 1, "[B]")
    if query_start_loc.shape[0] != seq_lens.shape[0] + 1:
        raise ValueError(
            f"query_start_loc: shape {tuple(query_start_loc.shape)}; must be [B + 1], one more than seq_lens has "
            f"({seq_lens.shape[0]})"
        )
    check.tensor("block_table", block_table, torch.int32, 2, "[B, max_blocks]", contiguous=False)
    if block_table.shape[0] != seq_lens.shape[0]:
        raise ValueError(
            f"block_table: shape {tuple(block_table.shape)}; must be [B, max_blocks] with B = {seq_lens.shape[0]}, "
            "that of seq_lens"
        )


def paged(
    query: Any,
    kv_cache: Any,
    kv_lora_rank: Any,
    query_start_loc: Any,
    seq_lens: Any,
    block_table: Any,
    scale_: Any,
    causal: Any,
    kv_scale: Any,
    out: Any,
    plan: Plan | None,
) -> None:
    """The arguments of `mla_paged_attention`."""
    check.states("query", query, "[T, H, R + P]")
    cache(kv_cache, query.dtype)
    if kv_cache.shape[2] != query.shape[2]:
        raise ValueError(
            f"query: shape {tuple(query.shape)}; its last dimension must be the cache's R + P = {kv_cache.shape[2]}: "
            "the query in the absorbed form, [W_UK^T q, q_rope]"
        )
    rank(kv_lora_rank, kv_cache)
    batch(query_start_loc, seq_lens, block_table)
    check.options(query.shape[1], seq_lens.shape[0], scale_, causal, None, None, None, None, None)
    scale(kv_scale, kv_cache.dtype)
    if plan is None:
        check.start_locations("query_start_loc", query_start_loc.tolist(), query.shape[0], "query")
    else:
        _plan(plan, query, kv_cache, kv_lora_rank, query_start_loc, seq_lens, causal)
    if plan is None or plan.block_table is not block_table or plan.num_blocks != kv_cache.shape[0]:
        check.lengths(seq_lens.tolist(), block_table, kv_cache.shape[1], kv_cache.shape[0])
    if out is not None:
        check.output(out, query, kv_lora_rank, (("query", query), ("kv_cache", kv_cache)))


def _plan(
    plan: Plan, query: Tensor, kv_cache: Tensor, kv_lora_rank: int, starts: Tensor, lens: Tensor, causal: bool | Tensor
) -> None:
    """That a plan of `v1_cpu.make_plan` was made for this call."""
    check.made_by(plan, Plan, "make_plan")
    for name, mine, theirs in (("query_start_loc", plan.query_start_loc, starts), ("seq_lens", plan.seq_lens, lens)):
        if mine is not theirs and not torch.equal(mine, theirs):
            raise ValueError(f"plan: made for another {name}; make one plan per batch")
    width = query.shape[2] + kv_lora_rank
    called = (query.dtype, tuple(query.shape[1:]), kv_cache.dtype, (1, kv_cache.shape[1], width))
    if called != plan.signature:
        raise ValueError(
            f"plan: made for dtype, (H, R + P), cache dtype, (1, block_size, 2 * R + P) = {plan.signature}; the "
            f"call has {called}"
        )
    plan.check_unchanged(query.shape[0])
    plan.check_masks(causal, 0, 0)


def attention(
    query: Any,
    kv_cache: Any,
    kv_up: Any,
    query_start_loc: Any,
    seq_lens: Any,
    block_table: Any,
    scale_: Any,
    causal: Any,
    kv_scale: Any,
    out: Any,
    form: Any,
) -> None:
    """Types and shapes of the arguments of `mla_attention`; what a plan has read is checked where it is made."""
    check.states("query", query, "[T, H, N + P]")
    cache(kv_cache, query.dtype)
    if not isinstance(kv_up, Tensor) or kv_up.dtype is not query.dtype:
        got = f"dtype {kv_up.dtype}" if isinstance(kv_up, Tensor) else type(kv_up).__name__
        raise TypeError(f"kv_up: {got}; must be a {query.dtype} tensor [H, N + V, R] like query")
    if kv_up.dim() != 3 or kv_up.shape[0] != query.shape[1] or not 0 < kv_up.shape[2] < kv_cache.shape[2]:
        raise ValueError(
            f"kv_up: shape {tuple(kv_up.shape)}; must be [H, N + V, R] with H = {query.shape[1]} and R less than the "
            f"cache's R + P = {kv_cache.shape[2]}"
        )
    rope = kv_cache.shape[2] - kv_up.shape[2]
    nope = query.shape[2] - rope
    if nope < 1 or kv_up.shape[1] <= nope:
        raise ValueError(
            f"query: shape {tuple(query.shape)}; with P = {rope} (the cache's R + P less the R of kv_up) N is {nope}, "
            f"and must lie between 1 and the N + V = {kv_up.shape[1]} of kv_up"
        )
    check.tensor("kv_up", kv_up, query.dtype, 3, "[H, N + V, R]", contiguous=False)
    batch(query_start_loc, seq_lens, block_table)
    check.options(query.shape[1], seq_lens.shape[0], scale_, causal, None, None, None, None, None)
    scale(kv_scale, kv_cache.dtype)
    if form not in FORMS:
        raise ValueError(f"form: {form!r}; must be one of {', '.join(map(repr, FORMS))}")
    if out is not None:
        inputs = (("query", query), ("kv_cache", kv_cache), ("kv_up", kv_up))
        check.output(out, query, kv_up.shape[1] - nope, inputs)
