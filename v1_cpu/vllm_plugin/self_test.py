"""A numeric self-test of the kernel that is about to serve: paged, dense and latent attention against plain float64.

It takes a fraction of a second, and covers what a miscompiled or misdetected kernel gets wrong: each dtype, prefill
beside decode, scattered blocks, grouped heads, window, soft cap, ALiBi, sinks and the float8 cache. Every dtype is
named: vLLM builds a model with the model's dtype as torch's default.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from v1_cpu.attention import paged_attention, varlen_attention
from v1_cpu.cache import allocate_kv_cache, write_kv_cache
from v1_cpu.mla import allocate_latent_cache, mla_attention, write_latent_cache

_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
_QUERY_LENS, _SEQ_LENS = [1, 37, 1, 5], [90, 37, 3, 70]  # decode, prefill, decode, chunk
_HEADS, _KV_HEADS, _HEAD_SIZE, _BLOCK_SIZE = 8, 2, 64, 16
_RANK, _NOPE, _ROPE, _VALUE = 64, 32, 32, 32


@dataclass(frozen=True, slots=True)
class _Case:
    dtype: torch.dtype
    kv_cache_dtype: str = "auto"
    sliding_window: int | None = None
    logits_soft_cap: float | None = None
    alibi: bool = False
    sinks: bool = False


_CASES = (
    _Case(torch.float32),
    _Case(torch.float32, sliding_window=19, logits_soft_cap=5.0, alibi=True, sinks=True),
    _Case(torch.bfloat16),
    _Case(torch.bfloat16, sliding_window=19, sinks=True),
    _Case(torch.bfloat16, kv_cache_dtype="fp8"),
    _Case(torch.float16),
)


def fault() -> str | None:
    """What the kernel of `v1_cpu.which()` gets wrong on this machine, or None."""
    from v1_cpu.select import which

    generator = torch.Generator().manual_seed(0)
    for case in _CASES:
        measures = {"paged": _paged_error, "dense": _dense_error}
        if case == _Case(case.dtype):  # latents have no features
            measures |= {"latent (absorbed)": _absorbed_error, "latent (expanded)": _expanded_error}
        for name, measure in measures.items():
            try:
                error = measure(case, generator)
                wrong = f"is off by {error:.2g} (allowed: {_TOLERANCE[case.dtype]})"
                passed = error <= _TOLERANCE[case.dtype]  # not for a NaN
            except Exception as raised:  # whatever it is, this kernel must not serve
                wrong, passed = f"raised {type(raised).__name__}: {raised}", False
            if not passed:
                return (
                    f"the self-test of the {which().name} kernel failed: {name} attention, {case}, {wrong}; "
                    "V1_CPU_KERNEL=torch serves without it"
                )
    return None


def _paged_error(case: _Case, generator: torch.Generator) -> float:
    """Largest difference from the reference over a mixed batch in scattered blocks."""
    table, slots = _scatter(generator)
    keys, values = (
        _draw((sum(_SEQ_LENS), _KV_HEADS, _HEAD_SIZE), case.dtype, generator, case.kv_cache_dtype) for _ in range(2)
    )
    query = _draw((sum(_QUERY_LENS), _HEADS, _HEAD_SIZE), case.dtype, generator)
    cache = allocate_kv_cache(
        int(table.max()) + 1, _BLOCK_SIZE, _KV_HEADS, _HEAD_SIZE, case.dtype, kv_cache_dtype=case.kv_cache_dtype
    )
    write_kv_cache(keys, values, cache, slots)
    got = paged_attention(
        query,
        cache,
        query_start_loc=_starts(_QUERY_LENS),
        seq_lens=torch.tensor(_SEQ_LENS, dtype=torch.int32),
        block_table=table,
        scale=_HEAD_SIZE**-0.5,
        sliding_window=case.sliding_window,
        logits_soft_cap=case.logits_soft_cap,
        alibi_slopes=_slopes(case),
        sinks=_sinks(case),
    )
    assert isinstance(got, Tensor)
    return _difference(got, _reference(case, query, keys, values, causal=True))


def _dense_error(case: _Case, generator: torch.Generator) -> float:
    """The same for keys and values as given, both directions visible."""
    keys, values = (_draw((sum(_SEQ_LENS), _KV_HEADS, _HEAD_SIZE), case.dtype, generator) for _ in range(2))
    query = _draw((sum(_QUERY_LENS), _HEADS, _HEAD_SIZE), case.dtype, generator)
    got = varlen_attention(
        query,
        keys,
        values,
        query_start_loc=_starts(_QUERY_LENS),
        kv_start_loc=_starts(_SEQ_LENS),
        scale=_HEAD_SIZE**-0.5,
        causal=False,
        sliding_window=case.sliding_window,
        logits_soft_cap=case.logits_soft_cap,
        alibi_slopes=_slopes(case),
        sinks=_sinks(case),
    )
    assert isinstance(got, Tensor)
    return _difference(got, _reference(case, query, keys, values, causal=False))


def _absorbed_error(case: _Case, generator: torch.Generator) -> float:
    return _latent_error(case, generator, "absorbed")


def _expanded_error(case: _Case, generator: torch.Generator) -> float:
    return _latent_error(case, generator, "expanded")


def _latent_error(case: _Case, generator: torch.Generator, form: str) -> float:
    """The same over latents, whose keys and values the reference makes."""
    table, slots = _scatter(generator)
    latent, rope_key = (_draw((sum(_SEQ_LENS), n), case.dtype, generator) for n in (_RANK, _ROPE))
    kv_up = (_draw((_HEADS, _NOPE + _VALUE, _RANK), case.dtype, generator) * _RANK**-0.5).contiguous()
    query = _draw((sum(_QUERY_LENS), _HEADS, _NOPE + _ROPE), case.dtype, generator)
    cache = allocate_latent_cache(int(table.max()) + 1, _BLOCK_SIZE, _RANK, _ROPE, case.dtype)
    write_latent_cache(latent, rope_key, cache, slots)
    got = mla_attention(
        query,
        cache,
        kv_up,
        query_start_loc=_starts(_QUERY_LENS),
        seq_lens=torch.tensor(_SEQ_LENS, dtype=torch.int32),
        block_table=table,
        scale=_HEAD_SIZE**-0.5,
        form=form,
    )
    assert isinstance(got, Tensor)
    made = torch.einsum("hnr,sr->shn", kv_up.double(), latent.double())
    keys = torch.cat([made[..., :_NOPE], rope_key.double()[:, None].expand(-1, _HEADS, -1)], dim=-1)
    return _difference(got, _reference(case, query, keys, made[..., _NOPE:], causal=True))


def _reference(case: _Case, query: Tensor, keys: Tensor, values: Tensor, *, causal: bool) -> Tensor:
    """float64 [T, H, D], one request at a time, nothing shared with a kernel."""
    rows, group = [], _HEADS // keys.shape[1]
    slopes, sinks = _slopes(case), _sinks(case)
    per_request = zip(
        torch.split(query, _QUERY_LENS), torch.split(keys, _SEQ_LENS), torch.split(values, _SEQ_LENS), strict=True
    )
    for q, k, v in per_request:
        k, v = (x.double().repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))  # [H, S, D]
        logits = q.double().transpose(0, 1) @ k.transpose(1, 2) * _HEAD_SIZE**-0.5  # [H, Q, S]
        if case.logits_soft_cap is not None:
            logits = case.logits_soft_cap * torch.tanh(logits / case.logits_soft_cap)
        distance = torch.arange(k.shape[1]) - torch.arange(k.shape[1] - q.shape[0], k.shape[1])[:, None]  # k - q
        if slopes is not None:
            logits = logits + slopes.double()[:, None, None] * distance
        hidden = distance > 0 if causal else torch.zeros_like(distance, dtype=torch.bool)
        if case.sliding_window is not None:
            hidden = hidden | (distance.abs() >= case.sliding_window)
        logits = logits.masked_fill(hidden, -torch.inf)
        if sinks is not None:
            logits = torch.cat([logits, sinks.double()[:, None, None].expand(-1, q.shape[0], 1)], dim=-1)
        rows.append((logits.softmax(-1)[..., : k.shape[1]] @ v).transpose(0, 1))
    return torch.cat(rows)


def _draw(
    shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, kv_cache_dtype: str = "auto"
) -> Tensor:
    """Random numbers; those for a float8 cache are drawn from what it can hold, so that only the kernel errs."""
    numbers = torch.randn(shape, generator=generator, dtype=torch.float32)
    return numbers.to(torch.float8_e4m3fn).to(dtype) if kv_cache_dtype == "fp8" else numbers.to(dtype)


def _scatter(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """int32 [B, max_blocks] of blocks in random order, and int64 slots of every token."""
    needed = [-(-length // _BLOCK_SIZE) for length in _SEQ_LENS]
    shuffled = torch.split(torch.randperm(sum(needed), generator=generator), needed)
    table = torch.nn.utils.rnn.pad_sequence(list(shuffled), batch_first=True).int()
    positions = [torch.arange(length) for length in _SEQ_LENS]
    slots = [row[p // _BLOCK_SIZE] * _BLOCK_SIZE + p % _BLOCK_SIZE for row, p in zip(shuffled, positions, strict=True)]
    return table, torch.cat(slots)


def _starts(lens: list[int]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(lens)], dtype=torch.int32)


def _slopes(case: _Case) -> Tensor | None:
    return torch.linspace(0.02, 0.4, _HEADS, dtype=torch.float32) if case.alibi else None


def _sinks(case: _Case) -> Tensor | None:
    return torch.linspace(-1.0, 2.0, _HEADS, dtype=torch.float32) if case.sinks else None


def _difference(got: Tensor, want: Tensor) -> float:
    return float((got.double() - want).abs().max())
