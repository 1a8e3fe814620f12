"""A layer bound to its cache answers, to the bit, as the long way does, and goes the long way where it must."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import v1_cpu  # noqa: E402
from v1_cpu.backend import TorchSDPABackendImpl  # noqa: E402
from v1_cpu.specs import AttentionSpec, CommonAttentionMetadata  # noqa: E402
from v1_cpu.vllm_plugin.classes import Builder, Impl  # noqa: E402

HEADS, KV_HEADS, SIZE, BLOCK, BLOCKS = 4, 2, 32, 16, 12
LAYER = SimpleNamespace(_k_scale_float=0.5, _v_scale_float=0.25)
BATCHES = [([1, 5, 3], [20, 5, 19]), ([1, 1, 1], [21, 6, 20]), ([7], [7])]
"""Query and key lengths of steps: mixed, decodes, one prefill."""


class Apart(Impl):
    """As vLLM 0.32 has it: the cache is written before forward."""

    forward_includes_kv_cache_update = False


@pytest.fixture(autouse=True)
def native() -> None:
    if v1_cpu.which().name != "native":
        pytest.skip("no native kernel here: no layer is bound")


def batch_of(queries: list[int], keys: list[int], *, attn_type: str = "decoder", **more: Any) -> tuple[Any, Any]:
    """(metadata, slots) of a step whose blocks lie scattered."""
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(sum(keys)))[: 2 * len(keys)].view(-1, 2)
    slots = [
        order[b][torch.arange(n - q, n) // BLOCK] * BLOCK + torch.arange(n - q, n) % BLOCK
        for b, (q, n) in enumerate(zip(queries, keys, strict=True))
    ]
    common = CommonAttentionMetadata.of(queries, keys, order.int(), torch.cat(slots), **more)
    spec = AttentionSpec(
        block_size=BLOCK, num_kv_heads=KV_HEADS, head_size=SIZE, dtype=torch.float32, attn_type=attn_type
    )
    return Builder(spec, ["a"]).build(0, common), torch.cat(slots)


def tensors(tokens: int, dtype: Any, value_size: int = SIZE) -> tuple[Any, Any, Any]:
    """Slices of a packed projection, as models make them."""
    sizes = [HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * value_size]
    parts = torch.randn(tokens, sum(sizes)).to(dtype).split(sizes, dim=-1)
    return parts[0].view(-1, HEADS, SIZE), parts[1].view(-1, KV_HEADS, SIZE), parts[2].view(-1, KV_HEADS, value_size)


def step(layer: Any, queries: Any, cache: Any, metadata: Any, slots: Any) -> Any:
    query, key, value = queries
    if not layer.forward_includes_kv_cache_update:
        layer.do_kv_cache_update(LAYER, key, value, cache, slots)
    out = torch.zeros(query.shape[0], HEADS, value.shape[2], dtype=query.dtype)
    assert layer.forward(LAYER, query, key, value, cache, metadata, out) is out
    return out


@pytest.mark.parametrize("apart", [True, False], ids=["a write of its own", "forward writes"])
@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        pytest.param("float32", {}, id="plain"),
        pytest.param("bfloat16", {}, id="bfloat16"),
        pytest.param("float32", {"sliding_window": 4}, id="a window"),
        pytest.param("float32", {"attention_chunk_size": 8}, id="chunks"),
        pytest.param("float32", {"logits_soft_cap": 1.5}, id="a soft cap"),
        pytest.param("float32", {"alibi_slopes": [0.5, 0.25, 0.125, 0.0625]}, id="ALiBi"),
        pytest.param("bfloat16", {"sinks": torch.linspace(0, 3, HEADS).bfloat16()}, id="sinks in bfloat16"),
        pytest.param("bfloat16", {"kv_cache_dtype": "fp8"}, id="a scaled float8 cache"),
        pytest.param("float32", {"head_size_v": 16}, id="values of another size"),
    ],
)
def test_bound_is_the_long_way(
    monkeypatch: pytest.MonkeyPatch, apart: bool, dtype: str, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    width = SIZE + options.get("head_size_v", SIZE)
    cache = torch.zeros(BLOCKS, KV_HEADS, BLOCK, width, dtype=torch.uint8 if "kv_cache_dtype" in options else kind)
    copy = cache.clone()
    ours = (Apart if apart else Impl)(HEADS, SIZE, 0.3, KV_HEADS, **options)
    long = TorchSDPABackendImpl(HEADS, SIZE, 0.3, KV_HEADS, **options)
    for number, (queries, keys) in enumerate(BATCHES):
        metadata, slots = batch_of(queries, keys)
        given = tensors(sum(queries), kind, width - SIZE)
        want = step(long, given, copy, metadata, slots)
        if number:  # bound by the first step
            monkeypatch.setattr("v1_cpu.backend.paged_attention", None)
            monkeypatch.setattr("v1_cpu.backend.write_kv_cache", None)
        got = step(ours, given, cache, metadata, slots)
        monkeypatch.undo()
        assert torch.equal(got, want) and bool(want.abs().sum(-1).ne(0).all())
        assert torch.equal(cache.view(torch.uint8), copy.view(torch.uint8))


def ready(layer: Any = None) -> tuple[Any, Any]:
    """A bound layer and its cache."""
    layer = layer or Apart(HEADS, SIZE, 0.3, KV_HEADS)
    cache = torch.randn(BLOCKS, KV_HEADS, BLOCK, 2 * SIZE)
    step(layer, tensors(7, torch.float32), cache, *batch_of([7], [7]))
    assert layer._bound is not None
    return layer, cache


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"causal": torch.tensor([True, False, True])}, id="causal for some"),
        pytest.param({"causal": False}, id="not causal"),
    ],
)
def test_batches_that_are_not_causal(more: dict[str, Any]) -> None:
    layer, cache = ready()
    long, copy = TorchSDPABackendImpl(HEADS, SIZE, 0.3, KV_HEADS), cache.clone()
    given = tensors(9, torch.float32)
    causal = [
        step(x, given, c, *batch_of([1, 5, 3], [20, 5, 19], **m))
        for x, c, m in ((layer, cache, more), (long, copy, more), (layer, cache, {}))
    ]
    assert torch.equal(causal[0], causal[1]) and not torch.equal(causal[0], causal[2])


def test_a_tree_goes_the_long_way() -> None:
    layer, cache = ready()
    long, given = TorchSDPABackendImpl(HEADS, SIZE, 0.3, KV_HEADS), tensors(9, torch.float32)
    outs = []
    for one in (layer, long):
        metadata, slots = batch_of([1, 5, 3], [20, 5, 19])
        metadata.tree_mask = torch.eye(5, dtype=torch.bool)[[0, 0, 1, 2, 3, 4, 0, 1, 2]]
        outs.append(step(one, given, cache, metadata, slots))
    assert torch.equal(*outs)


def test_cross_attention_sees_all_of_the_other_sequence() -> None:
    layer, long = (
        kind(HEADS, SIZE, 0.3, KV_HEADS, attn_type="encoder_decoder") for kind in (Apart, TorchSDPABackendImpl)
    )
    cache = torch.randn(BLOCKS, KV_HEADS, BLOCK, 2 * SIZE)
    query = tensors(3, torch.float32)[0]
    for number in range(2):
        metadata, _ = batch_of([3], [25], attn_type="encoder_decoder", encoder_seq_lens=torch.tensor([30 + number]))
        want = torch.zeros(3, HEADS, SIZE)
        long.forward(LAYER, query, None, None, cache, metadata, want)
        got = torch.zeros(3, HEADS, SIZE)
        layer.forward(LAYER, query, None, None, cache, metadata, got)
        assert torch.equal(got, want)
    assert layer._bound is not None


def test_layers_of_one_batch_with_and_without_a_window() -> None:
    """The division of work that is made for a window leaves keys out: it must not serve the layer that sees all."""
    cache = torch.randn(BLOCKS, KV_HEADS, BLOCK, 2 * SIZE)
    layers = [Apart(HEADS, SIZE, 0.3, KV_HEADS, sliding_window=window) for window in (2, None)]
    for layer in layers:
        ready(layer)
    long, query = TorchSDPABackendImpl(HEADS, SIZE, 0.3, KV_HEADS), torch.randn(1, HEADS, SIZE)
    want, got = (torch.zeros(1, HEADS, SIZE) for _ in range(2))
    long.forward(LAYER, query, None, None, cache, batch_of([1], [BLOCK * 2])[0], want)
    for turn in range(2):  # bound to this cache by the first
        metadata = batch_of([1], [BLOCK * 2])[0]
        for layer in layers:
            layer.forward(LAYER, query, None, None, cache, metadata, got)
        assert turn == 0 or len(metadata.bound) == 2
        assert torch.equal(got, want)


def test_a_layer_that_shares_a_cache_writes_none() -> None:
    layer, cache = ready(Apart(HEADS, SIZE, 0.3, KV_HEADS, kv_sharing_target_layer_name="other"))
    before = cache.clone()
    step(layer, tensors(7, torch.float32), cache, *batch_of([7], [7]))
    assert torch.equal(cache, before)


def test_another_cache_is_bound_anew() -> None:
    layer, cache = ready()
    other = torch.randn(BLOCKS, KV_HEADS, BLOCK, 2 * SIZE)
    given, batch = tensors(7, torch.float32), batch_of([7], [7])
    before = cache.clone()
    outs = [step(layer, given, other, *batch) for _ in range(2)]
    assert torch.equal(*outs) and torch.equal(cache, before)
    assert layer._bound.cache() is other


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        pytest.param(torch.float64, (7, HEADS, SIZE), id="a dtype that no kernel has"),
        pytest.param(torch.float16, (7, HEADS, SIZE), id="another dtype than the cache's"),
    ],
)
def test_what_is_wrong_is_refused_when_bound_too(dtype: Any, shape: tuple[int, ...]) -> None:
    layer, cache = ready()
    metadata, slots = batch_of([7], [7])
    with pytest.raises(TypeError, match="dtype"):
        layer.forward(
            LAYER, torch.zeros(shape, dtype=dtype), None, None, cache, metadata, torch.zeros(shape, dtype=dtype)
        )
    with pytest.raises(TypeError, match="dtype"):
        layer.do_kv_cache_update(LAYER, *(torch.zeros(7, KV_HEADS, SIZE, dtype=dtype) for _ in range(2)), cache, slots)


def test_padding_and_strides() -> None:
    """Slots and keys may be padded; a query whose elements lie apart is copied by no one and refused."""
    layer, cache = ready()
    metadata, slots = batch_of([7], [7])
    _, key, value = tensors(9, torch.float32)
    layer.do_kv_cache_update(LAYER, key, value, cache, slots)
    rows = cache.transpose(1, 2).reshape(BLOCKS * BLOCK, KV_HEADS, 2 * SIZE)[slots]
    assert torch.equal(rows, torch.cat([key, value], -1)[:7])
    apart = torch.zeros(7, HEADS, 2 * SIZE)[..., ::2]
    with pytest.raises(ValueError, match="query"):
        layer.forward(LAYER, apart, None, None, cache, metadata, torch.zeros(7, HEADS, SIZE))
    flat = torch.zeros(7, HEADS * SIZE)
    assert layer.forward(LAYER, torch.ones(7, HEADS * SIZE), None, None, cache, metadata, flat) is flat
    assert bool(flat.ne(0).any())


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        pytest.param(lambda slots: slots.int(), TypeError, id="slots of another dtype"),
        pytest.param(lambda slots: slots.repeat_interleave(2)[::2], ValueError, id="slots that lie apart"),
    ],
)
def test_slots_are_refused_when_bound_too(spoil: Any, error: type[Exception]) -> None:
    layer, cache = ready()
    _, key, value = tensors(7, torch.float32)
    with pytest.raises(error, match="slot_mapping"):
        layer.do_kv_cache_update(LAYER, key, value, cache, spoil(batch_of([7], [7])[1]))


@pytest.mark.parametrize("name", ["key", "value"])
def test_elements_that_lie_apart_are_refused_as_in_the_long_way(name: str) -> None:
    """And nothing is stored."""
    layer, cache = ready()
    long, slots = TorchSDPABackendImpl(HEADS, SIZE, 0.3, KV_HEADS), batch_of([7], [7])[1]
    given = dict(zip(("key", "value"), tensors(7, torch.float32)[1:], strict=True))
    before = cache.clone()
    spoiled = given | {name: given[name].repeat_interleave(2, dim=-1)[..., ::2]}
    for one in (layer, long):
        with pytest.raises(ValueError, match=name):
            one.do_kv_cache_update(LAYER, spoiled["key"], spoiled["value"], cache, slots)
    assert torch.equal(cache, before)


def test_quantised_outputs_are_refused_when_bound_too() -> None:
    layer, cache = ready()
    query = torch.zeros(7, HEADS, SIZE)
    for scales in ((torch.ones(1), None), (None, torch.ones(1))):
        with pytest.raises(NotImplementedError, match="output_scale"):
            layer.forward(LAYER, query, None, None, cache, batch_of([7], [7])[0], query.clone(), *scales)


@pytest.mark.parametrize(("kernel", "attn_type"), [("torch", "decoder"), ("native", "encoder_only")])
def test_what_is_never_bound(kernel: str, attn_type: str) -> None:
    layer = Apart(HEADS, SIZE, 0.3, KV_HEADS, kernel=kernel, attn_type=attn_type)
    cache = torch.randn(BLOCKS, KV_HEADS, BLOCK, 2 * SIZE)
    step(layer, tensors(7, torch.float32), cache, *batch_of([7], [7], attn_type=attn_type))
    assert layer._bound is None


def test_nothing_is_read_or_bound_in_a_warm_up() -> None:
    layer = Apart(HEADS, SIZE, 0.3, KV_HEADS)
    query, out = torch.zeros(7, HEADS, SIZE), torch.full((7, HEADS, SIZE), 3.0)
    assert layer.forward(LAYER, query, None, None, torch.empty(0), None, out) is out and bool((out == 3.0).all())
    assert layer._bound is None
    bound, cache = ready()
    assert bound.forward(LAYER, query, None, None, cache, None, out) is out and bool((out == 3.0).all())
