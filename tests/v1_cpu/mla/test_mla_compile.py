"""What torch sees: right schemas, graphs without breaks, the same numbers as in eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from latents import make
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from v1_cpu import mla

LENS = [(3, 20), (1, 40), (6, 6)]


@pytest.mark.parametrize("lse", [False, True], ids=["without lse", "with lse"])
def test_opcheck_paged(lse: bool, kernel: str) -> None:
    batch = make(LENS, kernel=kernel)
    out, total = torch.zeros(10, 4, 32), torch.zeros(4, 10) if lse else None
    tensors = (batch.kv_cache.nan_to_num(), batch.query_start_loc, batch.seq_lens, batch.block_table)
    args = (torch.randn(10, 4, 40), *tensors, out, total, 32, 0.2, True, None, 1.0, None, kernel, True)
    torch.library.opcheck(torch.ops.v1_cpu.mla_paged_attention.default, args)


@pytest.mark.parametrize("form", ["absorbed", "expanded"])
def test_opcheck_attention(form: str, kernel: str) -> None:
    batch = make(LENS, kernel=kernel)
    tensors = (batch.query_start_loc, batch.seq_lens, batch.block_table, torch.zeros(10, 4, 24), torch.zeros(4, 10))
    causal = torch.tensor([True, False, True])
    args = (batch.query, batch.kv_cache.nan_to_num(), batch.kv_up, *tensors, 0.2, True, causal, 1.0, form, kernel, True)
    torch.library.opcheck(torch.ops.v1_cpu.mla_attention.default, args)


def layer(hidden: Tensor, weight: Tensor, batch: dict[str, Any], cache: Tensor, kv_up: Tensor, slots: Tensor) -> Tensor:
    """A small MLA layer: project, write, attend."""
    q, latent, rope_key = (hidden @ weight).split([96, 32, 8], dim=-1)
    mla.write_latent_cache(latent, rope_key, cache, slots)
    out, lse = mla.mla_attention(q.unflatten(-1, (4, 24)).contiguous(), cache, kv_up, **batch, return_lse=True)
    return out.flatten(1) * 2 + lse.T.sum(-1, keepdim=True)


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode"])
def test_a_compiled_layer_has_no_graph_break_and_the_eager_numbers(mode: str) -> None:
    torch.compiler.reset()
    with getattr(torch, mode)():
        made = make(LENS)
        hidden, weight, slots = torch.randn(10, 16), torch.randn(16, 136) / 4, torch.arange(10)
        results, caches = [], []
        for function in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
            cache = made.kv_cache.clone()
            results.append(function(hidden, weight, made.tensors, cache, made.kv_up, slots))
            caches.append(cache)
        assert torch.allclose(results[0], results[1], rtol=1e-6, atol=1e-6, equal_nan=True)
        assert torch.equal(caches[0].nan_to_num(9.0), caches[1].nan_to_num(9.0))


def test_the_absorbed_form_compiles(kernel: str) -> None:
    torch.compiler.reset()
    made = make(LENS, kernel=kernel)

    def forward(query: Tensor) -> Tensor:
        return mla.mla_paged_attention(query * 2, made.kv_cache, kv_lora_rank=32, **made.tensors, kernel=kernel)

    query = torch.randn(10, 4, 40)
    assert torch.allclose(torch.compile(forward, fullgraph=True, backend="aot_eager")(query), forward(query), atol=1e-6)


def test_a_compiled_call_refuses_what_an_eager_one_refuses() -> None:
    torch.compiler.reset()
    made = make(LENS)
    bad = {**made.tensors, "block_table": made.block_table + 1000}

    def forward(query: Tensor) -> Tensor:
        return mla.mla_attention(query, made.kv_cache, made.kv_up, **bad)

    with pytest.raises(ValueError, match="block_table"):
        torch.compile(forward, fullgraph=True, backend="aot_eager")(made.query)


def test_fake_tensors_go_through_with_the_right_shapes() -> None:
    with FakeTensorMode():
        out, lse = mla.mla_attention(
            torch.empty(7, 4, 24), torch.empty(3, 16, 40), torch.empty(4, 40, 32), scale=0.3, return_lse=True,
            query_start_loc=torch.empty(3, dtype=torch.int32), seq_lens=torch.empty(2, dtype=torch.int32),
            block_table=torch.empty(2, 2, dtype=torch.int32),
        )  # fmt: skip
    assert out.shape == (7, 4, 24)
    assert lse.shape == (4, 7)
    assert lse.dtype is torch.float32
