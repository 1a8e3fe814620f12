"""What vLLM's own test of its CPU attention (tests/kernels/attention/test_cpu_attn.py) covers, covered here for ours.

Test by test, theirs (without `test_varlen_`), then ours:

| theirs | ours |
|---|---|
| encoder_attention_vec, _amx: 1 to 7,812 tokens, window none and symmetric 256, each dtype, heads and sizes | `test_encoders` |
| with_paged_kv_normal_vec, _amx: decodes, prefills and chunks, mixed; blocks of 96 and 128, each dtype and cache | `test_batches` at their lengths; `test_the_whole_product` at an eighth of them |
| with_paged_kv_normal_vec16: blocks of 48, sizes 80 and 112 too | `test_sizes`, `test_the_whole_product` |
| with_paged_kv_normal_neon, _rvv | tests/v1_cpu/native runs NEON's kernels under an emulator; RISC-V has the portable kernel, and no test |
| with_paged_kv_softcap: 50 | `test_features` |
| with_paged_kv_alibi, also for 9 heads, no power of two | `test_features` |
| with_paged_kv_sink: up to 15 | `test_features` |
| with_paged_kv_fp8: e4m3 and e5m2, with soft cap, ALiBi and sinks over them, and scales | `test_batches`, `test_features`, `test_scales` |

Where ours is not theirs:

- Every result of theirs is taken with the keys of a request divided over threads and not divided: ours with a plan, which
  divides them, and without one.
- A float8 cache is held against what the cache holds, to the bound of the query's dtype. Theirs allows 0.2 and 0.3 of
  absolute error against a cache without float8.
- Encoders read keys and values as given; theirs writes them to a scratch cache first.
- Instruction sets are tested one by one in tests/v1_cpu/native; here the chosen one.
- A block table names a block twice: random tables, as theirs.

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
    cache_dtype: str, feature: str, scales: tuple[float, float] = (1.0, 1.0),
) -> float:  # fmt: skip
    """Largest error over the sampled rows of a paged batch, with a plan and without; not a number if one is."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    key, value = (torch.randn(BLOCKS * block, heads[1], size).clamp(-3, 3).to(kind) for _ in range(2))
    cache = v1_cpu.allocate_kv_cache(BLOCKS, block, heads[1], size, kind, kv_cache_dtype=cache_dtype)
    by = {"k_scale": scales[0], "v_scale": scales[1]}
    v1_cpu.write_kv_cache(key, value, cache, torch.arange(BLOCKS * block), **by)
    width = max(-(-keys // block) for _, keys in lens)
    table = torch.randint(0, BLOCKS, (len(lens), width), dtype=torch.int32)
    starts = torch.tensor([0, *itertools.accumulate(q for q, _ in lens)], dtype=torch.int32)
    query = torch.randn(int(starts[-1]), heads[0], size).to(kind)
    more = options(feature, heads[0])
    scale = size**-0.5
    lengths = torch.tensor([s for _, s in lens], dtype=torch.int32)
    plan = v1_cpu.make_plan(
        query_start_loc=starts, seq_lens=lengths, num_heads=heads[0], num_kv_heads=heads[1], head_size=size,
        block_size=block, dtype=kind, kv_cache_dtype=cache.dtype, sliding_window=window,
    )  # fmt: skip
    outs = [
        v1_cpu.paged_attention(
            query, cache, query_start_loc=starts, seq_lens=lengths, block_table=table, scale=scale,
            sliding_window=window, plan=chosen, **by, **more,
        )
        for chosen in (plan, None)
    ]  # fmt: skip
    errors = []
    for i, (queries, keys) in enumerate(lens):
        first = int(starts[i])
        held = v1_cpu.read_kv_cache(cache, table[i], keys, **by)  # dense, what the cache holds
        wanted = rows_of(query[first : first + queries], *held, scale, window, True, **more)
        errors += [
            (out[first + row].double() - expected).abs().max() for row, expected in wanted.items() for out in outs
        ]
    return float(torch.stack(errors).max())


@pytest.mark.parametrize("lens", LENS)
@pytest.mark.parametrize(
    ("dtype", "cache_dtype"),
    [
        *((dtype, "auto") for dtype in DTYPES),
        ("bfloat16", "fp8_e4m3"),
        pytest.param("float32", "fp8_e5m2", marks=pytest.mark.slow),
        pytest.param("float16", "fp8_e4m3", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("window", WINDOWS)
def test_batches(lens: str, cache_dtype: str, dtype: str, window: int | None) -> None:
    heads, block = ((8, 2), 96) if cache_dtype == "auto" else ((4, 4), 128)
    assert paged(LENS[lens], heads, 96, dtype, block, window, cache_dtype, "plain") <= DTYPES[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("lens", LENS)
@pytest.mark.parametrize("cache_dtype", CACHES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_whole_product(lens: str, cache_dtype: str, dtype: str) -> None:
    shorter = [(-(-queries // 8), -(-keys // 8)) for queries, keys in LENS[lens]]
    for heads, size, block, window in itertools.product(HEADS, HEAD_SIZES, BLOCK_SIZES, WINDOWS):
        error = paged(shorter, heads, size, dtype, block, window, cache_dtype, "plain")
        assert error <= DTYPES[dtype], (heads, size, block, window)


@pytest.mark.parametrize("cache_dtype", CACHES[1:])
@pytest.mark.parametrize("scales", [(0.5, 2.0), (0.03, 0.07)], ids=str)
def test_scales(cache_dtype: str, scales: tuple[float, float]) -> None:
    lens = [(40, 700), (1, 1234), (3, 16)]
    assert paged(lens, (8, 2), 96, "bfloat16", 128, None, cache_dtype, "plain", scales) <= DTYPES["bfloat16"]


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
@pytest.mark.parametrize(("heads", "size"), [((9, 3), 96), ((4, 4), 128), ((8, 2), 512)], ids=str)
def test_encoders(dtype: str, window: int | None, heads: tuple[int, int], size: int) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    lens = ENCODERS if (dtype, size) == ("bfloat16", 96) else ENCODERS[:4]
    starts = torch.tensor([0, *itertools.accumulate(lens)], dtype=torch.int32)
    query, key, value = (torch.randn(sum(lens), h, size).to(kind) for h in (heads[0], heads[1], heads[1]))
    out = v1_cpu.varlen_attention(
        query, key, value, query_start_loc=starts, kv_start_loc=starts, scale=size**-0.5, causal=False,
        sliding_window=window,
    )  # fmt: skip
    for a, b in itertools.pairwise(starts.tolist()):
        for row, expected in rows_of(query[a:b], key[a:b], value[a:b], size**-0.5, window, False).items():
            assert float((out[a + row].double() - expected).abs().max()) <= DTYPES[dtype]
