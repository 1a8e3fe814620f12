"""A dependency pin or image tag that keeps the target release out.

## What it does
Reports requirements on vLLM (`vllm==0.9.2` in pyproject.toml, setup.py, requirements files, `pip install` in a
notebook; `vllm = "^0.9.2"` of Poetry; `vllm=0.9.2` of conda), image tags (`vllm/vllm-openai:v0.9.2`, also as
`repository:` and `tag:`) and version variables that exclude the target. Of several places of one pin in a file the
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


_POETRY = re.compile(
    r"""^[ \t]*["']?vllm(?:-cpu)?["']?\s*=\s*(?:\{[^}\n]*?\bversion\s*=\s*)?"""
    r"""["'](?P<mark>[\^~]|)(?P<version>\d+(?:\.\d+)*)["']""",
    re.MULTILINE,
)
_CONDA = re.compile(
    r"(?:^[ \t]*-[ \t]+[\"']?|\b(?:conda|mamba)\s+install\b[^\n]*?[ \t])"
    r"(?:[\w-]+::)?vllm(?:-cpu)?=(?P<version>\d+(?:\.\d+)*)(?![\w=.*])",
    re.MULTILINE,
)
_HELM = re.compile(
    r"^(?P<indent>[ \t]*)(?:- )?repository:[ \t]*[\"']?[\w./-]*vllm[\w./-]*[\"']?[ \t]*\r?\n"
    r"(?:[ \t]+(?!repository:)\w+:[^\n]*\n){0,3}?[ \t]*tag:[ \t]*[\"']?v?(?P<version>\d+\.\d+\.\d+)",
    re.MULTILINE,
)
_BY_KIND = {
    **dict.fromkeys(("toml", "pyproject"), (_POETRY,)),
    "yaml": (_CONDA, _HELM),
    **dict.fromkeys(("shell", "docker"), (_CONDA,)),
}
_INSTALLS = re.compile(r"\b(?:pip3?|uv|conda|mamba)\b[^\"\\]*\binstall\b[^\"\\]*(?:\\\")?\Z")


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
        if file.kind == "notebook":
            found = self._within(file, 0, len(file.source.text))
            yield from _each_once(each for each in found if _is_installed(file, each))
        elif file.kind not in ("markdown", "rst", "patch"):
            yield from _each_once([*self._within(file, 0, len(file.source.text)), *self._of_other_tools(file)])

    def _of_other_tools(self, file: TextFile) -> Iterator[Finding]:
        """What Poetry, conda and charts write."""
        try:
            target = Version(file.judge.target)
        except InvalidVersion:
            return
        for pattern in _BY_KIND.get(str(file.kind), ()):
            for match in pattern.finditer(file.source.text):
                if not _lets_in(match, target):
                    written = " ".join(match.group().strip(" -").split())
                    yield self._say(file, match, f"`{written}` excludes the target, vLLM {target}")

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


def _lets_in(match: re.Match[str], target: Version) -> bool:
    """Whether a pin lets the target in: `^` and `~` of Poetry let in what begins with 0 and the same second number."""
    written = Version(match["version"])
    if match.groupdict().get("mark"):
        kept = written.release[:2]
        return target >= written and target.release[: len(kept)] == kept
    return target.release[: len(written.release)] == written.release


def _is_installed(file: TextFile, finding: Finding) -> bool:
    """The pin stands in a command of a notebook that installs."""
    start = file.source.line_starts[finding.line - 1] + finding.column - 1
    return _INSTALLS.search(file.source.text, max(0, start - 200), start) is not None


def _each_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first place of each pin of a file introduces the others."""
    said: set[str] = set()
    for finding in findings:
        yield replace(finding, primary=finding.message not in said)
        said.add(finding.message)
