"""Fields that vLLM's values lost (parameters, outputs, statistics), under the names V0 had for them.

A field that V1 has under another name, or can compute, is served; one that has a single value on V1 reads as that; any
other is an AttributeError that says what to read. Each is a descriptor in vLLM's class, so that no look-up of another
name costs more than without the shim; a `__getattr__` would slow all of them down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .mode import Mode
from .notices import LegacyMemberError
from .place import asked_by, unwanted

if TYPE_CHECKING:
    from .serve import Server

RULE = "V1M102"  # the plan's: a member that went


@dataclass(frozen=True, slots=True)
class Field:
    """What became of a field. Without `new`, `compute` and `value` there is nothing that stands for it."""

    advice: str
    new: str = ""  # the field that means the same now
    compute: Callable[[Any], Any] | None = None  # from a value of V1's
    value: tuple[Any, ...] = ()  # the one that V1 has
    old: str = ""  # of another class of V0's: its dotted name


def first_token_time(stats: Any) -> float | None:
    """When the first token came, by the wall clock; None before it did."""
    return stats.arrival_time + stats.first_token_latency if stats.first_token_latency else None


def by_the_wall_clock(stats: Any, stamp: float) -> float | None:
    """A time stamp of the engine's clock as V0 gave it: both clocks are known for the first token."""
    first = first_token_time(stats)
    return None if first is None or not stamp else first + (stamp - stats.first_token_ts)


def _first_scheduled(stats: Any) -> float | None:
    return by_the_wall_clock(stats, stats.scheduled_ts)


def _last_token(stats: Any) -> float | None:
    return by_the_wall_clock(stats, stats.last_token_ts)


def _in_queue(stats: Any) -> float | None:
    return stats.scheduled_ts - stats.queued_ts if stats.scheduled_ts else None


_STATS = "vllm.sequence.RequestMetrics"
_GUIDED = "vllm.sampling_params.GuidedDecodingParams"
_ACTIVATION = "Read `use_activation`, one switch for all tasks."
_BEAMS = "Beam search is `LLM.beam_search(prompts, BeamSearchParams(...))`."
_TRUNCATION = "V1 truncates before a request is made: `tokenization_kwargs` of the call, beside the prompts."
_CHOSEN = "It is the engine's: `structured_outputs_config`."
_STAMPS = "Read `{}` against `{}`: both are of the engine's monotonic clock."
_TRACED = Field("V1 does not measure it by request (V0 did with detailed traces): drop it.", value=(None,), old=_STATS)
_PATH = Field("Read `lora_path`.", new="lora_path")
_GROUPS = Field("V1 has no sequence groups: vllm.v1.engine.output_processor makes outputs; tests call the constructor.")

FIELDS: Mapping[str, Mapping[str, Mapping[str, Field]]] = {
    "vllm.sampling_params": {
        "SamplingParams": {
            "best_of": Field("V1 samples `n` and keeps them all: read `n`.", value=(None,)),
            "early_stopping": Field(_BEAMS, value=(False,)),
            "guided_decoding": Field("Read `structured_outputs`.", new="structured_outputs"),
            "length_penalty": Field(_BEAMS, value=(1.0,)),
            "logits_processors": Field(
                "V1 takes logits processors for the whole engine: `LLM(logits_processors=[...])`.", value=(None,)
            ),
            "truncate_prompt_tokens": Field(_TRUNCATION, value=(None,)),
            "use_beam_search": Field(_BEAMS, value=(False,)),
        },
        "StructuredOutputsParams": {
            "backend": Field(_CHOSEN, new="_backend", old=_GUIDED),
            "backend_name": Field(_CHOSEN, new="_backend", old=_GUIDED),
            "backend_was_auto": Field(_CHOSEN, new="_backend_was_auto", old=_GUIDED),
            "disable_fallback": Field(_CHOSEN, value=(False,), old=_GUIDED),
        },
    },
    "vllm.pooling_params": {
        "PoolingParams": {
            "activation": Field(_ACTIVATION, new="use_activation"),
            "additional_data": Field("V1 hands nothing on: `extra_kwargs` is for models of your own.", value=(None,)),
            "normalize": Field(_ACTIVATION, new="use_activation"),
            "softmax": Field(_ACTIVATION, new="use_activation"),
            "truncate_prompt_tokens": Field(_TRUNCATION, value=(None,)),
            "use_cross_encoder": Field("`LLM.score` knows it from the model: drop it.", value=(False,)),
        }
    },
    "vllm.lora.request": {
        "LoRARequest": {
            "local_path": _PATH,
            "long_lora_max_len": Field("Long context LoRA is gone: drop it.", value=(None,)),
            "lora_local_path": _PATH,
            "tensorizer_config_dict": Field("Adapters are no longer read by tensorizer: drop it.", value=(None,)),
        }
    },
    "vllm.v1.metrics.stats": {
        "RequestStateStats": {
            "finished_time": Field(_STAMPS.format("last_token_ts", "first_token_ts"), compute=_last_token, old=_STATS),
            "first_scheduled_time": Field(
                _STAMPS.format("scheduled_ts", "queued_ts"), compute=_first_scheduled, old=_STATS
            ),
            "first_token_time": Field(
                "Read `first_token_latency`, the time from the arrival to it.", compute=first_token_time, old=_STATS
            ),
            "last_token_time": Field(
                _STAMPS.format("last_token_ts", "first_token_ts"), compute=_last_token, old=_STATS
            ),
            "model_execute_time": _TRACED,
            "model_forward_time": _TRACED,
            "scheduler_time": _TRACED,
            "spec_token_acceptance_counts": Field(
                "V1 counts for the whole engine: `LLM.get_metrics()`, vllm:spec_decode_num_accepted_tokens_per_pos.",
                value=(None,),
                old=_STATS,
            ),
            "time_in_queue": Field("Write `scheduled_ts - queued_ts`.", compute=_in_queue, old=_STATS),
        }
    },
    "vllm.outputs": {
        "RequestOutput": {
            "from_seq_group": _GROUPS,
            "multi_modal_placeholders": Field(
                "Outputs do not have it; inside the engine it is mm_features[i].mm_position of the request."
            ),
            "prompt_routed_experts": Field("Read `routed_experts` of each of `outputs`."),
        },
        "PoolingRequestOutput": {"from_seq_group": _GROUPS},
        "PoolingOutput": {"embedding": Field("Write `data.tolist()`.", compute=lambda output: output.data.tolist())},
        "ScoringOutput": {"embedding": Field("Read `score`.", compute=lambda output: [output.score])},
    },
}
"""Module -> class -> lost field -> what became of it."""


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Give the classes of a module the fields they lost; returns the way back."""
    put: list[tuple[type, str]] = []
    for name, fields in FIELDS.get(module.__name__, {}).items():
        cls: Any = module.__dict__.get(name)
        for old, field in fields.items() if isinstance(cls, type) else ():
            if not _has(cls, old) and (not field.new or _has(cls, field.new)):
                setattr(cls, old, _Lost(cls, old, field, server))
                put.append((cls, old))

    touched = {cls for cls, _ in put}
    for cls in touched:
        cls.__dir__ = _without_lost(cls)

    def back() -> None:
        for cls in touched:
            del cls.__dir__
        for cls, old in put:
            if isinstance(cls.__dict__.get(old), _Lost):
                delattr(cls, old)

    return back if put else None


def _without_lost(cls: type) -> Callable[[Any], list[str]]:
    """`dir` of an object: who goes through its names uses none of V0's."""
    own: Any = cls.__dir__

    def __dir__(self: Any) -> list[str]:
        kept = getattr(self, "__dict__", {})
        return [name for name in own(self) if name in kept or not _is_lost(type(self), name)]

    return __dir__


def _is_lost(cls: type, name: str) -> bool:
    """What the class has under the name is the shim's."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return isinstance(found, _Lost)


def _has(cls: Any, name: str) -> bool:
    fields = (*getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "__struct_fields__", ()))
    annotated = any(name in vars(base).get("__annotations__", ()) for base in cls.__mro__)
    return name in fields or hasattr(cls, name) or annotated


class _Lost:
    """A field that went. Who is ready for that, vLLM's own lines and the class itself find it lost."""

    def __init__(self, cls: type, name: str, field: Field, server: Server) -> None:
        self._cls, self._name, self._field, self._server = cls, name, field, server
        self._dotted = f"{field.old or f'{cls.__module__}.{cls.__qualname__}'}.{name}"

    def __get__(self, instance: Any, owner: type) -> Any:
        name, field = self._name, self._field
        kept = getattr(instance, "__dict__", {})
        if name in kept:
            return kept[name]
        if asked_by(self._server.folder) or unwanted(name) or _listed():
            raise AttributeError(f"{owner.__name__!r} object has no attribute {name!r}", name=name, obj=instance)
        served = bool(field.new or field.compute or field.value) and instance is not None
        now = f"`{self._cls.__name__}.{name}` is gone"
        if not served:
            text = f"{now}. {field.advice}"
            if self._server.notices.mode is Mode.REPORT:
                self._server.say(RULE, self._dotted, text, "")
            words = f"{text} [{RULE}: v1-migrate explain {self._dotted}]"
            raise LegacyMemberError(words, name=name, obj=owner if instance is None else instance)
        reads = f"; it reads as {field.value[0]!r}" if field.value else ""
        self._server.say(RULE, self._dotted, f"{now}{reads}. {field.advice}", "")
        if field.value:
            return field.value[0]
        return field.compute(instance) if field.compute is not None else getattr(instance, field.new)

    def __set__(self, instance: Any, value: Any) -> None:
        name, field = self._name, self._field
        if type(instance) is self._cls:  # a class of somebody's own may have a field of the name
            if field.new and not field.new.startswith("_"):
                self._server.say(RULE, self._dotted, f"`{self._cls.__name__}.{name}` is gone. {field.advice}", "")
                setattr(instance, field.new, value)
                return
            if hasattr(instance, "__dict__"):
                text = f"`{self._cls.__name__}.{name}` is gone; vLLM does not read what is set. {field.advice}"
                self._server.say(RULE, self._dotted, text, "")
        try:
            vars(instance)[name] = value
        except TypeError:
            raise AttributeError(f"{type(instance).__name__!r} object has no attribute {name!r}", name=name) from None


def _listed() -> bool:
    """A module that goes through the names of a class or an object asks."""
    return sys._getframe(2).f_globals.get("__name__") in ("inspect", "dataclasses", "unittest.mock")
