"""What torch sees: right schemas, graphs without breaks, the same numbers as in eager mode (vllm #31643)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from batches import make_batch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import v1_cpu
from v1_cpu import ops as _registered  # noqa: F401

LENS = [(3, 20), (1, 40), (6, 6)]


def paged_args(kernel: str | None, lse: bool, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    batch = make_batch(LENS, dtype=dtype, padding=1, poison=False)
    out = torch.zeros_like(batch.query)
    total = torch.zeros(4, out.shape[0]) if lse else None
    tensors = (batch.query.nan_to_num(), batch.kv_cache, batch.query_start_loc, batch.seq_lens, batch.block_table)
    masks = (None, 9, None, torch.rand(4), 2.0, torch.rand(4), None)
    return (*tensors, out, total, 0.2, True, *masks, 1.0, 1.0, None, kernel, None, True)


@pytest.mark.parametrize("lse", [False, True], ids=["without lse", "with lse"])
def test_opcheck_paged(lse: bool, kernel: str) -> None:
    torch.library.opcheck(torch.ops.v1_cpu.paged_attention.default, paged_args(kernel, lse))


def test_opcheck_varlen(kernel: str) -> None:
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)
    rows = [torch.randn(7, h, 8) for h in (4, 2, 2)]
    causal = torch.tensor([True, False])
    args = (*rows, starts, starts, torch.zeros(7, 4, 8), torch.zeros(4, 7), 0.3, True, causal, None, None, None, None)
    torch.library.opcheck(torch.ops.v1_cpu.varlen_attention.default, (*args, kernel, True))


@pytest.mark.parametrize("cache", ["auto", "fp8"])
def test_opcheck_write(cache: str, kernel: str) -> None:
    key = torch.randn(3, 2, 8)
    kv_cache = v1_cpu.allocate_kv_cache(2, 4, 2, 8, torch.float32, kv_cache_dtype=cache)
    args = (key, key, kv_cache, torch.tensor([1, -1, 6]), 1.0, 1.0, None, kernel, True)
    checks = ("test_autograd_registration", "test_faketensor")
    if cache == "auto":  # the others compare tensors, which torch does not know for float8
        checks += ("test_schema", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.v1_cpu.write_kv_cache.default, args, test_utils=checks)


def layer(kernel: str, planned: bool) -> Callable[..., Tensor]:
    """A small attention layer: project, write, attend, project."""

    def forward(hidden: Tensor, weight: Tensor, batch: Any, slots: Tensor, plan: Any) -> Tensor:
        q, k, v = (hidden @ weight).split([128, 64, 64], dim=-1)
        v1_cpu.write_kv_cache(
            k.unflatten(-1, (2, 32)), v.unflatten(-1, (2, 32)), batch["kv_cache"], slots, kernel=kernel
        )
        out, lse = v1_cpu.paged_attention(
            q.unflatten(-1, (4, 32)).contiguous(),
            batch["kv_cache"],
            query_start_loc=batch["query_start_loc"],
            seq_lens=batch["seq_lens"],
            block_table=batch["block_table"],
            scale=0.2,
            sliding_window=9,
            logits_soft_cap=5.0,
            return_lse=True,
            plan=plan if planned else None,
            kernel=kernel,
        )
        return out.flatten(1) * 2 + lse.T.sum(-1, keepdim=True)

    return forward


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("planned", [False, True], ids=["no plan", "plan"])
def test_a_compiled_layer_has_no_graph_break_and_the_eager_numbers(mode: str, planned: bool, kernel: str) -> None:
    torch.compiler.reset()
    with getattr(torch, mode)():
        torch.manual_seed(0)
        made = make_batch(LENS, poison=False)
        names = ("query_start_loc", "seq_lens", "block_table")
        hidden, weight = torch.randn(10, 16), torch.randn(16, 256) / 4
        slots = torch.arange(10)
        results, caches = [], []
        forward = layer(kernel, planned)
        for function in (forward, torch.compile(forward, fullgraph=True, backend="aot_eager")):
            batch = {"kv_cache": made.kv_cache.clone(), **{n: getattr(made, n) for n in names}}
            plan = v1_cpu.make_plan(
                query_start_loc=made.query_start_loc, seq_lens=made.seq_lens, num_heads=4, num_kv_heads=2,
                head_size=32, block_size=16, dtype=torch.float32, sliding_window=9, kernel=kernel,
            )  # fmt: skip
            results.append(function(hidden, weight, batch, slots, plan))
            caches.append(batch["kv_cache"])
        assert torch.allclose(results[0], results[1], rtol=1e-6, atol=1e-6)
        assert torch.equal(caches[0], caches[1])


@pytest.mark.slow
def test_the_same_with_inductor(kernel: str) -> None:
    torch.compiler.reset()
    made = make_batch(LENS, poison=False)

    def forward(query: Tensor) -> Tensor:
        return v1_cpu.paged_attention(query * 0.5, made.kv_cache, **made.tensors, scale=0.2, kernel=kernel).relu()

    compiled = torch.compile(forward, fullgraph=True)
    for _ in range(2):
        query = torch.randn_like(made.query)
        assert torch.allclose(compiled(query), forward(query), atol=1e-6)


def test_varlen_compiles(kernel: str) -> None:
    torch.compiler.reset()
    starts = torch.tensor([0, 3, 7], dtype=torch.int32)
    causal = torch.tensor([True, False])

    def forward(query: Tensor, key: Tensor) -> Tensor:
        return v1_cpu.varlen_attention(
            query * 2, key, key, query_start_loc=starts, kv_start_loc=starts, scale=0.3, causal=causal, kernel=kernel
        )

    query, key = torch.randn(7, 4, 8), torch.randn(7, 2, 8)
    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(query, key), forward(query, key), atol=1e-6)


def test_a_compiled_call_refuses_what_an_eager_one_refuses() -> None:
    torch.compiler.reset()
    made = make_batch(LENS, poison=False)
    bad = made.block_table + 1000

    def forward(query: Tensor) -> Tensor:
        tensors = {**made.tensors, "block_table": bad}
        return v1_cpu.paged_attention(query, made.kv_cache, **tensors, scale=0.2)

    with pytest.raises(ValueError, match="block_table"):
        torch.compile(forward, fullgraph=True, backend="aot_eager")(made.query)


def test_fake_tensors_go_through_with_the_right_shapes() -> None:
    with FakeTensorMode():
        query, cache = torch.empty(7, 4, 8), torch.empty(3, 2, 16, 20)
        out, lse = v1_cpu.paged_attention(
            query,
            cache,
            query_start_loc=torch.empty(3, dtype=torch.int32),
            seq_lens=torch.empty(2, dtype=torch.int32),
            block_table=torch.empty(2, 2, dtype=torch.int32),
            scale=0.3,
            return_lse=True,
        )
    assert out.shape == (7, 4, 12)
    assert lse.shape == (4, 7)
    assert lse.dtype is torch.float32
