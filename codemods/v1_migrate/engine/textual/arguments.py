"""Argument lists that are given to vLLM: commands, `CMD [...]` of images, `command:` in YAML, lists in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...findings import Edit
from ...kinds import Kind
from . import jsontree
from .cuts import Cut, Part, cuts, lines_cut
from .pieces import Piece, pieces
from .shell import Command, Script, scripts
from .view import View
from .yaml_entries import is_block_item, is_scalar, yaml_entries

Ranges = Sequence[tuple[int, int]]  # first and last word of what goes
MakeEdits = Callable[[Ranges], dict[tuple[int, int], Edit]]
_SUBCOMMANDS = frozenset(("serve", "bench", "chat", "complete", "run-batch"))
_MODULE = re.compile(r"vllm(?:\.\w+)+\Z")
_SCRIPT = re.compile(r"(?:.*/)?(?:api_server|run_batch|benchmark_\w+|bench_\w+)\.py\Z")
_IMAGE = re.compile(
    r"(?:[\w.-]+(?::\d+)?/)*(?:vllm/)?vllm[\w-]*(?:/[\w.-]+)*(?::[\w.+-]+|@sha256:\w+)\Z|vllm/vllm-[\w-]+\Z"
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The words of one command; those from `start` on are vLLM's. Spans are of the file."""

    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    start: int
    edits: MakeEdits


def vllm_arguments(words: Sequence[str]) -> int | None:
    """Index of the first word that is an argument of vLLM; None if the command is another's."""
    for index, word in enumerate(words):
        before = words[index - 1] if index else ""
        following = words[index + 1] if index + 1 < len(words) else ""
        if word.rpartition("/")[2] == "vllm" and following in _SUBCOMMANDS:
            return index + 2
        if before == "-m" and _MODULE.match(word):
            return index + 1
        if _SCRIPT.match(word) and (index == 0 or "python" in before or before == "exec"):
            return index + 1
        if _IMAGE.match(word) and any(w.rpartition("/")[2] in ("docker", "podman", "nerdctl") for w in words[:index]):
            return index + 1
    return None


def argument_lists(text: str, kind: Kind, needle: re.Pattern[str]) -> Iterator[Arguments]:
    """Every list of a file that is vLLM's and holds the needle."""
    for piece in pieces(text, kind):
        if needle.search(piece.view.text):
            yield from _of_piece(piece, needle)


def commands(text: str, kind: Kind, needle: re.Pattern[str]) -> Iterator[list[tuple[str, int, int]]]:
    """Commands with the needle in them: each word with its place in the file, assignments left out."""
    for piece in pieces(text, kind):
        views = [piece.view] if piece.language in ("shell", "docker") else []
        if piece.language == "yaml" and needle.search(piece.view.text):
            scalars = yaml_entries(piece.view.text, re.compile(r"(?!)")).scalars
            views = [piece.view.part(scalar.start, scalar.end) for scalar in scalars]
        for view in views:
            if needle.search(view.text):
                for script in scripts(view.text, docker=piece.language == "docker"):
                    for _, command in script.commands:
                        words = command.words[command.assignments :]
                        if any(needle.search(word.text) for word in words):
                            yield [
                                (w.value if w.value is not None else w.text, view.place(w.start), view.place_end(w.end))
                                for w in words
                            ]


def _of_piece(piece: Piece, needle: re.Pattern[str]) -> Iterator[Arguments]:
    view = piece.view
    if piece.language in ("shell", "docker"):
        yield from of_scripts(view, docker=piece.language == "docker")
        if piece.language == "docker":
            for match in re.finditer(r"^[ \t]*(?:CMD|ENTRYPOINT)[ \t]+(?=\[)", view.text, re.MULTILINE):
                yield from _of_exec_form(view, match.end())
    elif piece.language == "json" and not view.offsets:
        try:
            root = jsontree.parse(view.text)
        except (jsontree.NotJson, RecursionError):
            return
        yield from _of_json(view, root)
        for node in _strings(root):
            if needle.search(node.value) and " " in node.value:
                yield from of_scripts(jsontree.string_view(view, [node]))
    elif piece.language == "yaml":
        yield from _Yaml(view, needle).run()


def of_scripts(view: View, *, docker: bool = False, given: bool = False) -> Iterator[Arguments]:
    """Commands of vLLM in shell text; `given`: every command of it is vLLM's."""
    for script in scripts(view.text, docker=docker):
        for at, command in script.commands:
            words = tuple(word.value if word.value is not None else word.text for word in command.words)
            start = vllm_arguments(words)
            if start is None and given:
                start = 0
            if start is not None:
                spans = tuple((view.place(w.start), view.place_end(w.end)) for w in command.words)
                yield Arguments(words, spans, start, _script_edits(view, script, at))


def _script_edits(view: View, script: Script, at: int) -> MakeEdits:
    def edits(ranges: Ranges) -> dict[tuple[int, int], Edit]:
        command = script.items[at]
        assert isinstance(command, Command)
        made = cuts(view.text, script, [Part(at, *each) for each in ranges])
        return {(part.first, part.last): view.edit(cut) for part, cut in made.items()}

    return edits


def _of_exec_form(view: View, start: int) -> Iterator[Arguments]:
    """`CMD ["vllm", "serve", ...]`."""
    end = view.text.find("]", start) + 1
    try:
        root = jsontree.parse(view.text[start:end].replace("\\\n", " \n"))
    except jsontree.NotJson:
        return
    yield from _of_json(view.part(start, end), root, image=True)


def _of_json(view: View, node: jsontree.Node, *, image: bool = False) -> Iterator[Arguments]:
    image = image or any(
        key is not None and key.value == "image" and "vllm" in value.value for key, value in node.members
    )
    for _, value in node.members if node.kind != "array" else []:
        yield from _of_json(view, value, image=image)
    if node.kind != "array":
        return
    if not node.members or any(value.kind in ("object", "array") for _, value in node.members):
        for _, value in node.members:
            yield from _of_json(view, value, image=image)
        return
    words = tuple(value.value for _, value in node.members)
    start = vllm_arguments(words)
    if start is None and image:
        start = 0
    if start is not None:
        spans = tuple((view.place(value.start + 1), view.place(value.end - 1)) for _, value in node.members)
        yield Arguments(words, spans, start, _bracket_edits(view, [node.span(i) for i in range(len(words))], node))


def _bracket_edits(
    view: View, spans: list[tuple[int, int]], node: Any
) -> Callable[[Ranges], dict[tuple[int, int], Edit]]:
    def edits(ranges: Ranges) -> dict[tuple[int, int], Edit]:
        removed = [index for first, last in ranges for index in range(first, last + 1)]
        made = jsontree.members_cut(spans, removed, (node.start + 1, node.end - 1))
        found = {}
        for first, last in ranges:
            cut = next(
                (c for c in made if c.start <= spans[first][0] < c.end or c.start < spans[last][1] <= c.end), None
            )
            if cut is not None:
                found[first, last] = view.edit(cut)
        return found

    return edits


def _strings(node: jsontree.Node) -> Iterator[jsontree.Node]:
    if node.kind == "string":
        yield node
    for _, value in node.members:
        yield from _strings(value)


@dataclass(frozen=True, slots=True)
class _Bounds:
    start: int
    end: int


class _Yaml:
    """Lists and strings of one YAML text that are arguments of vLLM."""

    def __init__(self, view: View, needle: re.Pattern[str]) -> None:
        self.view, self.needle = view, needle

    def run(self) -> Iterator[Arguments]:
        import yaml

        try:
            roots = list(yaml.compose_all(self.view.text, Loader=yaml.SafeLoader))
        except (yaml.YAMLError, RecursionError, ValueError):
            return
        for root in roots:
            if root is not None:
                yield from self._node(root, "", image=False, depth=0)

    def _node(self, node: Any, key: str, *, image: bool, depth: int) -> Iterator[Arguments]:
        if depth > 100:
            return
        if is_scalar(node):
            yield from self._string(node, given=image and key in ("command", "args", "entrypoint"))
            return
        members = node.value
        if members and not isinstance(members[0], tuple):
            if all(is_scalar(item) for item in members):
                yield from self._list(node, given=image and key in ("command", "args", "entrypoint"))
            for item in members:
                if not is_scalar(item) or " " in item.value:
                    yield from self._node(item, "", image=image, depth=depth + 1)
            return
        here = any(is_scalar(k) and k.value == "image" and is_scalar(v) and "vllm" in v.value for k, v in members)
        for name, value in members:
            text = name.value if is_scalar(name) else ""
            yield from self._node(value, str(text), image=here or (image and depth < 3), depth=depth + 1)

    def _string(self, node: Any, *, given: bool) -> Iterator[Arguments]:
        start, end = node.start_mark.index, node.end_mark.index
        if not self.needle.search(self.view.text, start, end):
            return
        if node.style in ("|", ">"):
            start = min(self.view.text.find("\n", start) + 1, end)
        elif node.style in ("'", '"'):
            start, end = start + 1, end - 1
        yield from of_scripts(self.view.part(start, end), given=given)

    def _list(self, node: Any, *, given: bool) -> Iterator[Arguments]:
        words = tuple(str(item.value) for item in node.value)
        start = vllm_arguments(words)
        if start is None and given:
            start = 0
        if start is None or not any(self.needle.search(word) for word in words):
            return
        spans = [(item.start_mark.index, item.end_mark.index) for item in node.value]
        quote = [1 if item.style in ("'", '"') else 0 for item in node.value]
        places = tuple((self.view.place(s + q), self.view.place(e - q)) for (s, e), q in zip(spans, quote, strict=True))
        if node.flow_style:
            bounds = _Bounds(node.start_mark.index, node.end_mark.index)
            yield Arguments(words, places, start, _bracket_edits(self.view, spans, bounds))
        else:
            yield Arguments(words, places, start, self._line_edits(spans))

    def _line_edits(self, spans: list[tuple[int, int]]) -> MakeEdits:
        def edits(ranges: Ranges) -> dict[tuple[int, int], Edit]:
            text = self.view.text
            gone = sum(last - first + 1 for first, last in ranges)
            if gone == len(spans) or not all(is_block_item(text, start) for start, _ in spans):
                return {}
            return {each: self.view.edit(_plain_lines(text, spans[each[0]][0], spans[each[1]][1])) for each in ranges}

        return edits


def _plain_lines(text: str, start: int, end: int) -> Cut:
    cut = lines_cut(text, start, end)
    return Cut(text.rfind("\n", 0, start) + 1, cut.end)
