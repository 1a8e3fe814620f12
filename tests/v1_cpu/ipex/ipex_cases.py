"""What the tests of the IPEX kernel share: running a batch, watching who computes it, and the rows of docs/ipex.md."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from batches import Batch
from reference import Rules
from torch import Tensor

import v1_cpu
from v1_cpu.kernels.ipex_kernel import Asked, _IPEXPagedAttention, route

PLAIN = Asked(
    dtype=torch.bfloat16,
    cache_dtype=torch.bfloat16,
    head_size=64,
    head_size_v=64,
    block_size=32,
    decodes=False,
    prefills=False,
    keyless=False,
    causal=True,
    sliding_window=0,
    attention_chunk_size=0,
    alibi=False,
    soft_cap=False,
    sinks=False,
    tree_mask=False,
    lse=False,
    v_scale=1.0,
)
E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
ROWS: dict[str, dict[str, Any]] = {
    "causal; bfloat16; head sizes from 8; MHA, GQA, MQA": {},
    "the same in float32": {"dtype": torch.float32, "cache_dtype": torch.float32},
    "the same in float16": {"dtype": torch.float16, "cache_dtype": torch.float16},
    "head sizes below 8": {"head_size": 7, "head_size_v": 7},
    "not causal": {"causal": False},
    "causal for some requests": {"causal": torch.tensor([True, False])},
    "window of 2 or more": {"sliding_window": 20},
    "window of 1": {"sliding_window": 1},
    "ALiBi": {"alibi": True},
    "soft cap": {"soft_cap": True},
    "sinks": {"sinks": True},
    "attention chunks": {"attention_chunk_size": 24},
    "tree mask": {"tree_mask": True},
    "log-sum-exp": {"lse": True},
    "values of another head size": {"head_size_v": 40},
    "blocks of 16, 32, 64 or 128": {"block_size": 64},
    "blocks of 48": {"block_size": 48},
    "blocks of 256": {"block_size": 256},
    "more queries than keys": {"keyless": True},
    "float8 e5m2, bfloat16 queries, v_scale a power of two": {"cache_dtype": E5M2, "v_scale": 0.25},
    "float8 e5m2, bfloat16 queries, any other v_scale": {"cache_dtype": E5M2, "v_scale": 0.3},
    "float8 e5m2, float32 queries": {"cache_dtype": E5M2, "dtype": torch.float32},
    "float8 e5m2, float16 queries": {"cache_dtype": E5M2, "dtype": torch.float16},
    "float8 e5m2, head sizes that are no multiple of 32": {"cache_dtype": E5M2, "head_size": 80, "head_size_v": 80},
    "float8 e4m3": {"cache_dtype": E4M3},
}


def asked_of(batch: Batch, rules: Rules, lse: bool) -> Asked:
    """What `route` is asked for a batch, from the batch alone."""
    lens = batch.query_start_loc.diff().tolist()
    head_size = batch.query.shape[2]
    return Asked(
        dtype=batch.query.dtype,
        cache_dtype=batch.kv_cache.dtype,
        head_size=head_size,
        head_size_v=batch.kv_cache.shape[3] - head_size,
        block_size=batch.kv_cache.shape[2],
        decodes=1 in lens,
        prefills=max(lens, default=0) > 1,
        keyless=any(q > s for q, s in zip(lens, batch.seq_lens.tolist(), strict=True)),
        causal=rules.causal,
        sliding_window=rules.sliding_window or 0,
        attention_chunk_size=rules.attention_chunk_size or 0,
        alibi=rules.alibi_slopes is not None,
        soft_cap=rules.logits_soft_cap is not None,
        sinks=rules.sinks is not None,
        tree_mask=rules.tree_mask is not None,
        lse=lse,
        v_scale=batch.v_scale,
    )


def table() -> str:
    """The table of docs/ipex.md, from the rule that the kernel follows."""
    lines = ["| | one query token (decode) | several (prefill, chunk) |", "|---|---|---|"]
    for name, change in ROWS.items():
        phases = ({"decodes": True}, {"prefills": True})
        cells = [route(replace(PLAIN, **change, **phase)) for phase in phases]
        lines.append(" | ".join([f"| {name}", *("IPEX" if c is None else f"ours: {c}" for c in cells)]) + " |")
    return "\n".join(lines)


class Watch:
    """Counts who computes: wraps the operations of IPEX and our own kernel inside `kernel`."""

    def __init__(self, kernel: _IPEXPagedAttention, monkeypatch: Any) -> None:
        self.calls: Counter[str] = Counter()
        monkeypatch.setattr(kernel, "_ops", _Counted(kernel._ops, self.calls, "ipex"))
        monkeypatch.setattr(kernel, "_own", _Counted(kernel._own, self.calls, "own"))


class _Counted:
    def __init__(self, target: Any, calls: Counter[str], label: str) -> None:
        self._target, self._calls, self._label = target, calls, label

    def __getattr__(self, name: str) -> Any:
        self._calls[self._label] += 1
        return getattr(self._target, name)


def run(batch: Batch, rules: Rules, kernel: str, lse: bool = False) -> tuple[Tensor, Tensor | None]:
    """`paged_attention` of the batch; lse only where asked for."""
    result = v1_cpu.paged_attention(
        batch.query,
        batch.kv_cache,
        **batch.tensors,
        scale=rules.scale,
        causal=rules.causal,
        sliding_window=rules.sliding_window,
        attention_chunk_size=rules.attention_chunk_size,
        alibi_slopes=rules.alibi_slopes,
        logits_soft_cap=rules.logits_soft_cap,
        sinks=rules.sinks,
        tree_mask=rules.tree_mask,
        return_lse=lse,
        kernel=kernel,
    )
    return result if lse else (result, None)
