"""What may be passed: each check names the argument, its value and the rule.

Two kinds of checks. The cheap ones (types, dtypes, shapes, strides) run on every call with `validate=True`. The ones
that read tensors (start locations, lengths, block numbers, slots) run where there is no plan; a plan has read them
once for all layers. The order inside a function is the order of the arguments; everything before a `raise` is written
to cost little.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import torch
from torch import Tensor

from v1_cpu.layouts import FP8_DTYPES

_FEW = 64  # up to here a list's minimum and maximum cost less than a call of torch
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _wrong_dtype(name: str, value: Any, rule: str) -> NoReturn:
    got = f"dtype {value.dtype}" if isinstance(value, Tensor) else f"{type(value).__name__} {value!r}"
    raise TypeError(f"{name}: {got}; must be {rule}")


def _wrong(name: str, value: Any, rule: str) -> NoReturn:
    got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"{value!r}"
    raise ValueError(f"{name}: {got}; {rule}")


def tensor(name: str, value: Any, dtype: torch.dtype, dim: int, shape_rule: str, *, contiguous: bool = True) -> None:
    """A CPU tensor of one dtype and rank; `contiguous=False` asks only for `stride(-1) == 1`."""
    if not isinstance(value, Tensor) or value.dtype is not dtype:
        _wrong_dtype(name, value, f"a {dtype} tensor {shape_rule}")
    if value.dim() != dim:
        _wrong(name, value, f"must be {shape_rule}")
    _placed(name, value, contiguous)


def _placed(name: str, value: Tensor, contiguous: bool) -> None:
    if not value.is_cpu:
        raise ValueError(f"{name}: on device {value.device}; must be on the CPU")
    if contiguous:
        if not value.is_contiguous():
            raise ValueError(f"{name}: strides {value.stride()} for shape {tuple(value.shape)}; must be contiguous")
    elif value.stride(-1) != 1 and value.shape[-1] > 1:
        raise ValueError(f"{name}: strides {value.stride()}; the last dimension must be contiguous (stride 1)")


def states(name: str, value: Any, shape_rule: str) -> None:
    """Queries, keys or values: 3-d, of a float dtype that is served."""
    if not isinstance(value, Tensor) or value.dtype not in DTYPES:
        _wrong_dtype(name, value, f"a float32, bfloat16 or float16 tensor {shape_rule}")
    if value.dim() != 3 or value.shape[1] == 0 or value.shape[2] == 0:
        _wrong(name, value, f"must be {shape_rule}, heads and head size at least 1")
    _placed(name, value, False)


def like(name: str, value: Any, other_name: str, other: Tensor, shape: tuple[int, ...], shape_rule: str) -> None:
    """A tensor of another's dtype and a given shape."""
    if not isinstance(value, Tensor) or value.dtype is not other.dtype:
        _wrong_dtype(name, value, f"{other.dtype} like {other_name}; nothing is converted silently")
    if value.shape != shape:
        _wrong(name, value, f"must be {shape_rule}, here {shape}")
    _placed(name, value, False)


def number(name: str, value: Any, *, positive: bool = False) -> None:
    """A finite Python number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = "; use .item()" if isinstance(value, Tensor) else ""
        _wrong_dtype(name, value, f"a Python float{hint}")
    if not math.isfinite(value) or (positive and value <= 0):
        _wrong(name, value, "must be finite" + (" and greater than 0" if positive else ""))


def count(name: str, value: Any, rule: str, least: int = 1) -> None:
    """A Python int of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int):
        _wrong_dtype(name, value, f"an int, {rule}")
    if value < least:
        _wrong(name, value, f"must be at least {least}, {rule}")


def scales(k_scale: Any, v_scale: Any, cache_dtype: torch.dtype) -> None:
    """Cache scales: positive numbers, and 1.0 where the cache is not float8."""
    for name, value in (("k_scale", k_scale), ("v_scale", v_scale)):
        if value.__class__ is float and value == 1.0:
            continue
        number(name, value, positive=True)
        if cache_dtype not in FP8_DTYPES and value != 1.0:
            _wrong(name, value, f"must be 1.0 for a {cache_dtype} cache; only float8 caches are scaled")


def unscaled(k_scale: Any, v_scale: Any) -> bool:
    """Both the plain float 1.0 (a tensor that holds 1.0 is not)."""
    return k_scale.__class__ is v_scale.__class__ is float and k_scale == v_scale == 1.0


def cache(kv_cache: Any, *, num_kv_heads: int | None = None, dtype: torch.dtype | None = None) -> None:
    """A cache tensor `[num_blocks, KH, block_size, D + Dv]`, of the model's dtype or float8."""
    rule = "[num_blocks, KH, block_size, D + Dv]"
    if not isinstance(kv_cache, Tensor):
        _wrong_dtype("kv_cache", kv_cache, f"a tensor {rule}")
    if kv_cache.dtype not in FP8_DTYPES and kv_cache.dtype is not dtype and (dtype or kv_cache.dtype not in DTYPES):
        also = ", view it as torch.float8_e4m3fn or torch.float8_e5m2" if kv_cache.dtype is torch.uint8 else ""
        _wrong_dtype("kv_cache", kv_cache, f"{dtype or 'float32, bfloat16, float16'} or float8{also}")
    if kv_cache.dim() != 4:
        hint = "; v1_cpu.convert_kv_cache reads the layouts of older releases" if kv_cache.dim() in (3, 5) else ""
        _wrong("kv_cache", kv_cache, f"must be {rule}{hint}")
    if num_kv_heads is not None and kv_cache.shape[1] != num_kv_heads:
        _wrong("kv_cache", kv_cache, f"must be {rule} with {num_kv_heads} KV heads, those of key")
    _placed("kv_cache", kv_cache, True)


def written(key: Any, value: Any, kv_cache: Any, slot_mapping: Any, k_scale: Any, v_scale: Any) -> None:
    """Types, dtypes and shapes of the tensors of `write_kv_cache`."""
    try:
        if _written_fit(key, value, kv_cache, slot_mapping) and unscaled(k_scale, v_scale):
            return
    except (AttributeError, TypeError, ValueError, RuntimeError, IndexError):
        pass  # something is no tensor or of another rank; said below
    key_value(key, value)
    cache(kv_cache, num_kv_heads=key.shape[1], dtype=key.dtype)
    if kv_cache.shape[3] != key.shape[2] + value.shape[2]:
        _wrong("kv_cache", kv_cache, f"its last dimension must be D + Dv = {key.shape[2]} + {value.shape[2]}")
    tensor("slot_mapping", slot_mapping, torch.int64, 1, "[T]")
    if slot_mapping.shape[0] != key.shape[0]:
        _wrong("slot_mapping", slot_mapping, f"must be [T], T = {key.shape[0]}, that of key")
    scales(k_scale, v_scale, kv_cache.dtype)


def _written_fit(key: Tensor, value: Tensor, kv_cache: Tensor, slot_mapping: Tensor) -> bool:
    """All of the rules of `written` for the common case, in one expression."""
    tokens, num_kv_heads, head_size = key.shape
    values, value_heads, value_size = value.shape
    _, heads, _, width = kv_cache.shape
    (slots,) = slot_mapping.shape
    dtype = key.dtype
    return (
        dtype in DTYPES
        and value.dtype is dtype
        and kv_cache.dtype is dtype
        and slot_mapping.dtype is torch.int64
        and values == tokens == slots
        and value_heads == num_kv_heads == heads > 0
        and value_size == width - head_size
        and 0 < head_size < width
        and key.stride(2) == 1
        and value.stride(2) == 1
        and kv_cache.is_contiguous()
        and slot_mapping.is_contiguous()
        and key.is_cpu
        and value.is_cpu
        and kv_cache.is_cpu
        and slot_mapping.is_cpu
    )


def key_value(key: Any, value: Any) -> None:
    """Keys `[S, KH, D]` and values `[S, KH, Dv]` of one dtype."""
    states("key", key, "[S, KH, D]")
    states("value", value, "[S, KH, Dv]")
    if value.dtype is not key.dtype:
        raise TypeError(f"value: dtype {value.dtype}; must be {key.dtype} like key; nothing is converted silently")
    if value.shape[:2] != key.shape[:2]:
        raise ValueError(
            f"value: shape {tuple(value.shape)}; must be [S, KH, Dv] with the S and KH of key, {tuple(key.shape[:2])}"
        )


def paged(
    query: Any, kv_cache: Any, query_start_loc: Any, seq_lens: Any, block_table: Any, k_scale: Any, v_scale: Any
) -> None:
    """Types, dtypes and shapes of the tensors of `paged_attention`."""
    try:
        if _paged_fits(query, kv_cache, query_start_loc, seq_lens, block_table) and unscaled(k_scale, v_scale):
            return
    except (AttributeError, TypeError, ValueError, RuntimeError):
        pass  # something is no tensor or of another rank; said below
    states("query", query, "[T, H, D]")
    cache(kv_cache, dtype=query.dtype)
    heads, num_kv_heads = query.shape[1], kv_cache.shape[1]
    if num_kv_heads == 0 or heads % num_kv_heads:
        _wrong("query", query, f"{heads} query heads must be a multiple of the cache's {num_kv_heads} KV heads")
    if kv_cache.shape[3] <= query.shape[2]:
        _wrong("kv_cache", kv_cache, f"last dimension must be D + Dv, more than the query's head size {query.shape[2]}")
    tensor("query_start_loc", query_start_loc, torch.int32, 1, "[B + 1]")
    tensor("seq_lens", seq_lens, torch.int32, 1, "[B]")
    if query_start_loc.shape[0] != seq_lens.shape[0] + 1:
        _wrong("query_start_loc", query_start_loc, f"must be [B + 1], one more than seq_lens has ({seq_lens.shape[0]})")
    tensor("block_table", block_table, torch.int32, 2, "[B, max_blocks]", contiguous=False)
    if block_table.shape[0] != seq_lens.shape[0]:
        _wrong("block_table", block_table, f"must be [B, max_blocks] with B = {seq_lens.shape[0]}, that of seq_lens")
    scales(k_scale, v_scale, kv_cache.dtype)


def _paged_fits(query: Tensor, kv_cache: Tensor, starts: Tensor, lens: Tensor, table: Tensor) -> bool:
    """All of the rules of `paged` for the common case, in one expression: a call costs more than a comparison here."""
    _, heads, head_size = query.shape
    _, num_kv_heads, block_size, width = kv_cache.shape
    batch, _ = table.shape
    dtype, int32 = query.dtype, torch.int32
    return (
        dtype in DTYPES
        and kv_cache.dtype is dtype
        and starts.dtype is int32
        and lens.dtype is int32
        and table.dtype is int32
        and lens.shape == (batch,)
        and starts.shape == (batch + 1,)
        and 0 < head_size < width
        and heads > 0 < num_kv_heads
        and block_size > 0
        and not heads % num_kv_heads
        and query.is_contiguous()
        and kv_cache.is_contiguous()
        and starts.is_contiguous()
        and lens.is_contiguous()
        and table.is_contiguous()
        and query.is_cpu
        and kv_cache.is_cpu
        and starts.is_cpu
        and lens.is_cpu
        and table.is_cpu
    )


def made_by(plan: Any, kind: type, function: str) -> None:
    """That a plan is of the kind that the call takes."""
    if not isinstance(plan, kind):
        raise TypeError(f"plan: {type(plan).__name__}; must be what {function} makes, or None")


def options(
    heads: int,
    batch: int,
    scale: Any,
    causal: Any,
    sliding_window: Any,
    attention_chunk_size: Any,
    alibi_slopes: Any,
    logits_soft_cap: Any,
    sinks: Any,
) -> None:
    """What shapes the logits and the mask."""
    if scale.__class__ is not float or not math.isfinite(scale):
        number("scale", scale)
    if causal is not True and causal is not False:
        tensor("causal", causal, torch.bool, 1, "[B], or a bool")
        if causal.shape[0] != batch:
            _wrong("causal", causal, f"must be [B] with B = {batch}, or a bool")
    if sliding_window is not None:
        count("sliding_window", sliding_window, "the number of keys a query sees, itself included; None is no window")
    if attention_chunk_size is not None:
        count("attention_chunk_size", attention_chunk_size, "the length of a chunk; None is no chunks")
    if logits_soft_cap is not None:
        number("logits_soft_cap", logits_soft_cap, positive=True)
    for name, value in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
        if value is not None:
            tensor(name, value, torch.float32, 1, "[H]")
            if value.shape[0] != heads:
                _wrong(name, value, f"must be [H] with H = {heads}, that of query")


def tree_mask(mask: Any, causal: Any, num_tokens: int, rows: int, max_query_len: int) -> None:
    """A tree mask stands where causality would: a row for each token, or for each row of a padded query."""
    tensor("tree_mask", mask, torch.bool, 2, "[T, max_query_len]", contiguous=False)
    if not num_tokens <= mask.shape[0] <= rows or mask.shape[1] != max_query_len:
        _wrong("tree_mask", mask, f"must be [T, max_query_len], here ({rows}, {max_query_len})")
    if causal is False or (isinstance(causal, Tensor) and not bool(causal.all())):
        _wrong("causal", causal, "must be True with a tree_mask, which replaces causality")


def start_locations(name: str, values: list[int], rows: int, of: str) -> None:
    """Start locations rise from 0 and end within the tensor they cut."""
    if values[0] != 0:
        raise ValueError(f"{name}[0] = {values[0]}; must be 0")
    if len(values) > 2 and sorted(values) != values:
        fall = next(i for i in range(1, len(values)) if values[i] < values[i - 1])
        raise ValueError(f"{name}[{fall}] = {values[fall]} after {values[fall - 1]}; must not fall")
    if values[-1] < 0 or values[-1] > rows:
        raise ValueError(f"{name}[-1] = {values[-1]}; must lie between 0 and the {rows} rows of {of}")


def lengths(seq_lens: list[int], block_table: Tensor, block_size: int, num_blocks: int) -> None:
    """Lengths fit the block table, and its used entries lie in the cache."""
    if not seq_lens:
        return
    columns = block_table.shape[1]
    if min(seq_lens) < 0:
        row = next(i for i, n in enumerate(seq_lens) if n < 0)
        raise ValueError(f"seq_lens[{row}] = {seq_lens[row]}; must not be negative")
    if max(seq_lens) > columns * block_size:
        row = next(i for i, n in enumerate(seq_lens) if n > columns * block_size)
        raise ValueError(
            f"seq_lens[{row}] = {seq_lens[row]}; block_table has {columns} blocks of {block_size} tokens a request, "
            f"room for {columns * block_size}"
        )
    if block_table.numel():
        low, high = torch.aminmax(block_table)
        if int(low) >= 0 and int(high) < num_blocks:
            return  # the usual case; else see whether what is wrong is used
    for row, (length, blocks) in enumerate(zip(seq_lens, block_table.tolist(), strict=True)):
        used = blocks[: -(-length // block_size)]
        if used and (min(used) < 0 or max(used) >= num_blocks):
            column = next(i for i, b in enumerate(used) if not 0 <= b < num_blocks)
            raise ValueError(
                f"block_table[{row}, {column}] = {used[column]}; must be a block of the cache, 0 to {num_blocks - 1}"
            )


def slots(slot_mapping: Tensor, num_slots: int) -> None:
    """Slots are -1 (skipped) or lie in the cache."""
    if slot_mapping.numel() == 0:
        return
    if slot_mapping.numel() <= _FEW:
        values = slot_mapping.tolist()
        low, high = min(values), max(values)
    else:
        low, high = map(int, torch.aminmax(slot_mapping))
    if low >= -1 and high < num_slots:
        return
    for value in (low, high):
        if not -1 <= value < num_slots:
            where = int((slot_mapping == value).nonzero()[0])
            raise ValueError(f"slot_mapping[{where}] = {value}; must be -1 (skip) or 0 to {num_slots - 1}")


def output(out: Any, query: Tensor, head_size_v: int, inputs: tuple[tuple[str, Tensor], ...]) -> None:
    """A given `out` fits and shares no memory with an input."""
    like("out", out, "query", query, (query.shape[0], query.shape[1], head_size_v), "[T, H, Dv]")
    if _overlaps(out):
        raise ValueError(f"out: strides {out.stride()} for shape {tuple(out.shape)}; its rows must not share memory")
    first, last = _extent(out)
    for name, value in inputs:
        start, stop = _extent(value)
        if first < stop and start < last and not _rows_apart(out, first, value, start):
            raise ValueError(f"out: shares memory with {name}; must be a tensor of its own")


def output_fits(out: Any, query: Tensor, kv_cache: Tensor) -> bool:
    """The rules of `output` for the common case: contiguous tensors, each in a memory of its own."""
    if not isinstance(out, Tensor) or out.dtype is not query.dtype or not out.is_contiguous() or not out.is_cpu:
        return False
    tokens, heads, head_size = query.shape
    if out.shape != (tokens, heads, kv_cache.shape[3] - head_size) or not query.is_contiguous():
        return False
    start, of_query, of_cache = out.data_ptr(), query.data_ptr(), kv_cache.data_ptr()
    stop = start + out.nbytes
    return (stop <= of_query or of_query + query.nbytes <= start) and (
        stop <= of_cache or of_cache + kv_cache.nbytes <= start
    )


def _overlaps(value: Tensor) -> bool:
    """Whether two elements may lie in one place: from the smallest stride, each must step over what is inside."""
    if value.is_contiguous() or value.numel() == 0:
        return False
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(value.shape, value.stride(), strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _extent(value: Tensor) -> tuple[int, int]:
    """The first byte of a tensor and the one after its last."""
    start = value.data_ptr()
    if value.is_contiguous():
        return start, start + value.nbytes
    if value.numel() == 0:
        return start, start
    reach = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    return start, start + (reach + 1) * value.element_size()


def _rows_apart(a: Tensor, a_start: int, b: Tensor, b_start: int) -> bool:
    """Two column slices of one matrix: extents meet, but no row of one touches a row of the other."""
    pitch = a.stride(0) * a.element_size()
    if pitch == 0 or pitch != b.stride(0) * b.element_size():
        return False
    rows = [
        (start % pitch, start % pitch + _extent(t[0])[1] - _extent(t[0])[0])
        for t, start in ((a, a_start), (b, b_start))
    ]
    (a0, a1), (b0, b1) = sorted(rows)
    return a1 <= b0 and b1 <= a0 + pitch
