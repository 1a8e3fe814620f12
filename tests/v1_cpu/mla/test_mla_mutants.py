"""Wrong implementations are caught: each mutant replaces one text of a module, and some case must notice."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from latents import check, make

LENS = [(1, 33), (60, 60), (3, 40), (1, 17), (0, 4), (70, 75)]  # "auto" takes both forms
MUTANTS = [
    ("paged scale dropped", "kernels", "scale * kv_scale, kv_scale, None", "scale, kv_scale, None"),
    ("value scale dropped", "kernels", "scale * kv_scale, kv_scale, None", "scale * kv_scale, 1.0, None"),
    ("wrong slot of the block", "kernels", "positions.remainder(block_size)", "(positions + 1).remainder(block_size)"),
    ("values start a number late", "kernels", "keys[..., :rank]", "keys[..., 1 : rank + 1]"),
    ("rope part dropped", "attention", "latent_query[..., rank:] = q[..., nope:]", "latent_query[..., rank:] = 0"),
    (
        "wrong half of the projection",
        "attention",
        "kv_up[:, nope:].transpose(1, 2)",
        "kv_up[:, :-nope].transpose(1, 2)",
    ),
    ("float8 scale forgotten", "attention", ".mul_(kv_scale)", ""),
    ("rope key of the wrong token", "attention", "rope_keys.expand(", "rope_keys.roll(1, 0).expand("),
    ("rows of the whole batch", "plan", "if starts[requests[-1] + 1] == sum(lens):", "if True:"),
    ("slots of the first block", "plan", "blocks * block_size + positions", "blocks[:1] * block_size + positions"),
    ("lengths of other requests", "plan", "seq_lens[picked]", "seq_lens[picked.flip(0)]"),
]


def failures() -> int:
    failed = 0
    for form, cache in (("absorbed", "auto"), ("expanded", "auto"), ("auto", "fp8_e4m3"), ("expanded", "fp8_e4m3")):
        try:
            batch = make(LENS, kv_cache_dtype=cache, rank=32, nope=16, v=16)
            check(batch, "torch", form)
        except (AssertionError, IndexError, RuntimeError, ValueError):
            failed += 1
    return failed


def test_the_code_itself_fails_nothing() -> None:
    assert failures() == 0


@pytest.mark.parametrize(
    ("module", "old", "new"), [pytest.param(module, old, new, id=name) for name, module, old, new in MUTANTS]
)
def test_a_wrong_implementation_is_caught(module: str, old: str, new: str) -> None:
    target = importlib.import_module(f"v1_cpu.mla.{module}")
    assert target.__file__ is not None
    source = Path(target.__file__).read_text()
    assert old in source, f"{module} no longer contains {old!r}"
    kept = dict(target.__dict__)
    functions = {
        n: f for n, f in kept.items() if getattr(f, "__module__", "") == target.__name__ and hasattr(f, "__code__")
    }
    codes = {name: function.__code__ for name, function in functions.items()}
    space: dict[str, object] = {"__name__": target.__name__}
    exec(compile(source.replace(old, new), f"{module}, mutated", "exec"), space)
    try:
        for name, function in functions.items():
            function.__code__ = space[name].__code__  # type: ignore[attr-defined]
        assert failures(), "this mutant computes wrongly and no case noticed"
    finally:
        for name, function in functions.items():
            function.__code__ = codes[name]
