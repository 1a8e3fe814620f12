"""An environment variable that the target does not read, set by Python code.

## What it does
Finds where code gives a value to a variable that no code of the target asks for: `os.environ[...] = `, `setdefault`,
`putenv`, `monkeypatch.setenv`, and keys of dicts, as for `env=`, `env_dict=` or `env_vars`. Reads are left alone: they
are the file's own business. The engine switch has rules of its own (V1M201 to V1M203).

## Why
A variable that nobody reads is silent: the program runs, and does something else.

## Example
```python
os.environ["VLLM_USE_TRITON_FLASH_ATTN"] = "0"
```
Finding: `vLLM 0.32.0 does not read VLLM_USE_TRITON_FLASH_ATTN`.

## Safety
*manual*: what the variable chose is said elsewhere now, or not at all; the advice tells which.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.scopes import Path
from ..engine.textual.python_arguments import last_name
from ..findings import Effort, Finding, Safety, Severity
from ..names.flags import gone_variables
from .rule import Phase, Rule
from .text_switch import SWITCH

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_SETTERS = frozenset(("setenv", "setdefault", "putenv"))


class PythonVariable(Rule):
    id = "V1M407"
    slug = "python-variable"
    summary = "environment variable that the target does not read, set by Python code"
    severity = Severity.WARNING
    phase = Phase.AFTER

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if "VLLM_" not in file.source.text or file.module.partition(".")[0] == "vllm":
            return
        gone = gone_variables(file.judge.target)
        if not any(name in file.source.text for name in gone):
            return
        for found in file.model.every(ast.Constant):
            name = found.node.value
            if not isinstance(name, str) or name == SWITCH or name not in gone or not _sets(found.node, found.path):
                continue
            flag = gone[name]
            start, end = file.span(found.node)
            yield file.finding(
                self.id,
                start,
                end,
                f"vLLM {file.judge.target} does not read `{name}`, gone since {flag.gone}",
                Severity.WARNING,
                safety=Safety.MANUAL,
                effort=Effort.MINUTES,
                advice=flag.advice or "Look for its successor in vLLM's documentation, or delete it.",
            )


def _sets(node: ast.Constant, path: Path) -> bool:
    """The constant is the name of a variable that gets a value here."""
    parent = path[0]
    if isinstance(parent, ast.Dict):
        return any(key is node for key in parent.keys)
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Store) and last_name(parent.value) in ("environ", "env")
    if not isinstance(parent, ast.Call) or not parent.args or parent.args[0] is not node:
        return False
    owner = parent.func.value if isinstance(parent.func, ast.Attribute) else parent.func
    name = last_name(parent.func)
    return name in _SETTERS and (name != "setdefault" or last_name(owner) in ("environ", "env"))
