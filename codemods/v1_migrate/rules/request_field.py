r"""A field of a request to vLLM's OpenAI server that the target ignores.

## What it does
Finds fields that requests lost (`guided_json` and its kin, `best_of`, `logits_processors`) in what a client sends:
`extra_body=` of OpenAI's client, `json=` of `requests`, `httpx` and `aiohttp`, dictionaries with a `prompt` or
`messages`, and JSON in shell scripts, settings and documents. The `guided_*` fields are vLLM's alone and are found in
any dictionary.

## Why
The server takes fields that it does not know and ignores them. The request succeeds, and the answer is not constrained.

## Example
```python
client.chat.completions.create(model=model, messages=messages, extra_body={"guided_json": schema})
```
From 0.12.0 on, write
```python
client.chat.completions.create(
    model=model, messages=messages, extra_body={"structured_outputs": {"json": schema}}
)
```

## Safety
*manual*: which release the server runs that the client asks is not written in the client.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from ..engine.handed_keywords import handed_keywords_of
from ..engine.release_tests import version_guard
from ..engine.scopes import Node, Path
from ..engine.textual.embedded import in_program
from ..engine.textual.python_arguments import last_name
from ..findings import Effort, Finding, Severity
from ..kinds import Kind
from ..names.request_fields import ADVICE, OF_VLLM_ALONE, lost_fields
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import AnyFile, PythonFile, TextFile

_BODIES = frozenset(("extra_body", "json"))  # keywords that take a request, or a part of one
_ASKS = frozenset(("prompt", "messages"))
_NEAR = 400  # how far from its prompt a field of a request stands in a text
_DOCUMENTS = (Kind.MARKDOWN, Kind.RST, Kind.PATCH)


class RequestField(Rule):
    id = "V1M409"
    slug = "request-field"
    summary = "field of a request to the server that the target ignores"
    severity = Severity.WARNING
    phase = Phase.AFTER

    def check(self, file: PythonFile) -> Iterator[Finding]:
        lost = lost_fields(file.judge.index, file.judge.target)
        if file.module.partition(".")[0] == "vllm" or not any(name in file.source.text for name in lost):
            return
        said: set[int] = set()
        for name, node, path in self._sent(file, lost):
            if id(node) not in said and not version_guard(file, path, node):
                said.add(id(node))
                yield self._say(file, name, *file.span(node), Severity.WARNING)

    def _sent(self, file: PythonFile, lost: frozenset[str]) -> Iterator[tuple[str, ast.expr, Path]]:
        """The fields, with the node that names each, or that holds its value."""
        for found in file.model.every(ast.Constant):
            name = found.node.value
            if isinstance(name, str) and name in lost and _is_field(found):
                yield name, found.node, found.path
        for found in file.model.every(ast.Call):
            call: ast.Call = found.node
            for keyword in call.keywords:
                if keyword.arg in _BODIES:
                    yield from self._handed(file, keyword.value, found, lost)
                elif keyword.arg in lost and _makes_a_request(call, keyword.arg):
                    yield keyword.arg, keyword.value, found.path

    def _handed(
        self, file: PythonFile, body: ast.expr, found: Node, lost: frozenset[str]
    ) -> Iterator[tuple[str, ast.expr, Path]]:
        if isinstance(body, ast.Dict):  # its keys are constants of the file
            names = {key.value: key for key in body.keys if isinstance(key, ast.Constant)}
            yield from ((name, key, found.path) for name, key in names.items() if name in lost)
            return
        for name, value in handed_keywords_of(file).items(body, found):
            if name in lost and name not in OF_VLLM_ALONE:  # these are found wherever they are written
                yield name, value, found.path

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        lost = lost_fields(file.judge.index, file.judge.target)
        text = file.source.text
        python = None
        for match in _written().finditer(text):
            name = match[1]
            near = text[max(0, match.start() - _NEAR) : match.end() + _NEAR]
            if name not in lost or not (name in OF_VLLM_ALONE or any(f'"{each}"' in near for each in _ASKS)):
                continue
            python = python or in_program(text, Kind(file.kind))
            if not python(match.start()):
                severity = Severity.INFO if file.kind in _DOCUMENTS else Severity.WARNING
                yield self._say(file, name, *match.span(1), severity)

    def _say(self, file: AnyFile, name: str, start: int, end: int, severity: Severity) -> Finding:
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {file.judge.target}'s server ignores `{name}` in a request, without an error",
            severity,
            effort=Effort.MINUTES,
            advice=ADVICE[name],
        )


@cache
def _written() -> re.Pattern[str]:
    """A field in JSON, which may stand in a string of the shell (`\\"best_of\\":`)."""
    return re.compile(rf"""(?<=["'])({"|".join(ADVICE)})\\?["']\s*:""")


def _is_field(found: Node) -> bool:
    """The string is a key of a request: of any dictionary if it is vLLM's alone, else of one with a prompt."""
    node, (parent, _, _) = found.node, found.path
    if isinstance(parent, ast.Dict):
        value = next((value for key, value in zip(parent.keys, parent.values, strict=True) if key is node), None)
        keys = {key.value for key in parent.keys if isinstance(key, ast.Constant)}
        if node.value not in OF_VLLM_ALONE:
            return value is not None and not _ASKS.isdisjoint(keys)
        translates = isinstance(value, ast.Constant) and value.value == node.value.removeprefix("guided_")
        return value is not None and not translates
    stored = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
    return stored and node.value in OF_VLLM_ALONE


def _makes_a_request(call: ast.Call, name: str) -> bool:
    """`dict(guided_json=...)`, `body.update(guided_json=...)`; `client.completions.create(best_of=...)`."""
    if last_name(call.func) in ("dict", "update"):
        return name in OF_VLLM_ALONE
    owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "create" else None
    return owner is not None and last_name(owner) == "completions"
