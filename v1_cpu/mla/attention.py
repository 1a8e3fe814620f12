"""MLA with its up-projections: queries as the model makes them in, each head's values out."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from v1_cpu import ops
from v1_cpu import validate as check
from v1_cpu.attention import varlen_attention
from v1_cpu.layouts import FP8_DTYPES, resolve_cache_dtype
from v1_cpu.mla import checks
from v1_cpu.mla.kernels import expanded_native, serving_mla
from v1_cpu.mla.paged import mla_paged_attention, outputs
from v1_cpu.mla.plan import AbsorbedPart, ExpandedPart, MLAPlan, MLASizes, divide

EXPANDED_BYTES = 64 << 20
"""Keys and values are made for as many heads at once as this holds, at least one."""


@overload
def mla_attention(
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    kv_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[False] = ...,
    form: str = ...,
    plan: MLAPlan | None = ...,
    kernel: str | None = ...,
    validate: bool = ...,
) -> Tensor: ...


@overload
def mla_attention(
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    kv_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[True],
    form: str = ...,
    plan: MLAPlan | None = ...,
    kernel: str | None = ...,
    validate: bool = ...,
) -> tuple[Tensor, Tensor]: ...


def mla_attention(
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = True,
    kv_scale: float = 1.0,
    out: Tensor | None = None,
    return_lse: bool = False,
    form: str = "auto",
    plan: MLAPlan | None = None,
    kernel: str | None = None,
    validate: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """MLA of new tokens over a latent cache that already holds their latents: any mix of prefill, chunk and decode.

    Of head h, with W_UK the first N rows of ``kv_up[h]`` and W_UV the others, and of the token's latent c and rope key
    k, the key is ``[W_UK c, k]`` and the value ``W_UV c``. Each request takes the form that costs less: *absorbed*
    (decodes: `mla_paged_attention` between W_UK^T and W_UV) or *expanded* (prefills, chunks: keys and values are made).

    Parameters
    ----------
    query
        ``[T, H, N + P]``: the part without and the part with rope (rotated), float32, bfloat16 or float16.
    kv_cache
        ``[num_blocks, block_size, R + P]`` of `allocate_latent_cache`, in the query's dtype or float8.
    kv_up
        ``[H, N + V, R]`` in the query's dtype: the weight of the model's `kv_b_proj`, viewed.
    query_start_loc, seq_lens, block_table, causal
        As in `v1_cpu.paged_attention`.
    scale
        Multiplies the logits, usually ``(N + P) ** -0.5``.
    kv_scale
        Of a float8 cache, whose entries are x / kv_scale.
    out
        ``[T, H, V]`` in the query's dtype, sharing no memory with an input; padding rows stay as they are. Allocated,
        with zeros in them, where None.
    return_lse
        Also return float32 ``[H, T]``, as `v1_cpu.merge_attention_states` takes it.
    form
        "auto", "absorbed" or "expanded". Not read where a plan is given.
    plan
        Of `make_mla_plan`, for the layers of one batch. The tensors that it was made from are then not read again.
    kernel
        "torch", "native", or None for `v1_cpu.which()`.
    validate
        False leaves the checks out; wrong arguments then read and write wrong memory.

    Returns
    -------
    Tensor or (Tensor, Tensor)
        `out`, with `lse` after it if asked for. A query that sees no key gives zeros and -inf.

    Raises
    ------
    TypeError, ValueError
        A wrong type or dtype; a wrong shape, stride, device or range. The message names the argument and the rule.
    NotImplementedError
        The kernel asked for cannot serve this.
    """
    traced = ops.traced(query)
    if validate and not traced:  # the operator checks, with real tensors
        checks.attention(
            query, kv_cache, kv_up, query_start_loc, seq_lens, block_table, scale, causal, kv_scale, out, form
        )
    rank = kv_up.shape[2]
    rope = kv_cache.shape[2] - rank
    nope = query.shape[2] - rope
    out, lse = outputs(query, kv_up.shape[1] - nope, out, return_lse)
    if traced:
        seen = causal if isinstance(causal, bool) else True
        per_request = causal if isinstance(causal, Tensor) else None
        torch.ops.v1_cpu.mla_attention(
            *(query, kv_cache, kv_up, query_start_loc, seq_lens, block_table, out, lse, scale, seen, per_request),
            *(kv_scale, form, kernel, validate),
        )
        return out if lse is None else (out, lse)
    sizes = MLASizes(query.shape[1], rank, nope, rope, kv_up.shape[1] - nope)
    if plan is None:
        shape = (kv_cache.shape[0], kv_cache.shape[1])
        chosen = serving_mla(kernel, query.dtype, kv_cache.dtype, sizes.num_heads, rank, rope, shape[1])
        plan = divide(
            sizes, query.dtype, kv_cache.dtype, shape, query_start_loc, seq_lens, block_table, causal, form, chosen,
            query.shape[0], validate,
        )  # fmt: skip
    elif validate:
        check.made_by(plan, MLAPlan, "make_mla_plan")
        plan.check(sizes, query, kv_cache, causal)
    if plan.absorbed is not None:
        _absorbed(plan.absorbed, query, kv_cache, kv_up, sizes, scale, kv_scale, out, lse, kernel)
    for part in plan.expanded:
        _expanded(part, query, kv_cache, kv_up, sizes, scale, kv_scale, out, lse, kernel)
    return out if lse is None else (out, lse)


def make_mla_plan(
    *,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    num_blocks: int,
    block_size: int,
    num_heads: int,
    kv_lora_rank: int,
    qk_nope_head_dim: int,
    qk_rope_head_dim: int,
    v_head_dim: int,
    dtype: torch.dtype,
    kv_cache_dtype: str | torch.dtype = "auto",
    causal: bool | Tensor = True,
    form: str = "auto",
    kernel: str | None = None,
    validate: bool = True,
) -> MLAPlan:
    """Plan one batch for all layers that share its shapes: pass it as ``mla_attention(..., plan=plan)``.

    Parameters
    ----------
    query_start_loc, seq_lens, block_table
        int32 ``[B + 1]``, ``[B]``, ``[B, max_blocks]``. The plan holds for the values they have now.
    num_blocks, block_size
        Of the cache.
    num_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim
        H, R, N, P, V.
    dtype, kv_cache_dtype
        The query's, and the cache's as in `allocate_latent_cache`.
    causal, form, kernel
        As in `mla_attention`.
    """
    sizes = MLASizes(num_heads, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim)
    if validate and dtype not in check.DTYPES:
        raise TypeError(f"dtype: {dtype}; must be float32, bfloat16 or float16")
    cache_dtype = resolve_cache_dtype(kv_cache_dtype, dtype)
    if validate:
        for name in MLASizes.__slots__:
            check.count(name, getattr(sizes, name), "a size")
        check.count("num_blocks", num_blocks, "a size", least=0)
        check.count("block_size", block_size, "a size")
        checks.batch(query_start_loc, seq_lens, block_table)
        check.options(num_heads, seq_lens.shape[0], 1.0, causal, None, None, None, None, None)
        if form not in checks.FORMS:
            raise ValueError(f"form: {form!r}; must be one of {', '.join(map(repr, checks.FORMS))}")
    chosen = serving_mla(kernel, dtype, cache_dtype, num_heads, kv_lora_rank, qk_rope_head_dim, block_size)
    return divide(
        sizes, dtype, cache_dtype, (num_blocks, block_size), query_start_loc, seq_lens, block_table, causal, form,
        chosen, int(query_start_loc[-1]), validate,
    )  # fmt: skip


def _absorbed(
    part: AbsorbedPart,
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    sizes: MLASizes,
    scale: float,
    kv_scale: float,
    out: Tensor,
    lse: Tensor | None,
    kernel: str | None,
) -> None:
    """Attend to the latents, between W_UK^T and W_UV."""
    nope, rank = sizes.qk_nope_head_dim, sizes.kv_lora_rank
    q = query[: part.num_rows] if part.rows is None else query[part.rows]
    latent_query = q.new_empty((q.shape[0], sizes.num_heads, rank + sizes.qk_rope_head_dim))
    latent_query[..., :rank] = torch.bmm(q[..., :nope].transpose(0, 1), kv_up[:, :nope]).transpose(0, 1)
    latent_query[..., rank:] = q[..., nope:]
    latents, part_lse = mla_paged_attention(
        latent_query,
        kv_cache,
        kv_lora_rank=rank,
        query_start_loc=part.query_start_loc,
        seq_lens=part.seq_lens,
        block_table=part.block_table,
        scale=scale,
        causal=part.causal,
        kv_scale=kv_scale,
        return_lse=True,
        plan=part.plan,
        validate=False,
    )
    values = torch.bmm(latents.transpose(0, 1), kv_up[:, nope:].transpose(1, 2)).transpose(0, 1)
    _place(part.rows, part.num_rows, values, part_lse, out, lse)


def _expanded(
    part: ExpandedPart,
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    sizes: MLASizes,
    scale: float,
    kv_scale: float,
    out: Tensor,
    lse: Tensor | None,
    kernel: str | None,
) -> None:
    """Make keys and values from the latents, some heads at a time, and attend to them."""
    nope, rank, rope = sizes.qk_nope_head_dim, sizes.kv_lora_rank, sizes.qk_rope_head_dim
    flat = kv_cache.view(-1, kv_cache.shape[2])
    if kv_cache.dtype in FP8_DTYPES:  # index_select has no float8 kernel; the bytes are the same
        cached = flat.view(torch.uint8).index_select(0, part.slots).view(kv_cache.dtype)
        cached = cached.float().mul_(kv_scale).to(query.dtype)
    else:
        cached = flat.index_select(0, part.slots)
    if part.fused:
        _fused(part, query, cached, kv_up, sizes, scale, out, lse)
        return
    latents, rope_keys = cached[:, :rank], cached[:, None, rank:]
    head_bytes = latents.shape[0] * (2 * nope + rope + sizes.v_head_dim) * query.element_size()
    step = max(1, min(sizes.num_heads, EXPANDED_BYTES // max(1, head_bytes)))
    for first in range(0, sizes.num_heads, step):
        heads = slice(first, min(first + step, sizes.num_heads))
        count = heads.stop - heads.start
        pairs = torch.nn.functional.linear(latents, kv_up[heads].reshape(-1, rank)).view(-1, count, kv_up.shape[1])
        keys = torch.cat([pairs[..., :nope], rope_keys.expand(-1, count, -1)], dim=-1)
        q = query[: part.num_rows, heads] if part.rows is None else query[part.rows, heads]
        values, part_lse = varlen_attention(
            q,
            keys,
            pairs[..., nope:],
            query_start_loc=part.query_start_loc,
            kv_start_loc=part.kv_start_loc,
            scale=scale,
            causal=part.causal,
            return_lse=True,
            kernel=kernel,
            validate=False,
        )
        _place(part.rows, part.num_rows, values, part_lse, out[:, heads], lse[heads] if lse is not None else None)


def _fused(
    part: ExpandedPart,
    query: Tensor,
    cached: Tensor,
    kv_up: Tensor,
    sizes: MLASizes,
    scale: float,
    out: Tensor,
    lse: Tensor | None,
) -> None:
    """Attend to dense latents `cached` ``[S, R + P]``; keys and values of a tile are made when they are needed."""
    starts = (part.query_start_loc, part.kv_start_loc)
    if part.rows is None:
        expanded_native(query, cached, kv_up, *starts, out, lse, scale, part.causal)
        return
    values = query.new_empty((part.num_rows, sizes.num_heads, sizes.v_head_dim))
    part_lse = query.new_empty((sizes.num_heads, part.num_rows), dtype=torch.float32)
    expanded_native(query[part.rows], cached, kv_up, *starts, values, part_lse, scale, part.causal)
    _place(part.rows, part.num_rows, values, part_lse, out, lse)


def _place(
    rows: Tensor | None, num_rows: int, values: Tensor, part_lse: Tensor, out: Tensor, lse: Tensor | None
) -> None:
    """Put a part's results where they belong."""
    where: Tensor | slice = slice(num_rows) if rows is None else rows
    out[where] = values
    if lse is not None:
        lse[:, where] = part_lse
