"""Who is measured: each peer turns a case into a call, or says why it cannot."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import ggml
import torch
from cases import Case, Tensors, build
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import v1_cpu

Run = Callable[[int], Any]
"""Runs the case once on block table number i."""


class Unsupported(Exception):
    """The peer does not serve this case; the message says why."""


class Peer(ABC):
    name: str

    @abstractmethod
    def prepare(self, case: Case, data: Tensors) -> Run:
        """The call, with everything made that a batch's layers share. Raises `Unsupported`."""


class Ours(Peer):
    """A kernel of v1_cpu through its public function, as a layer calls it: plan made once, checks off."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.name = f"v1_cpu {kernel}"

    def prepare(self, case: Case, data: Tensors) -> Run:
        h, kh, d = case.heads
        plan = v1_cpu.make_plan(
            query_start_loc=data.query_start_loc,
            seq_lens=data.seq_lens,
            num_heads=h,
            num_kv_heads=kh,
            head_size=d,
            block_size=case.block_size,
            dtype=case.dtype,
            kv_cache_dtype=data.kv_cache.dtype,
            sliding_window=case.features.get("sliding_window"),
            kernel=self.kernel,
        )

        def run(i: int) -> Any:
            return v1_cpu.paged_attention(
                data.query,
                data.kv_cache,
                query_start_loc=data.query_start_loc,
                seq_lens=data.seq_lens,
                block_table=data.block_tables[i % len(data.block_tables)],
                scale=d**-0.5,
                out=data.out,
                plan=plan,
                validate=False,
                **case.features,
            )

        return run


class OneThread(Ours):
    """The native kernel on one thread: what a second one brings."""

    def __init__(self) -> None:
        super().__init__("native")
        self.name = "one thread"

    def prepare(self, case: Case, data: Tensors) -> Run:
        if case.table != "prefill" or case.requests[0][0] > 2048:
            raise Unsupported("prefill of 2048 tokens only, as it takes long")
        with torch_threads(1):
            alone = super().prepare(case, data)

        def run(i: int) -> Any:
            with torch_threads(1):
                return alone(i)

        return run


class Plain(Ours):
    """The native kernel without the case's features, on the keys that they leave: what they cost."""

    def __init__(self) -> None:
        super().__init__("native")
        self.name = "plain"

    def prepare(self, case: Case, data: Tensors) -> Run:
        if not case.features:
            raise Unsupported("the case has no features")
        return super().prepare(case.plain, build(case.plain))


@contextlib.contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Vllm(Peer):
    """vLLM's own CPU attention operator, called as its CPU backend calls it; without AMX tiles if `tiles` is false."""

    name = "vllm"

    def __init__(self, tiles: bool = True) -> None:
        with contextlib.redirect_stdout(None):
            import vllm
            from vllm import _custom_ops
            from vllm.platforms import current_platform
            from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend, _get_attn_isa

        current_platform.import_kernels()
        self.ops, self.name = _custom_ops, f"vllm {vllm.__version__}"
        self.choose, self.tiles = _get_attn_isa, tiles
        self.head_sizes = CPUAttentionBackend.get_supported_head_sizes()

    def isa(self, dtype: torch.dtype, block_size: int, head_size: int, cache: str) -> str:
        """vLLM's name for the instructions and the cache layout that it takes on this CPU."""
        chosen: str = self.choose(dtype, block_size, head_size, cache)
        return "vec" if chosen == "amx" and not self.tiles else chosen  # what it says of a CPU without AMX

    def prepare(self, case: Case, data: Tensors) -> Run:
        h, kh, d = case.heads
        if d not in self.head_sizes:
            raise Unsupported(f"head size {d}")
        fp8 = {torch.float8_e4m3fn: "fp8_e4m3", torch.float8_e5m2: "fp8_e5m2"}.get(data.kv_cache.dtype, "auto")
        isa = self.isa(case.dtype, case.block_size, d, fp8)
        window = case.features.get("sliding_window")
        cache = data.kv_cache if fp8 == "auto" else data.kv_cache.view(torch.uint8)
        key_cache, value_cache = cache.view(cache.shape[0], kh, case.block_size * 2, d).chunk(2, dim=2)
        metadata = self.ops.cpu_attn_get_scheduler_metadata(
            num_reqs=len(case.requests),
            num_heads=h,
            num_kv_heads=kh,
            head_dim=d,
            seq_lens=data.seq_lens,
            dtype=case.dtype,
            query_start_loc=data.query_start_loc,
            causal=True,
            sliding_window_size=-1 if window is None else window,
            isa=isa,
            enable_kv_split=True,
            kv_cache_dtype=fp8,
        )
        sides = (-1, -1) if window is None else (window - 1, 0)

        def run(i: int) -> Any:
            return self.ops.cpu_attention_with_kv_cache(
                query=data.query,
                key_cache=key_cache,
                value_cache=value_cache,
                output=data.out,
                query_start_loc=data.query_start_loc,
                seq_lens=data.seq_lens,
                scale=d**-0.5,
                causal=True,
                alibi_slopes=case.features.get("alibi_slopes"),
                sliding_window=sides[0],
                block_table=data.block_tables[i % len(data.block_tables)],
                softcap=case.features.get("logits_soft_cap", 0.0),
                scheduler_metadata=metadata,
                s_aux=case.features.get("sinks"),
                kv_cache_dtype=fp8,
            )

        run(0)
        return run


class Sgl(Peer):
    """sgl's kernels, which vLLM's wheel carries: a token-major cache and a table of token positions."""

    name = "sgl"

    def __init__(self) -> None:
        self.decode = torch.ops._C.decode_attention_cpu
        self.extend = torch.ops._C.extend_attention_cpu

    def prepare(self, case: Case, data: Tensors) -> Run:
        h, kh, d = case.heads
        if case.dtype is torch.float32 or case.cache_dtype or case.features:
            raise Unsupported("bf16 and fp16 without further features only")
        requests, longest = len(case.requests), max(n for _, n in case.requests)
        tokens = sum(n for _, n in case.requests)
        copies = len(data.block_tables)
        pool = data.kv_cache.flatten()[: copies * tokens * kh * 2 * d].view(2, copies * tokens, kh, d)
        tables = []
        for copy in range(copies):
            table, used = torch.zeros(requests, longest, dtype=torch.int32), copy * tokens
            for row, (_, n) in enumerate(case.requests):
                table[row, :n] = torch.arange(used, used + n)
                used += n
            tables.append(table)
        rows, lens = torch.arange(requests), data.seq_lens.long()
        scale = d**-0.5
        if all(q == 1 for q, _ in case.requests):
            logits = torch.empty(requests, h, 8, d + 1)

            def decode(i: int) -> Any:
                table = tables[i % copies]
                new_tokens = (data.key, data.value, table[:, 0].long())
                where = (logits, table, rows, lens)
                return self.decode(
                    data.query, pool[0], pool[1], data.out, *new_tokens, *where, scale, 0.0, False, -1, None, None
                )

            decode(0)
            return decode
        new = torch.tensor([q for q, _ in case.requests], dtype=torch.int32)
        starts = data.query_start_loc[:-1].clone()

        def extend(i: int) -> Any:
            where = (tables[i % copies], rows, lens, new, starts, int(new.max()))
            tensors = (data.query, data.key, data.value, data.out, pool[0], pool[1])
            return self.extend(*tensors, *where, scale, 0.0, False, -1, None, None, None)

        extend(0)
        return extend


class Sdpa(Peer):
    """torch's scaled_dot_product_attention on dense keys and values, one request after another."""

    name = "torch SDPA (dense)"

    def prepare(self, case: Case, data: Tensors) -> Run:
        _, kh, d = case.heads
        if case.features or case.cache_dtype:
            raise Unsupported("plain causal attention only")
        if any(q not in (1, n) for q, n in case.requests):
            raise Unsupported("a chunk needs a mask of its own")
        starts = data.query_start_loc.tolist()
        calls, used, flat = [], 0, data.kv_cache.flatten()
        for row, (q, n) in enumerate(case.requests):
            key, value = (flat[used + j * n * kh * d :][: n * kh * d].view(1, kh, n, d) for j in (0, 1))
            used += 2 * n * kh * d
            calls.append((data.query[starts[row] : starts[row + 1]].transpose(0, 1)[None], key, value, q > 1))

        def run(_: int) -> Any:
            for call in calls:
                self.attend(*call)

        run(0)
        return run

    def attend(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=causal, enable_gqa=query.shape[1] != key.shape[1]
        )


class Zentorch(Sdpa):
    """AMD's zentorch: its operator on dense keys and values. It has none for a paged cache."""

    name = "zentorch (dense)"

    def __init__(self) -> None:
        import zentorch  # noqa: F401  # registers the operator

        self.operator = torch.ops.zentorch.zentorch_sdpa

    def attend(self, query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Any:
        return self.operator(query, key, value, 0.0, causal)


class Ggml(Peer):
    """ggml's flash attention (llama.cpp's) on dense keys and values, its graphs built and planned before.

    Its paths that split or tile the keys take float16 and float32, not bfloat16, so the former stands for bfloat16.
    """

    name = "ggml (dense)"

    def __init__(self) -> None:
        self.library = ggml.Library(torch.get_num_threads())
        self.name = f"ggml {self.library.version} {self.library.instructions()} (dense)"

    def prepare(self, case: Case, data: Tensors) -> Run:
        if case.cache_dtype or "alibi_slopes" in case.features:
            raise Unsupported("no float8, and of ALiBi's slopes only those that follow from one number")
        dtype = torch.float32 if case.dtype is torch.float32 else torch.float16
        run = ggml.graphs(self.library, case, data, dtype)[0].compute
        run(0)
        return run


class Flex(Peer):
    """torch's flex_attention, compiled for the cell's shapes, on dense keys and values; masks and logits as functions."""

    name = "torch flex (dense)"

    def prepare(self, case: Case, data: Tensors) -> Run:
        h, kh, d = case.heads
        if case.cache_dtype or "sinks" in case.features:
            raise Unsupported("no float8, and no sinks on CPUs, where it returns no lse")
        if len(set(case.requests)) > 1:
            raise Unsupported("requests of one length only: another is another program")
        torch.compiler.reset()  # programs of other cells count towards its limit
        batch, (queries, context) = len(case.requests), case.requests[0]
        window, offset = case.features.get("sliding_window", context), context - queries
        cap, slopes = case.features.get("logits_soft_cap"), case.features.get("alibi_slopes")

        def seen(_b: Tensor, _h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (k <= q + offset) & (k > q + offset - window)

        def logit(x: Tensor, _b: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
            x = x if cap is None else cap * torch.tanh(x / cap)
            return x if slopes is None else x + slopes[head] * (k - q - offset)

        plain_decode = queries == 1 and window >= context
        mask = None if plain_decode else create_block_mask(seen, None, None, queries, context, device="cpu")
        query = data.query.view(batch, queries, h, d).transpose(1, 2)
        size, flat = batch * context * kh * d, data.kv_cache.flatten()
        dense = [
            [flat[(2 * copy + i) * size :][:size].view(batch, kh, context, d) for i in (0, 1)]
            for copy in range(len(data.block_tables))
        ]
        attend = torch.compile(flex_attention, dynamic=False)
        score_mod = None if cap is None and slopes is None else logit

        def run(i: int) -> Any:
            with torch.no_grad():
                key, value = dense[i % len(dense)]
                return attend(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=h != kh)

        run(0)
        return run


def available(tiles: bool = True, flex: bool = False) -> tuple[list[Peer], list[str]]:
    """The peers of this environment, ours first, and what is missing; without `tiles` none may use AMX."""
    peers: list[Peer] = [Ours("native")]
    missing = []
    makers: list[tuple[str, Callable[[], Peer]]] = [
        (Vllm.name, lambda: Vllm(tiles)),
        (Sgl.name, Sgl),
        (Zentorch.name, Zentorch),
        (Ggml.name, Ggml),
    ]
    for name, make in makers:
        try:
            peers.append(make())
        except Exception as error:  # a peer that is broken here is only absent
            missing.append(f"{name}: {type(error).__name__}: {error}")
    if not flex:
        missing.append(f"{Flex.name}: asked for by --flex, as each cell is compiled")
    return [*peers, Sdpa(), *([Flex()] if flex else []), OneThread(), Plain()], missing
