"""V0's `TorchSDPAMetadata` and its builder: V0's constructors and fields over V1's metadata."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from itertools import accumulate
from typing import Any, ClassVar

import torch
from torch import Tensor

from v1_compat.legacy.abstract import AttentionMetadata, AttentionMetadataBuilder
from v1_compat.legacy.notice import say
from v1_compat.legacy.paged_attn import PagedAttentionMetadata
from v1_cpu import backend as v1
from v1_cpu.plan import Plan, make_plan


class _Renamed:
    """A field under the name it had on vLLM's main branch for some weeks before 0.11.1 (#26096); read and write."""

    def __init__(self, field_name: str) -> None:
        self._field = field_name

    def __set_name__(self, owner: type, name: str) -> None:
        self._text = f"TorchSDPAMetadata.{name} is {self._field}, the name in every release"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        say("V1M102", self._text, stacklevel=2)
        return getattr(instance, self._field)

    def __set__(self, instance: Any, value: Any) -> None:
        say("V1M102", self._text, stacklevel=2)
        setattr(instance, self._field, value)


@dataclass
class TorchSDPAMetadata(v1.TorchSDPAMetadata, AttentionMetadata, PagedAttentionMetadata):
    """One batch: P prefill requests first, then D decode requests of one token; T query tokens.

    The constructor takes V0's fields in the order of 0.9.2. It is a `v1_cpu.TorchSDPAMetadata`, so that V1's layers
    take it, too. Like V0's, it may be changed between calls: nothing that is derived from its fields is kept.
    """

    seq_lens_tensor: Tensor | None = field()  # int32 [D]; the prefill lengths where D = 0
    max_decode_seq_len: int = field()
    block_tables: Tensor | None = field()  # int32 [D, max_blocks]; empty where D = 0
    num_prefills: int = field()  # P
    num_prefill_tokens: int = field()
    num_decode_tokens: int = field()  # D
    slot_mapping: Tensor = field()  # int64 [T]; -1 pads
    multi_modal_placeholder_index_maps: dict[str, Any] | None = field(kw_only=False)
    enable_kv_scales_calculation: bool = field(kw_only=False)
    chunked_prefill: bool = field()  # prefills read their context, and themselves, from the cache

    kv_lens: ClassVar[Tensor | None] = None  # type: ignore[misc]  # V1's fields are no fields of V0's
    block_table: ClassVar[Tensor | None] = None  # type: ignore[misc]
    causal: ClassVar[bool | None] = None  # type: ignore[misc]
    tree_mask: ClassVar[Tensor | None] = None  # type: ignore[misc]
    is_prefilling: ClassVar[list[bool] | None] = None  # type: ignore[misc]

    decode_seq_lens_tensor = _Renamed("seq_lens_tensor")
    decode_max_seq_len = _Renamed("max_decode_seq_len")
    decode_block_tables = _Renamed("block_tables")
    prefill_max_seq_len = _Renamed("max_kv_len")
    prefill_seq_start_loc = _Renamed("kv_start_loc")

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.query_start_loc, list):  # 0.8.5 by position: it had no field here
            places = _FIELDS[_FIELDS.index("query_start_loc") :]
            values = [None, *(getattr(self, name) for name in places[:-1])]
            for name, value in zip(places, values, strict=True):
                setattr(self, name, value)

    @property
    def prefill_metadata(self) -> TorchSDPAMetadata | None:
        """This object if the batch has prefill tokens."""
        return self if self.num_prefill_tokens else None

    @property
    def decode_metadata(self) -> TorchSDPAMetadata | None:
        """This object if the batch has decode tokens."""
        return self if self.num_decode_tokens else None

    def as_v1(self) -> v1.TorchSDPAMetadata:
        """The same batch as V1's class: the tensors are shared, what V1 derives from them is not kept here."""
        return v1.TorchSDPAMetadata(**{name: getattr(self, name) for name in _FIELDS})

    def start_locations(self) -> Tensor:
        """int32 ``[B + 1]`` of all requests."""
        return self.as_v1().start_locations()

    def key_lengths(self) -> Tensor:
        """int32 ``[B]``: keys of every request."""
        return self.as_v1().key_lengths()

    def all_blocks(self, block_size: int) -> Tensor:
        """int32 ``[B, max_blocks]``: the table of every request."""
        return self.as_v1().all_blocks(block_size)

    def plan(self, key: tuple[Any, ...], **sizes: Any) -> Plan:
        """A plan for this call alone, as the fields may change before the next."""
        return make_plan(**sizes)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of an object that V0 pickled, of any release."""
        state = dict(state)
        if "prefill_query_start_loc" not in state:  # 0.8.5 called it query_start_loc
            state["prefill_query_start_loc"] = state.get("query_start_loc")
        super().__post_init__()
        for each in fields(self):
            if each.default is not MISSING:
                setattr(self, each.name, each.default)
        vars(self).update(state)

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """V1's metadata is V0's, too."""
        return True if cls is TorchSDPAMetadata and v1.TorchSDPAMetadata in other.__mro__ else NotImplemented


_FIELDS = tuple(f.name for f in fields(TorchSDPAMetadata))


class TorchSDPAMetadataBuilder(AttentionMetadataBuilder[TorchSDPAMetadata]):
    """Builds a batch's metadata from what V0's model runner gathered in `input_builder.input_data`."""

    def __init__(self, input_builder: Any) -> None:
        self.chunked_prefill: bool = input_builder.chunked_prefill
        self.input_builder = input_builder

    def prepare(self) -> None:
        """Take the input builder's data of this batch."""
        self.input_data = self.input_builder.input_data

    def build(
        self, seq_lens: list[int], query_lens: list[int], cuda_graph_pad_size: int, batch_size: int
    ) -> TorchSDPAMetadata:
        """The metadata of one batch.

        Parameters
        ----------
        seq_lens, query_lens
            Of the requests, prefills first.
        cuda_graph_pad_size, batch_size
            Not read: there is nothing to pad on a CPU.
        """
        return TorchSDPAMetadata(**self._fields(seq_lens, query_lens))

    def _fields(self, seq_lens: list[int], query_lens: list[int]) -> dict[str, Any]:
        data = self.input_data
        prefills = data.num_prefills
        prefill_lens, prefill_queries = list(seq_lens[:prefills]), list(query_lens[:prefills])
        chunked = bool(self.chunked_prefill and data.num_prefill_tokens)
        decoding = bool(data.num_decode_tokens)
        lens = data.seq_lens[prefills:] if decoding else data.seq_lens[:prefills]
        images = getattr(data, "multi_modal_inputs_list", None)
        return {
            "chunked_prefill": self.chunked_prefill,
            "seq_lens": prefill_lens,
            "seq_lens_tensor": torch.tensor(lens, dtype=torch.int32),
            "max_query_len": max(prefill_queries) if chunked else None,
            "max_kv_len": max(prefill_lens) if chunked else None,
            "prefill_query_start_loc": _starts(prefill_queries) if chunked else None,
            "kv_start_loc": _starts(prefill_lens) if chunked else None,
            "max_decode_seq_len": data.max_decode_seq_len,
            "num_prefills": prefills,
            "num_prefill_tokens": data.num_prefill_tokens,
            "num_decode_tokens": data.num_decode_tokens,
            "block_tables": _table(data.decode_block_tables) if decoding else torch.tensor([]),
            "prefill_block_tables": _table(data.prefill_block_tables) if chunked else None,
            "slot_mapping": torch.tensor(data.slot_mapping, dtype=torch.long),
            "multi_modal_placeholder_index_maps": (
                {name: each.index_map() for name, each in data.multi_modal_placeholder_maps.items()} if images else None
            ),
            "enable_kv_scales_calculation": False,
        }


def _starts(lens: list[int]) -> Tensor:
    return torch.tensor(list(accumulate(lens, initial=0)), dtype=torch.int32)


def _table(rows: list[list[int] | None]) -> Tensor:
    """int32, rows padded with 0."""
    tensors = [torch.tensor(row or [], dtype=torch.int32) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
