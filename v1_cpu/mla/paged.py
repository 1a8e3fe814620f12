"""The absorbed form over the paged latent cache: every head attends to the latents themselves."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from v1_cpu import ops
from v1_cpu.mla import checks
from v1_cpu.mla.kernels import ABSORBED, serving_mla
from v1_cpu.plan import Plan


@overload
def mla_paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    kv_lora_rank: int,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    kv_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[False] = ...,
    plan: Plan | None = ...,
    kernel: str | None = ...,
    validate: bool = ...,
) -> Tensor: ...


@overload
def mla_paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    kv_lora_rank: int,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = ...,
    kv_scale: float = ...,
    out: Tensor | None = ...,
    return_lse: Literal[True],
    plan: Plan | None = ...,
    kernel: str | None = ...,
    validate: bool = ...,
) -> tuple[Tensor, Tensor]: ...


def mla_paged_attention(
    query: Tensor,
    kv_cache: Tensor,
    *,
    kv_lora_rank: int,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    scale: float,
    causal: bool | Tensor = True,
    kv_scale: float = 1.0,
    out: Tensor | None = None,
    return_lse: bool = False,
    plan: Plan | None = None,
    kernel: str | None = None,
    validate: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of absorbed queries over the latents of a paged cache: any mix of prefill, chunk and decode.

    With a head's up-projections W_UK [N, R] and W_UV [V, R], ``q . (W_UK c) = (W_UK^T q) . c``: a query goes in as
    ``[W_UK^T q, q_rope]``, and W_UV, applied to the result, gives the head's output. `mla_attention` does both.

    Parameters
    ----------
    query
        ``[T, H, R + P]``, float32, bfloat16 or float16.
    kv_cache
        ``[num_blocks, block_size, R + P]`` of `allocate_latent_cache`, in the query's dtype or float8.
    kv_lora_rank
        R.
    query_start_loc, seq_lens, block_table, causal
        As in `v1_cpu.paged_attention`.
    scale
        Multiplies the logits: that of the unabsorbed form, usually ``(N + P) ** -0.5``.
    kv_scale
        Of a float8 cache, whose entries are x / kv_scale.
    out
        ``[T, H, R]`` in the query's dtype, sharing no memory with an input; padding rows stay as they are. Allocated,
        with zeros in them, where None.
    return_lse
        Also return float32 ``[H, T]``, as `v1_cpu.merge_attention_states` takes it.
    plan
        Of `v1_cpu.make_plan` with ``num_kv_heads=1, head_size=R + P, head_size_v=R``, for the layers of one batch.
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
    if ops.traced(query):
        out, lse = outputs(query, kv_lora_rank, out, return_lse)
        seen = causal if isinstance(causal, bool) else True
        per_request = causal if isinstance(causal, Tensor) else None
        schedule = plan.schedule if plan is not None else None
        kernel = plan.kernel.name if plan is not None and kernel is None else kernel
        torch.ops.v1_cpu.mla_paged_attention(
            *(query, kv_cache, query_start_loc, seq_lens, block_table, out, lse, kv_lora_rank, scale, seen),
            *(per_request, kv_scale, schedule, kernel, validate),
        )
        return out if lse is None else (out, lse)
    if validate:
        checks.paged(
            query, kv_cache, kv_lora_rank, query_start_loc, seq_lens, block_table, scale, causal, kv_scale, out, plan
        )
    out, lse = outputs(query, kv_lora_rank, out, return_lse)
    sizes = (query.shape[1], kv_lora_rank, query.shape[2] - kv_lora_rank, kv_cache.shape[1])
    chosen = serving_mla(kernel or (plan.kernel.name if plan else None), query.dtype, kv_cache.dtype, *sizes)
    schedule = plan.schedule if plan is not None and plan.kernel.name == chosen else None
    ABSORBED[chosen](
        query, kv_cache, query_start_loc, seq_lens, block_table, out, lse, scale, causal, kv_scale, schedule
    )
    return out if lse is None else (out, lse)


def outputs(query: Tensor, width: int, out: Tensor | None, return_lse: bool) -> tuple[Tensor, Tensor | None]:
    """`out` ``[T, H, width]`` as given or zeroed, and a zeroed `lse` ``[H, T]`` if asked for."""
    if out is None:
        out = query.new_zeros((query.shape[0], query.shape[1], width))
    return out, query.new_zeros((query.shape[1], query.shape[0]), dtype=torch.float32) if return_lse else None
