"""What only V0 could do: arguments that V1 refuses, ignores, or that silently chose V0."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..context import PythonFile

_ENGINES = ("LLM", "EngineArgs", "AsyncEngineArgs")


@dataclass(frozen=True, slots=True)
class Need:
    """An argument, the values that are harmless, and what to do on V1."""

    callables: tuple[str, ...]
    argument: str
    harmless: tuple[object, ...]
    instead: str


NEEDS = (
    Need(
        ("SamplingParams",),
        "logits_processors",
        (None,),
        "V1 takes logits processors per engine: write a `vllm.v1.sample.logits_processor.LogitsProcessor` and pass it"
        " as `LLM(logits_processors=[...])`.",
    ),
    Need(
        ("SamplingParams",),
        "best_of",
        (None, 1),
        "V1 has no `best_of`: ask for `n` completions and pick by `cumulative_logprob`.",
    ),
    Need(_ENGINES, "num_scheduler_steps", (None, 1), "V1 has no multi-step scheduling; drop the argument."),
    Need(_ENGINES, "preemption_mode", (None,), "V1 always recomputes; drop the argument."),
    Need(_ENGINES, "scheduler_delay_factor", (None, 0, 0.0), "V1 has no scheduling delay; drop the argument."),
    Need(_ENGINES, "disable_async_output_proc", (None, False), "V1 has no such switch; drop the argument."),
    Need(_ENGINES, "logits_processor_pattern", (None,), "V1 loads logits processors by name in `logits_processors=`."),
    Need(_ENGINES, "num_lookahead_slots", (None, 0), "Speculative decoding on V1 is set up by `speculative_config=`."),
    Need(_ENGINES, "speculative_model", (None,), "Use `speculative_config={'model': ...}`."),
    Need(_ENGINES, "enable_prompt_adapter", (None, False), "V1 has no prompt adapters; use LoRA."),
    Need(_ENGINES, "use_v2_block_manager", (None, False, True), "V1 has one block manager; drop the argument."),
    Need(_ENGINES, "max_num_partial_prefills", (None, 1), "V1 has no such limit; drop the argument."),
    Need(_ENGINES, "max_long_partial_prefills", (None, 1), "V1 has no such limit; drop the argument."),
)


def v0_needs(file: PythonFile) -> Iterator[tuple[int, str, str]]:
    """Calls in a file that only V0 could serve: (offset, in words, what to do instead)."""
    for found in needed(file):
        yield found.start, f"`{found.need.argument}=`", found.need.instead


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """A keyword that says something only V0 could do, and where its name stands."""

    start: int
    end: int
    need: Need
    value: ast.expr


def needed(file: PythonFile) -> Iterator[Needed]:
    """All such keywords of the file."""
    for found in file.model.every(ast.Call):
        names = {reference.dotted.rpartition(".")[2] for reference in file.by_node.get(id(found.node.func), ())}
        for keyword in found.node.keywords if names else ():
            for need in NEEDS:
                if keyword.arg == need.argument and names & set(need.callables) and not _harmless(keyword.value, need):
                    start = file.source.offset(keyword.lineno, keyword.col_offset)
                    yield Needed(start, start + len(need.argument), need, keyword.value)


def _harmless(value: ast.expr, need: Need) -> bool:
    return isinstance(value, ast.Constant) and value.value in need.harmless
