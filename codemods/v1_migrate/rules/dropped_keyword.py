"""An argument that the target's function or class does not take any more.

## What it does
Compares the arguments of each call of a vLLM function, class or method with the signatures of the releases before the
target and with the target's. Arguments that asked for nothing (None, False, what was the default) go; positional
arguments behind a parameter that left the middle of the list get their names; a keyword whose meaning lives on under
another name is translated. An argument that carried a value is reported with what to do instead.

Keywords are found on their other ways to the call, too: `**` of a dictionary that the file writes (`{...}`,
`dict(...)`, a name or attribute with one of them, what is added to any dictionary before the call),
`functools.partial`, `dataclasses.replace`, `super().__init__`, and calls of a subclass of the file.

## Why
`blocksparse_params` left the middle of a positional list: what stands behind it would silently be taken for something
else. The other dropped keywords are a TypeError when the line is reached, not when the file is imported.

## Example
```python
from vllm import LLM

llm = LLM("m", device="cpu", num_lookahead_slots=0, disable_async_output_proc=True)
```
becomes
```python
from vllm import LLM

llm = LLM("m", disable_async_output_proc=True)
```
and `disable_async_output_proc=True` is reported, because it carried a value.

## Safety
*bridge* for what is dropped or named where the last release with V0 reads the result in the same way. *v1* for what is
translated, and for what that release requires (`spec_token_ids=None`): with `--also` or `--bridge` such a call stays.
A call that would still be refused is not edited (V1M113).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.call_check import Diagnosis, diagnoses, means_nothing, parameter_names
from ..engine.served import needed_on
from ..engine.switch.needs import needed
from ..findings import Finding, Safety, Severity
from ..names.curated import Curated
from ..names.index import LAST_V0
from ..names.member_settings import member_setting
from .changed_call import deeds, refusal_is_said
from .dropped_values import ADVICE, RENAMED
from .metadata_builder import handled_elsewhere
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_UNKNOWING = (
    "Leave it out if the value can only be None, False or what was the default.",
    "Leave it out, or find what took its place in the release notes.",
)
_MOST_NAMED = 6
_REFUSED = "Not edited: the call is refused all the same, and what is gone tells which release it was written for."
_NEEDED = (
    "Not edited: vLLM {also}, which is to be served, too, needs {listed} here. Write the call twice, behind a test of "
    "vLLM's version."
)


class DroppedKeyword(Rule):
    id = "V1M112"
    slug = "dropped-keyword"
    summary = "argument that the target does not take any more"
    safety = Safety.BRIDGE
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for found in diagnoses(file):
            if not handled_elsewhere(found.callee.old):
                yield from self._edited(file, found)
                yield from self._carried(file, found)

    def _edited(self, file: PythonFile, found: Diagnosis) -> Iterator[Finding]:
        if not found.repairable or found.items is None:
            return
        if not found.edited and file.settings.selected("V1M113") and refusal_is_said(file, found):
            return  # V1M113 says of the whole call what is to be done
        start, end = file.span(found.call.func)
        also = file.settings.also
        needed_there = needed_on(found, also or LAST_V0)
        held = _REFUSED if not found.edited else ""
        if also and needed_there:
            listed = ", ".join(f"`{name}`" for name in needed_there)
            held = _NEEDED.format(also=also, listed=listed)
        edits = found.items.edits() if not held and file.allowed(self.id, found.callee.old) else ()
        bridge = not (found.translated or found.handed_on or needed_there)
        yield file.finding(
            self.id,
            start,
            end,
            f"`{found.callee.new}` on vLLM {file.judge.target}: {deeds(found)}",
            Severity.ERROR,
            safety=Safety.MANUAL if held else Safety.BRIDGE if bridge else Safety.V1,
            advice=held,
            name=found.callee.old,
            edits=edits,
        )

    def _carried(self, file: PythonFile, found: Diagnosis) -> Iterator[Finding]:
        if not found.carried:
            return
        spoken_of = {need.value for need in needed(file)} if file.settings.selected("V1M204") else set()
        lacking = ", ".join(f"`{name}`" for name in found.misfit.missing)
        for name, value in found.carried:
            if value in spoken_of:
                continue
            start, end = file.span(value)
            yield file.finding(
                self.id,
                start,
                end,
                f"`{found.callee.new}` does not take `{name}` on vLLM {file.judge.target}"
                + ("" if means_nothing(name, value) else "; here it carries a value")
                + (f", and {lacking} is missing" if lacking else ""),
                Severity.ERROR,
                advice=self._advice(found, name, value),
                name=found.callee.old,
            )

    def _advice(self, found: Diagnosis, name: str, value: ast.expr) -> str:
        """Of what no edit settles, such as a dictionary that several calls may be given."""
        if means_nothing(name, value):
            return "Leave it out: the value asks for nothing."
        new = RENAMED.get(name, "")
        if new in parameter_names(found.callee.params) and name not in ADVICE:
            return f"It is `{new}` there."
        words = advice_for(found.callee.new, name, value)
        before = found.callee.taking(name)
        if words not in _UNKNOWING or not before:
            return words
        added = [p.name for p in found.callee.params if p.name not in {old.name for old in before[-1]}]
        listed = ", ".join(f"`{each}`" for each in added if not each.startswith("_"))
        required = any(p.name == name and not p.default for p in before[-1])
        new_there = f"It takes {listed} there, which older releases do not." if 0 < len(added) <= _MOST_NAMED else ""
        advice = "It was required before: something else tells the callee now." if required else words
        return f"{advice} {new_there}".strip()


def advice_for(callee: str, name: str, value: ast.expr | None = None) -> str:
    """What to do about a dropped keyword: the table's words for this callee or its field, else this rule's."""
    words = ADVICE.get(name, "")  # by the name alone: the same keyword stands in several constructors
    setting, field = member_setting("keyword", callee, name), Curated.load().entry(f"{callee}.{name}")
    if setting is not None:
        words = setting.advice
    elif field is not None:  # what a reader of the field is told
        words = field.advice or words
    if not words and value is not None and not isinstance(value, ast.Constant):
        words = _UNKNOWING[0]
    return words or _UNKNOWING[1]
