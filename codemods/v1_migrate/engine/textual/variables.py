"""Where shell text sets an environment variable: assignments, exports, options of docker and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .cuts import Cut, Part
from .shell import EXPORTS, Command, Script, Word, unquoted

_EXPORTS = EXPORTS | {"env"}
_OPTIONS = frozenset(("-e", "--env", "-x", "--build-arg"))  # docker, podman, mpirun; a variable follows
_RUNNERS = frozenset(("env", "sudo", "exec", "nohup", "time", "command"))
_MAKE_OPERATORS = frozenset(("=", ":=", "?=", "::=", "+="))
_JOINED = re.compile(r"(?:--env=|-e=?)[\"']?(?P<name>[A-Za-z_]\w*)(?:=(?P<value>[^\"']*))?[\"']?\Z")
_LISTED = re.compile(r"(?P<before>[,=])(?P<name>[A-Za-z_]\w*)=(?P<value>[^,\s\"']*)")
_TALK = frozenset(("echo", "printf", "log", "logger", "print", "info"))


@dataclass(frozen=True, slots=True)
class Use:
    """One place that sets (or unsets, or hands on) the variable `name`."""

    name: str
    start: int
    end: int
    value: str | None  # None: an expansion, or no value
    form: str  # "set" | "unset" | "pass" (handed on without a value) | "inside" (part of a word)
    part: Part | None = None
    cut: Cut | None = None  # for "inside": what to take out


def uses(script: Script, wanted: re.Pattern[str]) -> Iterator[Use]:
    """Uses of the variables that `wanted` matches in full, in one script."""
    if script.quoted and script.host in _TALK:
        return
    for at, command in script.commands:
        if script.quoted and command.words and _is_data(script):
            continue
        done: set[int] = set()
        for index, word in enumerate(command.words):
            if index not in done and any(char == "_" for char in word.text):
                use = _use(command, at, index, word, wanted)
                if use is not None:
                    done.add(index)
                    yield use


def _is_data(script: Script) -> bool:
    """A quoted word on its own is a value, not a script."""
    return len(script.commands) == 1 and script.host not in ("$", "<<") and len(script.commands[0][1].words) == 1


def _use(command: Command, at: int, index: int, word: Word, wanted: re.Pattern[str]) -> Use | None:
    name, value = _assigned(word.text)
    if command.name == "echo" and index == 1 and not command.assignments:
        return _written(command, at, word, wanted)
    before = command.words[index - 1].text if index else ""
    if wanted.fullmatch(name):
        if index < command.assignments:
            whole = command.assignments == len(command.words) == 1
            return Use(name, word.start, word.end, value, "set", Part(at, index, index, whole))
        if before in _OPTIONS:
            return Use(name, word.start, word.end, value, "set", Part(at, index - 1, index))
        if command.name in _EXPORTS or (command.name in _RUNNERS and _leads(command, index)):
            return Use(name, word.start, word.end, value, "set", _export_part(command, at, index))
        if command.name == "set" and len(command.words) == 2:
            return Use(name, word.start, word.end, value, "set", Part(at, 0, 1, True))
        if command.name in ("-", "Environment"):
            return None
    bare = word.text.strip("\"'")
    if wanted.fullmatch(bare):
        return _bare(command, at, index, word, bare)
    return _inside(command, at, index, word, wanted)


def _written(command: Command, at: int, word: Word, wanted: re.Pattern[str]) -> Use | None:
    """`echo "NAME=1" >> "$GITHUB_ENV"`, `echo "export NAME=1" >> ~/.bashrc`: the line is for a shell to read."""
    name, value = _assigned(re.sub(r"\A([\"']?)export\s+", r"\1", word.text))
    appended = len(command.words) == 4 and command.words[2].text == ">>"
    if not appended or not wanted.fullmatch(name):
        return None
    return Use(name, word.start, word.end, value, "set", Part(at, 0, 3, True))


def _assigned(text: str) -> tuple[str, str | None]:
    """NAME and value of `NAME=value`, quotes around the whole or the value taken off."""
    plain = text
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        plain = text[1:-1]
    name, equals, value = plain.partition("=")
    if not equals or not name.rstrip("+").isidentifier():
        return "", None
    return name.rstrip("+"), unquoted(value)


def _leads(command: Command, index: int) -> bool:
    """Between the runner (`env`, `sudo -E`) and the word stand only options and assignments."""
    between = command.words[command.assignments + 1 : index]
    return all(word.text.startswith("-") or word.assigns for word in between)


def _export_part(command: Command, at: int, index: int) -> Part:
    first = command.assignments
    others = [w for i, w in enumerate(command.words) if i > first and i != index and not w.text.startswith("-")]
    whole = not others and first == 0 and command.name not in _RUNNERS
    return Part(at, 0, len(command.words) - 1, True) if whole else Part(at, index, index)


def _bare(command: Command, at: int, index: int, word: Word, name: str) -> Use | None:
    """The name alone: a Make or legacy Dockerfile assignment, `unset`, or a variable that is handed on."""
    words = command.words
    before = words[index - 1].text if index else ""
    following = words[index + 1].text if index + 1 < len(words) else ""
    last = len(words) - 1
    if following in _MAKE_OPERATORS and (index == 0 or (index == 1 and before == "export")):
        value = unquoted(words[index + 2].text) if last == index + 2 else None
        return Use(name, word.start, word.end, value, "set", Part(at, 0, last, True))
    legacy = command.name in ("ENV", "setenv", "%env", "%set_env") and index == 1 and last == 2
    if legacy or (command.name == "set" and index == 2 and before.startswith("-") and "x" in before and last == 3):
        return Use(name, word.start, word.end, unquoted(following), "set", Part(at, 0, last, True))
    if command.name == "unset":
        return Use(name, word.start, word.end, None, "unset", _export_part(command, at, index))
    if before in _OPTIONS:
        return Use(name, word.start, word.end, None, "pass", Part(at, index - 1, index))
    if command.name in _EXPORTS and command.name != "env":
        return Use(name, word.start, word.end, None, "pass", _export_part(command, at, index))
    return None


def _inside(command: Command, at: int, index: int, word: Word, wanted: re.Pattern[str]) -> Use | None:
    """`--env=NAME=1`, `-eNAME=1`, `--export=ALL,NAME=1`."""
    match = _JOINED.match(word.text)
    if match and wanted.fullmatch(match["name"]):
        form = "pass" if match["value"] is None else "set"
        value = None if match["value"] is None else unquoted(match["value"])
        return Use(match["name"], word.start, word.end, value, form, Part(at, index, index))
    items = _LISTED.finditer(word.text) if word.text.startswith("-") else iter(())
    item = next((found for found in items if wanted.fullmatch(found["name"])), None)
    if item is None:
        return None
    start, end = word.start + item.start("before"), word.start + item.end()
    after = word.text[item.end() :].startswith(",")
    if item["before"] == ",":
        cut = Cut(start, end)
    elif after:
        cut = Cut(start + 1, end + 1)
    else:
        return Use(item["name"], start + 1, end, unquoted(item["value"]), "set", Part(at, index, index))
    return Use(item["name"], start + 1, end, unquoted(item["value"]), "inside", None, cut)
