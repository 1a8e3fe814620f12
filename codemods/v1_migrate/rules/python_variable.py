"""An environment variable that the target does not read, set by Python code.

## What it does
Finds where code gives a value to a variable that no code of the target asks for: `os.environ[...] = `, `setdefault`,
`putenv`, `monkeypatch.setenv`, keywords of `update` and `dict`, and keys of dicts, as for `env=`, `env_dict=` or
`env_vars`; by a name that holds the variable's, too. Reads are left alone: they are the file's own business, but for
`vllm.envs.environment_variables[...]`, which fails. The engine switch has rules of its own (V1M201 to V1M203).

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

from ..engine.release_tests import version_guard
from ..engine.scopes import Node, Path
from ..engine.textual.python_arguments import last_name
from ..findings import Effort, Finding, Safety, Severity
from ..names.flags import Flag, gone_variables
from .rule import Phase, Rule
from .text_switch import SWITCH

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_SETTERS = frozenset(("setenv", "setdefault", "putenv"))
_TAKE_KEYWORDS = frozenset(("update", "dict"))  # of an environment; `patch.dict(os.environ, NAME=...)`, too


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
        if "environment_variables" in file.source.text:
            yield from self._looked_up(file)
        if not any(name in file.source.text for name in gone):
            return
        for found in file.model.every(ast.Constant):
            name = found.node.value
            if not isinstance(name, str) or name == SWITCH or name not in gone:
                continue
            for node in [found.node] if _sets(found.node, found.path) else _set_by_name(file, found):
                yield self._say(file, gone[name], node)
        for found in file.model.every(ast.Call):
            if last_name(found.node.func) in _TAKE_KEYWORDS:
                for keyword in found.node.keywords:
                    if keyword.arg in gone and keyword.arg != SWITCH:
                        yield self._say(file, gone[keyword.arg], keyword)

    def _say(self, file: PythonFile, flag: Flag, node: ast.AST) -> Finding:
        start, end = file.span(node)
        if isinstance(node, ast.keyword):
            end = start + len(flag.name)
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {file.judge.target} does not read `{flag.name}`, gone since {flag.gone}",
            Severity.WARNING,
            safety=Safety.MANUAL,
            effort=Effort.MINUTES,
            advice=flag.advice or "Look for its successor in vLLM's documentation, or delete it.",
        )

    def _looked_up(self, file: PythonFile) -> Iterator[Finding]:
        """`vllm.envs.environment_variables["NAME"]`, which has no such key on the target."""
        for found in file.model.every(ast.Subscript):
            node, references = found.node, file.by_node.get(id(found.node.value), ())
            name = node.slice.value if isinstance(node.slice, ast.Constant) else None
            held = len(references) == 1 and references[0].dotted == "vllm.envs.environment_variables"
            if not held or not isinstance(name, str) or not isinstance(node.ctx, ast.Load):
                continue
            verdict = file.judge.judge(f"vllm.envs.{name}")
            if verdict.missing and not version_guard(file, found.path, node):
                yield file.finding(
                    self.id,
                    *file.span(node.slice),
                    f"`environment_variables` of `vllm.envs` has no `{name}` on vLLM {file.judge.target}: KeyError",
                    Severity.ERROR,
                    effort=Effort.MINUTES,
                    advice=verdict.advice,
                    name=f"vllm.envs.{name}",
                )


def _set_by_name(file: PythonFile, found: Node) -> Iterator[ast.expr]:
    """`NAME = "VLLM_..."`: where that name sets the variable."""
    statement = found.path[0]
    names = statement.targets if isinstance(statement, ast.Assign) else []
    for use in file.model.uses if len(names) == 1 and isinstance(names[0], ast.Name) else ():
        if use.name == names[0].id and not use.attributes and _sets(use.node, use.path):  # type: ignore[attr-defined]
            bound = use.scope.lookup(use.name)
            if bound is not None and [binding.path[0] for binding in bound[1]] == [statement]:
                yield use.node


def _sets(node: ast.expr, path: Path) -> bool:
    """The node is the name of a variable that gets a value here."""
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
