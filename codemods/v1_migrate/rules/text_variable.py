"""An environment variable that the target does not read, in a file that is not Python.

## What it does
Takes out variables that mean nothing on V1, and reports the others that the target no longer reads, with what took
their place. Which release reads which variable is read from the releases; variables that are still valid
(`VLLM_CPU_KVCACHE_SPACE`, `VLLM_CPU_OMP_THREADS_BIND`, `VLLM_TARGET_DEVICE`, ...) are never touched.

`VLLM_ATTENTION_BACKEND` is translated, where the file is about the CPU: the backend that V0 called `TORCH_SDPA` is
`TORCH_SDPA_VLLM_V1` on 0.10, `TORCH_SDPA` on 0.11.0, `CPU_ATTN` from 0.11.1 on. From 0.15.0 on the variable is not
read: a `vllm` command gets `--attention-backend CPU_ATTN`, elsewhere the setting goes: a CPU has no other backend.

## Why
A variable that nobody reads is silent: the program runs, and does something else.

## Example
```bash
VLLM_CPU_KVCACHE_SPACE=40 VLLM_ATTENTION_BACKEND=TORCH_SDPA vllm serve facebook/opt-125m
```
becomes, for 0.16.0,
```bash
VLLM_CPU_KVCACHE_SPACE=40 vllm serve facebook/opt-125m --attention-backend CPU_ATTN
```

## Safety
*v1*: what is taken out switched something that V1 does not have. On other devices than the CPU the name of a backend is
kept if the target has it, and reported if not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from packaging.version import Version

from ..engine.textual.arguments import Arguments, argument_lists
from ..engine.textual.environment import Environment, Place
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..kinds import Kind
from ..names.flags import Flag, gone_variables, variables
from .rule import Rule
from .text_switch import SWITCH, of_cpu

if TYPE_CHECKING:
    from ..engine.context import TextFile

BACKEND = "VLLM_ATTENTION_BACKEND"
_CPU_NAMES = frozenset(("TORCH_SDPA", "TORCH_SDPA_VLLM_V1", "CPU_ATTN"))
_ENUMS = (
    "vllm.v1.attention.backends.registry.AttentionBackendEnum",
    "vllm.attention.backends.registry.AttentionBackendEnum",
)
_PROSE = (Kind.MARKDOWN, Kind.RST, Kind.NOTEBOOK, Kind.PATCH)
_ON_A_CPU = (
    "On a CPU leave it out: there is one backend, `{name}`. On other devices it chose the attention of vision "
    "encoders: `--mm-encoder-attn-backend`."
)
_OPTION_SINCE = Version("0.15.0")


class TextVariable(Rule):
    id = "V1M403"
    slug = "text-variable"
    summary = "environment variable that the target does not read"
    severity = Severity.WARNING
    safety = Safety.V1

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        gone = gone_variables(file.judge.target)
        wanted = _wanted(file.judge.target)
        if not wanted.search(file.source.text):
            return
        environment = Environment(file.source.text, Kind(file.kind), wanted)
        dropped = [p for p in environment.places if p.name in gone and gone[p.name].action == "drop" and _settles(p)]
        edits = environment.edits(dropped)
        for place in environment.places:
            if place.name == BACKEND:
                yield from self._backend(file, environment, place)
            else:
                edit = edits.get(place)
                yield self._say(file, gone[place.name], place, (edit,) if edit else ())

    def _say(self, file: TextFile, flag: Flag, place: Place, edits: tuple[Edit, ...]) -> Finding:
        spoken = place.form in ("comment", "text") and (file.kind in _PROSE or place.form == "comment")
        advice = flag.advice or "Look for its successor in vLLM's documentation, or delete it."
        message = f"vLLM {file.judge.target} does not read `{flag.name}`, gone since {flag.gone}"
        return self._finding(file, place, message, Severity.INFO if spoken else Severity.WARNING, advice, edits)

    def _finding(
        self, file: TextFile, place: Place, message: str, severity: Severity, advice: str, edits: tuple[Edit, ...]
    ) -> Finding:
        return file.finding(
            self.id,
            place.start,
            place.end,
            message,
            severity,
            safety=Safety.V1 if edits else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=advice,
            edits=edits,
        )

    # VLLM_ATTENTION_BACKEND

    def _backend(self, file: TextFile, environment: Environment, place: Place) -> Iterator[Finding]:
        target = Version(file.judge.target)
        if place.form != "set":
            if target >= _OPTION_SINCE:
                yield self._say(file, variables()[BACKEND], place, ())
            return
        cpu = of_cpu(file) and place.value in _CPU_NAMES
        wanted = _cpu_backend(target) if cpu else place.value or ""
        if target < _OPTION_SINCE:
            if place.value in _CPU_NAMES and place.value != _cpu_backend(target):
                yield self._renamed(file, place, wanted if cpu else "")
            return
        of_v0 = not cpu and wanted in _CPU_NAMES - {_cpu_backend(target)}  # elsewhere it meant vision encoders
        known = cpu or any(
            file.judge.index.resolve(f"{enum}.{wanted}", file.judge.target).found for enum in _ENUMS if wanted
        )
        known = known and not of_v0
        edits = self._as_option(file, environment, place, wanted) if known else ()
        if not edits and cpu:
            edits = tuple(environment.edits([place]).values())
        advice = f"Say `--attention-backend {wanted}`" if known else f"`{place.value}` is no backend of the target"
        advice += ", or `attention_config={'backend': ...}` in Python."
        if of_v0:
            advice = _ON_A_CPU.format(name=_cpu_backend(target))
        message = f"vLLM {file.judge.target} does not read `{BACKEND}`, gone since {variables()[BACKEND].gone}"
        yield self._finding(file, place, message, Severity.WARNING, advice, edits)

    def _renamed(self, file: TextFile, place: Place, wanted: str) -> Finding:
        """Before 0.15.0: the variable is read, and wants another name."""
        right = _cpu_backend(Version(file.judge.target))
        old = place.value or ""
        message = f"`{BACKEND}={old}` is not what vLLM {file.judge.target} calls the CPU's backend: that is `{right}`"
        at = file.source.text.rfind(old, place.start, place.end)
        edits = (Edit(at, at + len(old), old, wanted),) if wanted and at >= 0 else ()
        advice = f"On a CPU say `{right}`; `TORCH_SDPA` names the attention of vision encoders on other devices."
        return self._finding(file, place, message, Severity.WARNING, advice, edits)

    @staticmethod
    def _as_option(file: TextFile, environment: Environment, place: Place, wanted: str) -> tuple[Edit, ...]:
        """The setting in front of a `vllm` command as an option of that command."""
        for arguments in argument_lists(file.source.text, Kind(file.kind), re.compile(BACKEND)):
            spans = arguments.spans[: arguments.start]
            if any(start <= place.start < end for start, end in spans):
                removed = environment.edits([place]).get(place)
                if removed is None or "--attention-backend" in arguments.words:
                    return ()
                at = _behind_model(arguments)
                return (removed, Edit(at, at, "", f" --attention-backend {wanted}"))
        return ()


def _behind_model(arguments: Arguments) -> int:
    """Behind the first argument if it is no option: the model."""
    first = arguments.start
    positional = first < len(arguments.words) and not arguments.words[first].startswith("-")
    return arguments.spans[first if positional else first - 1][1]


@cache
def _wanted(target: str) -> re.Pattern[str]:
    """Any variable that is gone, but for the engine switch. The common beginning first: that is fast to find."""
    names = "|".join(sorted(name.removeprefix("VLLM_") for name in {*gone_variables(target), BACKEND} - {SWITCH}))
    return re.compile(rf"VLLM_(?:(?<!\wVLLM_)|(?<=\s-eVLLM_))(?:{names})(?!\w)")


def _settles(place: Place) -> bool:
    return place.form in ("set", "unset", "pass")


def _cpu_backend(target: Version) -> str:
    """What `VLLM_ATTENTION_BACKEND` must say for the CPU's backend."""
    if target < Version("0.11.0"):
        return "TORCH_SDPA_VLLM_V1"
    return "TORCH_SDPA" if target < Version("0.11.1") else "CPU_ATTN"
