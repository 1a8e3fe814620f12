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
*manual*. What can be dropped, named or translated is the business of V1M112.
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
            if found.refused and not found.callee.contract and not handled_elsewhere(found.callee.old):
                if _only_misses(found) and found.carried and file.settings.selected("V1M112"):
                    continue  # what carries the value has another name now: V1M112 says both
                finding = self._say(file, found)
                if finding is not None:
                    yield finding

    def _say(self, file: PythonFile, found: Diagnosis) -> Finding | None:
        accepted = [release for release, _ in found.callee.accepting(found.given)]
        if not accepted and not found.alien and not _lacks_only(found):
            return None  # no release is known to take it: what is written here is not what it looks like
        new, target = found.callee.new, file.judge.target
        start, end = file.span(found.call.func)
        written = f"vLLM {accepted[-1]} takes it" if accepted else "no release before it is known to"
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {target} refuses this call of `{new}` ({'; '.join(_reasons(found))}); {written}",
            Severity.ERROR if accepted else Severity.WARNING,
            effort=Effort.MINUTES,
            advice=_parameters(found),
            name=found.callee.old,
        )


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


def _lacks_only(found: Diagnosis) -> bool:
    """The target knows every keyword, and wants a few more: so does a call that was edited halfway."""
    given, params = found.given, found.callee.params
    required = {param.name for param in params if not param.default} & set(given.names)
    known = set(given.names) <= {param.name for param in params} and not given.positional
    return known and 0 < len(found.misfit.missing) <= len(required)


def _only_misses(found: Diagnosis) -> bool:
    return not (found.alien or found.stuck or found.misfit.repeated)


def _reasons(found: Diagnosis) -> Iterator[str]:
    if found.alien:
        yield "no keyword " + ", ".join(f"`{name}`" for name in found.alien)
    if found.stuck:
        yield found.stuck
    if found.misfit.missing:
        missing = "missing " + ", ".join(f"`{name}`" for name in found.misfit.missing)
        yield missing + (f", where what is meant for `{found.displaced}` stands" if found.displaced else "")
    if found.misfit.repeated:
        yield "given twice: " + ", ".join(f"`{name}`" for name in found.misfit.repeated)
