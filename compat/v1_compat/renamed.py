"""Members of enumerations and fields of configurations that vLLM renamed or dropped, under the names V0 had for them.

Platform classes of V0's time read and write these fields of vLLM's own configuration objects. A field that has a
successor is an alias of it; one that could only have one value on V1 reads as that value.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .place import asked_by, unwanted
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
    """Give the configuration classes that a module defines the fields they lost; returns the way back.

    They are asked for last and stand in no class: what lists the attributes of a configuration never meets them.
    """
    undo: list[Callable[[], None]] = []
    for name, fields in FIELDS.items():
        owner = module.__dict__.get(name)
        if not isinstance(owner, type) or owner.__module__ != module.__name__ or hasattr(owner, "__getattr__"):
            continue
        own = getattr(owner, "__dataclass_fields__", {})
        lost = {
            old: field
            for old, field in fields.items()
            if not (old in own or hasattr(owner, old) or (field.new and field.new not in own))
        }
        if lost:
            folder = os.path.join(os.path.dirname(getattr(sys.modules.get("vllm"), "__file__", None) or ""), "")
            given: dict[str, Any] = {
                "__getattr__": _reader(name, lost, folder, say),
                "__setattr__": _writer(owner, name, lost, say),
            }
            undo += [_put(owner, attribute, function) for attribute, function in given.items()]

    def back() -> None:
        while undo:
            undo.pop()()

    return back if undo else None


def _put(owner: type, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    before = owner.__dict__.get(name)
    setattr(owner, name, function)
    return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)


def _reader(name: str, lost: Mapping[str, Field], folder: str, say: Say) -> Callable[[Any, str], Any]:
    def __getattr__(self: Any, attribute: str) -> Any:
        field = lost.get(attribute)
        theirs = field is None or inspect.getattr_static(type(self), attribute, None) is not None
        if field is None or theirs or asked_by(folder) or unwanted(attribute):
            return object.__getattribute__(self, attribute)  # fails as it has failed
        dotted = f"{MODULE}.{name}.{attribute}"
        if field.new:
            say(RULES["moved"], dotted, _renamed(dotted, field))
            return getattr(self, field.new)
        say(RULES["gone"], dotted, f"`{dotted}` is gone; it reads as {field.value!r}. {field.advice}")
        return field.value

    return __getattr__


def _writer(owner: type, name: str, lost: Mapping[str, Field], say: Say) -> Callable[[Any, str, Any], None]:
    write: Any = owner.__setattr__

    def __setattr__(self: Any, attribute: str, value: Any) -> None:
        field = lost.get(attribute)
        if field is None or inspect.getattr_static(type(self), attribute, None) is not None:
            write(self, attribute, value)
            return
        dotted = f"{MODULE}.{name}.{attribute}"
        if field.new:
            say(RULES["moved"], dotted, _renamed(dotted, field))
            setattr(self, field.new, value)
        else:
            say(RULES["gone"], dotted, f"`{dotted}` is gone; vLLM does not read what is set. {field.advice}")
            write(self, attribute, value)

    return __setattr__


def _renamed(dotted: str, field: Field) -> str:
    return f"`{dotted}` is `{field.new}` in this vLLM. Write {field.new}."
