"""A patch against a file of vLLM that the target does not have: `.patch` files, `sed` scripts, text replacement.

## What it does
Reports the headers of `.patch` and `.diff` files that name such a file, commands that edit one in place (`sed -i`,
`perl -i`, `patch`, `cp` over it), and Python scripts that read one, replace text and write it back.

## Why
A patch that no longer applies fails the build at best. A `sed` that matches nothing succeeds, and does nothing.

## Example
```bash
sed -i 's/block_size = 16/block_size = 32/' /usr/lib/python3/site-packages/vllm/worker/cpu_worker.py
```

## Safety
*manual*: where the change belongs now is for its author to say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.textual.arguments import commands
from ..findings import Effort, Finding, Severity
from ..kinds import Kind
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import AnyFile, PythonFile, TextFile
    from ..engine.verdicts import Verdict

_HEADER = re.compile(
    r"^(?:---|\+\+\+|diff --git)[ \t][^\r\n]*?(?P<path>(?<![\w.-])vllm(?:/\w+)+\.pyi?)\b", re.MULTILINE
)
_PATH = re.compile(r"(?<![\w.-])vllm(?:/\w+)+\.pyi?\b")
_EDITORS = frozenset(("sed", "perl", "patch", "cp", "mv", "install", "ed", "ex", "awk", "gawk", "tee", "ln", "gsed"))
_IN_PLACE = re.compile(r"\b(?:sed|perl)\s+-\w*i|\bpatch\s+-")
_REPLACING = frozenset(("replace", "sub", "subn"))
_WRITING = frozenset(("write", "write_text", "writelines", "write_bytes"))


class ForkPatch(Rule):
    id = "V1M702"
    slug = "fork-patch"
    summary = "patch against a file of vLLM that the target does not have"
    severity = Severity.WARNING

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        if file.kind == Kind.PATCH:
            seen: set[str] = set()
            for match in _HEADER.finditer(file.source.text):
                verdict = gone(file, match["path"])
                if verdict is not None and match["path"] not in seen:
                    seen.add(match["path"])
                    yield self._say(file, *match.span("path"), verdict, "patches")
            return
        for words in commands(file.source.text, Kind(file.kind), _PATH):
            name = words[0][0].rpartition("/")[2] if words else ""
            for text, start, end in words[1:] if name in _EDITORS else []:
                for match in _PATH.finditer(text):
                    verdict = gone(file, match.group())
                    if verdict is not None:
                        yield self._say(file, start, end, verdict, f"`{name}` edits")

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if ".py" not in file.source.text or not _patches(file):
            return
        for found in file.model.every(ast.Constant):
            value = found.node.value
            match = _PATH.search(value) if isinstance(value, str) else None
            verdict = gone(file, match.group()) if match else None
            if verdict is not None and (_IN_PLACE.search(value) or _replaces(file)):
                yield self._say(file, *file.span(found.node), verdict, "edits")

    def _say(self, file: AnyFile, start: int, end: int, verdict: Verdict, what: str) -> Finding:
        path = verdict.dotted.replace(".", "/") + ".py"
        where = f"; that code is in `{verdict.successor}` now" if verdict.successor else ""
        message = f"{what} `{path}`, which vLLM {file.judge.target} does not have{where}"
        advice = " ".join(("Port the change, or drop the patch.", verdict.advice)).strip()
        return file.finding(
            self.id, start, end, message, Severity.WARNING, effort=Effort.HOURS, advice=advice, name=verdict.dotted
        )


def gone(file: AnyFile, path: str) -> Verdict | None:
    """The verdict on a path `vllm/a/b.py` whose module some release has and the target has not."""
    dotted = re.sub(r"\.pyi?\Z", "", path).removesuffix("/__init__").replace("/", ".")
    verdict = file.judge.judge(dotted)
    return verdict if verdict.missing and verdict.fate != "alien" and verdict.symbol == dotted else None


def _called(file: PythonFile) -> set[str]:
    """Names of the methods and functions that the file calls."""
    functions = (found.node.func for found in file.model.every(ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in functions}


def _replaces(file: PythonFile) -> bool:
    called = _called(file)
    return not called.isdisjoint(_REPLACING) and not called.isdisjoint(_WRITING)


def _patches(file: PythonFile) -> bool:
    return _PATH.search(file.source.text) is not None and (
        _replaces(file) or _IN_PLACE.search(file.source.text) is not None
    )
