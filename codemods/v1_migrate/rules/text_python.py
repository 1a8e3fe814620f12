"""Python inside a document or a notebook: fences of Markdown and reST, the code cells of `.ipynb` files.

## What it does
Reads each Python fence as a program, and all code cells of a notebook as one, and lets every other rule look at it:
what they find is reported under their own names, what they edit is edited in place. The rest of the file, in a notebook
every byte of the JSON around the line, stays as it was. A fence that names no language is Python if it imports vLLM and
parses. Examples with prompts (`>>> ...`) are read likewise, and reported. This rule itself only says which cells it
could not read.

## Why
An example that no longer imports is the first thing a new user tries.

## Example
````markdown
```python
from vllm.worker.worker_base import WorkerBase
```
````
names `vllm.v1.worker.worker_base` afterwards.

## Safety
That of the rules that look. In documents, what is left to do counts as information.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ..engine.textual.embedded import Program, programs
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..kinds import Kind
from ..source import Source
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.analyse import Analyser
    from ..engine.context import TextFile

_OWN_WORK = ("V1M901", "V1M902", "V1M905")


class TextPython(Rule):
    id = "V1M405"
    slug = "text-python"
    summary = "Python inside a document or a notebook"
    severity = Severity.WARNING
    safety = Safety.V1

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        from ..engine.analyse import Analyser, is_of_concern  # it imports the rules

        if file.kind not in (Kind.MARKDOWN, Kind.RST, Kind.NOTEBOOK):
            return
        analyser = Analyser(file.tree, file.settings, file.judge)
        for program in programs(file.source.text, Kind(file.kind)):
            for start, end, why in program.unreadable:
                yield file.finding(
                    self.id, start, end, f"this cell is not Python that can be read ({why})", Severity.WARNING,
                    advice="Whatever it uses of vLLM is not migrated: look at it by hand.",
                )  # fmt: skip
            if is_of_concern(program.text.encode()):
                yield from self._inside(file, program, analyser)

    def _inside(self, file: TextFile, program: Program, analyser: Analyser) -> Iterator[Finding]:
        source = Source.from_bytes(program.text.encode(), file.source.rel)
        result = analyser.source(source, Kind.PYTHON)
        cuts = program.cuts(result.new_text) if result.new_text is not None and not program.readonly else ()
        edits = tuple(program.view.edit(cut) for cut in cuts) if cuts is not None else ()
        said = set()
        for finding in result.findings if result.before is None else result.before:
            if finding.rule not in _OWN_WORK:
                placed = _placed(file, program, finding, edits)
                said |= set(range(placed.line, placed.end_line + 1))
                yield placed
        yield from self._switch(file, program, said)

    def _switch(self, file: TextFile, program: Program, said: set[int]) -> Iterator[Finding]:
        """Lines with the engine switch that no rule spoke of."""
        for match in re.finditer(r"VLLM_USE_V1(?!\w)", program.text):
            start, end = program.view.place(match.start()), program.view.place_end(match.end())
            if file.source.position(start)[0] not in said:
                yield file.finding(
                    self.id, start, end, "speaks of `VLLM_USE_V1`, which chooses nothing from vLLM 0.11.0 on",
                    Severity.INFO, advice="Keep what was done for V1.",
                )  # fmt: skip


def _placed(file: TextFile, program: Program, finding: Finding, edits: tuple[Edit, ...]) -> Finding:
    """The finding where it stands in the file, with the edits of the whole program if it has some."""
    start = program.place(finding.line, finding.column)
    end = max(start, program.place(finding.end_line, finding.end_column))
    position, end_position = file.source.position(start), file.source.position(end)
    fixed = finding.fixed and bool(edits)
    document = file.kind != Kind.NOTEBOOK
    return replace(
        finding,
        line=position[0],
        column=position[1],
        end_line=end_position[0],
        end_column=end_position[1],
        edits=edits if fixed else (),
        fixed=False,
        severity=Severity.INFO if document and not fixed else finding.severity,
        safety=finding.safety if fixed or not finding.fixed else Safety.MANUAL,
        effort=Effort.NONE if fixed else Effort.MINUTES if finding.fixed else finding.effort,
        name="",
    )
