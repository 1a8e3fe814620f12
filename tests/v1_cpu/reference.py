"""The formula: dense attention in float64, one request and one head at a time, rule by rule.

Nothing of v1_cpu is used here, and speed does not matter; this is what every kernel is held to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Rules:
    """What a query sees and how a logit is made; defaults are plain causal attention."""

    scale: float
    causal: bool | Tensor = True
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    alibi_slopes: Tensor | None = None
    logits_soft_cap: float | None = None
    sinks: Tensor | None = None
    tree_mask: Tensor | None = None
    first_rows: list[int] = field(default_factory=list)  # row of tree_mask where each request starts


def visible(rules: Rules, request: int, query_len: int, kv_len: int) -> Tensor:
    """bool [query_len, kv_len]."""
    causal = rules.causal if isinstance(rules.causal, bool) else bool(rules.causal[request])
    p = torch.arange(query_len)[:, None] + kv_len - query_len
    k = torch.arange(kv_len)[None, :]
    seen = torch.ones(query_len, kv_len, dtype=torch.bool)
    if rules.tree_mask is not None:
        context = kv_len - query_len
        rows = rules.tree_mask[rules.first_rows[request] :][:query_len]
        for j in range(query_len):
            if context + j >= 0:
                seen[:, context + j] = rows[:, j]
    elif causal:
        seen &= k <= p
    if rules.sliding_window is not None:
        seen &= p - k < rules.sliding_window
        if not causal:
            seen &= k - p < rules.sliding_window
    if rules.attention_chunk_size is not None:
        c = rules.attention_chunk_size
        seen &= torch.floor_divide(p, c) == torch.floor_divide(k, c)
    return seen


def attend(query: Tensor, key: Tensor, value: Tensor, rules: Rules, request: int) -> tuple[Tensor, Tensor]:
    """One request: query [Q, H, D], key [S, KH, D], value [S, KH, Dv] -> float64 out [Q, H, Dv], lse [H, Q]."""
    query_len, heads, _ = query.shape
    kv_len, kv_heads, _ = key.shape
    seen = visible(rules, request, query_len, kv_len)
    distance = torch.arange(kv_len)[None, :] - (torch.arange(query_len)[:, None] + kv_len - query_len)
    out = torch.zeros(query_len, heads, value.shape[2], dtype=torch.float64)
    lse = torch.full((heads, query_len), -torch.inf, dtype=torch.float64)
    for h in range(heads):
        kv_head = h // (heads // kv_heads)
        logits = query[:, h].double() @ key[:, kv_head].double().T * rules.scale
        if rules.logits_soft_cap is not None:
            logits = rules.logits_soft_cap * torch.tanh(logits / rules.logits_soft_cap)
        if rules.alibi_slopes is not None:
            logits = logits + rules.alibi_slopes[h].double() * distance
        logits = logits.masked_fill(~seen, -torch.inf)
        if rules.sinks is not None:
            logits = torch.cat([logits, rules.sinks[h].double().expand(query_len, 1)], dim=1)
        lse[h] = torch.logsumexp(logits, dim=1)  # -inf where nothing is seen
        seeing = lse[h] > -torch.inf
        weights = torch.exp(logits[seeing] - lse[h, seeing, None])[:, :kv_len]
        out[seeing, h] = weights @ value[:, kv_head].double()
    return out, lse
