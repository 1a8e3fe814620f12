"""Faults for the native kernels: each is one text of the C++ sources replaced by a wrong one.

All of them go into one library, behind a number that the process sets (`v1_mutant`): the sources are copied, and each
text becomes a choice between itself and its mutants. The copy also has small tiles, so that a batch of forty tokens
takes several of each kind, and divides every piece of work that can be divided.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from builds import build_hook, emulate_tiles, lacks_tiles, replaced, texts, write_sources

from v1_cpu import native


@dataclass(frozen=True, slots=True)
class Site:
    """A text that occurs once in a file, and what it may become; an expression unless it ends with ';'."""

    file: str
    text: str
    wrong: dict[str, str]  # name of the mutant -> its text
    isa: str = "generic"

    def choice(self, first: int) -> str:
        """The text with its mutants behind the numbers from `first` on."""
        statement = self.text.endswith(";")
        tests = [(f"v1_mutant == {first + i}", text) for i, text in enumerate(self.wrong.values())]
        if statement:
            return "{ " + "".join(f"if ({test}) {{ {text} }} else " for test, text in tests) + f"{{ {self.text} }} }}"
        return "(" + " : ".join(f"{test} ? ({text})" for test, text in tests) + f" : ({self.text}))"


IN_PARTS = "amx on float32"

SMALL_TILES = [
    ("packed.h", "int64_t TILE = GEMM_KEYS;", "int64_t TILE = 64;"),
    ("packed.h", "int64_t QUERY_ROWS = 192;", "int64_t QUERY_ROWS = 32;"),
    ("packed.h", "smaller(budget / tile, ", "smaller(smaller(budget / tile, 2), "),
    ("direct.h", "int64_t DIRECT_TILE = 64;", "int64_t DIRECT_TILE = 16;"),
    ("schedule.cpp", "double SMALL = 8.0;", "double SMALL = 1e-3;"),
    ("schedule.cpp", "double UNEVEN = 1.05;", "double UNEVEN = 0.0;"),
    ("schedule.cpp", "QUERY_STEP = 64;", "QUERY_STEP = 8;"),
    ("schedule.cpp", "KEY_STEP = 256;", "KEY_STEP = 16;"),
    ("schedule.cpp", "LONE_STEP = 32, LONE_LEAST = 64;", "LONE_STEP = 4, LONE_LEAST = 8;"),
]

SITES = [
    # who sees what
    Site(
        "softmax.h",
        "p - c.window + 1",
        {"window one too wide": "p - c.window", "window one short": "p - c.window + 2"},
    ),
    Site("softmax.h", "p + c.window", {"window off by one to the right": "p + c.window + 1"}),
    Site("softmax.h", "r.causal && !c.tree_mask", {"no causality": "false", "tree and causality": "r.causal"}),
    Site(
        "softmax.h",
        "smaller(k.end, p + 1)",
        {"a query does not see itself": "smaller(k.end, p)", "a query sees the next key": "smaller(k.end, p + 2)"},
    ),
    Site("softmax.h", "larger(k.begin, chunk)", {"chunks open to the left": "k.begin"}),
    Site(
        "softmax.h",
        "smaller(k.end, chunk + c.chunk)",
        {
            "chunk boundary off by one": "smaller(k.end, chunk + c.chunk - 1)",
            "chunks open to the right": "k.end",
        },
    ),
    Site("softmax.h", "r.offset = r.kv_len - r.query_len;", {"positions from 0": "r.offset = 0;"}),
    Site(
        "softmax.h",
        "c.causal_per_request[b] != 0",
        {"causality of the first request for all": "c.causal_per_request[0] != 0"},
    ),
    Site(
        "softmax.h",
        "larger(k.end - key, 0)",
        {"one key past the mask": "larger(k.end - key + 1, 0)", "mask the wrong way round": "larger(k.begin - key, 0)"},
    ),
    Site("softmax.h", "smaller(k.begin - key, n)", {"left side not masked": "int64_t(0)"}),
    Site("softmax.h", "!tree[key + j - r.offset]", {"tree mask upside down": "tree[key + j - r.offset]"}),
    Site(
        "softmax.h",
        "larger(r.offset - key, 0)",
        {"tree mask ignored for its first key": "larger(r.offset - key + 1, 0)"},
    ),
    # logits
    Site(
        "softmax.h",
        "float(c.scale * c.k_scale)",
        {"scale dropped": "float(c.k_scale)", "key scale dropped": "float(c.scale)"},
    ),
    Site("softmax.h", "float(c.v_scale) * shrink / sum", {"value scale dropped": "shrink / sum"}),
    Site(
        "softmax.h",
        "l.cap = float(c.soft_cap);",
        {"soft cap dropped": "l.cap = 0;", "soft cap halved": "l.cap = float(c.soft_cap / 2);"},
    ),
    Site(
        "softmax.h",
        "CAP ? l.scale / l.cap * 2 * LOG2E : l.scale * LOG2E",
        {
            "capped logits with half their factor": "CAP ? l.scale / l.cap * LOG2E : l.scale * LOG2E",
            "capped logits in the wrong base": "CAP ? l.scale / l.cap * 2 : l.scale * LOG2E",
        },
    ),
    Site("softmax.h", "l.cap * LOG2E * -2", {"cap of capped logits in the wrong base": "l.cap * -2"}),
    Site("softmax.h", "float(key - p)", {"alibi sign": "-float(key - p)", "alibi off by one": "float(key - p + 1)"}),
    Site("direct.h", "c.alibi_slopes[head]", {"alibi of the wrong head (direct)": "c.alibi_slopes[0]"}),
    Site(
        "packed.h",
        "c.alibi_slopes[item.kv_head * group + row % group]",
        {"alibi of the wrong head (packed)": "c.alibi_slopes[row % group]"},
    ),
    # softmax
    Site("softmax.h", "0.24022120237350464f", {"e^x with a wrong coefficient": "0.2502f"}),
    Site("softmax.h", "0.2260671677921285f", {"coarse e^x with a wrong coefficient": "0.2502f"}, "amx"),
    Site("softmax.h", "m > maximum ? m : maximum", {"maximum of the last tile only": "m"}),
    Site(
        "softmax.h",
        "step.alpha = exp2_of(maximum - step.base);",
        {"rescaled by the wrong sign": "step.alpha = exp2_of(step.base - maximum);"},
    ),
    Site("softmax.h", "sum = vadd(sum, p);", {"sum of the last vector only": "sum = p;"}),
    Site(
        "direct.h",
        "sum[row] = sum[row] * step.alpha + exponentials(scores, padded, logits.factor, step.base);",
        {
            "running sum not rescaled (direct)": "sum[row] = sum[row] + exponentials(scores, padded, logits.factor, step.base);"
        },
    ),
    Site("direct.h", "step.alpha != 1.0f", {"output not rescaled (direct)": "false"}),
    Site(
        "packed.h",
        "vmul(vload(sum + first + row), rescale)",
        {"running sum not rescaled (packed)": "vload(sum + first + row)"},
    ),
    Site("packed.h", "alpha[i] != 1.0f", {"output not rescaled (packed)": "false"}),
    Site("packed.h", "limited && !small", {"weights of an overtaken maximum": "false"}),
    Site(
        "packed.h",
        "small &= totals[row / W][i] < LARGEST_WEIGHTS;",
        {"overtaken maxima of the last row only": "small = totals[row / W][i] < LARGEST_WEIGHTS;"},
    ),
    Site("packed.h", "larger(all.begin, row_keys[row].begin)", {"open before a row's window": "all.begin"}),
    Site("packed.h", "smaller(all.end, row_keys[row].end)", {"open past a row's last key": "all.end"}),
    Site("packed.h", "key + open.end", {"closed keys taken for the first": "key"}),
    Site(
        "packed.h",
        "weigh(s, w, open.begin, base[i])",
        {"weights before open columns not summed": "(weigh(s, w, open.begin, base[i]), vzero())"},
    ),
    Site("gemm.h", "vload(sums_by_lanes + row * W + r * W)", {"sum of the last panel only": "vzero()"}),
    Site("gemm.h", "vset(-maximum[row + r])", {"another row's maximum": "vset(-maximum[row])"}),
    Site(
        "softmax.h",
        "c.sinks[head] * LOG2E",
        {"sink of the wrong head": "c.sinks[0] * LOG2E", "sink in the wrong base": "c.sinks[head]"},
    ),
    Site("softmax.h", "sum * shrink + exp2_of(sink - base)", {"sink dropped": "sum * shrink"}),
    Site(
        "softmax.h",
        "maximum * LN2 + __builtin_logf(sum)",
        {"lse without the maximum": "__builtin_logf(sum)", "lse in base 2": "maximum + __builtin_logf(sum)"},
    ),
    # heads, rows, blocks
    Site(
        "softmax.h",
        "kv_head * call.key_head",
        {"keys of the wrong head": "(kv_head + 1) % call.num_kv_heads * call.key_head"},
    ),
    Site(
        "softmax.h",
        "kv_head * call.value_head",
        {"values of the wrong head": "(kv_head + 1) % call.num_kv_heads * call.value_head"},
    ),
    Site(
        "softmax.h", "c.block_table + b * c.table_row", {"table of the first request for all": "c.block_table + 0 * b"}
    ),
    Site(
        "softmax.h",
        "key + r.table[block] * c.key_block",
        {"keys of the block before": "key + r.table[larger(block - 1, 0)] * c.key_block"},
    ),
    Site(
        "softmax.h",
        "value + r.table[block] * c.value_block",
        {"values of the block before": "value + r.table[larger(block - 1, 0)] * c.value_block"},
    ),
    Site(
        "softmax.h",
        "kb + offset * c.key_token",
        {"wrong slot of the block": "kb + (c.block_size - 1 - offset) * c.key_token"},
    ),
    Site(
        "softmax.h",
        "value + (r.kv_start + begin + j) * c.value_token",
        {"dense values of the first request for all": "value + (begin + j) * c.value_token"},
    ),
    Site(
        "direct.h",
        "smaller(seen.end, item.key_end)",
        {
            "last keys skipped (direct)": "smaller(seen.end, item.key_end) - (seen.end > c.block_size ? c.block_size : 0)"
        },
    ),
    Site(
        "direct.h",
        "larger(seen.begin, item.key_begin)",
        {"first key of a part skipped (direct)": "larger(seen.begin, item.key_begin) + (item.key_begin > 0)"},
    ),
    Site(
        "packed.h",
        "range.begin + index * M::KEYS < seen.end",
        {"last tile skipped (packed)": "range.begin + index * M::KEYS < seen.end - M::KEYS"},
    ),
    Site("packed.h", "held[slot] == index", {"a tile kept for another": "held[slot] >= 0"}),
    Site("packed.h", "larger(k.begin, range.begin)", {"rows keep what is before their part (packed)": "k.begin - 1"}),
    # divided work
    Site(
        "kernels.h",
        "maximum == MINUS_INFINITY ? 0.0f : exp2_of(part[0] - maximum)",
        {"parts merged unweighted": "1.0f"},
    ),
    Site("kernels.h", "sum += weight * part[1];", {"sums of parts unweighted": "sum += part[1];"}),
    Site("kernels.h", "o[j] += weight * part[2 + j];", {"only the last part": "o[j] = weight * part[2 + j];"}),
    Site("kernels.h", "(g->partial_row + row) * stride", {"first row of a part for all": "g->partial_row * stride"}),
    Site(
        "schedule.cpp",
        "i ? cut(i) : 0",
        {"a key between two parts lost": "i ? cut(i) + 1 : 0", "a key in two parts": "i ? cut(i) - 1 : 0"},
    ),
    # the cache
    Site("write.h", "widen(from[i]) / scale", {"written without its scale": "widen(from[i])"}),
    Site(
        "write.h",
        "slot - block * w.block_size",
        {"written to the wrong slot": "w.block_size - 1 - (slot - block * w.block_size)"},
    ),
    Site(
        "write.h",
        "write_tokens<S, e4m3>(w, begin, end)",
        {"e4m3 written as e5m2": "write_tokens<S, e5m2>(w, begin, end)"},
    ),
    Site(
        "kernels.h",
        "if (c->kv_type == V1_E4M3) attend_with<e4m3>(*c, r, *item, partial, scratch);",
        {"e4m3 read as e5m2": "if (c->kv_type == V1_E4M3) attend_with<e5m2>(*c, r, *item, partial, scratch);"},
    ),
    Site("dispatch.cpp", "i / pieces * 2", {"blocks of the first pair for all": "0 * i"}),
    Site("dispatch.cpp", "i % pieces * step", {"only the first piece of a block copied": "0 * i"}),
    Site(
        "types.h",
        "magnitude >= 0x7f800000 || code > MAX ? MAX : code",
        {"float8 not saturated": "magnitude >= 0x7f800000 || code > MAX ? MAX + 1 : code"},
    ),
    Site("amx_decode.h", "c.alibi_slopes[head]", {"alibi of the wrong head (tiles)": "c.alibi_slopes[0]"}, "amx"),
    Site(
        "amx_decode.h",
        "sum[row] = sum[row] * step.alpha + vsum(total);",
        {"running sum not rescaled (tiles)": "sum[row] = sum[row] + vsum(total);"},
        "amx",
    ),
    Site("amx_decode.h", "step.alpha != 1.0f", {"output not rescaled (tiles)": "false"}, "amx"),
    Site(
        "amx_decode.h",
        "smaller(row_keys[row].end, seen.end)",
        {"keys past the end (tiles)": "key + DECODE_TILE"},
        "amx",
    ),
    Site(
        "amx_decode.h",
        "first >= seen.begin && first + 16 <= seen.end",
        {"what is not seen read as it lies (tiles)": "first >= seen.begin && first < seen.end"},
        "amx",
    ),
    Site(
        "amx_decode.h",
        "converted_element(32 * step + i)",
        {"order of converted elements forgotten (tiles)": "32 * step + i"},
        "amx",
    ),
    Site(
        "amx_decode.h",
        "vadd(vload(o + line(row, 1)), vload(o + line(row, 3)))",
        {"odd columns of the wrong lines (tiles)": "vload(o + line(row, 0))"},
        "amx",
    ),
    Site("amx.h", "rows - r > 16", {"only sixteen rows of thirty-two (tiles)": "false"}, "amx"),
    Site(
        "amx.h",
        "STORE_BLOCK(0);\n      BEGIN_BLOCK(0);",
        {"an accumulator stored after the next block has begun (tiles)": "BEGIN_BLOCK(0); STORE_BLOCK(0);"},
        "amx",
    ),
    Site(
        "amx.h",
        "_tile_dpbf16ps(2, 5, 6);\n        BEGIN_BLOCK(3);",
        {
            "an accumulator stored twice, the second time too late (tiles)": "_tile_dpbf16ps(2, 5, 6); BEGIN_BLOCK(3); STORE_BLOCK(3);"
        },
        "amx",
    ),
    Site(
        "amx.h",
        "done = c0;",
        {"an accumulator stored where the first block was (tiles)": "done = done ? done : c0;"},
        "amx",
    ),
    # numbers in parts
    Site(
        "pack.h",
        "low = vsub(low, (V)_mm512_and_si512(a, upper));",
        {"the first part again instead of the second (parts)": ";"},
        IN_PARTS,
    ),
    Site(
        "gemm.h",
        "word / W * 2 * W + word % W + half * W",
        {"neighbouring keys in a word of values (parts)": "2 * word + half"},
        IN_PARTS,
    ),
    Site(
        "pack.h",
        "if (Order<T>::paired) to_pair_order(line, padded);",
        {"queries in another order than float8 keys (parts)": ";"},
        IN_PARTS,
    ),
    Site("pack.h", "w + p * plane", {"weights' parts in one place": "w"}, IN_PARTS),
    Site("pack.h", "out + p * words + i / 2", {"queries' parts in one place": "out + i / 2"}, IN_PARTS),
    Site("amx.h", "r + 16 < rows", {"only sixteen rows of thirty-two (parts)": "false"}, IN_PARTS),
]


def names() -> list[tuple[str, str, int]]:
    """Every mutant: its name, the instruction set it is looked for on, and its number."""
    found: list[tuple[str, str, int]] = []
    for site in SITES:
        for name in site.wrong:
            found.append((name, site.isa, len(found) + 1))
    return found


def sources(sites: list[Site], small_tiles: list[tuple[str, str, str]]) -> dict[str, str]:
    """The sources with small tiles and all mutants; AMX's tiles are emulated where the CPU has none."""
    changed = texts()
    for file, old, new in small_tiles:
        changed[file] = replaced(changed[file], old, new, file)
    first = 1
    for site in sites:
        changed[site.file] = replaced(changed[site.file], site.text, site.choice(first), site.file)
        first += len(site.wrong)
    changed["abi.h"] += '\nextern "C" __attribute__((visibility("default"))) int v1_mutant;\n'
    changed["dispatch.cpp"] += "\nint v1_mutant = 0;\n"
    if lacks_tiles():
        emulate_tiles(changed)
    return changed


def build(
    target: Path,
    wanted: set[str],
    sites: list[Site] = SITES,
    small_tiles: list[tuple[str, str, str]] = SMALL_TILES,
) -> None:
    """The library of all mutants, unoptimised (seconds instead of a minute), for those of `wanted` that run here."""
    here = native.instruction_sets() if native.LIBRARY.exists() else {}
    runnable = {isa for isa in wanted if here.get(isa)} | ({"amx"} if lacks_tiles() else set())
    with tempfile.TemporaryDirectory() as folder:
        write_sources(sources(sites, small_tiles), Path(folder))
        build_hook().compile_library(Path(folder), target, extra_flags=("-O0",), only=sorted(runnable & wanted))
