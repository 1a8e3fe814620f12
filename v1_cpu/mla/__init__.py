"""Multi-head latent attention (DeepSeek-V2): a paged cache of latents and what attends to it.

A token's keys and values of all heads come from one latent vector c of R numbers (`kv_lora_rank`) and one rope key k of
P numbers, and only these are cached. With the up-projection W_UK [N, R] and W_UV [V, R] of a head, its key is
``[W_UK c, k]`` and its value ``W_UV c`` (DeepSeek-V2, arXiv:2405.04434, section 2.1).

T tokens, H heads, N and P the parts of a query without and with rope, R the rank, V the value head size, B requests.
"""

from __future__ import annotations

from v1_cpu.mla import ops as _operators  # noqa: F401  registers them
from v1_cpu.mla.attention import make_mla_plan, mla_attention
from v1_cpu.mla.backend import CPUMLABackend, CPUMLAImpl, CPUMLAMetadata, CPUMLAMetadataBuilder
from v1_cpu.mla.cache import allocate_latent_cache, latent_block_bytes, read_latent_cache, write_latent_cache
from v1_cpu.mla.paged import mla_paged_attention
from v1_cpu.mla.plan import MLAPlan

__all__ = [
    "CPUMLABackend",
    "CPUMLAImpl",
    "CPUMLAMetadata",
    "CPUMLAMetadataBuilder",
    "MLAPlan",
    "allocate_latent_cache",
    "latent_block_bytes",
    "make_mla_plan",
    "mla_attention",
    "mla_paged_attention",
    "read_latent_cache",
    "write_latent_cache",
]
