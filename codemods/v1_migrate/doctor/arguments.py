"""The arguments of an engine, from the text of an `LLM(...)` call, its keywords alone, or a `vllm serve` line."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SHORT = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dp": "data_parallel_size",
    "q": "quantization",
    "n": "nnodes",
    "O": "compilation_config",
    "cc": "compilation_config",
    "ac": "attention_config",
    "sc": "speculative_config",
}
_MODULE = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_EXAMPLE = '\'LLM(model="facebook/opt-125m", dtype="bfloat16")\' or vllm serve facebook/opt-125m --dtype bfloat16'


class UnreadableArguments(ValueError):
    """The text is neither keywords nor a command line; the message says what is expected."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What was asked of an engine. `values` is keyed by field names of EngineArgs, whatever the form."""

    form: Literal["llm", "serve"]
    values: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()  # of a command line, after `vllm serve`
    options: tuple[str, ...] = ()  # "--swap-space", as a command line spells them
    unread: tuple[str, ...] = ()  # keywords whose value is no literal
    variables: dict[str, str] = field(default_factory=dict)  # set in front of a command
    command: bool = False  # the `vllm` command, not `python -m` or a call

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)

    def request(self) -> dict[str, Any]:
        """What the probe is sent."""
        return {"form": self.form, "values": self.values, "words": list(self.words)}


def read(words: Sequence[str]) -> Arguments | None:
    """The arguments after `--`; None if there are none. Raises UnreadableArguments."""
    if not words:
        return None
    if len(words) == 1:
        text = words[0].strip()
        call = None if text.startswith("-") else _call(text) or _call(f"LLM({text})")
        if call is not None:
            return _llm(call)
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UnreadableArguments(f"cannot read {text!r}: {error}; expected something like {_EXAMPLE}") from None
    return _serve(list(words))


def _llm(call: ast.Call) -> Arguments:
    """`LLM(model=..., ...)`, whatever its name."""
    values: dict[str, Any] = {}
    unread: list[str] = []
    for name, node in [*(("model", arg) for arg in call.args[:1]), *((k.arg or "**", k.value) for k in call.keywords)]:
        try:
            values[name] = ast.literal_eval(node)
        except ValueError:
            unread.append(name if name != "**" else ast.unparse(node))
    if isinstance(values.get("**"), dict):
        values |= values.pop("**")
    options = tuple("--" + name.replace("_", "-") for name in values)
    return Arguments("llm", values, options=options, unread=tuple(unread))


def _call(text: str) -> ast.Call | None:
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return calls[0] if len(tree.body) == 1 and calls else None


def _serve(words: list[str]) -> Arguments:
    """The words of a command that starts a server, assignments before it included."""
    variables = {}
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    command = words[:1] == ["vllm"]
    if words[:2] == ["vllm", "serve"] or (words[1:2] == ["-m"] and words[2:3] and words[2] in _MODULE):
        words = words[2 if words[0] == "vllm" else 3 :]
    elif words[:1] == ["serve"]:
        words = words[1:]
    elif not words or not words[0].startswith("-"):
        raise UnreadableArguments(f"cannot read {shlex.join(words)!r}; expected something like {_EXAMPLE}")
    values: dict[str, Any] = {}
    options: list[str] = []
    rest = list(words)
    if rest and not rest[0].startswith("-"):
        values["model"] = rest.pop(0)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            continue  # another value of the option before
        name, equals, value = word.partition("=")
        options.append(name)
        given: Any = _value(value) if equals else True
        if not equals and rest and not _is_option(rest[0]):
            given = _value(rest.pop(0))
        _set(values, name.lstrip("-").replace("-", "_"), given)
    return Arguments("serve", values, tuple(words), tuple(options), variables=variables, command=command)


def _set(values: dict[str, Any], name: str, value: Any) -> None:
    """One option: `no_x` is x switched off, `a.b` is a key of a."""
    name = SHORT.get(name, name)
    if "." in name:
        outer, _, inner = name.partition(".")
        table = values.setdefault(SHORT.get(outer, outer), {})
        if isinstance(table, dict):
            table[inner] = value
    elif name.startswith("no_") and value is True:
        values[name[3:]] = False
    else:
        values[name] = value


def _is_option(word: str) -> bool:
    return word.startswith("-") and not word[1:].replace(".", "", 1).isdigit()


def _value(text: str) -> Any:
    """A number, a JSON object or list, or the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (str, bool)) or value is None else value
