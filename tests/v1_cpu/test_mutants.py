"""The cases catch wrong kernels: each mutant is a small fault put into the torch kernel's source, and must fail one.

A mutant that survives means that the cases are too weak; a mutant whose text is no longer found means that this file
is stale.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from batches import check, make_batch
from reference import Rules

from v1_cpu import select
from v1_cpu.kernels import torch_kernel

SOURCE = Path(torch_kernel.__file__).read_text()
LENS = [(1, 33), (40, 40), (3, 90), (1, 64), (17, 50)]
SLOPES = torch.tensor([0.1, 0.2, 0.3, 0.4])
SINKS = torch.tensor([1.0, -1.0, 0.5, 2.0])
TREE = torch.rand(62, 40, generator=torch.Generator().manual_seed(1)) < 0.6
MIXED_CAUSAL = torch.tensor([True, False, True, False, True])


def rules(**feature: Any) -> Rules:
    return Rules(scale=32**-0.5, **feature)


CASES: dict[str, tuple[dict[str, Any], Rules]] = {
    "plain": ({}, rules()),
    "not causal": ({}, rules(causal=False)),
    "each its own causality": ({}, rules(causal=MIXED_CAUSAL)),
    "window": ({}, rules(sliding_window=20)),
    "window both ways": ({}, rules(sliding_window=13, causal=False)),
    "chunks": ({}, rules(attention_chunk_size=24)),
    "chunk that ends with the keys": ({"lens": [(10, 100)]}, rules(attention_chunk_size=20, causal=False)),
    "alibi": ({}, rules(alibi_slopes=SLOPES)),
    "soft cap": ({}, rules(logits_soft_cap=1.5)),
    "sinks": ({}, rules(sinks=SINKS)),
    "tree": ({}, rules(tree_mask=TREE)),
    "fp8 e4m3": ({"kv_cache_dtype": "fp8_e4m3", "k_scale": 0.02}, rules()),
    "fp8 e5m2 past its range": ({"kv_cache_dtype": "fp8_e5m2", "k_scale": 1e-5}, rules()),
}
MUTANTS = [
    ("window off by one", "position - keys < masks.sliding_window)", "position - keys <= masks.sliding_window)"),
    ("window one short", "position - keys < masks.sliding_window)", "position - keys < masks.sliding_window - 1)"),
    (
        "window off by one to the right",
        "keys - position < masks.sliding_window)",
        "keys - position <= masks.sliding_window)",
    ),
    ("first key of the window skipped", "first - masks.sliding_window + 1)", "first - masks.sliding_window + 2)"),
    ("causality off by one", "(keys <= position)", "(keys < position)"),
    ("sees one key of the future", "(keys <= position)", "(keys <= position + 1)"),
    ("no causality", "(~causal | (keys <= position))", "(causal | ~causal | (keys <= position))"),
    ("scale dropped", ".float().mul_(scale)", ".float()"),
    ("key scale dropped", "masks, scale * k_scale, v_scale, sinks", "masks, scale, v_scale, sinks"),
    ("value scale dropped", ".mul_(v_scale)", ""),
    ("alibi sign", "logits.add_(masks.alibi_slopes", "logits.sub_(masks.alibi_slopes"),
    (
        "alibi of the wrong head",
        "masks.alibi_slopes.view(1, num_kv_heads, group, 1, 1)",
        "masks.alibi_slopes.flip(0).view(1, num_kv_heads, group, 1, 1)",
    ),
    (
        "wrong head map",
        "num_kv_heads, group, head_size).permute(0, 2, 3, 1, 4)",
        "group, num_kv_heads, head_size).permute(0, 3, 2, 1, 4)",
    ),
    ("last block skipped", "range(0, tile.span, step)", "range(0, max(tile.span - block(), 0), step)"),
    ("first keys skipped", "range(0, tile.span, step)", "range(1, tile.span, step)"),
    (
        "chunk boundary off by one",
        '(last.div(chunk, rounding_mode="floor") + 1) * chunk',
        '(last.div(chunk, rounding_mode="floor") + 1) * chunk - 1',
    ),
    (
        "chunks ignored",
        'seen & (position.div(chunk, rounding_mode="floor") == keys.div(chunk, rounding_mode="floor"))',
        "seen",
    ),
    ("soft cap dropped", "if masks.logits_soft_cap:", "if False:"),
    (
        "soft cap after the bias",
        "logits.div_(masks.logits_soft_cap).tanh_()",
        "logits.div_(masks.logits_soft_cap * 2).tanh_()",
    ),
    ("sink dropped", "if sinks is not None:", "if False:"),
    (
        "sink of the wrong head",
        "sinks.view(1, num_kv_heads, group, 1, 1)",
        "sinks.flip(0).view(1, num_kv_heads, group, 1, 1)",
    ),
    ("tree mask shifted", "new.clamp(0,", "(new + 1).clamp(0,"),
    ("tree mask hides the context", "(new < 0) |", ""),
    (
        "stale slots reach the result",
        "seen = (keys < tile.kv_lens[:, None, None])",
        "seen = (keys <= tile.kv_lens[:, None, None])",
    ),
    ("running sum not rescaled", "total = total * keep + weights.sum", "total = total + weights.sum"),
    ("accumulator not rescaled", "acc = acc.mul_(keep)", "acc = acc"),
    (
        "wrong block of the table",
        'positions.div(block_size, rounding_mode="floor") * used',
        '((positions + 1).div(block_size, rounding_mode="floor")) * used',
    ),
    ("wrong slot of the block", "positions.remainder(block_size)", "(positions + 1).remainder(block_size)"),
    (
        "wrong request's table",
        "block_table[tile.requests[:, None], columns]",
        "block_table[tile.requests.flip(0)[:, None], columns]",
    ),
    ("not saturated", ".clamp(-limit, limit)", ""),
    ("positions from 0", "positions = (new_starts + firsts)[:, None]", "positions = firsts[:, None]"),
    ("lse without the maximum", "values = (top + total.log())", "values = total.log()"),
]


class Small:
    """Small tiles, so that a batch of 40 tokens takes several of each kind."""

    QUERY_TILE = 16
    KEY_TILE = 16


def build(old: str, new: str) -> Any:
    """The torch kernel with one text replaced and small tiles."""
    assert SOURCE.count(old) >= 1, f"the kernel no longer contains {old!r}"
    text = SOURCE.replace(old, new).replace("max(64, min(KEY_TILE", "max(16, min(KEY_TILE")
    ast.parse(text)
    spec = importlib.util.spec_from_loader("mutant", loader=None)
    assert spec is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["mutant"] = module
    exec(compile(text, "mutant", "exec"), module.__dict__)
    module.__dict__.update(QUERY_TILE=Small.QUERY_TILE, KEY_TILE=Small.KEY_TILE, block=lambda: 16)
    return module._PagedAttention()


def failures(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases that this kernel fails."""
    monkeypatch.setattr(select, "get_kernel", lambda name: kernel)
    select.serving.cache_clear()
    failed = []
    try:
        for name, (sizes, rule) in CASES.items():
            try:
                batch = make_batch(**{"lens": LENS, "kernel": "mutant", **sizes})
                check(batch, rule, "mutant")
            except (AssertionError, IndexError, RuntimeError):
                failed.append(name)
    finally:
        select.serving.cache_clear()
    return failed


def test_the_kernel_itself_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(build("QUERY_TILE", "QUERY_TILE"), monkeypatch) == []


@pytest.mark.parametrize(("old", "new"), [pytest.param(old, new, id=name) for name, old, new in MUTANTS])
def test_a_wrong_kernel_is_caught(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert failures(build(old, new), monkeypatch), "this mutant computes wrongly and no case noticed"
