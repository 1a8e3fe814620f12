"""Measure MLA against vLLM's operators and torch SDPA: `python tests/benchmarks/attention/mla.py [--quick] [--json F]`.

Sizes of DeepSeek-V2 and V3: rank 512, rope 64, parts of 128. *decode*: the absorbed operator alone, as vLLM 0.32.0's
CPU_MLA (`mla_decode_kvcache_cpu`) and AMX_MLA (`cpu_mla_decode`) do it, over block tables that rotate over 256 MB.
*prefill*: `mla_attention` from latents in the cache to each head's values, against torch SDPA on keys and values made
by the same projection, that projection included; *sdpa padded* gives it values as wide as the keys, for which it has a
faster kernel; *sdpa alone* leaves the projection out and is no fair peer, but a limit. All peers of a cell run
interleaved in one process; figures are medians, and the best of each in brackets.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[3])]

import torch
from limits import fastest, library, multiply_add_rate

import v1_cpu
from v1_cpu import mla

R, P, N, V = 512, 64, 128, 128
COLD_BYTES = 256 << 20
BF16, F32 = torch.bfloat16, torch.float32
Run = Callable[[int], Any]


@dataclass(frozen=True)
class Case:
    table: str  # "decode" or "prefill"
    dtype: torch.dtype
    heads: int
    batch: int
    query_len: int
    context: int  # tokens of a request, new ones included
    block_size: int = 16

    @property
    def title(self) -> str:
        what = f"ctx={self.context}" if self.table == "decode" else f"{self.query_len} of {self.context}"
        return f"{str(self.dtype)[6:]} {self.heads} heads B={self.batch} {what} block {self.block_size}"

    @property
    def kv_bytes(self) -> int:
        return self.batch * self.context * (R + P) * self.dtype.itemsize

    @property
    def flops(self) -> int:
        """Multiply-adds times two of the form's attention, projections of a prefill included."""
        pairs = self.batch * sum(self.context - i for i in range(self.query_len))
        if self.table == "decode":
            return 2 * pairs * self.heads * (2 * R + P)
        return 2 * self.heads * (pairs * (N + P + V) + self.batch * self.context * R * (N + V))


@dataclass
class Data:
    cache: torch.Tensor
    tables: list[torch.Tensor]
    starts: torch.Tensor
    lens: torch.Tensor


def build(case: Case) -> Data:
    """A cache of normal numbers, and block tables that rotate over it."""
    generator = torch.Generator().manual_seed(0)
    needed = -(-case.context // case.block_size)
    copies = max(1, min(24, COLD_BYTES // case.kv_bytes)) if case.table == "decode" else 1
    blocks = needed * case.batch * copies
    kv_cache = mla.allocate_latent_cache(blocks, case.block_size, R, P, case.dtype)
    cache = kv_cache.view(-1)
    chunk = torch.randn(1 << 20, generator=generator).to(case.dtype)
    for start in range(0, cache.numel(), chunk.numel()):
        cache[start : start + chunk.numel()] = chunk[: cache.numel() - start]
    order = torch.randperm(blocks, generator=generator).int().view(copies, case.batch, needed)
    starts = torch.arange(0, (case.batch + 1) * case.query_len, case.query_len, dtype=torch.int32)
    lens = torch.full((case.batch,), case.context, dtype=torch.int32)
    return Data(kv_cache, list(order), starts, lens)


def decode_peers(case: Case, data: Data, vllm: Any) -> Iterator[tuple[str, Run]]:
    query = torch.randn(case.batch, case.heads, R + P).to(case.dtype)
    out = torch.empty(case.batch, case.heads, R, dtype=case.dtype)
    scale = (N + P) ** -0.5
    plan = v1_cpu.make_plan(
        query_start_loc=data.starts, seq_lens=data.lens, num_heads=case.heads, num_kv_heads=1, head_size=R + P,
        head_size_v=R, block_size=case.block_size, dtype=case.dtype, kernel="native",
    )  # fmt: skip
    rest: dict[str, Any] = {"kv_lora_rank": R, "query_start_loc": data.starts, "seq_lens": data.lens, "scale": scale}

    def ours(i: int) -> Any:
        table = data.tables[i % len(data.tables)]
        return mla.mla_paged_attention(query, data.cache, block_table=table, out=out, plan=plan, validate=False, **rest)

    yield "v1_cpu", ours
    size, threads = data.cache[0].nbytes, torch.get_num_threads()
    lists = [t.flatten().contiguous() for t in data.tables]

    def read(i: int) -> Any:
        blocks = lists[i % len(lists)]
        return library().read_blocks(data.cache.data_ptr(), blocks.data_ptr(), blocks.numel(), size, size, threads)

    yield "read", read
    if vllm is None:
        return
    if case.block_size == 16:
        theirs = torch.empty_like(out)

        def cpu_mla(i: int) -> Any:
            table = data.tables[i % len(data.tables)]
            return vllm.mla_decode_kvcache_cpu(theirs, query, data.cache, scale, table, data.lens)

        yield "CPU_MLA", cpu_mla
    if case.dtype is BF16 and hasattr(torch.ops._C, "decode_attention_cpu"):
        flat = data.cache.view(-1, 1, R + P)
        offsets = torch.arange(case.block_size, dtype=torch.int32)
        positions = [(t[..., None] * case.block_size + offsets).flatten(1).contiguous() for t in data.tables]
        splits = min(4, 1 << max(0, math.ceil(math.log2(max(1, case.context // 512)))))
        logits = torch.zeros(case.batch, case.heads, splits, R + 1)
        given = (torch.arange(case.batch), data.lens.long(), scale, 0.0, False, 0, None, None)
        amx_out = torch.zeros_like(out)

        def amx_mla(i: int) -> Any:
            table = positions[i % len(positions)]
            return vllm.cpu_mla_decode(query, flat, flat[..., :R], amx_out, None, None, None, logits, table, *given)

        yield "AMX_MLA", amx_mla


def prefill_peers(case: Case, data: Data) -> Iterator[tuple[str, Run]]:
    tokens = case.batch * case.query_len
    query = torch.randn(tokens, case.heads, N + P).to(case.dtype)
    kv_up = (torch.randn(case.heads, N + V, R) * R**-0.5).to(case.dtype)
    out = torch.empty(tokens, case.heads, V, dtype=case.dtype)
    sizes = {"num_heads": case.heads, "kv_lora_rank": R, "qk_nope_head_dim": N, "qk_rope_head_dim": P, "v_head_dim": V}
    batch = {"query_start_loc": data.starts, "seq_lens": data.lens, "block_table": data.tables[0]}
    shape = {"num_blocks": data.cache.shape[0], "block_size": case.block_size, "dtype": case.dtype}
    for name, form in (("v1_cpu", "auto"), ("absorbed", "absorbed"), ("expanded", "expanded")):
        plan = mla.make_mla_plan(**batch, **sizes, **shape, form=form)

        def ours(i: int, plan: Any = plan) -> Any:
            return mla.mla_attention(
                query, data.cache, kv_up, **batch, scale=(N + P) ** -0.5, out=out, plan=plan, validate=False
            )

        yield name, ours
    slots = [(t.long()[:, None] * case.block_size + torch.arange(case.block_size)).flatten() for t in data.tables[0]]
    mask = None
    if case.query_len != case.context:
        mask = torch.ones(case.query_len, case.context, dtype=torch.bool).tril(case.context - case.query_len)

    def project(b: int) -> tuple[torch.Tensor, torch.Tensor]:
        cached = data.cache.view(-1, R + P)[slots[b][: case.context]]
        pairs = torch.nn.functional.linear(cached[:, :R], kv_up.view(-1, R)).view(-1, case.heads, N + V)
        rope = cached[:, None, R:].expand(-1, case.heads, -1)
        return torch.cat([pairs[..., :N], rope], dim=-1), pairs[..., N:]

    def attend(b: int, keys: torch.Tensor, values: torch.Tensor) -> Any:
        q = query[b * case.query_len : (b + 1) * case.query_len]
        states = [x.transpose(0, 1)[None] for x in (q, keys, values)]
        return torch.nn.functional.scaled_dot_product_attention(*states, attn_mask=mask, is_causal=mask is None)

    def padded(b: int, keys: torch.Tensor, values: torch.Tensor) -> Any:
        return attend(b, keys, torch.nn.functional.pad(values, (0, N + P - V)))

    made = [project(b) for b in range(case.batch)]
    yield "sdpa padded", lambda i: [padded(b, *project(b)) for b in range(case.batch)]
    yield "sdpa", lambda i: [attend(b, *project(b)) for b in range(case.batch)]
    yield "sdpa alone", lambda i: [attend(b, *made[b]) for b in range(case.batch)]


def measure(case: Case, vllm: Any, budget: float) -> dict[str, Any]:
    """Median seconds of each peer."""
    data = build(case)
    runs = dict(decode_peers(case, data, vllm) if case.table == "decode" else prefill_peers(case, data))
    refused = {}
    for name in list(runs):
        try:
            runs[name](0)
        except RuntimeError as error:
            refused[name] = str(error).splitlines()[0][:120]
            del runs[name]
    times: dict[str, list[float]] = {name: [] for name in runs}
    kind = fastest(case.dtype)
    rates: list[float] = []
    names, turn, end = list(runs), 0, time.perf_counter() + budget
    while turn < 5 or (turn < 41 and time.perf_counter() < end):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            runs[name](turn)
            times[name].append(time.perf_counter() - start)
        rates.append(multiply_add_rate(kind))
        turn += 1
    medians = {name: statistics.median(t) for name, t in times.items()}
    best = {name: min(t) for name, t in times.items()}
    return {
        "table": case.table, "title": case.title, "dtype": str(case.dtype)[6:], "heads": case.heads,
        "kv_bytes": case.kv_bytes, "flops": case.flops, "medians": medians, "best": best, "rounds": turn, "refused": refused,
        "peak": statistics.median(rates), "peak_kind": kind,
    }  # fmt: skip


def show(cell: dict[str, Any]) -> None:
    ours = cell["medians"]["v1_cpu"]
    share = cell["flops"] / ours / cell["peak"]
    rates = f"{cell['kv_bytes'] / ours / 1e9:5.1f} GB/s {cell['flops'] / ours / 1e9:7.1f} GF/s = {share:4.0%} of {cell['peak_kind']}"
    best = cell["best"]
    ratios = ", ".join(
        f"{n} {t / ours:.2f}x (best {best[n] / best['v1_cpu']:.2f}x)"
        for n, t in cell["medians"].items()
        if n not in ("v1_cpu", "read")
    )
    if "read" in best:
        ratios += f", time/read {ours / cell['medians']['read']:.2f} (best {best['v1_cpu'] / best['read']:.2f})"
    refused = "".join(f", {n}: {why}" for n, why in cell["refused"].items())
    print(
        f"{cell['table']:8} {cell['title']:46} {ours * 1e6:9.0f} us (best {best['v1_cpu'] * 1e6:.0f}) {rates} | {ratios}{refused}",
        flush=True,
    )


def cases(quick: bool) -> Iterator[Case]:
    for dtype, heads in itertools.product((BF16, F32), (16, 128)):
        for context, batch in itertools.product((512, 2048, 8192), (1, 4, 16)):
            if not quick or (context, batch) in ((512, 1), (2048, 4), (8192, 16)):
                yield Case("decode", dtype, heads, batch, 1, context)
    for dtype, (new, context) in itertools.product((BF16, F32), ((512, 512), (2048, 2048), (512, 4096))):
        yield Case("prefill", dtype, 16, 1, new, context)
    yield Case("prefill", BF16, 128, 1, 512, 512)
    yield Case("prefill", BF16, 16, 8, 256, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few cells of the decode table")
    parser.add_argument("--only", default="", help="part of a cell's table and title")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per cell (at least 5 rounds are run)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    try:
        import vllm as package
        from vllm import _custom_ops as vllm
        from vllm.platforms import current_platform

        current_platform.import_kernels()
        print(f"vllm {package.__version__}")
    except ImportError:
        vllm = None
        print("absent: vllm")
    print(f"{v1_cpu.which()}; threads {torch.get_num_threads()}")
    cells = []
    for case in cases(options.quick):
        if options.only in f"{case.table} {case.title}":
            cells.append(measure(case, vllm, options.budget))
            show(cells[-1])
            if options.json:
                options.json.write_text(json.dumps(cells, indent=1))
    for table, dtype, heads in sorted({(c["table"], c["dtype"], c["heads"]) for c in cells}):
        group = [c for c in cells if (c["table"], c["dtype"], c["heads"]) == (table, dtype, heads)]
        for name in sorted({n for c in group for n in c["medians"]} - {"v1_cpu", "read"}):
            found = [c["medians"][name] / c["medians"]["v1_cpu"] for c in group if name in c["medians"]]
            mean = math.exp(sum(map(math.log, found)) / len(found))
            print(f"{table} {dtype} {heads} heads over {name}: geometric mean {mean:.2f}x, worst {min(found):.2f}x")


if __name__ == "__main__":
    main()
