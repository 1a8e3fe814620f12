"""Scores the rewrite of a tree against what people made of it by hand.

    python tests/codemods/score_human.py BEFORE AFTER [--target 0.11.2] [--show FILE]

BEFORE and AFTER are two states of one tree; nothing is fetched and neither is written to. Only Python files that differ
between them count, and in them only removed lines that speak of the engine. A line counts by its text without
indentation, as often as it occurs: people re-indent and reflow.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import re
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from v1_migrate.discover import discover
from v1_migrate.engine.analyse import Analyser
from v1_migrate.engine.context import Settings
from v1_migrate.engine.tree import Tree
from v1_migrate.findings import Finding
from v1_migrate.kinds import Kind

WORDS = re.compile(r"VLLM_USE_V1|use_v1|V0|v0|skip_v1|run_with_both_engines|setenv")


@dataclass
class Score:
    """Sums over the files that people changed."""

    people: int = 0  # lines about the engine that people removed
    also_ours: int = 0
    found: int = 0  # of the others: those with a finding
    silent: list[str] = field(default_factory=list)
    ours: int = 0  # lines that we removed
    also_people: int = 0
    identical: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)


def removed(before: str, after: str) -> Counter[str]:
    """Lines that are in `before` more often than in `after`."""
    return Counter(map(str.strip, before.splitlines())) - Counter(map(str.strip, after.splitlines()))


def same_but_for_wrapping(first: str, second: str) -> bool:
    """Equal trees and equal comments: what a formatter may change does not count."""
    return ast.dump(ast.parse(first)) == ast.dump(ast.parse(second)) and comments(first) == comments(second)


def comments(text: str) -> list[str]:
    """The comments of a file, in order."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def add(score: Score, rel: str, before: str, people: str, ours: str, findings: list[Finding]) -> None:
    """Count one file."""
    by_people, by_us = removed(before, people), removed(before, ours)
    lines_ours = {number: line.strip() for number, line in enumerate(ours.splitlines(), 1)}
    said = {lines_ours.get(line, "") for finding in findings for line in range(finding.line, finding.end_line + 1)}
    for line, count in by_people.items():
        if not WORDS.search(line):
            continue
        both = min(count, by_us[line])
        score.people += count
        score.also_ours += both
        if count > both and line in said:
            score.found += count - both
        elif count > both:
            score.silent += [f"{rel}: {line}"] * (count - both)
    score.ours += sum(count for line, count in by_us.items() if line)
    score.also_people += sum(min(count, by_people[line]) for line, count in by_us.items() if line)
    (score.identical if same_but_for_wrapping(ours, people) else score.different).append(rel)


def main() -> None:
    """Print the score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--target", default="0.11.2")
    parser.add_argument("--select", default="V1M2,V1M3", help="rules that take part")
    parser.add_argument("--show", default="", help="print the difference to people's version of files that match")
    arguments = parser.parse_args()
    files = [file for file in discover(arguments.before).files if file.kind is Kind.PYTHON]
    changed = {
        file.rel: (file.path.read_text(), (arguments.after / file.rel).read_text())
        for file in files
        if (arguments.after / file.rel).is_file()
        and file.path.read_bytes() != (arguments.after / file.rel).read_bytes()
    }
    settings = Settings(arguments.target, select=frozenset(arguments.select.split(",")))
    analyser = Analyser(Tree.of(arguments.before.resolve(), [file.path for file in files]), settings)
    score = Score()
    for file in files:
        if file.rel not in changed:
            continue
        result = analyser.file(file)
        before, people = changed[result.rel]
        ours = result.new_text if result.new_text is not None else before
        add(score, result.rel, before, people, ours, result.findings)
        if arguments.show and arguments.show in result.rel:
            diff = difflib.unified_diff(ours.splitlines(), people.splitlines(), "ours", "people", lineterm="")
            print(f"== {result.rel}", *diff, sep="\n")
    report(score)


def report(score: Score) -> None:
    """The figures, and every miss by its line."""
    print(f"lines about the engine that people removed: {score.people}")
    print(f"  removed by us, too: {score.also_ours} ({score.also_ours / max(score.people, 1):.0%})")
    print(f"  left, with a finding: {score.found}")
    print(f"  left without a word: {len(score.silent)}")
    for line in score.silent:
        print(f"    {line}")
    print(f"lines that we removed: {score.ours}")
    print(f"  removed by people, too: {score.also_people} ({score.also_people / max(score.ours, 1):.0%})")
    print(f"files identical but for wrapping: {len(score.identical)} of {len(score.identical) + len(score.different)}")
    for rel in score.different:
        print(f"    differs: {rel}")


if __name__ == "__main__":
    sys.exit(main())
