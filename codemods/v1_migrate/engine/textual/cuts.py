"""Cutting words and commands out of shell text so that the rest still parses and keeps its author's layout."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .shell import CLOSERS, EXPORTS, OPENERS, Command, Operator, Script, scripts

_CONTINUED = re.compile(r"[ \t]*\\\Z")
_BLANKS = re.compile(r"[ \t]*")
_BEFORE = re.compile(r"[ \t]*\\\r?\n[ \t]*\Z")
_OF_ENGINE = re.compile(r"\bv[01]\b|VLLM_USE_V1|\bengine\b", re.IGNORECASE)
_TESTS = ("[[", "[", "test")
_LOOK_BACK = 400  # characters: more than any continued line end needs


@dataclass(frozen=True, slots=True)
class Cut:
    """Replace text[start:end]."""

    start: int
    end: int
    replacement: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Words `first` to `last` of the command at `at`; `whole`: the command has no purpose without them."""

    at: int
    first: int
    last: int
    whole: bool = False


def cuts(text: str, script: Script, parts: Iterable[Part]) -> dict[Part, Cut]:
    """A cut for each part that can go; parts next to each other share one."""
    listed = sorted(set(parts), key=lambda part: (part.at, part.first))
    found = _cuts(text, script, listed, blocks=True)
    if _hollow(_after(text, script, found.values())) > _hollow(text[script.start : script.end]):
        found = _cuts(text, script, listed, blocks=False)
    return found


def _after(text: str, script: Script, made: Iterable[Cut]) -> str:
    """The script's text after the cuts."""
    pieces: list[str] = []
    done = script.start
    for cut in sorted(set(made), key=lambda each: each.start):
        pieces += (text[done : max(cut.start, done)], cut.replacement)
        done = max(cut.end, done)
    return "".join((*pieces, text[done : script.end]))


def _hollow(text: str) -> int:
    """Blocks with no command in them."""
    items = [item for item in scripts(text)[0].items if not (isinstance(item, Operator) and item.blank)]
    return sum(
        isinstance(a, Operator) and isinstance(b, Operator) and a.text in OPENERS and b.text in CLOSERS
        for a, b in itertools.pairwise(items)
    )


def _cuts(text: str, script: Script, listed: list[Part], *, blocks: bool) -> dict[Part, Cut]:
    """`blocks`: an `if` whose body goes may go altogether."""
    found: dict[Part, Cut] = {}
    emptied = {part.at for part in listed if not part.whole and _emptied(script, part.at, listed)}
    for group in _neighbours([part for part in listed if not part.whole and part.at not in emptied]):
        together = _words(text, script, group[0].at, group[0].first, group[-1].last)
        found.update(dict.fromkeys(group, together))
    whole = {part.at for part in listed if part.whole} | emptied
    for run in _runs(script, sorted(whole)):
        for at, cut in _commands(text, script, run, blocks=blocks).items():
            if cut is not None:
                found.update((part, cut) for part in listed if part.at == at)
    return found


def _emptied(script: Script, at: int, parts: list[Part]) -> bool:
    """The parts leave nothing of an export but its name, or nothing at all."""
    command = script.items[at]
    assert isinstance(command, Command)
    gone = {index for part in parts if part.at == at for index in range(part.first, part.last + 1)}
    if command.name in EXPORTS:
        gone |= {i for i, word in enumerate(command.words) if i == 0 or word.text.startswith("-")}
    elif command.name:
        return False
    return len(gone) == len(command.words)


def lines_cut(text: str, start: int, end: int, limit: int | None = None) -> Cut:
    """All of the lines from `start` to `end`, with a comment that spoke of them alone, and one of two blank lines."""
    limit = len(text) if limit is None else limit
    first, last = line_start(text, start), _next_line(text, end)
    alone = last >= limit or not text[last : line_end(text, last)].strip() or _closes(text, last)
    if alone:
        first = _comment_above(text, first)
    blank_before = first == 0 or not text[_previous_line(text, first) : first].strip()
    if blank_before and last < limit and not text[last : line_end(text, last)].strip():
        last = _next_line(text, last)
    return Cut(first, last)


def line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def line_end(text: str, position: int) -> int:
    """Where the line's text ends, before its line end."""
    found = [p for p in (text.find("\n", position), text.find("\r", position)) if p >= 0]
    return min(found) if found else len(text)


def _next_line(text: str, position: int) -> int:
    end = line_end(text, position)
    return end + (2 if text.startswith("\r\n", end) else 1 if end < len(text) else 0)


def _previous_line(text: str, start: int) -> int:
    """The start of the line above the one that starts at `start`, which is not the first."""
    return line_start(text, start - (2 if text.startswith("\r\n", start - 2) else 1))


def _closes(text: str, position: int) -> bool:
    return text[position : line_end(text, position)].strip().rstrip(";") in CLOSERS


def _comment_above(text: str, first: int) -> int:
    """The start of the comment above, if it is a paragraph's first and speaks of the engine."""
    top = first
    while top > 0:
        above = _previous_line(text, top)
        line = text[above : line_end(text, above)].strip()
        if not line.startswith("#") or line.startswith("#!"):
            break
        top = above
    if top == first or not _OF_ENGINE.search(text[top:first]):
        return first
    before = text[_previous_line(text, top) : top].strip() if top else ""
    return top if not before or before.split()[-1] in OPENERS else first


def _neighbours(parts: list[Part]) -> list[list[Part]]:
    groups: list[list[Part]] = []
    for part in parts:
        if groups and groups[-1][-1].at == part.at and groups[-1][-1].last + 1 >= part.first:
            groups[-1].append(part)
        else:
            groups.append([part])
    return groups


def _words(text: str, script: Script, at: int, first: int, last: int) -> Cut:
    command = script.items[at]
    assert isinstance(command, Command)
    start, end = command.words[first].start, command.words[last].end
    if first == 0 and last == len(command.words) - 1 and line_start(text, start) >= script.start:
        line, stop = line_start(text, start), min(line_end(text, end), script.end)
        if not text[line:start].strip() and not text[end:stop].strip():
            return Cut(line, min(_next_line(text, end), script.end))
    return span_cut(text, start, end, first == 0, script.end)


def span_cut(text: str, start: int, end: int, leading: bool, limit: int) -> Cut:
    """Cut text[start:end] with the blanks, and the continuation, that only it needed."""
    line, stop = line_start(text, start), min(line_end(text, end), limit)
    left, right = text[line:start], text[end:stop]
    alone = not left.strip()
    if alone and _CONTINUED.match(right):
        following = _next_line(text, end)
        if leading:
            blanks = _BLANKS.match(text, following)
            return Cut(start, blanks.end() if blanks else following)
        return Cut(line, following)
    if alone and not right.strip():
        before = _BEFORE.search(text[max(0, start - _LOOK_BACK) : start])
        if before:
            return Cut(start - len(before.group()), end)
    if right.strip() and right[0] in " \t" and not _CONTINUED.match(right):
        return Cut(start, end + len(right) - len(right.lstrip()))
    return Cut(start - (len(left) - len(left.rstrip())) if not alone else start, end)


def _runs(script: Script, removed: list[int]) -> list[list[int]]:
    """Commands that go, in runs with nothing but separators and `&&` between them."""
    runs: list[list[int]] = []
    for at in removed:
        between = script.items[runs[-1][-1] + 1 : at] if runs else []
        if runs and all(isinstance(item, Operator) and (item.blank or item.text == "&&") for item in between):
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs


def _commands(text: str, script: Script, run: list[int], *, blocks: bool) -> dict[int, Cut | None]:
    opener, closer = script.around(run[0])[0], script.around(run[-1])[1]
    emptied = opener in OPENERS and closer in CLOSERS
    if emptied and opener == "(":
        return {}
    if emptied:
        guards = blocks and (opener, closer) == ("then", "fi")
        block = _if_block(text, script, run[0], run[-1]) if guards else None
        if block is not None:
            return dict.fromkeys(run, block)
        first = script.items[run[0]]
        assert isinstance(first, Command)
        stay: dict[int, Cut | None] = {run[0]: Cut(first.start, first.end, ":")}
        return stay | _statements(text, script, run[1:])
    return _statements(text, script, run)


def _statements(text: str, script: Script, run: list[int]) -> dict[int, Cut | None]:
    """Cuts of whole commands; those that `;` or `&&` joins go together, since each would take the operator along."""
    chains: list[list[int]] = []
    for at in run:
        between = script.items[chains[-1][-1] + 1 : at] if chains else []
        if between and all(isinstance(item, Operator) and item.text in (";", "&&") for item in between):
            chains[-1].append(at)
        else:
            chains.append([at])
    return {at: cut for chain in chains for cut in (_statement(text, script, chain),) for at in chain}


def _if_block(text: str, script: Script, first: int, last: int) -> Cut | None:
    """`if TEST; then ... fi` whose body goes: all of it, when the test has no effect and it has its lines to itself."""
    items = [item for item in script.items[:first] if not (isinstance(item, Operator) and item.blank)]
    if len(items) < 3:
        return None
    opening, test, _ = items[-3:]  # if, the test, then
    closing = next((i for i in script.items[last + 1 :] if isinstance(i, Operator) and i.text == "fi"), None)
    if not isinstance(test, Command) or not isinstance(opening, Operator) or opening.text != "if" or closing is None:
        return None
    condition = text[test.start : test.end]
    if test.words[0].text not in _TESTS or "$(" in condition or "`" in condition:
        return None
    left = text[line_start(text, opening.start) : opening.start]
    right = text[closing.end : min(line_end(text, closing.end), script.end)]
    if left.strip() or right.strip():
        return None
    return lines_cut(text, opening.start, closing.end, script.end)


def _statement(text: str, script: Script, chain: list[int]) -> Cut | None:
    """Whole commands with the operator that joined them to their neighbours; None where that would change what runs."""
    items, at = script.items, chain[0]
    before = items[at - 1] if at else None
    after = items[chain[-1] + 1] if chain[-1] + 1 < len(items) else None
    start, end = items[at].start, items[chain[-1]].end
    joined = isinstance(after, Operator) and after.text in (";", "&&")
    while isinstance(before, Operator) and (before.text == "$" or (before.text.upper() == "RUN" and not joined)):
        start, at = before.start, at - 1
        before = items[at - 1] if at else None
    if isinstance(after, Operator) and after.text == ";" and _ends_line(items, script, items.index(after) + 1):
        end, after = after.end, None
    opening = before.text if isinstance(before, Operator) else ""
    closing = after.text if isinstance(after, Operator) else ""
    if (
        opening in ("||", "|", "&")
        or closing in ("||", "|", "&")
        or (script.quoted and len(script.commands) <= len(chain))
    ):
        return None
    if closing in (";", "&&") and (opening, closing) != ("&&", ";"):  # `a && b` of `a && cut; b` would run b less often
        following = items[items.index(after) + 1 :]  # type: ignore[arg-type]
        return Cut(start, following[0].start) if following else None
    if opening in (";", "&&") and isinstance(before, Operator):
        head = text[: before.start]
        joint = re.search(r"(?:[ \t]|\\\r?\n)*\Z", head[-_LOOK_BACK:])
        return Cut(before.start - (len(joint.group()) if joint else 0), end)
    line = line_start(text, start)
    rest = text[end : min(line_end(text, end), script.end)].strip()
    if line >= script.start and not text[line:start].strip() and (not rest or rest.startswith("#")):
        return lines_cut(text, start, end, script.end)
    return Cut(start, end) if not rest else None


def _ends_line(items: list[Command | Operator], script: Script, at: int) -> bool:
    following = items[at] if at < len(items) else None
    return following is None or (isinstance(following, Operator) and following.text[-1] in "\r\n")
