"""V0's latent attention: its compiled operations' answers, and its layer against the formula, unabsorbed, in float64."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from v1_compat.legacy import custom_ops as ops
from v1_compat.legacy import selector
from v1_compat.legacy.cpu_mla import CPUMLABackend, CPUMLAImpl, CPUMLAMetadata, CPUMLAMetadataBuilder
from v1_compat.suite.reference import assert_close

from v1_cpu import mla as v1
from v1_cpu.specs import AttentionSpec, CommonAttentionMetadata

VECTORS = sorted((Path(__file__).parent / "golden" / "mla").glob("*.npz"))
ONE = torch.ones(())
H, N, P, R, V, BS = 3, 24, 8, 32, 16, 16  # heads, query without and with rope, latent, value, tokens of a block


@pytest.fixture(params=VECTORS, ids=lambda p: p.stem)
def vector(request: pytest.FixtureRequest) -> dict[str, Tensor]:
    arrays = np.load(request.param)
    tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    return {k: t.view(torch.bfloat16) if t.dtype is torch.uint16 else t for k, t in tensors.items()}


def dense(v: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """float64 ``[B, H, R]``: the answer, and how large its terms are."""
    answers, sizes = [], []
    for query, blocks, length in zip(v["query"], v["block_tables"], v["seq_lens"].tolist(), strict=True):
        rows = v["kv_cache"][blocks.long()].flatten(0, 1)[:length].double()
        weights = torch.softmax(query.double() @ rows.T * 576**-0.5, dim=-1)
        answers.append(weights @ rows[:, :512])
        sizes.append(weights @ rows[:, :512].abs())
    return torch.stack(answers), torch.stack(sizes)


def test_there_are_vectors_of_every_dtype() -> None:
    assert [path.stem for path in VECTORS] == ["bfloat16", "float16", "float32"]


def test_a_write_leaves_the_same_bits_as_v0s_operation(vector: dict[str, Tensor]) -> None:
    cache = torch.zeros_like(vector["kv_cache"])
    ops.concat_and_cache_mla(vector["kv_c"], vector["k_pe"], cache, vector["slot_mapping"], "auto", ONE)
    assert torch.equal(cache, vector["kv_cache"]) and bool(cache.any())


def test_a_decode_answers_as_v0s_operation(vector: dict[str, Tensor]) -> None:
    """float32 within 1e-5; a half type within a rounding of its terms, and no farther from the formula than V0."""
    out = torch.full_like(vector["out"], torch.nan)
    arguments = (vector["kv_cache"], 576**-0.5, vector["block_tables"], vector["seq_lens"])
    ops.mla_decode_kvcache_cpu(out, vector["query"], *arguments)
    if out.dtype is torch.float32:
        torch.testing.assert_close(out, vector["out"], atol=1e-5, rtol=0)
        return
    wanted, size = dense(vector)
    error, theirs = (out.double() - wanted).abs(), (vector["out"].double() - wanted).abs()
    assert bool((error <= torch.finfo(out.dtype).eps * size).all())
    assert bool((theirs <= 4 * torch.finfo(out.dtype).eps * size).all()), "these vectors are of something else"
    assert float(error.max()) <= float(theirs.max())


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one step, prefills first: latents and rope keys of all tokens, queries of the new ones."""

    lens: tuple[tuple[int, int], ...]  # (context, new)
    latents: list[Tensor]  # [context + new, R]
    rope_keys: list[Tensor]  # [context + new, P]
    queries: list[Tensor]  # [new, H, N + P]
    blocks: list[Tensor]
    up: Tensor  # [H, N + V, R]

    @classmethod
    def of(cls, *lens: tuple[int, int], dtype: torch.dtype = torch.float32) -> Requests:
        gen = torch.Generator().manual_seed(7)
        order, used, blocks = torch.randperm(40, generator=gen), 0, []
        for context, new in lens:
            count = -(-(context + new) // BS)
            blocks.append(order[used : used + count])
            used += count
        latents = [torch.randn(c + n, R, generator=gen).to(dtype) for c, n in lens]
        rope_keys = [torch.randn(c + n, P, generator=gen).to(dtype) for c, n in lens]
        queries = [torch.randn(n, H, N + P, generator=gen).to(dtype) for _, n in lens]
        up = (torch.randn(H, N + V, R, generator=gen) * R**-0.5).to(dtype)
        return cls(lens, latents, rope_keys, queries, blocks, up)

    def slots(self, i: int, first: int, last: int) -> Tensor:
        position = torch.arange(first, last)
        return self.blocks[i][position // BS] * BS + position % BS

    def cache(self) -> Tensor:
        """With the contexts in it, and noise in every place that is nobody's."""
        cache = torch.full((40, BS, R + P), 9.0, dtype=self.up.dtype)
        for i, (context, _) in enumerate(self.lens):
            rows = torch.cat([self.latents[i], self.rope_keys[i]], dim=1)[:context]
            cache.view(-1, R + P)[self.slots(i, 0, context)] = rows
        return cache

    def expected(self) -> Tensor:
        """float64 ``[T, H, V]``: keys and values of every head made, and attended to."""
        found = []
        for (context, new), c, k, q in zip(self.lens, self.latents, self.rope_keys, self.queries, strict=True):
            states = torch.einsum("hdr,sr->shd", self.up.double(), c.double())
            keys = torch.cat([states[..., :N], k.double()[:, None].expand(-1, H, -1)], dim=-1)
            logits = torch.einsum("thd,shd->hts", q.double(), keys) * (N + P) ** -0.5
            seen = torch.arange(context + new)[None] <= torch.arange(context, context + new)[:, None]
            weights = torch.softmax(logits.masked_fill(~seen, -torch.inf), dim=-1)
            found.append(torch.einsum("hts,shv->thv", weights, states[..., N:]))
        return torch.cat(found)

    def metadata(self, *, chunked: bool = False, **more: Any) -> CPUMLAMetadata:
        decode = [c > 0 and n == 1 for c, n in self.lens]
        prefills = decode.index(True) if True in decode else len(decode)
        total = [c + n for c, n in self.lens]
        pad = torch.nn.utils.rnn.pad_sequence
        tables = [b.int() for b in self.blocks]
        lens = [n for _, n in self.lens[:prefills]]
        return CPUMLABackend.make_metadata(
            num_prefills=prefills,
            num_prefill_tokens=sum(lens),
            num_decode_tokens=sum(decode),
            slot_mapping=torch.cat([self.slots(i, c, c + n) for i, (c, n) in enumerate(self.lens)]),
            multi_modal_placeholder_index_maps=None,
            enable_kv_scales_calculation=False,
            seq_lens=total[:prefills],
            seq_lens_tensor=torch.tensor(total[prefills:] or total, dtype=torch.int32),
            max_decode_seq_len=max(total[prefills:], default=0),
            block_tables=pad(tables[prefills:], batch_first=True) if any(decode) else torch.tensor([]),
            chunked_prefill=chunked,
            max_query_len=max(lens, default=None),
            max_kv_len=max(total[:prefills], default=None),
            prefill_query_start_loc=torch.tensor([0, *lens]).cumsum(0).int(),
            kv_start_loc=torch.tensor([0, *total[:prefills]]).cumsum(0).int(),
            prefill_block_tables=pad(tables[:prefills], batch_first=True) if chunked else None,
            **more,
        )

    def new(self) -> tuple[Tensor, Tensor, Tensor]:
        """What the model hands to the layer: queries, latents and rope keys ``[T, 1, P]``."""
        kept = [(c[n0:], k[n0:]) for (n0, _), c, k in zip(self.lens, self.latents, self.rope_keys, strict=True)]
        return torch.cat(self.queries), torch.cat([c for c, _ in kept]), torch.cat([k for _, k in kept])[:, None]


class Projection:
    """A linear layer of vLLM's: its weight, and a pair as its answer."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    def __call__(self, x: Tensor) -> tuple[Tensor, None]:
        return x @ self.weight.T, None


def layer_of(up: Tensor, cls: type[CPUMLAImpl] = CPUMLAImpl, **more: Any) -> CPUMLAImpl:
    """V0's call: its arguments by position, block-sparse ones included."""
    sizes = {"q_lora_rank": None, "kv_lora_rank": R, "qk_nope_head_dim": N, "qk_rope_head_dim": P}
    sizes |= {"qk_head_dim": N + P, "v_head_dim": V}
    made = cls(
        H, R + P, (N + P) ** -0.5, 1, None, None, "auto", None, None, "decoder", None, **sizes,
        kv_b_proj=Projection(up.flatten(0, 1)), **more,
    )  # fmt: skip
    made.process_weights_after_loading(up.dtype)
    return made


BATCHES = [
    pytest.param([(0, 5), (0, 33)], False, id="prefills"),
    pytest.param([(20, 1), (3, 1), (63, 1)], False, id="decodes"),
    pytest.param([(0, 7), (0, 16), (20, 1), (32, 1)], False, id="prefills and decodes"),
    pytest.param([(16, 9), (0, 4), (40, 1)], True, id="a chunk over its context, which V0 refused"),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("lens", "chunked"), BATCHES)
def test_a_step_gives_what_the_formula_says(lens: list[tuple[int, int]], chunked: bool, dtype: torch.dtype) -> None:
    batch = Requests.of(*lens, dtype=dtype)
    cache, before = batch.cache(), batch.cache()
    found = layer_of(batch.up).forward(None, *batch.new(), cache, batch.metadata(chunked=chunked))
    assert found.shape == (sum(n for _, n in lens), H * V)
    assert_close(found, batch.expected(), dtype)
    slots = batch.metadata().slot_mapping
    written = cache.view(-1, R + P)
    assert torch.equal(written[slots], torch.cat([batch.new()[1], batch.new()[2][:, 0]], dim=1))
    written[slots] = before.view(-1, R + P)[slots]
    assert torch.equal(cache, before), "a place that is nobody's was written to"


def test_a_profiling_run_has_no_cache_and_slots_that_are_none() -> None:
    batch = Requests.of((0, 5), (0, 18))
    metadata = batch.metadata(is_profile_run=True)
    metadata.slot_mapping = torch.full((23,), -1)
    found = layer_of(batch.up).forward(None, *batch.new(), torch.tensor([]), metadata)
    assert_close(found, batch.expected(), torch.float32)
    assert not layer_of(batch.up).forward(None, *batch.new(), torch.tensor([]), None).any()


def test_metadata_may_be_changed_between_calls() -> None:
    batch = Requests.of((20, 1))
    metadata, layer = batch.metadata(), layer_of(batch.up)
    first = layer.forward(None, *batch.new(), batch.cache(), metadata)
    metadata.seq_lens_tensor = torch.tensor([5], dtype=torch.int32)
    assert not torch.allclose(layer.forward(None, *batch.new(), batch.cache(), metadata), first)
    new = v1.CPUMLAImpl(
        H, R + P, (N + P) ** -0.5, kv_lora_rank=R, qk_nope_head_dim=N, qk_rope_head_dim=P, v_head_dim=V,
        kv_b_proj=batch.up.flatten(0, 1),
    )  # fmt: skip
    metadata.seq_lens_tensor = torch.tensor([21], dtype=torch.int32)
    for _ in range(2):  # V1's layer takes it, too
        torch.testing.assert_close(new.forward(None, *batch.new(), batch.cache(), metadata), first)
        metadata.seq_lens_tensor = metadata.seq_lens_tensor.clone()


def test_metadata_of_v1_is_taken_in_any_order() -> None:
    batch = Requests.of((20, 1), (0, 6))  # a decode first
    spec = AttentionSpec(block_size=BS, num_kv_heads=1, head_size=R + P, dtype=torch.float32)
    common = CommonAttentionMetadata(
        query_start_loc=torch.tensor([0, 1, 7], dtype=torch.int32),
        seq_lens=torch.tensor([21, 6], dtype=torch.int32),
        block_table_tensor=torch.nn.utils.rnn.pad_sequence([b.int() for b in batch.blocks], batch_first=True),
        slot_mapping=torch.cat([batch.slots(0, 20, 21), batch.slots(1, 0, 6)]),
        num_reqs=2,
        num_actual_tokens=7,
        max_query_len=6,
        max_seq_len=21,
    )
    metadata = v1.CPUMLAMetadataBuilder(spec).build(0, common)
    found = layer_of(batch.up).forward(None, *batch.new(), batch.cache(), metadata)
    assert_close(found, batch.expected(), torch.float32)


def test_a_layer_of_0_8_5_projects_and_turns_its_queries_itself() -> None:
    batch = Requests.of((0, 6), (20, 1))
    gen = torch.Generator().manual_seed(1)
    hidden = torch.randn(7, 12, generator=gen)
    q_proj = Projection(torch.randn(H * (N + P), 12, generator=gen))
    o_proj = Projection(torch.randn(10, H * V, generator=gen))

    def rotary_emb(positions: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        turn = (1.0 + positions)[:, None, None]
        return query * turn, key * turn

    positions = torch.tensor([[0, 1, 2, 3, 4, 5, 20]])  # as V0's builder made it
    layer = layer_of(batch.up, q_proj=q_proj, rotary_emb=rotary_emb, o_proj=o_proj)
    _, latents, rope_keys = batch.new()
    before = rope_keys.clone()
    metadata = batch.metadata(input_positions=positions)
    found = layer.forward(None, hidden, latents, rope_keys[:, 0], batch.cache(), metadata)
    assert torch.equal(rope_keys, before)
    query = q_proj(hidden)[0].view(7, H, N + P)
    turn = (1.0 + positions[0])[:, None, None]
    query = torch.cat([query[..., :N], query[..., N:] * turn], dim=-1)
    plain = layer_of(batch.up).forward(None, query, latents, rope_keys * turn, batch.cache(), batch.metadata())
    torch.testing.assert_close(found, o_proj(plain)[0])
    with pytest.raises(ValueError, match="input_positions"):
        layer.forward(None, hidden, latents, rope_keys, batch.cache(), batch.metadata())


def test_a_subclass_may_decode_its_own_way() -> None:
    class Own(CPUMLAImpl):
        def _forward_decode(self, q_nope: Tensor, q_pe: Tensor, kv_c_and_k_pe_cache: Tensor, attn_metadata: Any) -> Any:
            assert q_nope.shape == (1, H, R) and q_pe.shape == (1, H, P)
            return super()._forward_decode(q_nope, q_pe, kv_c_and_k_pe_cache, attn_metadata) * 2

    batch = Requests.of((0, 3), (20, 1))
    arguments = (None, *batch.new(), batch.cache(), batch.metadata())
    plain, own = layer_of(batch.up).forward(*arguments), layer_of(batch.up, Own).forward(*arguments)
    assert torch.equal(own[:3], plain[:3]) and torch.equal(own[3:], plain[3:] * 2)


def test_an_output_is_filled() -> None:
    batch = Requests.of((0, 3), (20, 1))
    arguments = (None, *batch.new(), batch.cache(), batch.metadata())
    output = torch.full((4, H, V), torch.nan)
    assert layer_of(batch.up).forward(*arguments, output) is output
    assert torch.equal(output.flatten(1), layer_of(batch.up).forward(*arguments))


def test_the_weights_are_v0s() -> None:
    up = Requests.of((0, 1)).up
    layer = layer_of(up)
    assert layer.W_UK_T.shape == (H, N, R) and torch.equal(layer.W_UK_T, up[:, :N])
    assert layer.W_UV.shape == (H, R, V) and torch.equal(layer.W_UV, up[:, N:].transpose(1, 2))


@pytest.mark.parametrize("chunked", [False, True])
def test_v0s_builder_makes_v0s_metadata(chunked: bool) -> None:
    data = SimpleNamespace(
        num_prefills=1,
        num_prefill_tokens=3,
        num_decode_tokens=1,
        seq_lens=[3, 9],
        max_decode_seq_len=9,
        slot_mapping=[0, 1, 2, 40],
        decode_block_tables=[[2]],
        prefill_block_tables=[[0]],
        input_positions=[0, 1, 2, 8],
        multi_modal_inputs_list=[],
    )
    builder = CPUMLAMetadataBuilder(SimpleNamespace(chunked_prefill=chunked, input_data=data))
    builder.prepare()
    made = builder.build([3, 9], [3, 1], -1, 2)
    assert type(made) is CPUMLAMetadata and made.chunked_prefill is chunked
    assert made.input_positions is not None and made.input_positions.tolist() == [[0, 1, 2, 8]]
    assert made.start_locations().tolist() == [0, 3, 4] and made.key_lengths().tolist() == [3, 9]
    assert (made.prefill_block_tables is not None) is chunked


REFUSED = [
    pytest.param({4: [1.0]}, "alibi_slopes", id="ALiBi"),
    pytest.param({5: 128}, "sliding_window", id="a window"),
    pytest.param({6: "fp8"}, "kv_cache_dtype", id="a float8 cache"),
    pytest.param({7: {"vert_stride": 2}}, "blocksparse_params", id="block-sparse"),
    pytest.param({8: 30.0}, "logits_soft_cap", id="a soft cap"),
    pytest.param({9: "encoder"}, "attn_type", id="an encoder"),
    pytest.param({10: "layers.0"}, "kv_sharing_target_layer_name", id="another layer's cache"),
]


@pytest.mark.parametrize(("changed", "says"), REFUSED)
def test_what_v0_refused_is_refused_by_its_name(changed: dict[int, Any], says: str) -> None:
    arguments = [H, R + P, 0.2, 1, None, None, "auto", None, None, "decoder", None]
    for place, value in changed.items():
        arguments[place] = value
    sizes: dict[str, Any] = {"kv_lora_rank": R, "qk_nope_head_dim": N, "qk_rope_head_dim": P, "v_head_dim": V}
    with pytest.raises(NotImplementedError, match=says):
        CPUMLAImpl(*arguments, **sizes, kv_b_proj=torch.zeros(H * (N + V), R))


def test_what_does_not_fit_is_refused_with_the_rule() -> None:
    batch = Requests.of((20, 1))
    layer = layer_of(batch.up)
    with pytest.raises(ValueError, match="kv_cache: empty"):
        layer.forward(None, *batch.new(), torch.tensor([]), batch.metadata())
    with pytest.raises(NotImplementedError, match="output_scale"):
        layer.forward(None, *batch.new(), batch.cache(), batch.metadata(), None, ONE)
    with pytest.raises(TypeError, match="o_proj: a layer of"):
        layer_of(batch.up, o_proj=Projection(batch.up))
    chunk = Requests.of((16, 9))
    with pytest.raises(ValueError, match="needs prefill_block_tables"):
        layer.forward(None, *chunk.new(), chunk.cache(), chunk.metadata())
    with pytest.raises(ValueError, match=r"out: .* must be torch.float32 \[B, H, R\]"):
        query = torch.zeros(1, H, R + P)
        lens = torch.tensor([1], dtype=torch.int32)
        ops.mla_decode_kvcache_cpu(torch.zeros(2, H, R), query, batch.cache(), 1.0, torch.zeros(1, 1), lens)


def test_a_float8_cache_is_written_with_its_scale() -> None:
    cache = torch.zeros(2, BS, R + P, dtype=torch.uint8)
    latents, rope_keys = torch.randn(3, R), torch.randn(3, P)
    ops.concat_and_cache_mla(latents, rope_keys, cache, torch.tensor([1, -5, 17]), "fp8", torch.tensor(0.5))
    held = cache.view(torch.float8_e4m3fn).float() * 0.5
    wanted = torch.cat([latents, rope_keys], dim=1)
    half_step = 0.5 * 2**-10  # of the numbers below e4m3's smallest normal one, times the scale
    torch.testing.assert_close(held.view(-1, R + P)[[1, 17]], wanted[[0, 2]], atol=half_step, rtol=0.07)
    assert held.view(-1, R + P).any(dim=1).sum() == 2


@pytest.mark.parametrize("name", ["CPUMLABackend", "CPUMLAImpl", "CPUMLAMetadata"])
def test_isinstance_holds_in_both_directions(name: str) -> None:
    new, old = getattr(v1, name), {c.__name__: c for c in (CPUMLABackend, CPUMLAImpl, CPUMLAMetadata)}[name]
    assert issubclass(old, new) and issubclass(new, old)
    assert not issubclass(new, type("Own", (old,), {})), "a subclass is no other name"


def test_metadata_keeps_its_fields_and_survives_a_pickle() -> None:
    made = CPUMLAMetadata(None, 0, None, 0, 0, 0, torch.zeros(0), None, False, False, input_positions=torch.ones(1))
    loaded = pickle.loads(pickle.dumps(made))
    assert loaded.input_positions is not None and loaded.input_positions.tolist() == [1.0]
    assert loaded.is_profile_run is False and loaded.num_prefills == 0


@pytest.mark.usefixtures("legacy_names")
def test_the_selector_leads_to_a_layer_that_works() -> None:
    backend = selector.get_attn_backend(576, torch.bfloat16, None, 16, False, use_mla=True)
    assert backend is CPUMLABackend and backend.get_name() == "CPU_MLA"
    assert backend.get_impl_cls() is CPUMLAImpl and backend.get_builder_cls() is CPUMLAMetadataBuilder
