"""The torch kernel: attention in plain torch operations, right on every machine, in blocks, never with a T x T matrix.

The batch is cut into tiles of query tokens; tiles of one height (all decodes, say) are attended together, over one
tile of keys after the other, with the running maximum and sum of the online softmax (Milakov and Gimelshein,
arXiv:1805.02867; Rabe and Staats, arXiv:2112.05682). Products, softmax and sums are float32 whatever the inputs are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from v1_cpu.kernels import ROW_LAYOUT, Kernel, KernelConfig
from v1_cpu.layouts import FP8_DTYPES, split_kv, token_rows

# Limits of one step: they bound the memory, and what fits a cache is also fastest.
QUERY_TILE = 64  # query tokens of one request attended together
KEY_TILE = 2048  # keys of each request attended together
SCORE_LIMIT = 1 << 19  # elements of one score matrix: 2 MB
FETCH_LIMIT = 1 << 19  # elements of keys and values fetched at once: 2 MB in float32

Fetch = Callable[["Tile", Tensor], tuple[Tensor, Tensor]]
"""(tile, positions int64 [R, N]) -> keys [R, KH, N, D], values [R, KH, N, Dv], float32; past the end, anything."""


@dataclass(frozen=True, slots=True)
class Masks:
    """Which key a query sees, and what is added to its logit."""

    causal: Tensor  # bool [B]
    sliding_window: int
    attention_chunk_size: int
    tree_mask: Tensor | None  # bool [T, M]
    alibi_slopes: Tensor | None  # float32 [H]
    logits_soft_cap: float


@dataclass(frozen=True, slots=True)
class Tile:
    """R runs of `height` query tokens, at most one run of a request, with what their masks need."""

    requests: Tensor  # int64 [R]
    tokens: Tensor  # int64 [R, Q]: rows of query and out
    positions: Tensor  # int64 [R, Q]: where the token stands among the request's keys
    kv_lens: Tensor  # int64 [R]
    new_starts: Tensor  # int64 [R]: position of the request's first query
    first_keys: Tensor  # int64 [R]: no query of the run sees a key before this
    span: int  # nor one at or after first_keys + span


class _PagedAttention(Kernel):
    """`kernel="torch"`."""

    name = "torch"
    layout = ROW_LAYOUT

    @property
    def isa(self) -> str:
        return str(torch.backends.cpu.get_cpu_capability()).lower()

    def unsupported(self, config: KernelConfig) -> str | None:
        return None

    def write_cache(
        self, key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor, k_scale: float, v_scale: float
    ) -> None:
        if key.shape[0] == 0:
            return
        kept = slot_mapping >= 0
        if not bool(kept.all()):
            key, value, slot_mapping = key[kept], value[kept], slot_mapping[kept]
        block_size = kv_cache.shape[2]
        blocks = torch.div(slot_mapping, block_size, rounding_mode="floor")
        offsets = slot_mapping - blocks * block_size
        keys, values = split_kv(kv_cache, key.shape[2])
        for target, source, scale in ((keys, key, k_scale), (values, value, v_scale)):
            if target.dtype in FP8_DTYPES:
                source, target = quantize(source, scale, target.dtype).view(torch.uint8), target.view(torch.uint8)
            target[blocks, :, offsets] = source

    def paged(
        self,
        query: Tensor,
        kv_cache: Tensor,
        query_start_loc: Tensor,
        seq_lens: Tensor,
        block_table: Tensor,
        out: Tensor,
        lse: Tensor | None,
        scale: float,
        causal: bool | Tensor,
        sliding_window: int,
        attention_chunk_size: int,
        alibi_slopes: Tensor | None,
        logits_soft_cap: float,
        sinks: Tensor | None,
        tree_mask: Tensor | None,
        k_scale: float,
        v_scale: float,
        schedule: Tensor | None,
    ) -> None:
        block_size, head_size = kv_cache.shape[2], query.shape[2]

        def fetch(tile: Tile, positions: Tensor) -> tuple[Tensor, Tensor]:
            used = positions < tile.kv_lens[:, None]  # the table says nothing of the rest
            columns = positions.div(block_size, rounding_mode="floor") * used
            blocks = block_table[tile.requests[:, None], columns].long() * used
            return token_rows(kv_cache, blocks, positions.remainder(block_size), head_size, torch.float32)

        num_kv_heads, width = kv_cache.shape[1], kv_cache.shape[3]
        masks = Masks(
            _per_request(causal, seq_lens),
            sliding_window,
            attention_chunk_size,
            tree_mask,
            alibi_slopes,
            logits_soft_cap,
        )
        for tile in _tiles(query_start_loc, seq_lens, masks, query.shape[1], num_kv_heads * width):
            _attend(tile, fetch, query, num_kv_heads, masks, scale * k_scale, v_scale, sinks, out, lse)

    def varlen(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        query_start_loc: Tensor,
        kv_start_loc: Tensor,
        out: Tensor,
        lse: Tensor | None,
        scale: float,
        causal: bool | Tensor,
        sliding_window: int,
        alibi_slopes: Tensor | None,
        logits_soft_cap: float,
        sinks: Tensor | None,
    ) -> None:
        kv_lens = kv_start_loc[1:] - kv_start_loc[:-1]

        def fetch(tile: Tile, positions: Tensor) -> tuple[Tensor, Tensor]:
            rows = kv_start_loc[tile.requests].long()[:, None] + positions  # [R, N]
            rows = rows * (positions < tile.kv_lens[:, None])
            return key[rows].float().transpose(1, 2), value[rows].float().transpose(1, 2)

        num_kv_heads = key.shape[1]
        masks = Masks(_per_request(causal, kv_lens), sliding_window, 0, None, alibi_slopes, logits_soft_cap)
        for tile in _tiles(
            query_start_loc, kv_lens, masks, query.shape[1], num_kv_heads * (key.shape[2] + value.shape[2])
        ):
            _attend(tile, fetch, query, num_kv_heads, masks, scale, 1.0, sinks, out, lse)


def quantize(x: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """`x / scale` in float32, saturated to what the float8 `dtype` can say, rounded to nearest even."""
    limit = torch.finfo(dtype).max
    return (x.float() / scale).clamp(-limit, limit).to(dtype)


def _per_request(causal: bool | Tensor, lengths: Tensor) -> Tensor:
    return causal if isinstance(causal, Tensor) else torch.full(lengths.shape, causal)


def _tiles(query_start_loc: Tensor, kv_lens: Tensor, masks: Masks, num_heads: int, kv_width: int) -> Iterator[Tile]:
    """Cut the batch into tiles: query tiles of one height together, the ones with similar lengths side by side."""
    starts, lengths = query_start_loc.tolist(), kv_lens.tolist()
    runs: dict[int, list[tuple[int, int, int]]] = {}  # height -> (kv_len, request, first query)
    for request, kv_len in enumerate(lengths):
        query_len = starts[request + 1] - starts[request]
        for first in range(0, query_len, QUERY_TILE):
            runs.setdefault(min(QUERY_TILE, query_len - first), []).append((kv_len, request, first))
    for height, members in runs.items():
        members.sort(reverse=True)
        most = max(1, min(FETCH_LIMIT // (kv_width * 64), SCORE_LIMIT // (num_heads * height * 64)))
        for i in range(0, len(members), most):
            yield _tile(members[i : i + most], height, starts, masks)


def _tile(members: list[tuple[int, int, int]], height: int, starts: list[int], masks: Masks) -> Tile:
    kv_lens = torch.tensor([m[0] for m in members])
    requests = torch.tensor([m[1] for m in members])
    firsts = torch.tensor([m[2] for m in members])
    tokens = torch.tensor([starts[m[1]] + m[2] for m in members])[:, None] + torch.arange(height)
    query_lens = torch.tensor([starts[m[1] + 1] - starts[m[1]] for m in members])
    new_starts = kv_lens - query_lens
    positions = (new_starts + firsts)[:, None] + torch.arange(height)
    first_keys, last_keys = _key_range(positions, kv_lens, masks.causal[requests], masks)
    return Tile(requests, tokens, positions, kv_lens, new_starts, first_keys, int((last_keys - first_keys).max()))


def _key_range(positions: Tensor, kv_lens: Tensor, causal: Tensor, masks: Masks) -> tuple[Tensor, Tensor]:
    """The keys that some query of a run may see, as half-open ranges: int64 [R] twice."""
    low, high = torch.zeros_like(kv_lens), kv_lens
    first, last = positions[:, 0], positions[:, -1]
    if masks.tree_mask is None:
        high = torch.where(causal, torch.minimum(high, last + 1), high)
    if masks.sliding_window:
        low = torch.maximum(low, first - masks.sliding_window + 1)
        high = torch.where(causal, high, torch.minimum(high, last + masks.sliding_window))
    if masks.attention_chunk_size:
        chunk = masks.attention_chunk_size
        low = torch.maximum(low, first.div(chunk, rounding_mode="floor") * chunk)
        high = torch.minimum(high, (last.div(chunk, rounding_mode="floor") + 1) * chunk)
    return low, high


def _visible(tile: Tile, keys: Tensor, masks: Masks) -> Tensor:
    """Which of the `keys` (positions, int64 [R, N]) each query of the tile sees: bool [R, Q, N]."""
    position, keys = tile.positions[:, :, None], keys[:, None, :]
    seen = (keys < tile.kv_lens[:, None, None]).expand(-1, position.shape[1], -1)
    causal = masks.causal[tile.requests][:, None, None]
    if masks.tree_mask is not None:
        new = keys - tile.new_starts[:, None, None]  # index among the request's new tokens
        columns = new.clamp(0, masks.tree_mask.shape[1] - 1).expand(seen.shape)
        seen = seen & ((new < 0) | masks.tree_mask[tile.tokens].gather(2, columns))
    else:
        seen = seen & (~causal | (keys <= position))
    if masks.sliding_window:
        seen = seen & (position - keys < masks.sliding_window) & (causal | (keys - position < masks.sliding_window))
    if masks.attention_chunk_size:
        chunk = masks.attention_chunk_size
        seen = seen & (position.div(chunk, rounding_mode="floor") == keys.div(chunk, rounding_mode="floor"))
    return seen


def _logits(query: Tensor, keys: Tensor, tile: Tile, positions: Tensor, masks: Masks) -> Tensor:
    """Scaled, capped and biased logits `[R, KH, G, Q, N]` of `query` [R, KH, G, Q, D] against `keys` [R, KH, N, D]."""
    runs, num_kv_heads, group, height, head_size = query.shape
    logits = torch.matmul(query.reshape(runs, num_kv_heads, group * height, head_size), keys.transpose(-1, -2))
    logits = logits.view(runs, num_kv_heads, group, height, -1)
    if masks.logits_soft_cap:
        logits.div_(masks.logits_soft_cap).tanh_().mul_(masks.logits_soft_cap)
    if masks.alibi_slopes is not None:
        distance = (positions[:, None, :] - tile.positions[:, :, None]).float()[:, None, None]  # [R, 1, 1, Q, N]
        logits.add_(masks.alibi_slopes.view(1, num_kv_heads, group, 1, 1) * distance)
    return logits


def _attend(
    tile: Tile,
    fetch: Fetch,
    query: Tensor,
    num_kv_heads: int,
    masks: Masks,
    scale: float,
    v_scale: float,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor | None,
) -> None:
    """Attend one tile of queries to its keys and write its rows of `out` and columns of `lse`."""
    runs, height = tile.tokens.shape
    num_heads, head_size = query.shape[1:]
    group = num_heads // num_kv_heads
    q = query[tile.tokens].float().mul_(scale).view(runs, height, num_kv_heads, group, head_size).permute(0, 2, 3, 1, 4)
    head_size_v = out.shape[2]
    top = q.new_full((runs, num_kv_heads, group, height, 1), -torch.inf)  # running maximum
    total = torch.zeros_like(top)  # running sum of exp(logit - top)
    acc = q.new_zeros(runs, num_kv_heads, group, height, head_size_v)
    step = _key_step(runs, num_heads * height, num_kv_heads * (head_size + head_size_v))
    for start in range(0, tile.span, step):
        positions = tile.first_keys[:, None] + torch.arange(start, min(start + step, tile.span))
        keys, values = fetch(tile, positions)
        logits = _logits(q, keys, tile, positions, masks)
        seen = _visible(tile, positions, masks)
        if not bool(seen.all()):
            values = values.masked_fill(~seen.any(1)[:, None, :, None], 0.0)  # a stale NaN times weight 0 is NaN
            logits.masked_fill_(~seen[:, None, None], -torch.inf)
        new_top = torch.maximum(top, logits.amax(-1, keepdim=True))
        shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
        weights = logits.sub_(shift).exp_()
        keep = (top - shift).exp_()
        total = total * keep + weights.sum(-1, keepdim=True)
        flat = weights.view(runs, num_kv_heads, group * height, -1)
        acc = acc.mul_(keep).add_(torch.matmul(flat, values).view_as(acc))
        top = new_top
    _finish(tile, acc, top, total, v_scale, sinks, out, lse)


def _key_step(runs: int, rows: int, kv_width: int) -> int:
    """How many keys to take at once: within the limits, at least 64."""
    return max(64, min(KEY_TILE, FETCH_LIMIT // (runs * kv_width), SCORE_LIMIT // (runs * rows)))


def _finish(
    tile: Tile,
    acc: Tensor,
    top: Tensor,
    total: Tensor,
    v_scale: float,
    sinks: Tensor | None,
    out: Tensor,
    lse: Tensor | None,
) -> None:
    """Add the sink, divide by the sum, and write the tile's rows."""
    runs, num_kv_heads, group, height, head_size_v = acc.shape
    if sinks is not None:
        sink = sinks.view(1, num_kv_heads, group, 1, 1)
        new_top = torch.maximum(top, sink)
        shift = new_top.masked_fill(new_top == -torch.inf, 0.0)
        keep = (top - shift).exp()
        total = total * keep + (sink - shift).exp()
        acc, top = acc * keep, new_top
    result = acc.div_(total.masked_fill(total == 0, 1.0)).mul_(v_scale)
    result = result.permute(0, 3, 1, 2, 4).reshape(runs * height, num_kv_heads * group, head_size_v)
    out[tile.tokens.flatten()] = result.to(out.dtype)
    if lse is not None:
        values = (top + total.log()).permute(0, 3, 1, 2, 4).reshape(runs * height, num_kv_heads * group)
        lse[:, tile.tokens.flatten()] = values.T
