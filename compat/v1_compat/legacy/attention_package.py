"""`vllm.attention`: the names that the package offered from its modules."""

from __future__ import annotations

from v1_compat.legacy.abstract import (
    AttentionBackend,
    AttentionMetadata,
    AttentionMetadataBuilder,
    AttentionState,
    AttentionType,
)
from v1_compat.legacy.selector import get_attn_backend

__all__ = [
    "AttentionBackend",
    "AttentionMetadata",
    "AttentionMetadataBuilder",
    "AttentionState",
    "AttentionType",
    "get_attn_backend",
]
