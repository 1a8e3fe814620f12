"""What a keyword that vLLM's callables lost means now: another name, nothing, or what V1 cannot do.

Which keywords went is the index's to say; what their values meant, the table's that `v1-migrate rewrite` goes by.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .notices import LegacyUseError
from .wording import brief

if TYPE_CHECKING:
    from v1_migrate.names.curated import Setting

    from .table import Table

RULE, NEEDS_V0 = "V1M112", "V1M204"  # the plan's: a keyword that went; one that asks for what only V0 could do
_ENGINES = frozenset({"LLM", "EngineArgs", "AsyncEngineArgs"})
_SCALARS = (bool, int, float, str, type(None))
_AS_MUCH_AS = {"best_of": "n"}  # asks for nothing where it is as large as this one
_ASKING = frozenset({"calculate_kv_scales", "device", "enable_prompt_adapter"})  # left out, something would be missing
_MAKE_CONFIGURATIONS = frozenset({"LLM"})  # of a dictionary, while `EngineArgs` keeps it as it is
_CONFIGURATIONS = {"structured_outputs_config": "StructuredOutputsConfig"}
_UNREAD = frozenset(  # fields that vLLM would take without a word, and not read
    ("StructuredOutputsParams", name) for name in ("backend", "backend_was_auto", "disable_fallback")
)
_METHODS: Mapping[tuple[str, str], str] = {
    ("AsyncLLM.add_request", "inputs"): "prompt",
    ("AsyncLLM.do_log_stats", "model_output"): "",
    ("AsyncLLM.get_tokenizer", "lora_request"): "",
    ("LLM.get_tokenizer", "lora_request"): "",
    ("LLMEngine.get_tokenizer", "lora_request"): "",
    ("AsyncLLM.do_log_stats", "scheduler_outputs"): "",
    ("LLMEngine.abort_request", "request_id"): "request_ids",
    ("LLMEngine.add_request", "inputs"): "prompt",
    ("LLMEngine.do_log_stats", "finished_before"): "",
    ("LLMEngine.do_log_stats", "model_output"): "",
    ("LLMEngine.do_log_stats", "scheduler_outputs"): "",
    ("LLMEngine.do_log_stats", "skip"): "",
}
"""Method and keyword -> its name now; "" where V1 knows by itself what it said."""
_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Callee:
    """Something of vLLM's that is called."""

    name: str  # for a person: "EngineArgs", "LLM.generate"
    places: tuple[str, ...]  # where releases have it
    takes: Collection[str]  # by name, in this release

    @property
    def owner(self) -> str:
        """The class."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Settled:
    """A call that vLLM takes."""

    kwargs: dict[str, Any]
    rule: str
    text: str
    since: str
    use: str  # "EngineArgs(swap_space=)"


@dataclass(frozen=True, slots=True)
class _Deed:
    """What is done about a keyword."""

    name: str
    text: str  # "" where it asked for nothing
    advice: str = ""


def settle(table: Table, callee: Callee, kwargs: Mapping[str, Any]) -> Settled | None:
    """The call without what vLLM lost; None where the table knows nothing of any keyword that vLLM does not take.

    A keyword that it does not know stays, for vLLM to refuse.

    Raises
    ------
    LegacyUseError
        A value asks for what is gone.
    """
    done = dict(kwargs)
    deeds: list[_Deed] = []
    rule, since = RULE, ""
    for name in [name for name in kwargs if name not in callee.takes]:
        went = _went(table, callee, name)
        deed = _deed(callee, name, done) if went is not None else None
        if deed is None:
            continue
        deeds.append(deed)
        since = since or went or ""
        if _needs_v0(callee, name, kwargs[name]):
            rule = NEEDS_V0
    if not deeds:
        return None
    said = [deed.text for deed in deeds if deed.text]
    idle = [f"`{deed.name}`" for deed in deeds if not deed.text]
    if idle:
        said.append(f"{', '.join(idle)}, which {'ask' if idle[1:] else 'asks'} for nothing here: delete")
        said[-1] += " them" if idle[1:] else " it"
    words = " ".join(deed.advice for deed in deeds if deed.advice)
    use = _use(callee, *(deed.name for deed in deeds))
    return Settled(done, rule, brief(f"`{callee.name}` lost {'; '.join(said)}.", words), since, use)


def _use(callee: Callee, *names: str) -> str:
    return f"{callee.name}({', '.join(f'{name}=' for name in names)})"


def advice(callee: Callee, name: str) -> str:
    """The table's words for a keyword: for this callee, its field, its option, or its name."""
    from v1_migrate.names.curated import Curated
    from v1_migrate.names.member_settings import member_setting
    from v1_migrate.rules.dropped_values import ADVICE

    for place in callee.places:
        setting, field = member_setting("keyword", place, name), Curated.load().entry(f"{place}.{name}")
        if setting is not None or (field is not None and field.advice):
            return setting.advice if setting is not None else field.advice  # type: ignore[union-attr]
    option = _option(name)
    return ADVICE.get(name, "") or (option.advice if option is not None else "")


def _deed(callee: Callee, name: str, kwargs: dict[str, Any]) -> _Deed | None:
    """Take the keyword out of `kwargs`, and put in what stands for it; None where the table has no word for it."""
    value = kwargs[name]
    instead = _renamed(callee, name, value, kwargs) or _translated(callee, name, value)
    if instead and all(key in callee.takes and kwargs.get(key) is None for key in instead):
        del kwargs[name]
        kwargs.update({key: _configuration(callee, key, new) for key, new in instead.items()})
        renamed = len(instead) == 1 and value is next(iter(instead.values()))
        old, new = (name, f"{next(iter(instead))}=") if renamed else (f"{name}={value!r}", _spelled(callee, instead))
        return _Deed(name, f"`{old}`: write `{new}`")
    as_much = name in _AS_MUCH_AS and kwargs.get(_AS_MUCH_AS[name]) == value
    option = _option(name)
    idle = _METHODS.get((callee.name, name)) == ""
    if as_much or idle or _means_nothing(name, value):
        del kwargs[name]
        return _Deed(name, "")
    if option is not None and option.action == "remove" and name not in _ASKING and _configures(callee):
        del kwargs[name]
        return _Deed(name, f"`{name}={_shown(value)}`, which is left out: delete it", option.advice)
    words = advice(callee, name)
    if (callee.owner, name) in _UNREAD:
        del kwargs[name]
        return _Deed(name, f"`{name}={_shown(value)}`, which is left out: delete it", words)
    if not words:
        return None
    rule = NEEDS_V0 if _needs_v0(callee, name, value) else RULE
    refused = f"{callee.name}({name}={_shown(value)}): this vLLM does not take it"
    error = LegacyUseError(f"{refused}. {words} [{rule}: v1-migrate explain {rule}]")
    error.rule, error.use = rule, _use(callee, name)
    raise error


def _renamed(callee: Callee, name: str, value: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The same value under the keyword's new name."""
    from v1_migrate.names.index import Index
    from v1_migrate.names.member_settings import member_setting, renamed_to
    from v1_migrate.rules.dropped_values import RENAMED

    rows = (member_setting("keyword", place, name) for place in callee.places)
    row = next((row for row in rows if row is not None), None)
    new = (
        RENAMED.get(name)
        or _METHODS.get((callee.name, name))
        or (renamed_to(row, Index.load(user=False).releases[-1]) if row is not None else "")
    )
    return {new: value} if new in callee.takes and kwargs.get(new) is None else {}


def _spelled(callee: Callee, keywords: Mapping[str, Any]) -> str:
    texts = []
    for key, value in keywords.items():
        fields = isinstance(value, dict) and callee.owner not in _MAKE_CONFIGURATIONS
        inner = ", ".join(f"{field}={given!r}" for field, given in value.items()) if fields else ""
        texts.append(f"{key}={_CONFIGURATIONS[key]}({inner})" if fields else f"{key}={value!r}")
    return ", ".join(texts)


def _configuration(callee: Callee, keyword: str, value: Any) -> Any:
    """The fields of a configuration as what the callable takes for it."""
    if not isinstance(value, dict) or callee.owner in _MAKE_CONFIGURATIONS:
        return value
    return getattr(importlib.import_module("vllm.config"), _CONFIGURATIONS[keyword])(**value)


def _translated(callee: Callee, name: str, value: Any) -> dict[str, Any]:
    """The keywords that stand for this very value."""
    from v1_migrate.rules.dropped_values import TRANSLATED

    if not isinstance(value, _SCALARS):
        return {}
    text = next((t for (key, v), t in TRANSLATED.items() if key == name and v == value and type(v) is type(value)), "")
    if not text or ("{}" in text and callee.owner not in _ENGINES):
        return {}
    call = ast.parse(f"f({text.format(repr(value))})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}


def _means_nothing(name: str, value: Any) -> bool:
    from v1_migrate.engine.call_check import means_nothing

    if isinstance(value, _SCALARS):
        return means_nothing(name, ast.Constant(value)) or (name == "device" and value == _device())
    empty = isinstance(value, list | tuple | dict) and not value
    return empty and means_nothing(name, ast.Dict([], []) if isinstance(value, dict) else ast.List([]))


def _device() -> str:
    """The kind of device that vLLM has found."""
    platform = getattr(sys.modules.get("vllm.platforms"), "current_platform", None)
    return getattr(platform, "device_type", "")


def _needs_v0(callee: Callee, name: str, value: Any) -> bool:
    from v1_migrate.engine.switch.needs import NEEDS

    harmless = (need.harmless for need in NEEDS if need.argument == name and callee.owner in need.callables)
    return any(not isinstance(value, _SCALARS) or value not in values for values in harmless)


def _configures(callee: Callee) -> bool:
    """Its keywords are the options of the command line."""
    return callee.name in _ENGINES or any(place.startswith("vllm.config.") for place in callee.places)


@cache
def _option(name: str) -> Setting | None:
    from v1_migrate.names.curated import Curated

    return Curated.load().setting(f"cli:--{name.replace('_', '-')}")


def _went(table: Table, callee: Callee, name: str) -> str | None:
    """The release that took the keyword away, "" if that is not known; None where none ever had it."""
    from v1_migrate.rules.dropped_values import OLDER_THAN_INDEX

    following = table.release
    for release in table.older:
        for place in callee.places:
            if any(param.name == name for param in table.params(place, release) or ()):
                return following
        following = release if ".post" not in release else following
    older = name in OLDER_THAN_INDEX.get(callee.owner, ()) or (_configures(callee) and _option(name) is not None)
    return "" if older else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
