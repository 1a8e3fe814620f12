"""The backend's grid under `kernel="ipex"`: right everywhere, by IPEX or by our own kernels, as `route` says."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from batches import BOUNDS, Batch, expected, lse_error, make_batch, worst_error
from ipex_cases import Watch, asked_of, run
from reference import Rules
from test_grid import DTYPES, FEATURES, FP8_GRID, GRID, HEAD_SIZES, MIXES, SHAPES, rules_for

from v1_cpu import select
from v1_cpu.kernels.ipex_kernel import route


def hold(batch: Batch, rules: Rules, watch: Watch) -> None:
    """Without and with lse: held to the formula, and computed by whom `route` says."""
    wanted, wanted_lse = expected(batch, rules)
    tokens = int(batch.query_start_loc[-1])
    for lse in (False, True):
        watch.calls.clear()
        out, sums = run(batch, rules, "ipex", lse)
        reason = route(asked_of(batch, rules, lse))
        by = set(watch.calls)
        assert by == ({"ipex"} if reason is None else {"own"}), f"computed by {by}, route says {reason or 'IPEX'}"
        error = worst_error(out[:tokens], wanted)
        assert error <= BOUNDS[out.dtype], f"error {error:.2e} ({reason or 'IPEX'})"
        assert not bool(out[tokens:].any()), "padding rows must be zero"
        if sums is not None:
            assert lse_error(sums[:, :tokens], wanted_lse) <= (1e-4 if out.dtype is torch.float32 else 1e-3)


def grid_batch(mix: str, shape: str, feature: str, dtype: torch.dtype, kernel: str, **more: Any) -> tuple[Batch, Rules]:
    sizes = SHAPES[shape]
    batch = make_batch(MIXES[mix], dtype=dtype, padding=2, seed=len(mix), kernel=kernel, **sizes, **more)
    return batch, rules_for(FEATURES[feature], MIXES[mix], sizes["heads"], sizes["head_size"], seed=3)


@pytest.mark.ipex
@pytest.mark.parametrize(("mix", "shape", "feature", "dtype"), GRID)
def test_agrees_with_the_formula(mix: str, shape: str, feature: str, dtype: torch.dtype, real: Watch) -> None:
    hold(*grid_batch(mix, shape, feature, dtype, "ipex"), real)


@pytest.mark.ipex
@pytest.mark.parametrize(("mix", "shape", "feature", "dtype", "cache"), FP8_GRID)
@pytest.mark.parametrize("v_scale", [0.03, 0.25])
def test_float8_agrees_with_the_formula(
    mix: str, shape: str, feature: str, dtype: torch.dtype, cache: str, v_scale: float, real: Watch
) -> None:
    hold(*grid_batch(mix, shape, feature, dtype, "ipex", kv_cache_dtype=cache, v_scale=v_scale), real)


@pytest.mark.ipex
@pytest.mark.parametrize(("mix", "shape", "feature"), list(itertools.product(MIXES, SHAPES, FEATURES)))
def test_the_three_kernels_agree_pairwise(mix: str, shape: str, feature: str) -> None:
    """One batch, three caches, three results in float32: no further apart than two kernels' bounds."""
    results = {}
    for name in ("torch", "native", "ipex"):
        batch, rules = grid_batch(mix, shape, feature, torch.float32, name)
        results[name] = run(batch, rules, name)[0][: int(batch.query_start_loc[-1])]
    for one, other in itertools.combinations(results, 2):
        error = worst_error(results[one], results[other].double())
        assert error <= 2 * BOUNDS[torch.float32], f"{one} and {other} differ by {error:.2e}"


@pytest.mark.ipex
@pytest.mark.parametrize("head_size", [7, 12, 20, *HEAD_SIZES])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("cache", ["auto", "fp8_e5m2"])
def test_every_head_size(head_size: int, dtype: torch.dtype, cache: str, real: Watch) -> None:
    for lens in ([(1, 37), (1, 200)], [(19, 19), (4, 21)], [(1, 37), (19, 90)]):
        batch = make_batch(lens, head_size=head_size, dtype=dtype, kv_cache_dtype=cache, kernel="ipex", v_scale=0.5)
        hold(batch, Rules(scale=head_size**-0.5), real)


@pytest.mark.ipex
@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 16, 17, 32, 64, 96, 128, 160, 256, 500])
@pytest.mark.parametrize("window", [None, 9, 140], ids=["no window", "window 9", "window 140"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
def test_every_block_size(block_size: int, window: int | None, dtype: torch.dtype, real: Watch) -> None:
    for lens in ([(1, 700), (1, 1)], [(30, 700), (2, 2)], [(1, 100), (30, 45), (0, 0), (0, 12)]):
        batch = make_batch(lens, block_size=block_size, dtype=dtype, kernel="ipex")
        hold(batch, Rules(scale=0.2, sliding_window=window), real)


@pytest.mark.ipex
@pytest.mark.parametrize("heads", [(3, 3), (6, 1), (8, 8), (64, 8), (71, 1)], ids=str)
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_grouping_of_heads_and_number_of_threads(heads: tuple[int, int], threads: int, real: Watch) -> None:
    torch.set_num_threads(threads)  # the fixture of all tests sets it back
    for lens in ([(1, 300), (1, 17)], [(30, 300), (65, 65)]):
        batch = make_batch(lens, heads=heads[0], kv_heads=heads[1], kernel="ipex")
        hold(batch, Rules(scale=0.2), real)


@pytest.mark.ipex
@pytest.mark.parametrize("feature", FEATURES)
def test_long_contexts(feature: str, real: Watch) -> None:
    lens = [(1, 3000), (150, 1700), (300, 300), (1, 5)]
    for part in (lens, lens[:1], lens[1:3]):
        batch = make_batch(part, heads=4, kv_heads=2, head_size=64, dtype=torch.bfloat16, kernel="ipex")
        hold(batch, rules_for(FEATURES[feature], part, 4, 64, seed=1), real)


# Everywhere: the same rules over the stand-in, which fails on what IPEX would get wrong.

SOME = [p for i, p in enumerate(GRID) if i % 7 == 0]


@pytest.mark.parametrize(("mix", "shape", "feature", "dtype"), SOME)
def test_standin_agrees_with_the_formula(
    mix: str, shape: str, feature: str, dtype: torch.dtype, standin: Watch
) -> None:
    hold(*grid_batch(mix, shape, feature, dtype, "ipex"), standin)


@pytest.mark.parametrize(("mix", "shape", "feature", "dtype", "cache"), FP8_GRID)
def test_standin_agrees_on_float8(
    mix: str, shape: str, feature: str, dtype: torch.dtype, cache: str, standin: Watch
) -> None:
    hold(*grid_batch(mix, shape, feature, dtype, "ipex", kv_cache_dtype=cache, v_scale=0.25), standin)


def test_own_kernel_is_torch_without_the_native_one(standin: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    from v1_cpu.kernels import KernelUnavailable, ipex_kernel
    from v1_cpu.kernels.torch_kernel import _PagedAttention

    def absent() -> None:
        raise KernelUnavailable("no library")

    monkeypatch.setattr(ipex_kernel, "_NativePagedAttention", absent)
    own = ipex_kernel.own_kernel()
    assert isinstance(own, _PagedAttention)
    monkeypatch.setattr(select.get_kernel("ipex"), "_own", own)
    batch, rules = grid_batch("any order", "MHA 3/3x16", "all at once", torch.float32, "ipex")
    wanted, _ = expected(batch, rules)
    assert worst_error(run(batch, rules, "ipex")[0][: len(wanted)], wanted) <= 1e-4
