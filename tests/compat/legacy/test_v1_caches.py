"""A cache of v1_cpu given to a function of V0's caches is refused, with what to do; converted, it is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from v1_compat.legacy import ipex_attn, paged_attn
from v1_compat.legacy.torch_sdpa import TorchSDPABackend

import v1_cpu

ROW = v1_cpu.allocate_kv_cache(2, 16, 2, 64, torch.float32)  # [2, KH, BS, 2 * D]: also what V0's `cache[0]` would take
PAIRS = torch.tensor([[0, 1]])
CALLS: list[Any] = [
    *(
        pytest.param(
            lambda cache, kind=kind: kind.split_kv_cache(cache, 2, 64), id=f"{kind.__qualname__}.split_kv_cache"
        )
        for kind in (ipex_attn._PagedAttention, ipex_attn._IPEXPagedAttention, paged_attn.PagedAttention)
    ),
    *(
        pytest.param(lambda cache, kind=kind: kind.copy_blocks([cache], PAIRS), id=f"{kind.__qualname__}.copy_blocks")
        for kind in (ipex_attn.PagedAttention, paged_attn.PagedAttention, TorchSDPABackend)
    ),
    *(
        pytest.param(
            lambda cache, kind=kind: kind.swap_blocks(cache, cache, PAIRS), id=f"{kind.__qualname__}.swap_blocks"
        )
        for kind in (paged_attn.PagedAttention, TorchSDPABackend)
    ),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_v1_cache_is_refused_and_its_conversion_served(call: Callable[[torch.Tensor], object]) -> None:
    with pytest.raises(ValueError, match=r"\[2, NB, BS \* KH \* D\].*v1_cpu\.convert_kv_cache"):
        call(ROW)
    call(v1_cpu.convert_kv_cache(ROW, source="row", target="v0", head_size=64))


@pytest.mark.parametrize("kind", [ipex_attn.PagedAttention, paged_attn.PagedAttention])
def test_a_v1_cache_given_as_keys_and_as_values_is_refused(kind: Any) -> None:
    states, slots, one = torch.zeros(3, 2, 128), torch.arange(3), torch.ones(())  # D that the cache's last size fits
    with pytest.raises(ValueError, match=r"\[2, NB, BS \* KH \* D\].*v1_cpu\.convert_kv_cache"):
        kind.write_to_paged_cache(states, states, ROW, ROW, slots, "auto", one, one)


def test_a_cache_of_other_heads_is_refused() -> None:
    with pytest.raises(ValueError, match="KH = 3, D = 64"):
        ipex_attn.PagedAttention.split_kv_cache(torch.zeros(2, 4, 16 * 2 * 64), 3, 64)
