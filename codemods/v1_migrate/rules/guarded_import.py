"""An import that serves two releases, and its end: written with `--also`, folded away when asked for.

## What it does
With `--also 0.9.2`, an import that the other rules move, and whose new path that release does not have, becomes a `try`
with both, in its place. The next run knows it as deliberate code and leaves it alone. Strings and patch targets that no
one path serves are reported and stay.

This rule takes such guards away again: of a `try` with one import per arm, it keeps the arm whose names the target has
and de-indents it. It runs only when it is selected by its id: `v1-migrate rewrite PATH --select V1M601`.

## Why
A plugin serves V0 and V1 for a while. The guard needs nothing of this package when it runs; plugins write the same by
hand.

## Example
```python
try:
    from vllm.v1.worker.worker_base import WorkerBase
except ImportError:
    from vllm.worker.worker_base import WorkerBase
```
becomes, once only the target is served,
```python
from vllm.v1.worker.worker_base import WorkerBase
```

## Safety
*v1*: the arm that goes cannot be reached on the target.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.both import is_guarded_import
from ..engine.tree import absolute
from ..findings import Edit, Finding, Safety, Severity
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class GuardedImport(Rule):
    id = "V1M601"
    slug = "guarded-import"
    summary = "import guarded for two releases (folded away when this rule is selected)"
    severity = Severity.INFO
    safety = Safety.V1
    phase = Phase.DEAD_CODE

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if self.id not in file.settings.select or file.settings.also:
            return
        for found in file.model.every(ast.Try):
            edit = _folded(file, found.node)
            if edit is not None:
                start, _ = file.span(found.node)
                message = f"guards an import for a release other than vLLM {file.judge.target}"
                yield file.finding(
                    self.id, start, start + 3, message, Severity.INFO, safety=Safety.V1, edits=(edit,),
                    advice="Keep the arm that the target takes.",
                )  # fmt: skip


def _folded(file: PythonFile, trial: ast.Try) -> Edit | None:
    """The `try` replaced by the arm that the target takes; None if that cannot be told, or it is no such guard."""
    if not is_guarded_import(trial):
        return None
    arms = (trial.body, trial.handlers[0].body)
    verdicts = [[file.judge.judge(name) for name in _imported(arm, file.package) if _vllm(name)] for arm in arms]
    missing = [any(verdict.missing for verdict in arm) for arm in verdicts]
    unsure = [any(verdict.status == "unknown" for verdict in arm) for arm in verdicts]
    if missing == [False, True] and not unsure[0]:
        return _kept(file, trial, arms[0])
    if missing == [True, False] and not unsure[1]:
        return _kept(file, trial, arms[1])
    return None


def _imported(body: list[ast.stmt], package: str) -> list[str]:
    """Dotted names that an arm imports."""
    names: list[str] = []
    for statement in body:
        if isinstance(statement, ast.ImportFrom):
            module = absolute(package, "." * statement.level + (statement.module or ""))
            names += [f"{module}.{alias.name}" for alias in statement.names]
        elif isinstance(statement, ast.Import):
            names += [alias.name for alias in statement.names]
    return names


def _vllm(name: str) -> bool:
    return name.partition(".")[0] == "vllm"


def _kept(file: PythonFile, trial: ast.Try, arm: list[ast.stmt]) -> Edit | None:
    """The arm's lines, comments included, as far left as the `try`. None where a line has more than its statement."""
    source = file.source
    start, end = file.span(trial)
    first = source.line_starts[trial.lineno - 1]
    indent = source.text[first:start]
    inner = source.text[source.line_starts[arm[0].lineno - 1] : file.span(arm[0])[0]]
    if indent.strip() or inner.strip() or not inner.startswith(indent) or len(inner) <= len(indent):
        return None
    lines = [source.line(number) for number in range(_first_line(file, trial, arm), (arm[-1].end_lineno or 0) + 1)]
    kept = [indent + line.removeprefix(inner) if line.startswith(inner) else line.lstrip() and line for line in lines]
    stop = (
        end
        + len(source.line(trial.end_lineno or trial.lineno))
        - (end - source.line_starts[(trial.end_lineno or trial.lineno) - 1])
    )
    return Edit(first, stop, source.text[first:stop], source.newline.join(kept))


def _first_line(file: PythonFile, trial: ast.Try, arm: list[ast.stmt]) -> int:
    """The line behind the arm's header: comments above its first statement are its own."""
    header = trial.lineno if arm is trial.body else trial.handlers[0].lineno
    line = arm[0].lineno
    while line - 1 > header and file.source.line(line - 1).lstrip().startswith("#"):
        line -= 1
    return line
