"""A dependency pin or image tag that keeps the target release out.

## What it does
Reports requirements on vLLM (`vllm==0.9.2` in pyproject.toml, setup.py, requirements files), image tags
(`vllm/vllm-openai:v0.9.2`) and version variables that exclude the target. Of several places of one pin in a file the
first is described, the others are listed with it.

## Why
After the rewrite the code needs the target; the pin would still install the release it was written for.

## Example
```toml
dependencies = ["vllm==0.9.2"]
```

## Safety
*manual*. Which releases you support is your decision.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import AnyFile, PythonFile, TextFile

_CLAUSE = r"(?:===|==|~=|!=|<=|>=|<|>)\s*v?\d[\w.*+!-]*"
_REQUIREMENT = re.compile(
    rf"(?<![\w./-])vllm(?:-cpu)?(?:\[[\w, -]*\])?\s*\(?\s*(?P<spec>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)", re.IGNORECASE
)
_TAG = re.compile(
    r"(?:vllm[\w./-]*:v?|vllm(?:\.git)?@v?|VLLM_(?:VERSION|TAG|BRANCH|REF|COMMIT)\s*[=:]\s*[\"']?v?)"
    r"(?P<version>\d+\.\d+\.\d+(?:\.?(?:post|rc|dev)\d+)?)",
    re.IGNORECASE,
)


class OutdatedPin(Rule):
    id = "V1M012"
    slug = "outdated-pin"
    summary = "dependency pin or image tag excludes the target release"
    severity = Severity.WARNING

    def check(self, file: PythonFile) -> Iterator[Finding]:
        yield from _each_once(sorted(self._strings(file), key=lambda each: (each.line, each.column)))

    def _strings(self, file: PythonFile) -> Iterator[Finding]:
        for found in file.model.every(ast.Constant):
            value = found.node.value
            if "vllm" in value.lower() and len(value) < 200 and (_REQUIREMENT.match(value) or _TAG.search(value)):
                start, end = file.span(found.node)
                yield from self._within(file, start, end)

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        if file.kind not in ("markdown", "rst", "patch", "notebook"):
            yield from _each_once(self._within(file, 0, len(file.source.text)))

    def _within(self, file: AnyFile, start: int, end: int) -> Iterator[Finding]:
        try:
            target = Version(file.judge.target)
        except InvalidVersion:  # a private fork's label says nothing about what a pin lets in
            return
        for match in _REQUIREMENT.finditer(file.source.text, start, end):
            try:
                specifier = SpecifierSet(match["spec"].replace("v", ""))
            except InvalidSpecifier:
                continue
            if not specifier.contains(target, prereleases=True):
                yield self._say(file, match, f"`{match.group().strip()}` excludes the target, vLLM {target}")
        for match in _TAG.finditer(file.source.text, start, end):
            try:
                pinned = Version(match["version"])
            except InvalidVersion:
                continue
            if pinned < target:
                yield self._say(file, match, f"`{match.group().strip()}` is older than the target, vLLM {target}")

    def _say(self, file: AnyFile, match: re.Match[str], message: str) -> Finding:
        advice = f"Ask for vLLM {file.judge.target} once the code is migrated."
        return file.finding(
            self.id, match.start(), match.end(), message, Severity.WARNING, effort=Effort.MINUTES, advice=advice
        )


def _each_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first place of each pin of a file introduces the others."""
    said: set[str] = set()
    for finding in findings:
        yield replace(finding, primary=finding.message not in said)
        said.add(finding.message)
