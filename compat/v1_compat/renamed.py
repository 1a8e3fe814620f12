"""Members of enumerations and fields of configurations that vLLM renamed or dropped, under the names V0 had for them.

Platform classes of V0's time read and write these fields of vLLM's own configuration objects. A field that has a
successor is an alias of it; one that could only have one value on V1 reads as that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .table import RULES

MODULE = "vllm.config"
Say = Callable[[str, str, str], None]  # a rule's id, the dotted name, a sentence

MEMBERS: Mapping[str, Mapping[str, str]] = {
    "vllm.config.CompilationLevel": {
        "NO_COMPILATION": "NONE",
        "DYNAMO_AS_IS": "STOCK_TORCH_COMPILE",
        "DYNAMO_ONCE": "DYNAMO_TRACE_ONCE",
        "PIECEWISE": "VLLM_COMPILE",
    }
}
"""Enumeration -> old member -> the member of the successor that means the same."""


@dataclass(frozen=True, slots=True)
class Field:
    """What became of a field."""

    new: str = ""  # the field that means the same now
    value: Any = None  # without one: what V1 does
    advice: str = ""


_NO_STEPS = Field(value=False, advice="V1 has no multi-step scheduling: drop the code for it.")
FIELDS: Mapping[str, Mapping[str, Field]] = {
    "CompilationConfig": {"level": Field("mode")},
    "CacheConfig": {
        "cpu_kvcache_space_bytes": Field("kv_cache_memory_bytes"),
        "swap_space_bytes": Field(value=0, advice="V1 does not swap: drop it."),
    },
    "SchedulerConfig": {
        "chunked_prefill_enabled": Field("enable_chunked_prefill"),
        "is_multi_step": _NO_STEPS,
        "num_scheduler_steps": Field(value=1, advice=_NO_STEPS.advice),
        "multi_step_stream_outputs": Field(value=True, advice=_NO_STEPS.advice),
        "num_lookahead_slots": Field(value=0, advice="V1's scheduler takes it from the speculative configuration."),
        "preemption_mode": Field(advice="V1 recomputes what it preempts: drop it."),
        "delay_factor": Field(value=0.0, advice="V1's scheduler does not delay: drop it."),
        "send_delta_data": Field(value=False, advice="V1 sends differences always: drop it."),
    },
    "ParallelConfig": {
        "sd_worker_cls": Field(value="auto", advice="V1's own runner drafts: set worker_cls alone."),
        "tokenizer_pool_config": Field(advice="Tokenizer pools left vLLM in 0.10.0: drop it."),
    },
    "VllmConfig": {"prompt_adapter_config": Field(advice="Prompt adapters left vLLM in 0.10.0: drop it.")},
}
"""Configuration -> lost field -> what became of it."""


def restore_fields(module: ModuleType, say: Say) -> Callable[[], None] | None:
    """Give the configuration classes that a module defines the fields they lost; returns the way back."""
    given: list[tuple[type, str]] = []
    for name, fields in FIELDS.items():
        owner = module.__dict__.get(name)
        if not isinstance(owner, type) or owner.__module__ != module.__name__:
            continue
        own = getattr(owner, "__dataclass_fields__", {})
        for old, field in fields.items():
            dotted = f"{MODULE}.{name}.{old}"
            if old in own or hasattr(owner, old) or (field.new and field.new not in own):
                continue
            setattr(owner, old, _alias(dotted, field, say) if field.new else _constant(dotted, field, say))
            given.append((owner, old))

    def undo() -> None:
        for owner, old in given:
            delattr(owner, old)

    return undo if given else None


def _alias(dotted: str, field: Field, say: Say) -> property:
    def tell() -> None:
        say(RULES["moved"], dotted, f"`{dotted}` is `{field.new}` in this vLLM. Write {field.new}.")

    def read(self: Any) -> Any:
        tell()
        return getattr(self, field.new)

    def write(self: Any, value: Any) -> None:
        tell()
        setattr(self, field.new, value)

    return property(read, write)


def _constant(dotted: str, field: Field, say: Say) -> property:
    rule, name = RULES["gone"], dotted.rpartition(".")[2]

    def read(self: Any) -> Any:
        say(rule, dotted, f"`{dotted}` is gone; it reads as {field.value!r}. {field.advice}")
        return self.__dict__.get(name, field.value)

    def write(self: Any, value: Any) -> None:
        say(rule, dotted, f"`{dotted}` is gone; vLLM does not read what is set. {field.advice}")
        self.__dict__[name] = value

    return property(read, write)
