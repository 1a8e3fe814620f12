"""Suppression: `# v1: ignore[V1M001, V1M003] reason`, or with a rule's slug: `# v1: ignore[moved-name]`.

At the end of a statement's first or last line it covers the whole statement (of a block: its header), on a line in
between only that line, on a line of its own the next statement. In files other than Python it covers its line or, on
a line of its own, the next one. Findings on covered lines are dropped and their edits are not made. Where a name is
left alone in one place, all edits of that name in the file are left out: half a rename would break the file.

A comment without a rule covers nothing and one that names an unknown rule or matches no finding is of no use: both are
findings of rule V1M905, severity warning, since a reader takes the comment to mean something.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .findings import Effort, Finding, Safety, Severity
from .source import Source

UNUSED = "V1M905"
_MARK = re.compile(rb"[vV]1:\s*ignore")  # no file without it is tokenized
_COMMENT = re.compile(r"(?:#|;|//|<!--|\.\.)\s*v1:\s*ignore\b(?:\s*\[(?P<rules>[^\]]*)\])?", re.IGNORECASE)
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT})


@dataclass(frozen=True, slots=True)
class Comment:
    """One suppression: where it stands and which lines it covers. No rule at all is a mistake."""

    line: int
    column: int  # 1-based
    end_column: int
    rules: tuple[str, ...]
    first: int
    last: int

    def covers(self, finding: Finding) -> bool:
        return finding.rule in self.rules and self.first <= finding.line <= self.last


def comments(source: Source, *, python: bool = True) -> list[Comment]:
    """All suppressions of a file; none in a Python file that cannot be tokenized (it has a finding for that)."""
    if b"ignore" not in source.raw or not _MARK.search(source.raw):
        return []
    if not python:
        return list(_line_comments(source))
    try:
        return list(_comments(source))
    except (tokenize.TokenError, SyntaxError):
        return []


def apply(
    source: Source,
    findings: Sequence[Finding],
    *,
    python: bool = True,
    known: Mapping[str, str] | None = None,
    active: Collection[str] | None = None,
) -> tuple[list[Finding], int]:
    """Findings of the file as it is on disk that no comment suppresses, and the number of those that are.

    `known` are the slugs of all rules by their ids, `active` the ids of the rules that ran (None: all of them,
    unchecked). Of a rule that did not run nobody can say whether a comment suppresses it.
    """
    found = comments(source, python=python)
    if not found:
        return list(findings), 0
    ids = {slug.upper(): rule for rule, slug in (known or {}).items()}
    found = [replace(comment, rules=tuple(ids.get(rule, rule) for rule in comment.rules)) for comment in found]
    used: set[tuple[Comment, str]] = set()
    dropped: set[int] = set()
    for index, finding in enumerate(findings):
        for comment in found:
            if comment.covers(finding):
                used.add((comment, finding.rule))
                dropped.add(index)
    suppressed_imports = {_group(findings[i]) for i in dropped if findings[i].primary}
    # Whoever keeps the import of a name keeps its uses: they are no separate decision.
    dropped |= {i for i, f in enumerate(findings) if not f.primary and _group(f) in suppressed_imports}
    halted = {_group(findings[i]) for i in dropped if findings[i].edits}
    kept = [_halt(f) if f.edits and _group(f) in halted else f for i, f in enumerate(findings) if i not in dropped]
    kept += [complaint for comment in found for complaint in _complaints(source.rel, comment, used, known, active)]
    return sorted(kept, key=lambda f: (f.line, f.column)), len(dropped)


def _group(finding: Finding) -> str:
    return finding.name or f"{finding.rule}:{finding.line}:{finding.column}"


def _halt(finding: Finding) -> Finding:
    advice = f"{finding.advice} Not edited, because another use of the name in this file is suppressed.".strip()
    return replace(finding, edits=(), safety=Safety.MANUAL, effort=Effort.MINUTES, advice=advice)


def _comments(source: Source) -> Iterator[Comment]:
    statement: int | None = None  # first line of the logical line that is being read
    before: list[Comment] = []  # on lines of their own, before the statement
    inside: list[Comment] = []
    text = "\n".join(source.line(n + 1) for n in range(len(source.line_starts)))  # the module knows no lone CR
    for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
        if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
            comment = _comment(match, token.start[0], token.start[1])
            (before if statement is None else inside).append(comment)
        elif token.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            first, last = statement or token.start[0], token.start[0]
            yield from (replace(comment, first=first, last=last) for comment in before)
            ends = [comment for comment in inside if comment.line in (first, last)]
            yield from (replace(comment, first=first, last=last) if comment in ends else comment for comment in inside)
            before, inside, statement = [], [], None
        elif token.type not in _LAYOUT and statement is None:
            statement = token.start[0]


def _line_comments(source: Source) -> Iterator[Comment]:
    for number in range(1, len(source.line_starts) + 1):
        line = source.line(number)
        if match := _COMMENT.search(line):
            covered = number if line[: match.start()].strip() else number + 1
            yield replace(_comment(match, number, 0), first=covered, last=covered)


def _comment(match: re.Match[str], line: int, column: int) -> Comment:
    rules = tuple(rule.strip().upper() for rule in (match["rules"] or "").split(",") if rule.strip())
    return Comment(line, column + match.start() + 1, column + match.end() + 1, rules, line, line)


def _complaints(
    rel: str,
    comment: Comment,
    used: set[tuple[Comment, str]],
    known: Collection[str] | None,
    active: Collection[str] | None,
) -> Iterator[Finding]:
    if not comment.rules:
        advice = "Name the rule that the comment is about, as in `# v1: ignore[V1M001] reason`."
        yield _complaint(rel, comment, "`v1: ignore` without a rule suppresses nothing", advice)
    for rule in comment.rules:
        if known is not None and rule not in known:
            advice = "`v1-migrate rules` lists the rules."
            yield _complaint(rel, comment, f"`v1: ignore[{rule}]` names a rule that does not exist", advice)
        elif (comment, rule) not in used and (active is None or rule in active):
            advice = f"Remove {rule} from the comment."
            yield _complaint(rel, comment, f"`v1: ignore[{rule}]` suppresses nothing here", advice)


def _complaint(rel: str, comment: Comment, message: str, advice: str) -> Finding:
    place = (comment.line, comment.column, comment.line, comment.end_column)
    return Finding(rel, *place, rule=UNUSED, message=message, severity=Severity.WARNING, advice=advice)
