"""What vLLM's own test of its CPU attention (tests/kernels/attention/test_cpu_attn.py) covers, covered here for ours.

Point by point, theirs, then ours:

- heads 4/4, 8/2, 9/3: `HEADS`, in every case.
- head sizes 80, 96, 112, 128, 512: `HEAD_SIZES`; tests/v1_cpu/test_grid.py has twelve more.
- bfloat16, float16, float32: `DTYPES`.
- windows none and 256, causal and, for encoders, symmetric: `WINDOWS`.
- blocks of 48, 96, 128: `BLOCK_SIZES`; ours takes every size.
- a batch of decodes, one of prefills and chunks, a mixed one, up to 7,812 keys and 2,345 queries: `LENS`.
- encoders of 1 to 7,812 tokens without a cache: `test_encoders`. Theirs writes a scratch cache first; ours reads the keys as given.
- soft cap 50, ALiBi (also for a number of heads that is no power of two), sinks up to 15: `FEATURES`.
- each of those over a float8 cache, e4m3 and e5m2: `CACHES`. Theirs allows 0.2 and 0.3 of absolute error against no
  float8; ours is held against what the cache holds, and so to the bound of the query's dtype.
- work divided over the keys of a request, or not: ours is the plan's matter; a decode alone with 7,812 keys is divided
  (tests/v1_cpu/native looks at the plan itself).
- instruction sets vec, vec16, amx: ours are tested one by one in tests/v1_cpu/native; here the chosen one. NEON and RVV: the
  portable kernel serves there.
- a block table that names a block twice: random tables, as theirs.

The reference is float64 over sampled rows: nothing is shared with a kernel.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import v1_cpu  # noqa: E402

HEADS = [(4, 4), (8, 2), (9, 3)]
HEAD_SIZES = [80, 96, 112, 128, 512]
DTYPES = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}
WINDOWS = [None, 256]
BLOCK_SIZES = [48, 96, 128]
CACHES = ["auto", "fp8_e4m3", "fp8_e5m2"]
FEATURES = ["plain", "soft cap", "ALiBi", "sinks"]
LENS = {
    "decodes": [(1, 213), (1, 1), (1, 312), (1, 7), (1, 7812)],
    "prefills and chunks": [(2345, 2345), (5, 5), (3, 16), (134, 5131)],
    "mixed": [(992, 2456), (1, 1234), (98, 1145), (1, 4162), (2345, 2345)],
}
ENCODERS = [1, 678, 2367, 145, 4162, 36, 7812]
BLOCKS = 64  # fewer than a long request's table has entries: it names some twice


def slopes(heads: int) -> Any:
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])


def options(feature: str, heads: int) -> dict[str, Any]:
    return {
        "plain": {},
        "soft cap": {"logits_soft_cap": 50.0},
        "ALiBi": {"alibi_slopes": slopes(heads)},
        "sinks": {"sinks": torch.linspace(0.0, 15.0, heads)},
    }[feature]


def rows_of(query: Any, key: Any, value: Any, scale: float, window: int | None, causal: bool, **more: Any) -> Any:
    """{row: float64 [H, Dv]} of one request, for its first and last rows and some between."""
    queries, keys, group = query.shape[0], key.shape[0], query.shape[1] // key.shape[1]
    k, v = (x.double().repeat_interleave(group, 1) for x in (key, value))
    found = {}
    for row in sorted({0, queries // 3, queries // 2, queries - 1}):
        logits = torch.einsum("hd,khd->hk", query[row].double(), k) * scale
        if (cap := more.get("logits_soft_cap")) is not None:
            logits = cap * torch.tanh(logits / cap)
        distance = torch.arange(keys) - (keys - queries + row)
        if (alibi := more.get("alibi_slopes")) is not None:
            logits = logits + alibi.double()[:, None] * distance
        seen = distance <= 0 if causal else distance == distance
        if window is not None:
            seen = seen & (distance.abs() < window)
        logits[:, ~seen] = -torch.inf
        if (sinks := more.get("sinks")) is not None:
            logits = torch.cat([logits, sinks.double()[:, None]], 1)
        found[row] = torch.einsum("hk,khd->hd", logits.softmax(1)[:, :keys], v)
    return found


def paged(
    lens: list[tuple[int, int]], heads: tuple[int, int], size: int, dtype: str, block: int, window: int | None,
    cache_dtype: str, feature: str,
) -> float:  # fmt: skip
    """Largest error over the sampled rows of a paged batch."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    key, value = (torch.randn(BLOCKS * block, heads[1], size).clamp(-3, 3).to(kind) for _ in range(2))
    cache = v1_cpu.allocate_kv_cache(BLOCKS, block, heads[1], size, kind, kv_cache_dtype=cache_dtype)
    v1_cpu.write_kv_cache(key, value, cache, torch.arange(BLOCKS * block))
    width = max(-(-keys // block) for _, keys in lens)
    table = torch.randint(0, BLOCKS, (len(lens), width), dtype=torch.int32)
    starts = torch.tensor([0, *itertools.accumulate(q for q, _ in lens)], dtype=torch.int32)
    query = torch.randn(int(starts[-1]), heads[0], size).to(kind)
    more = options(feature, heads[0])
    scale = size**-0.5
    out = v1_cpu.paged_attention(
        query, cache, query_start_loc=starts, seq_lens=torch.tensor([s for _, s in lens], dtype=torch.int32),
        block_table=table, scale=scale, sliding_window=window, **more,
    )  # fmt: skip
    worst = 0.0
    for i, (queries, keys) in enumerate(lens):
        first = int(starts[i])
        held = v1_cpu.read_kv_cache(cache, table[i], keys)  # dense, what the cache holds
        wanted = rows_of(query[first : first + queries], *held, scale, window, True, **more)
        for row, expected in wanted.items():
            worst = max(worst, float((out[first + row].double() - expected).abs().max()))
    return worst


@pytest.mark.parametrize("lens", LENS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_batches(lens: str, dtype: str, window: int | None) -> None:
    assert paged(LENS[lens], (8, 2), 96, dtype, 96, window, "auto", "plain") <= DTYPES[dtype]


@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("size", HEAD_SIZES)
@pytest.mark.parametrize("block", BLOCK_SIZES)
def test_sizes(heads: tuple[int, int], size: int, block: int) -> None:
    for dtype, bound in DTYPES.items():
        assert paged([(40, 700), (1, 1234)], heads, size, dtype, block, 256, "auto", "plain") <= bound


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("cache_dtype", CACHES)
@pytest.mark.parametrize("heads", HEADS, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_features(feature: str, cache_dtype: str, heads: tuple[int, int], window: int | None) -> None:
    for dtype in ("bfloat16", "float32"):
        lens = [(40, 700), (1, 1234), (3, 16), (1, 1)]
        assert paged(lens, heads, 96, dtype, 128, window, cache_dtype, feature) <= DTYPES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_encoders(dtype: str, window: int | None) -> None:
    torch.manual_seed(0)
    kind, heads, size = getattr(torch, dtype), (9, 3), 96
    lens = ENCODERS[:4] if dtype == "float32" else ENCODERS
    starts = torch.tensor([0, *itertools.accumulate(lens)], dtype=torch.int32)
    query, key, value = (torch.randn(sum(lens), h, size).to(kind) for h in (heads[0], heads[1], heads[1]))
    out = v1_cpu.varlen_attention(
        query, key, value, query_start_loc=starts, kv_start_loc=starts, scale=size**-0.5, causal=False,
        sliding_window=window,
    )  # fmt: skip
    for a, b in itertools.pairwise(starts.tolist()):
        for row, expected in rows_of(query[a:b], key[a:b], value[a:b], size**-0.5, window, False).items():
            assert float((out[a + row].double() - expected).abs().max()) <= DTYPES[dtype]
