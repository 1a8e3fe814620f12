"""Accuracy beside torch's own: at most twice the error of its attention, or one rounding of the dtype or the logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from batches import ROUNDING, expected, make_batch, worst_error
from reference import Rules, visible

import v1_cpu

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CASES = {
    "decode": [(1, 300), (1, 47), (1, 1)],
    "prefill": [(128, 128), (65, 65)],
    "chunk": [(40, 200), (9, 90)],
}
FEATURES: dict[str, dict[str, Any]] = {
    "causal": {},
    "not causal": {"causal": False},
    "window": {"sliding_window": 24},
    "alibi": {"alibi_slopes": torch.tensor([0.5, 0.25, 0.125, 0.0625])},
}


def sdpa(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rules: Rules) -> torch.Tensor:
    """torch's attention of one request, in the inputs' dtype, with the mask or bias as a tensor."""
    mask: torch.Tensor = visible(rules, 0, query.shape[0], key.shape[0])
    if rules.alibi_slopes is not None:
        distance = torch.arange(key.shape[0]) - (torch.arange(query.shape[0])[:, None] + key.shape[0] - query.shape[0])
        bias = (rules.alibi_slopes[:, None, None] * distance).masked_fill(~mask, -torch.inf)
        mask = bias.to(query.dtype)
    groups = query.shape[1] // key.shape[1]
    q, k, v = (x.transpose(0, 1)[None] for x in (query, key, value))
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=rules.scale)
    return out[0].transpose(0, 1)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("size", [64, 128])
def test_error_is_at_most_twice_that_of_torch(
    case: str, feature: str, dtype: torch.dtype, size: int, kernel: str
) -> None:
    batch = make_batch(CASES[case], heads=4, kv_heads=2, head_size=size, dtype=dtype, kernel=kernel)
    rules = Rules(scale=size**-0.5, **FEATURES[feature])
    wanted, _ = expected(batch, rules)
    starts = batch.query_start_loc.tolist()
    theirs = torch.cat(
        [
            sdpa(batch.query[starts[b] : starts[b + 1]], batch.keys[b], batch.values[b], rules)
            for b in range(len(batch.keys))
        ]
    )
    ours = v1_cpu.paged_attention(
        batch.query,
        batch.kv_cache,
        **batch.tensors,
        scale=rules.scale,
        causal=rules.causal,
        sliding_window=rules.sliding_window,
        alibi_slopes=rules.alibi_slopes,
        kernel=kernel,
    )
    one_rounding = worst_error(rounded(wanted, dtype), wanted) + ROUNDING[dtype]
    # A logit of 8 that is rounded to float32, and so its weight: torch may be luckier than that, by the CPU's order of sums.
    of_logits = 8 * ROUNDING[torch.float32] * max(float(v.abs().max()) for v in batch.values)
    assert worst_error(ours, wanted) <= max(2 * worst_error(theirs, wanted), one_rounding, of_logits)


def rounded(wanted: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The exact result, rounded to the dtype: what no kernel can beat."""
    return wanted.to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("case", ["decode", "prefill"])
def test_half_precision_decode_is_the_exact_result_rounded(case: str, dtype: torch.dtype) -> None:
    """The torch kernel computes in float32 throughout: nearly every element is the nearest number."""
    batch = make_batch(CASES[case], heads=4, kv_heads=2, head_size=64, dtype=dtype, kernel="torch")
    wanted, _ = expected(batch, Rules(scale=0.125))
    ours = v1_cpu.paged_attention(batch.query, batch.kv_cache, **batch.tensors, scale=0.125, kernel="torch")
    assert float((ours == rounded(wanted, dtype)).double().mean()) > 0.99
