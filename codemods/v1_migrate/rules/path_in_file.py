"""A dotted path of vLLM in a file that is not Python: entry points, configuration, scripts, images, documentation.

## What it does
In configuration and scripts, rewrites the path of an object that moved; reports one that is gone. In documentation,
it only reports.

## Why
`worker_cls: vllm.worker.cpu_worker.CPUWorker` in a YAML file is as stale as the import, and fails later.

## Example
```toml
[project.entry-points."my.workers"]
cpu = "vllm.worker.worker_base:WorkerWrapperBase"
```

## Safety
*v1*: the path is replaced where it stands; quoting, comments and layout stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.imports_in_text import imports_in_text
from ..engine.textual.embedded import in_program
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..kinds import Kind
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import TextFile

_DOTTED = re.compile(r"(?<![\w./@-])vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_FILE = re.compile(r"(?<![\w.@-])vllm((?:/[A-Za-z_]\w*)+)(?:\.py\b|/|\b)")
_PROSE = ("markdown", "rst", "notebook", "patch")


class PathInFile(Rule):
    id = "V1M013"
    slug = "path-in-file"
    summary = "stale vLLM path in a file that is not Python"
    safety = Safety.V1

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        text = file.source.text
        python = in_program(text, Kind(file.kind))
        for match in _DOTTED.finditer(text):
            if python(match.start()):
                continue
            verdict = file.judge.judge(match.group().replace(":", "."))
            if verdict.missing and verdict.fate != "alien":
                yield self._dotted(file, match)
        if file.kind not in _PROSE:
            yield from self._imports(file)
        for match in _FILE.finditer(text):
            if python(match.start()) or (file.kind == Kind.PATCH and match.group().endswith(".py")):
                continue  # the headers of a patch are V1M702's
            dotted = "vllm" + match.group(1).replace("/", ".")
            verdict = file.judge.judge(dotted)
            if verdict.missing and verdict.fate != "alien" and verdict.symbol == dotted:
                yield file.finding(
                    self.id,
                    match.start(),
                    match.end(),
                    f"`{match.group()}` is a path that vLLM {file.judge.target} does not have",
                    Severity.INFO if file.kind in _PROSE else Severity.WARNING,
                    effort=Effort.MINUTES,
                    advice=verdict.advice,
                    name=dotted,
                )

    def _imports(self, file: TextFile) -> Iterator[Finding]:
        """`from vllm.a import B` in a script, where vLLM still has the module."""
        for dotted, start, end in imports_in_text(file.source.text):
            verdict, module = file.judge.judge(dotted), file.judge.judge(dotted.rpartition(".")[0])
            if not verdict.missing or verdict.fate == "alien" or module.missing:
                continue
            where = f"which is `{verdict.new}` on" if verdict.new else "which is not on"
            yield file.finding(
                self.id, start, end, f"imports `{dotted}`, {where} vLLM {file.judge.target}", Severity.ERROR,
                effort=Effort.MINUTES, advice=verdict.advice, name=verdict.symbol,
            )  # fmt: skip

    def _dotted(self, file: TextFile, match: re.Match[str]) -> Finding:
        written = match.group()
        verdict = file.judge.judge(written.replace(":", "."))
        edits: tuple[Edit, ...] = ()
        if verdict.movable and file.kind not in _PROSE:
            new = verdict.new
            if ":" in written:
                module, _, name = new.rpartition(".")
                new = f"{module}:{name}"
            edits = (Edit(match.start(), match.end(), written, new),)
        where = f", which is `{verdict.new}`" if verdict.new else ", which it does not have"
        return file.finding(
            self.id,
            match.start(),
            match.end(),
            f"names `{verdict.dotted}`{where} on vLLM {file.judge.target}"
            if verdict.new
            else f"names `{verdict.dotted}`, which vLLM {file.judge.target} does not have",
            Severity.INFO if file.kind in _PROSE else Severity.ERROR,
            safety=Safety.V1 if edits else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=verdict.advice,
            name=verdict.symbol,
            edits=edits,
        )
