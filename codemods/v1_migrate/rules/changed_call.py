"""A call that the target's function or class refuses.

## What it does
Binds the arguments of each call of a vLLM function, class or method to the target's parameters: unknown keywords, too
many positional arguments, missing required ones. Methods are found through what the file says of an object (`x: LLM`,
`x = LLM(...)`, `self.x = LLM(...)`) and through `super()`.

## Why
A name that survived is no promise that its call did. The failure is a TypeError when the line is reached.

## Example
```python
from vllm.attention.selector import get_attn_backend

get_attn_backend(64, dtype, "auto", 16, False, use_v1=True)
```
The finding names the parameters that the target has.

## Safety
*manual*. What can be dropped, named or translated is the business of V1M112, where that alone makes the call fit. A
call that would still be refused is left as it was written: what is gone tells which release it was written for.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..engine.call_check import Diagnosis, diagnoses
from ..engine.callshape import spelled
from ..findings import Effort, Finding, Severity
from .metadata_builder import handled_elsewhere
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_MOST_SPELLED = 12


class ChangedCall(Rule):
    id = "V1M113"
    slug = "changed-call"
    summary = "call that the target refuses"
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for found in diagnoses(file):
            if refusal_is_said(file, found):
                yield self._say(file, found)

    def _say(self, file: PythonFile, found: Diagnosis) -> Finding:
        accepted = [release for release, _ in found.callee.accepting(found.given)]
        new, target = found.callee.new, file.judge.target
        start, end = file.span(found.call.func)
        written = f"vLLM {accepted[-1]} takes it" if accepted else "no earlier release we know takes it either"
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {target} refuses this call of `{new}` ({'; '.join(_reasons(found))}); {written}",
            Severity.ERROR,
            effort=Effort.MINUTES,
            advice=_parameters(found),
            name=found.callee.old,
        )


def refusal_is_said(file: PythonFile, found: Diagnosis) -> bool:
    """This rule speaks of the call, if it is selected."""
    if not found.refused or found.callee.contract or handled_elsewhere(found.callee.old):
        return False
    if _only_misses(found) and found.carried and file.settings.selected("V1M112"):
        return False  # what carries the value has another name now: V1M112 says both
    # Else no release is known to take it, and what is written here is not what it looks like.
    return bool(found.callee.accepting(found.given) or found.alien or _is_for_the_target(found))


def deeds(found: Diagnosis) -> str:
    """What an edit does to a call, or would do if the call fitted then."""
    out = []
    for names, why in ((found.dropped, "asked for nothing here"), (found.handed_on, "nothing passes it any more")):
        if names:
            listed = ", ".join(f"`{name}`" for name in names)
            out.append(f"{listed} {'is' if len(names) == 1 else 'are'} gone and {why}")
    if found.translated:
        out.append(", ".join(f"`{old}` is `{new}` now" for old, new in found.translated))
    if found.named:
        done = "arguments are named, since their positions changed"
        out.append(done if found.edited else "the positions of arguments changed")
    return "; ".join(out)


def _parameters(found: Diagnosis) -> str:
    """The target's parameters; of a long list, those that are required and those called like what it does not know."""
    params, name = found.callee.params, found.callee.new.rpartition(".")[2]
    if len(params) <= _MOST_SPELLED:
        return f"The parameters there: `{name}({spelled(params)})`."
    like = {each for alien in found.alien for each in get_close_matches(alien, [p.name for p in params], 3)}
    required = [p for p in params if not p.default and not p.kind.startswith("var_")]
    text = f"`{name}` has {len(params)} parameters there"
    text += f"; required: `{spelled(required)}`" if required else "; none is required"
    if found.alien:
        near = ", ".join(f"`{p.name}`" for p in params if p.name in like)
        text += f"; called alike: {near}" if near else "; none is called alike"
    return text + "."


def _is_for_the_target(found: Diagnosis) -> bool:
    """Of what the target requires, more is there than is missing: so it is in a call that somebody edited halfway."""
    if found.stuck or found.misfit.repeated:
        return False
    params, given = found.callee.params, found.given
    by_position = [param.name for param in params if param.kind in ("pos", "pos_or_kw")]
    there = {*given.names, *by_position[: len(given.positional)]}
    required = [param.name for param in params if not param.default and not param.kind.startswith("var_")]
    return 0 < len(found.misfit.missing) <= len(there.intersection(required))


def _only_misses(found: Diagnosis) -> bool:
    return not (found.alien or found.stuck or found.misfit.repeated)


def _reasons(found: Diagnosis) -> Iterator[str]:
    if found.alien:
        yield "no keyword " + ", ".join(f"`{name}`" for name in found.alien)
    if found.repairable:
        yield deeds(found)
    if found.stuck:
        yield found.stuck
    if found.misfit.missing:
        missing = "missing " + ", ".join(f"`{name}`" for name in found.misfit.missing)
        yield missing + (f", where what is meant for `{found.displaced}` stands" if found.displaced else "")
    if found.misfit.repeated:
        yield "given twice: " + ", ".join(f"`{name}`" for name in found.misfit.repeated)
