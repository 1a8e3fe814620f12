"""The operators that `torch.compile` and fake tensors see: `torch.ops.v1_cpu.mla_*`. See `v1_cpu.ops`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from v1_cpu.mla import checks
from v1_cpu.mla.attention import mla_attention
from v1_cpu.mla.cache import write_latent_cache
from v1_cpu.mla.kernels import ABSORBED, serving_mla

_library = torch.library.Library("v1_cpu", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define(  # type: ignore[no-untyped-call]
    "mla_paged_attention(Tensor query, Tensor kv_cache, Tensor query_start_loc, Tensor seq_lens, Tensor block_table, "
    "Tensor(a!) out, Tensor(b!)? lse, int kv_lora_rank, float scale, bool causal, Tensor? causal_per_request, "
    "float kv_scale, Tensor? schedule, str? kernel, bool validate) -> ()"
)
_library.define(  # type: ignore[no-untyped-call]
    "mla_attention(Tensor query, Tensor kv_cache, Tensor kv_up, Tensor query_start_loc, Tensor seq_lens, "
    "Tensor block_table, Tensor(a!) out, Tensor(b!)? lse, float scale, bool causal, Tensor? causal_per_request, "
    "float kv_scale, str form, str? kernel, bool validate) -> ()"
)
_library.define(  # type: ignore[no-untyped-call]
    "write_latent_cache(Tensor latent, Tensor rope_key, Tensor(a!) kv_cache, Tensor slot_mapping, float kv_scale, "
    "str? kernel, bool validate) -> ()"
)


@torch.library.impl(_library, "write_latent_cache", "CPU")
def _write(
    latent: Tensor,
    rope_key: Tensor,
    kv_cache: Tensor,
    slot_mapping: Tensor,
    kv_scale: float,
    kernel: str | None,
    validate: bool,
) -> None:
    write_latent_cache(latent, rope_key, kv_cache, slot_mapping, kv_scale=kv_scale, kernel=kernel, validate=validate)


@torch.library.impl(_library, "mla_paged_attention", "CPU")
def _paged(
    query: Tensor,
    kv_cache: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    out: Tensor,
    lse: Tensor | None,
    kv_lora_rank: int,
    scale: float,
    causal: bool,
    causal_per_request: Tensor | None,
    kv_scale: float,
    schedule: Tensor | None,
    kernel: str | None,
    validate: bool,
) -> None:
    seen = causal if causal_per_request is None else causal_per_request
    tensors = (query_start_loc, seq_lens, block_table)
    if validate:
        checks.paged(query, kv_cache, kv_lora_rank, *tensors, scale, seen, kv_scale, out, None)
    sizes = (query.shape[1], kv_lora_rank, query.shape[2] - kv_lora_rank, kv_cache.shape[1])
    chosen = serving_mla(kernel, query.dtype, kv_cache.dtype, *sizes)
    ABSORBED[chosen](query, kv_cache, *tensors, out, lse, scale, seen, kv_scale, schedule)


@torch.library.impl(_library, "mla_attention", "CPU")
def _attention(
    query: Tensor,
    kv_cache: Tensor,
    kv_up: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    block_table: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scale: float,
    causal: bool,
    causal_per_request: Tensor | None,
    kv_scale: float,
    form: str,
    kernel: str | None,
    validate: bool,
) -> None:
    given = mla_attention(
        query,
        kv_cache,
        kv_up,
        query_start_loc=query_start_loc,
        seq_lens=seq_lens,
        block_table=block_table,
        scale=scale,
        causal=causal if causal_per_request is None else causal_per_request,
        kv_scale=kv_scale,
        out=out,
        return_lse=True,
        form=form,
        kernel=kernel,
        validate=validate,
    )
    if lse is not None:
        lse.copy_(given[1])


def _nothing(*args: Any, **kwargs: Any) -> None:
    """The fake of an operator that only writes into its arguments."""


for _name in ("mla_paged_attention", "mla_attention", "write_latent_cache"):
    torch.library.register_fake(f"v1_cpu::{_name}", _nothing, lib=_library)
