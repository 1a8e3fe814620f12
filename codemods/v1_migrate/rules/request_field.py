r"""A field of a request to vLLM's OpenAI server that the target ignores.

## What it does
Finds fields that requests lost (`guided_json` and its kin, `best_of`, `logits_processors`) in what a client sends:
`extra_body=` of OpenAI's client, `json=` of `requests`, `httpx` and `aiohttp`, dictionaries with a `prompt` or
`messages`, and JSON in strings, shell scripts, settings and documents. The `guided_*` fields are vLLM's alone and are
found in any dictionary; where nothing shows that it is sent, that is information.

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
        sent: set[int] = set()  # values that are known to be sent
        said: set[int] = set()
        for name, node, path in [*self._sent(file, lost, sent), *self._written(file, lost)]:
            value = _value_of(node, path)
            if id(value) in said or version_guard(file, path, node):
                continue
            said.add(id(value))
            certain = id(value) in sent or _is_a_request(path[0])
            yield self._say(file, name, *file.span(node), Severity.WARNING if certain else Severity.INFO, certain)
        yield from self._in_strings(file, lost)

    def _sent(self, file: PythonFile, lost: frozenset[str], sent: set[int]) -> Iterator[tuple[str, ast.expr, Path]]:
        """The fields that calls send, with the node that names each, or that holds its value."""
        for found in file.model.every(ast.Call):
            call: ast.Call = found.node
            for keyword in call.keywords:
                if keyword.arg in _BODIES:
                    for name, value in handed_keywords_of(file).items(keyword.value, found):
                        sent.add(id(value))
                        if name in lost and name not in OF_VLLM_ALONE and not isinstance(keyword.value, ast.Dict):
                            yield name, value, found.path  # the others are found wherever they are written
                elif keyword.arg in lost and _makes_a_request(call, keyword.arg):
                    sent.add(id(keyword.value))
                    yield keyword.arg, keyword.value, found.path

    def _written(self, file: PythonFile, lost: frozenset[str]) -> Iterator[tuple[str, ast.expr, Path]]:
        """The fields that are keys of dictionaries, and those that are set in one."""
        for found in file.model.every(ast.Constant):
            name = found.node.value
            if isinstance(name, str) and name in lost and _is_field(found):
                yield name, found.node, found.path

    def _in_strings(self, file: PythonFile, lost: frozenset[str]) -> Iterator[Finding]:
        """The fields of JSON that is written as text."""
        for found in file.model.every(ast.Constant):
            value = found.node.value
            if not isinstance(value, str) or isinstance(found.path[0], ast.Expr) or not _written().search(value):
                continue
            if version_guard(file, found.path, found.node):
                continue
            start, end = file.span(found.node)
            literal = file.source.text[start:end]
            sent = any(f'"{each}' in literal for each in _ASKS)
            for match in _in_json(literal, lost):
                severity = Severity.WARNING if sent else Severity.INFO
                yield self._say(file, match[1], start + match.start(1), start + match.end(1), severity, sent)

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        lost = lost_fields(file.judge.index, file.judge.target)
        text = file.source.text
        python = None
        for match in _in_json(text, lost):
            name = match[1]
            python = python or in_program(text, Kind(file.kind))
            if not python(match.start()):
                severity = Severity.INFO if file.kind in _DOCUMENTS else Severity.WARNING
                yield self._say(file, name, *match.span(1), severity)

    def _say(self, file: AnyFile, name: str, start: int, end: int, severity: Severity, sent: bool = True) -> Finding:
        return file.finding(
            self.id,
            start,
            end,
            f"vLLM {file.judge.target}'s server ignores `{name}` in a request, without an error",
            severity,
            effort=Effort.MINUTES,
            advice=ADVICE[name] if sent else f"If this is sent to vLLM's server: {ADVICE[name]}",
        )


@cache
def _written() -> re.Pattern[str]:
    """A field in JSON, which may stand in a string of the shell (`\\"best_of\\":`)."""
    return re.compile(rf"""(?<=["'])({"|".join(ADVICE)})\\?["']\s*:""")


def _in_json(text: str, lost: frozenset[str]) -> Iterator[re.Match[str]]:
    """The lost fields in a text of JSON: those of vLLM's alone, and those near to what a request asks."""
    for match in _written().finditer(text):
        near = text[max(0, match.start() - _NEAR) : match.end() + _NEAR]
        if match[1] in lost and (match[1] in OF_VLLM_ALONE or any(f'"{each}"' in near for each in _ASKS)):
            yield match


def _is_field(found: Node) -> bool:
    """The string is a key of a request: of any dictionary if it is vLLM's alone, else of one that asks something."""
    node, (parent, _, outer) = found.node, found.path
    if isinstance(parent, ast.Dict):
        value = _value_of(node, found.path)
        if node.value not in OF_VLLM_ALONE:
            is_body = isinstance(outer[0], ast.keyword) and outer[0].arg in _BODIES if outer is not None else False
            return value is not node and (is_body or _is_a_request(parent))
        translates = isinstance(value, ast.Constant) and value.value == node.value.removeprefix("guided_")
        return value is not node and not translates
    stored = isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store)
    return stored and node.value in OF_VLLM_ALONE


def _value_of(node: ast.expr, path: Path) -> ast.expr:
    """The value that a key is given, in a dictionary or where it is set; of another node, the node."""
    parent, _, outer = path
    if isinstance(parent, ast.Dict):
        return next((value for key, value in zip(parent.keys, parent.values, strict=True) if key is node), node)
    if isinstance(parent, ast.Subscript) and outer is not None and isinstance(outer[0], ast.Assign):
        return outer[0].value
    return node


def _is_a_request(node: ast.AST) -> bool:
    """A dictionary with a prompt or messages."""
    keys = node.keys if isinstance(node, ast.Dict) else ()
    return any(isinstance(key, ast.Constant) and key.value in _ASKS for key in keys)


def _makes_a_request(call: ast.Call, name: str) -> bool:
    """`dict(guided_json=...)`, `body.update(guided_json=...)`; `client.completions.create(best_of=...)`."""
    if last_name(call.func) in ("dict", "update"):
        return name in OF_VLLM_ALONE
    owner = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "create" else None
    return owner is not None and last_name(owner) == "completions"
