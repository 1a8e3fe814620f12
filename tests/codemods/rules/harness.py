"""Runs one text through the analyser as a file of a small tree, and checks what must hold for every rewrite."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from pathlib import Path

from v1_migrate.discover import Kind
from v1_migrate.engine.analyse import Analyser
from v1_migrate.engine.context import Settings
from v1_migrate.engine.tree import Tree
from v1_migrate.engine.verify import lost_names, unbound_names
from v1_migrate.engine.walk import walk
from v1_migrate.findings import Finding
from v1_migrate.rules import all_rules
from v1_migrate.source import Source

OF_NAMES = {rule.id for rule in all_rules() if rule.of_the_text}


@dataclass(frozen=True)
class Outcome:
    """The text after the run, and what was said."""

    text: str
    findings: tuple[Finding, ...]

    def said(self, rule: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.rule == rule]

    @property
    def rules(self) -> set[str]:
        return {finding.rule for finding in self.findings}

    @property
    def open(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.open]

    def lines(self, rule: str) -> list[int]:
        return [finding.line for finding in self.said(rule)]


def dedent(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def rewrite(
    text: str,
    target: str = "0.32.0",
    *,
    attention: str = "vllm",
    unsafe: bool = False,
    kind: Kind = Kind.PYTHON,
    module: str = "plugin.module",
    tree: Tree | None = None,
    ignore: frozenset[str] = frozenset(),
    check: bool = True,
    rel: str = "module.py",
    folds: bool = False,
) -> Outcome:
    """One text, rewritten. `check=False` for texts that are not meant to be Python.

    `folds=True` where names may go with the code that read them: what is still read must still be bound.
    """
    settings = Settings(target, attention, unsafe, ignore=ignore)
    analyser = Analyser(tree or Tree(Path("/nowhere")), settings)
    source = Source.from_bytes(text.encode(), rel, python=kind in (Kind.PYTHON, Kind.STUB))
    package = module.rpartition(".")[0]
    result = analyser.source(source, kind, module, package)
    after = result.new_text if result.new_text is not None else source.text
    outcome = Outcome(after, tuple(result.findings))
    if check:
        _guarantees(analyser, source, after, kind, module, outcome, folds)
    return outcome


def _guarantees(
    analyser: Analyser, source: Source, after: str, kind: Kind, module: str, outcome: Outcome, folds: bool
) -> None:
    if folds:
        before_model, after_model = (walk(ast.parse(each), []) for each in (source.text, after))
        assert not unbound_names(before_model, after_model), "a name is read that nothing binds any more"
    elif kind in (Kind.PYTHON, Kind.STUB):
        assert not lost_names(ast.parse(source.text), ast.parse(after)), "a bound name was lost"
    assert "V1M902" not in outcome.rules, f"edits were given up: {outcome.said('V1M902')[0].message}"
    second = Source.from_bytes(after.encode(), source.rel, python=kind in (Kind.PYTHON, Kind.STUB))
    again = analyser.source(second, kind, module, module.rpartition(".")[0])
    assert again.new_text is None, "a second run changed the text again"
    left, said = (
        {(f.line, f.rule, f.message) for f in each if not f.fixed} for each in (outcome.findings, again.findings)
    )
    assert said <= left, "the next run says more"
    lines = {line for line, _, _ in said}
    contradicted = {each for each in left - said if each[1] in OF_NAMES and each[0] in lines}
    assert not contradicted, "the next run says something else of the names on a line"
