"""An engine argument that the target does not take, in a JSON or YAML file.

## What it does
Looks at mappings with a `model` in JSON and YAML files, and reports keys that were fields of `AsyncEngineArgs` in an
earlier release and are none on the target: `swap_space`, `disable_log_requests`. Names that other programs have, too
(`device`, `task`), are left alone.

## Why
Such a mapping ends as `AsyncEngineArgs(**settings)` or as `vllm serve --config`, and both refuse what they do not know.

## Example
```json
{"model": "m", "disable_log_requests": true}
```
Finding: `disable_log_requests` is no engine argument on vLLM 0.32.0.

## Safety
*manual*, and a warning: that the mapping is for vLLM's engine is likely, not certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import yaml

from ..engine.textual import jsontree
from ..findings import Effort, Finding, Severity
from ..kinds import Kind
from ..names.flags import options
from .dropped_keyword import advice_for
from .rule import Rule
from .text_flag import COMMON

if TYPE_CHECKING:
    from ..engine.context import TextFile

_ARGUMENTS = "vllm.engine.arg_utils.AsyncEngineArgs"
_DEEP = 40
Key = tuple[str, int, int]  # name, start, end


class TextEngineArgument(Rule):
    id = "V1M408"
    slug = "text-engine-argument"
    summary = "engine argument that the target does not take, in a JSON or YAML file"

    def check_text(self, file: TextFile) -> Iterator[Finding]:
        if file.kind not in (Kind.JSON, Kind.YAML) or engine_keys().search(file.source.text.encode()) is None:
            return
        for mapping in _mappings(file.source.text, Kind(file.kind)):
            if "model" not in {name for name, _, _ in mapping}:
                continue
            for written, start, end in mapping:
                name = written.replace("-", "_")
                if _is_lost(file, name):
                    yield file.finding(
                        self.id, start, end, f"`{written}` is no engine argument on vLLM {file.judge.target}",
                        Severity.WARNING, effort=Effort.MINUTES, advice=_advice(name),
                        name=f"{_ARGUMENTS}.{name}",
                    )  # fmt: skip


def _advice(name: str) -> str:
    option = options().get("--" + name.replace("_", "-"))
    return (option.advice if option is not None else "") or advice_for("vllm.EngineArgs", name)


def _is_lost(file: TextFile, name: str) -> bool:
    dotted = f"{_ARGUMENTS}.{name}"
    others_have_it = "--" + name.replace("_", "-") in COMMON
    return not others_have_it and file.judge.known(dotted) and file.judge.judge(dotted).missing


@cache
def engine_keys() -> re.Pattern[bytes]:
    """What a JSON or YAML file has to say to be of interest here: an option that some release dropped, as a key."""
    names = sorted(name.removeprefix("--") for name in options() if name.startswith("--") and name not in COMMON)
    either = "|".join(re.escape(name).replace(r"\-", "[-_]") for name in names)
    return re.compile(rf"""(?<![\w-])(?:{either})["']?\s*:""".encode())


def _mappings(text: str, kind: Kind) -> Iterator[list[Key]]:
    """The keys of every mapping, and where they stand."""
    try:
        if kind is Kind.JSON:
            yield from _of_json(jsontree.parse(text))
        else:
            for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
                yield from _of_yaml(document, 0)
    except (jsontree.NotJson, yaml.YAMLError, RecursionError):
        return


def _of_json(node: jsontree.Node) -> Iterator[list[Key]]:
    yield [(key.value, key.start, key.end) for key, _ in node.members if key is not None]
    for _, value in node.members:
        yield from _of_json(value)


def _of_yaml(node: yaml.Node | None, depth: int) -> Iterator[list[Key]]:
    if depth > _DEEP:
        return
    if isinstance(node, yaml.MappingNode):
        plain = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        yield [(str(key.value), key.start_mark.index, key.end_mark.index) for key in plain]
        for _, value in node.value:
            yield from _of_yaml(value, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _of_yaml(value, depth + 1)
