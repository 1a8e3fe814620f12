"""A stand-in for IPEX: the operations' exact signatures, computed densely, refusing what IPEX 2.8.0 cannot do.

Where IPEX would compute wrong numbers or write past its buffers, this fails an assertion, so that a call which ought to
have been routed elsewhere is a failing test on machines without IPEX, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference import Rules, attend


class PagedAttention:
    """`intel_extension_for_pytorch.llm.modules.PagedAttention`, as far as the kernel calls it."""

    @classmethod
    def reshape_and_cache(
        cls,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slot_mapping: Tensor,
        kv_cache_dtype: str = "auto",
        k_scale: float = 1.0,
        v_scale: float = 1.0,
    ) -> None:
        assert key.is_contiguous() and value.is_contiguous()
        assert kv_cache_dtype == "auto" and key_cache.dtype is key.dtype
        assert key_cache.shape == value_cache.shape and bool((slot_mapping >= 0).all())
        blocks, offsets = slot_mapping // key_cache.shape[2], slot_mapping % key_cache.shape[2]
        key_cache[blocks, :, offsets] = key
        value_cache[blocks, :, offsets] = value

    @classmethod
    def single_query_cached_kv_attention(
        cls,
        output: Tensor,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        head_mapping: Tensor,
        scale: float,
        block_tables: Tensor,
        context_lens: Tensor,
        block_size: int,
        max_context_len: int,
        alibi_slopes: Any,
        window_size: int = -1,
        k_scale: float = 1.0,
        v_scale: float = 1.0,
        softcap: float = -1.0,
    ) -> None:
        assert 128 % block_size == 0, "IPEX writes past its buffers"
        assert block_size == key_cache.shape[2] and max_context_len == int(context_lens.max())
        assert head_mapping.tolist() == [h * key_cache.shape[1] // query.shape[1] for h in range(query.shape[1])]
        if key_cache.dtype is not query.dtype:
            assert (key_cache.dtype, query.dtype) == (torch.float8_e5m2, torch.bfloat16)
        assert output.shape[0] == query.shape[0] == len(context_lens)
        starts = torch.arange(len(context_lens) + 1)
        window = None if window_size < 0 else window_size
        rules = Rules(scale, True, window, None, alibi_slopes, None if softcap < 0 else softcap)
        _attend_all(
            output, query, (key_cache, value_cache), starts, context_lens, block_tables, rules, k_scale, v_scale
        )

    @classmethod
    def flash_attn_varlen_func(
        cls,
        output: Tensor,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        cu_seqlens_q: Tensor,
        cu_seqlens_kv: Tensor,
        max_seqlen_q: int,
        max_seqlen_kv: int,
        scale: float,
        is_cusal: bool,
        block_tables: Tensor,
        alibi_slopes: Any,
        window_size_left: int = -1,
        window_size_right: int = -1,
        kv_cache_dtype: str = "auto",
        k_scale: float = 1.0,
        v_scale: float = 1.0,
        softcap: float = -1.0,
    ) -> None:
        if alibi_slopes is not None:
            raise RuntimeError("alibi_slopes is not supported for flash_attn_varlen yet")
        assert kv_cache_dtype == "auto" and window_size_left != 0
        assert key_cache.stride(2) == key_cache.shape[3], "IPEX takes a token's keys to follow the last token's"
        assert max_seqlen_q == int(cu_seqlens_q.diff().max()) and max_seqlen_kv == int(cu_seqlens_kv.diff().max())
        if key_cache.dtype is not query.dtype:
            assert key_cache.dtype is torch.float8_e5m2 and query.dtype is not torch.float16
        window = None if window_size_left < 0 else window_size_left + 1
        assert is_cusal or window_size_left == window_size_right
        rules = Rules(scale, is_cusal, window, None, None, None if softcap < 0 else softcap)
        caches, lens = (key_cache, value_cache), cu_seqlens_kv.diff()
        _attend_all(output, query, caches, cu_seqlens_q, lens, block_tables, rules, k_scale, v_scale)


def _attend_all(
    output: Tensor,
    query: Tensor,
    caches: tuple[Tensor, Tensor],
    starts: Tensor,
    lens: Tensor,
    table: Tensor,
    rules: Rules,
    k_scale: float,
    v_scale: float,
) -> None:
    """The formula, request by request."""
    assert (k_scale, v_scale) == (1.0, 1.0), "IPEX does not apply scales"
    assert query.is_contiguous() and output.is_contiguous()
    assert all(x.dtype is torch.int32 for x in (lens, table)) and bool((table >= 0).all())
    block_size = caches[0].shape[2]
    for b, length in enumerate(lens.tolist()):
        rows = slice(int(starts[b]), int(starts[b + 1]))
        assert rows.stop - rows.start <= length, "IPEX does not define queries before the first key"
        at = torch.arange(length)
        blocks = table[b].long()[at // block_size]
        bits = [c.view(torch.uint8) if c.element_size() == 1 else c for c in caches]
        key, value = (x[blocks, :, at % block_size].view(c.dtype) for x, c in zip(bits, caches, strict=True))
        output[rows] = attend(query[rows], key.double(), value.double(), rules, b)[0].to(output.dtype)
