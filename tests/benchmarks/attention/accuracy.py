"""Measure errors: `python tests/benchmarks/attention/accuracy.py [--isa ISA]`.

Root mean square and largest error of attention on normal numbers, held to float64 on the same inputs; beside it that of
the ideal answer, which is the float64 one rounded to the output's type. One request, 32 heads over 8 of 128.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[3])]

import torch
from cases import BF16, F32, HEADS, Case, Tensors, build
from peers import Ours, Peer, Sdpa, Unsupported, Vllm
from torch import Tensor

import v1_cpu
from v1_cpu import select

CASES = [("decode 2048", ((1, 2048),)), ("prefill 1024", ((1024, 1024),))]


def exact(case: Case, data: Tensors, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention in float64, ``[T, H, D]``."""
    (queries, context), group = case.requests[0], case.heads[0] // case.heads[1]
    k, v = (x.double().repeat_interleave(group, 1).transpose(0, 1) for x in (key, value))
    scores = data.query.double().transpose(0, 1) @ k.transpose(1, 2) * case.heads[2] ** -0.5
    later = torch.arange(context) > torch.arange(context - queries, context)[:, None]
    return (scores.masked_fill(later, float("-inf")).softmax(-1) @ v).transpose(0, 1)


def answer(peer: Peer, case: Case, data: Tensors, key: Tensor, value: Tensor) -> Tensor:
    """The peer's output for these keys and values."""
    if isinstance(peer, Sdpa):
        q, k, v = (x.transpose(0, 1)[None] for x in (data.query, key, value))
        causal = case.requests[0][0] > 1
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        return out[0].transpose(0, 1)
    slots = torch.arange(case.requests[0][1])
    slots = data.block_tables[0][0].long()[slots // case.block_size] * case.block_size + slots % case.block_size
    if isinstance(peer, Vllm):
        isa = peer.isa(case.dtype, case.block_size, case.heads[2], "auto")
        shape = (data.kv_cache.shape[0], case.heads[1], case.block_size * 2, case.heads[2])
        peer.ops.cpu_attn_reshape_and_cache(key, value, *data.kv_cache.view(shape).chunk(2, dim=2), slots, isa)
    else:
        v1_cpu.write_kv_cache(key, value, data.kv_cache, slots, kernel="native")
    peer.prepare(case, data)(0)
    return data.out.clone()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", help="instruction set of v1_cpu (V1_CPU_ISA); any but amx keeps vLLM from AMX, too")
    options = parser.parse_args()
    if options.isa:
        os.environ["V1_CPU_ISA"] = options.isa
    peers: list[Peer] = [Ours("native"), Sdpa()]
    try:
        peers.append(Vllm(tiles=options.isa in (None, "amx")))
    except Exception as error:
        print(f"absent: vllm: {error}")
    print(f"isa {select.get_kernel('native').isa}")
    for dtype in (BF16, F32):
        for name, requests in CASES:
            case = Case("accuracy", name, dtype, HEADS["32/8x128"], 32, requests)
            data = build(case)
            key, value = (torch.randn(requests[0][1], 8, 128).to(dtype) for _ in range(2))
            wanted = exact(case, data, key, value)
            answers = {"ideal": wanted.to(dtype)}
            for peer in peers:
                try:
                    answers[peer.name] = answer(peer, case, data, key, value)
                except Unsupported as reason:
                    print(f"{peer.name}: {reason}")
            for who, out in answers.items():
                error = out.double() - wanted
                rms, most = float(error.pow(2).mean().sqrt()), float(error.abs().max())
                print(f"{case.title:45} {who:20} rms {rms:.2e}, largest {most:.2e}", flush=True)


if __name__ == "__main__":
    main()
