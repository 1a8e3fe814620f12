r"""An option of vLLM's command line that the target does not take, in a file that is not Python.

## What it does
In commands that run vLLM (`vllm serve`, `python -m vllm...`, the image's arguments in Dockerfiles, compose files and
Kubernetes) takes out options that mean nothing on V1, renames those that have another name, and reports the others.
Which release dropped which option is read from the releases.

## Why
An unknown option ends the server before it starts.

## Example
```bash
vllm serve facebook/opt-125m --device cpu --swap-space 4 \
    --guided-decoding-backend outlines
```
becomes, for 0.32.0,
```bash
vllm serve facebook/opt-125m \
    --structured-outputs-config.backend outlines
```

## Safety
*v1*: an option is only taken out where V1 does what it asked for, or has nothing that it could switch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..engine.textual.arguments import Arguments, argument_lists
from ..engine.textual.embedded import in_program
from ..engine.textual.pieces import pieces
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..kinds import Kind
from ..names.flags import Flag, gone_options
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import TextFile

COMMON = frozenset(("--device", "--task"))  # other programs have them, too
_PROSE = (Kind.MARKDOWN, Kind.RST, Kind.NOTEBOOK, Kind.PATCH)
_OPTIONS_ONLY = re.compile(r"[ \t]*(?:\w+\+?=)?[(\"' \t]*(?:-\S+(?:[ =][^-\s]\S*)?[ \t]+)*\Z")
_BOOLEANS = frozenset(("true", "false"))


class TextFlag(Rule):
    id = "V1M402"
    slug = "text-flag"
    summary = "command-line option that the target does not take"
    safety = Safety.V1
    phase = Phase.AFTER

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        gone = gone_options(file.judge.target)
        text = file.source.text
        wanted = needle(file.judge.target)
        if not gone or not wanted.search(text):
            return
        covered: set[int] = set()
        for arguments in argument_lists(text, Kind(file.kind), wanted):
            yield from self._arguments(file, arguments, gone, covered)
        yield from self._elsewhere(file, wanted, gone, covered)

    def _arguments(
        self, file: TextFile, arguments: Arguments, gone: dict[str, Flag], covered: set[int]
    ) -> Iterator[Finding]:
        found = list(used(arguments, gone))
        dropped = [(first, last) for flag, first, last in found if flag.action == "drop"]
        edits = arguments.edits(dropped) if dropped else {}
        for flag, first, last in found:
            start = arguments.spans[first][0]
            if start in covered:
                continue
            covered.add(start)
            edit = edits.get((first, last))
            if flag.action == "rename":
                edit = renamed(file.source.text, start, flag)
            yield self._say(file, flag, start, arguments.spans[last][1], edit)

    def _elsewhere(
        self, file: TextFile, wanted: re.Pattern[str], gone: dict[str, Flag], covered: set[int]
    ) -> Iterator[Finding]:
        """Options in variables, arrays and sentences: whose they are is a guess, so nothing is edited."""
        python = in_program(file.source.text, Kind(file.kind))
        others = _of_others(file)
        for match in wanted.finditer(file.source.text):
            if any(start <= match.start() < end for start, end in others):
                continue
            name = match.group().replace("_", "-")
            if match.start() in covered or python(match.start()):
                continue
            if name in COMMON and not _on_its_own(file.source.text, match):
                continue
            yield self._say(file, gone[name], *match.span(), None)

    def _say(self, file: TextFile, flag: Flag, start: int, end: int, edit: Edit | None) -> Finding:
        severity = Severity.INFO if file.kind in _PROSE and edit is None else Severity.ERROR
        instead = f": it is `{flag.to}` now" if flag.to else ""
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {file.judge.target} does not take `{flag.name}`, gone since {flag.gone}{instead}",
            severity,
            safety=Safety.V1 if edit else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=flag.advice or "Look for its successor in `vllm serve --help=all`.",
            edits=(edit,) if edit else (),
        )


def _of_others(file: TextFile) -> list[tuple[int, int]]:
    """Stretches of a document that show commands and never say vllm."""
    if file.kind not in (Kind.MARKDOWN, Kind.RST):
        return []
    shown = (piece.view for piece in pieces(file.source.text, Kind(file.kind)) if not piece.inline)
    return [(v.place(0), v.place(len(v.text))) for v in shown if "vllm" not in v.text.lower()]


def _on_its_own(text: str, match: re.Match[str]) -> bool:
    """`--device cpu` behind nothing but other options, as in an array or a variable: no other program is named."""
    left = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    return _OPTIONS_ONLY.match(left) is not None and text.startswith("cpu", match.end() + 1)


@cache
def needle(target: str) -> re.Pattern[str]:
    """Any option that is gone, as written: vLLM takes underscores for hyphens. `--` first: that is fast to find."""
    names = (re.escape(name[2:]).replace(r"\-", "[-_]") for name in gone_options(target))
    return re.compile(rf"--(?<![\w-]--)(?:{'|'.join(names)})(?![\w-])")


def used(arguments: Arguments, gone: dict[str, Flag]) -> Iterator[tuple[Flag, int, int]]:
    """Gone options with their first and last word."""
    words = arguments.words
    for index in range(arguments.start, len(words)):
        name, equals, _ = words[index].partition("=")
        flag = gone.get(name.replace("_", "-"))
        if flag is None:
            continue
        following = words[index + 1] if index + 1 < len(words) else "--"
        takes = following.lower() in _BOOLEANS if not flag.value else not following.startswith("--")
        yield flag, index, index + 1 if takes and not equals else index


def renamed(text: str, start: int, flag: Flag) -> Edit | None:
    written = text[start : start + len(flag.name)]
    return Edit(start, start + len(written), written, flag.to) if written.replace("_", "-") == flag.name else None
