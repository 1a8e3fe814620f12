"""A stand-in for the engine, the rules and the names index, so that the command line is tested by itself.

Words stand for findings: OLD is rewritten to NEWER, GONE is an error for a person, RISKY is rewritten with --unsafe,
LATER is a warning, NOTE is advice, SLOW takes its time. Run as a script it is the command line with this engine.
"""

from __future__ import annotations

import re
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from v1_migrate.discover import File
from v1_migrate.findings import Edit, Effort, Finding, Safety, Severity
from v1_migrate.source import Source, Unreadable

WORDS = re.compile(r"OLD|GONE|RISKY|LATER|NOTE|SLOW")
RULES = {"OLD": "V1M001", "GONE": "V1M004", "RISKY": "V1M002", "LATER": "V1M003", "NOTE": "V1M006", "SLOW": "V1M006"}
SEVERITIES = {"LATER": Severity.WARNING, "NOTE": Severity.INFO, "SLOW": Severity.INFO}


@dataclass(frozen=True)
class Options:
    root: Path
    target: str
    attention: str
    unsafe: bool
    select: frozenset[str]
    ignore: frozenset[str]
    jobs: int
    timeout: float
    extra_indexes: tuple[Path, ...]
    also: str = ""
    bridge: bool = False
    settle: bool = True


@dataclass(frozen=True)
class Result:
    rel: str
    findings: list[Finding]
    new_text: str | None
    old: Source | None
    suppressed: int = 0
    before: list[Finding] | None = None


def run(
    files: Sequence[File], options: Options, progress: Callable[[int, int], None] | None = None
) -> Iterator[Result]:
    for done, file in enumerate(files):
        yield look(file, options)
        if progress is not None:
            progress(done + 1, len(files))


def look(file: File, options: Options) -> Result:
    try:
        source = Source.read(file.path, file.rel)
    except Unreadable as error:
        place = (file.rel, 1, 1, 1, 1)
        return Result(file.rel, [Finding(*place, "V1M901", f"not read: {error}", Severity.ERROR)], None, None)
    findings, edits = [], []
    for match in WORDS.finditer(source.text):
        word = match[0]
        rule = RULES[word]
        if rule in options.ignore or (options.select and rule not in options.select):
            continue
        if word == "SLOW":
            file.path.with_suffix(".started").touch()
            time.sleep(30)
        line, column = source.position(match.start())
        fixed = word == "OLD" or (word == "RISKY" and options.unsafe)
        edit = (Edit(match.start(), match.end(), word, "NEWER"),) if fixed else ()
        edits += edit
        findings.append(
            Finding(
                file.rel,
                line,
                column,
                line,
                column + len(word),
                rule,
                f"`{word}` is not on vLLM {options.target}",
                SEVERITIES.get(word, Severity.ERROR),
                Safety.V1 if fixed else Safety.MANUAL,
                Effort.NONE if fixed else Effort.HOURS,
                "" if fixed else f"Do without {word}.",
                f"vllm.{word}",
                edits=edit,
                fixed=fixed,
            )
        )
    if not edits:
        return Result(file.rel, findings, None, source)
    text = source.apply(edits)
    new = Source(file.rel, b"", text)
    shift = len("NEWER") - len("OLD")
    moved = []
    for finding in findings:
        start = source.line_starts[finding.line - 1] + finding.column - 1
        line, column = new.position(start + shift * sum(edit.start < start for edit in edits))
        moved.append(replace(finding, line=line, end_line=line, column=column, end_column=column + 4))
    return Result(file.rel, moved, text, source, before=findings)


@dataclass(frozen=True)
class Rule:
    id: str
    slug: str
    summary: str = "a rule"
    safety: Safety = Safety.V1
    page: str = ""
    doc: str = "What it does.\n\n## Why\nBecause."


class Index:
    releases = ("0.9.2", "0.10.0", "0.32.0")

    @classmethod
    def load(cls, extra: Sequence[Path] = (), user: bool = True) -> Index:
        return cls()

    def release(self, text: str) -> str:
        if text not in self.releases:
            raise ValueError(f"unknown vLLM release {text!r}: the index has {', '.join(self.releases)}")
        return text


def all_rules() -> tuple[Rule, ...]:
    slugs = ("moved-name", "risky-name", "later-name", "gone-name", "noted-name")
    return tuple(Rule(id, slug) for id, slug in zip(sorted(set(RULES.values())), slugs, strict=True))


def modules() -> dict[str, types.ModuleType]:
    """What to put into sys.modules."""
    engine, rules, index = (types.ModuleType(name) for name in ("engine_run", "rules", "index"))
    engine.__dict__.update(run=run, Options=Options, Result=Result)
    rules.__dict__.update(all_rules=all_rules)
    index.__dict__.update(Index=Index)
    return {"v1_migrate.engine.run": engine, "v1_migrate.rules": rules, "v1_migrate.names.index": index}


if __name__ == "__main__":
    sys.modules.update(modules())
    from v1_migrate.__main__ import main

    main()
