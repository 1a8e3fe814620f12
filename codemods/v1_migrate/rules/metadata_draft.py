"""CommonAttentionMetadata written out with the very arguments of a call that built V0 metadata. No rule."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..engine.rebuild import Rebuild, begin
from .metadata_family import OTHER_SPELLINGS

if TYPE_CHECKING:
    from ..engine.callees import Callee
    from ..engine.context import PythonFile


def draft(file: PythonFile, call: ast.Call, callee: Callee) -> str:
    """A sentence with the call's batch described for V1; empty where too much of it is not written out.

    All prefills: lengths and start locations are those given. All decodes: one token each. Both: one after the other.
    """
    rebuild = begin(file, call, callee, callee.params)
    if isinstance(rebuild, str):
        return ""
    for old, new in OTHER_SPELLINGS.items():
        if old in rebuild.positions and new not in rebuild.positions:
            rebuild.rename(old, new)
    prefills, decodes = _prefills(rebuild), _decodes(rebuild)
    if not (prefills or _is_zero(rebuild, "num_prefills")) or not (decodes or _is_zero(rebuild, "num_decode_tokens")):
        return ""
    if prefills and decodes:
        starts = f"torch.cat([{prefills[0]}, {prefills[0]}[-1] + torch.arange(1, len({decodes[1]}) + 1)]).int()"
        lengths = f"torch.cat([{prefills[1]}, {decodes[1]}]).int()"
        table = f"the rows of {prefills[2]}, then of {decodes[2]}, padded with 0"
    else:
        starts, lengths, table = prefills or decodes or ("", "", "")
    slots = _given(rebuild, "slot_mapping") or "slot_mapping"
    return (
        f"For this call: CommonAttentionMetadata(query_start_loc={starts}, seq_lens={lengths}, "
        f"block_table_tensor={table}, slot_mapping={slots}, ...)."
    )


def _prefills(rebuild: Rebuild) -> tuple[str, str, str] | None:
    """(start locations, lengths, block table) of the prefills."""
    lengths = _given(rebuild, "seq_lens")
    if not lengths or _is_zero(rebuild, "num_prefills"):
        return None
    starts = _given(rebuild, "prefill_query_start_loc") or _given(rebuild, "query_start_loc")
    starts = starts or f"torch.tensor([0, *{lengths}]).cumsum(0).int()"  # no context: queries are as long as keys
    table = _given(rebuild, "prefill_block_tables") or (
        "rows of slot_mapping[start + k * block_size] // block_size for block k of each request"
    )
    return starts, f"torch.tensor({lengths}, dtype=torch.int32)", table


def _decodes(rebuild: Rebuild) -> tuple[str, str, str] | None:
    lengths, table = _given(rebuild, "seq_lens_tensor"), _given(rebuild, "block_tables")
    if not lengths or not table or _is_zero(rebuild, "num_decode_tokens"):
        return None
    return f"torch.arange(len({lengths}) + 1, dtype=torch.int32)", lengths, table


def _given(rebuild: Rebuild, name: str) -> str:
    """The text of an argument that is given and is not None."""
    node = rebuild.values.get(name)
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return ""
    return " ".join(rebuild.text(name).split())


def _is_zero(rebuild: Rebuild, name: str) -> bool:
    node = rebuild.values.get(name)
    return isinstance(node, ast.Constant) and node.value == 0
