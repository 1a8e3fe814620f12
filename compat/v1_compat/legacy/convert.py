"""V0's metadata as V1's, and back.

V0 keeps prefills and decodes apart, prefills first; V1 has one list of requests in any order.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from v1_compat.legacy.sdpa_metadata import TorchSDPAMetadata
from v1_cpu import backend as v1
from v1_cpu.specs import AttentionType, CommonAttentionMetadata


def to_v1(metadata: TorchSDPAMetadata, block_size: int) -> v1.TorchSDPAMetadata:
    """V1 metadata of the same batch, with the fields for all requests filled in.

    Parameters
    ----------
    metadata
        V0's, of any release: 0.8.5's `query_start_loc` of prefills alone is understood.
    block_size
        Of the cache: without `prefill_block_tables`, the slots name the prefills' blocks.
    """
    new = metadata.as_v1()
    new.query_start_loc = new.start_locations()
    new.kv_lens = new.key_lengths()
    if new.slot_mapping is not None and new.slot_mapping.numel():
        new.block_table = new.all_blocks(block_size)
    new.is_prefilling = [i < new.num_prefills for i in range(new.kv_lens.numel())]
    return new


def to_common(
    metadata: TorchSDPAMetadata, block_size: int, attn_type: str = AttentionType.DECODER
) -> CommonAttentionMetadata:
    """What a V1 builder takes, for the same batch."""
    new = to_v1(metadata, block_size)
    starts, lens, table = new.start_locations(), new.key_lengths(), new.block_table
    batch = lens.numel()
    return CommonAttentionMetadata(
        query_start_loc=starts,
        seq_lens=lens,
        block_table_tensor=torch.zeros((batch, 0), dtype=torch.int32) if table is None else table,
        slot_mapping=metadata.slot_mapping.long(),
        num_reqs=batch,
        num_actual_tokens=int(starts[-1]),
        max_query_len=int(starts.diff().max()) if batch else 0,
        max_seq_len=int(lens.max()) if batch else 0,
        causal=attn_type == AttentionType.DECODER,
        encoder_seq_lens=metadata.encoder_seq_lens_tensor,
        is_prefilling=torch.tensor(new.is_prefilling, dtype=torch.bool),
    )


def from_v1(metadata: v1.TorchSDPAMetadata) -> TorchSDPAMetadata:
    """V0 metadata of a batch that a V1 builder made.

    Where decodes stand before or between prefills, or bring several tokens, every request becomes a chunked prefill:
    V0 knows no other way to say it, and it means the same.
    """
    starts, lens = metadata.start_locations().tolist(), metadata.key_lengths()
    table = metadata.block_table
    if table is None:
        raise ValueError("metadata: has no block_table; must be of a V1 builder")
    query_lens = [b - a for a, b in pairwise(starts)]
    prefilling = metadata.is_prefilling or [q > 1 or s <= q for q, s in zip(query_lens, lens.tolist(), strict=True)]
    prefills = sum(prefilling)
    if not all(prefilling[:prefills]) or any(q != 1 for q in query_lens[prefills:]):
        prefills = len(query_lens)
    return _legacy(metadata, starts, query_lens, lens, table, prefills)


def prefills_first(metadata: v1.TorchSDPAMetadata) -> tuple[TorchSDPAMetadata, Tensor | None]:
    """V0 metadata of a batch that a V1 builder made, its requests in V0's order.

    Returns
    -------
    tuple
        The metadata, and int64 ``[T]``: which token of the batch stands in each of V0's rows. None where that is the
        order already.
    """
    made: tuple[TorchSDPAMetadata, Tensor | None] | None = getattr(metadata, "_prefills_first", None)
    if made is not None:  # of another layer
        return made
    starts, lens, table = metadata.start_locations(), metadata.key_lengths(), metadata.block_table
    if table is None:
        raise ValueError("metadata: has no block_table; must be of a V1 builder")
    query_lens = starts.diff()
    decodes = (query_lens == 1) & (lens > 1)
    order = torch.argsort(decodes.int(), stable=True)  # of requests
    prefills = int((~decodes).sum())
    bounds = list(pairwise(starts.tolist()))
    rows = torch.cat([torch.arange(*bounds[i]) for i in order.tolist()]) if bounds else order
    moved = None if bool((order.diff() > 0).all()) else rows
    new_starts = v1._starts(query_lens[order].tolist())
    legacy = _legacy(metadata, new_starts.tolist(), query_lens[order].tolist(), lens[order], table[order], prefills)
    legacy.slot_mapping = legacy.slot_mapping[rows]
    made = legacy, moved
    metadata._prefills_first = made  # type: ignore[attr-defined]
    return made


def _legacy(
    metadata: v1.TorchSDPAMetadata,
    starts: list[int],
    query_lens: list[int],
    lens: Tensor,
    table: Tensor,
    prefills: int,
) -> TorchSDPAMetadata:
    new, old = slice(None, prefills), slice(prefills, None)
    decode_lens = lens[old]
    shared: dict[str, Any] = {
        name: getattr(metadata, name)
        for name in (
            "encoder_seq_lens",
            "encoder_seq_lens_tensor",
            "max_encoder_seq_len",
            "num_encoder_tokens",
            "cross_slot_mapping",
            "cross_block_tables",
        )
    }
    return TorchSDPAMetadata(
        num_prefills=prefills,
        num_prefill_tokens=starts[prefills],
        num_decode_tokens=len(query_lens) - prefills,
        slot_mapping=torch.zeros(0, dtype=torch.int64) if metadata.slot_mapping is None else metadata.slot_mapping,
        multi_modal_placeholder_index_maps=None,
        enable_kv_scales_calculation=False,
        seq_lens=lens[new].tolist(),
        seq_lens_tensor=decode_lens if decode_lens.numel() else lens,
        max_decode_seq_len=int(decode_lens.max()) if decode_lens.numel() else 0,
        block_tables=table[old] if decode_lens.numel() else torch.tensor([]),
        chunked_prefill=True,
        max_query_len=max(query_lens[new], default=0),
        max_kv_len=int(lens[new].max()) if prefills else 0,
        prefill_query_start_loc=torch.tensor(starts[: prefills + 1], dtype=torch.int32),
        kv_start_loc=v1._starts(lens[new].tolist()),
        prefill_block_tables=table[new],
        query_start_loc=torch.tensor(starts, dtype=torch.int32),
        **shared,
    )
