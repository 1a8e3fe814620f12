"""The documentation's page of each rule, written from the rule: `v1-migrate rules --write docs/rules`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ..findings import Safety, Severity

_NOTICE = "<!-- Written by `make docs` from the rule's own text. Edit that. -->"
_SEVERITIES = {Severity.ERROR: "breaks", Severity.WARNING: "means something else", Severity.INFO: "advice"}
_SAFETIES = {
    Safety.BRIDGE: "safe, the result runs on V0 and on V1",
    Safety.V1: "safe, the result runs on V1 only",
    Safety.UNSAFE: "with `--unsafe` only",
    Safety.MANUAL: "none, a person decides",
}


class Rule(Protocol):
    """What is needed of a rule."""

    @property
    def id(self) -> str: ...
    @property
    def slug(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def safety(self) -> Safety: ...
    @property
    def doc(self) -> str: ...


def pages(rules: Iterable[Rule]) -> dict[str, str]:
    """File name to text, the list of all rules included."""
    listed = sorted(rules, key=lambda rule: rule.id)
    return {"index.md": _index(listed), **{f"{rule.id}.md": _page(rule) for rule in listed}}


def stale(folder: Path, rules: Iterable[Rule]) -> list[str]:
    """Names of pages that are missing, differ from the rules, or belong to no rule."""
    wanted = pages(rules)
    there = {file.name for file in folder.glob("*.md")}
    changed = {name for name in there & wanted.keys() if (folder / name).read_text("utf-8") != wanted[name]}
    return sorted(changed | there ^ wanted.keys())


def write(folder: Path, rules: Iterable[Rule]) -> list[str]:
    """Bring the folder up to date; returns the names of the pages that changed."""
    wanted = pages(rules)
    changed = stale(folder, rules)
    folder.mkdir(parents=True, exist_ok=True)
    for name in changed:
        if name in wanted:
            (folder / name).write_text(wanted[name], "utf-8")
        else:
            (folder / name).unlink()
    return changed


def _page(rule: Rule) -> str:
    facts = (
        f"| Name | Severity, mostly | Edit, at best |\n|---|---|---|\n"
        f"| `{rule.slug}` | {rule.severity} ({_SEVERITIES[rule.severity]}) | {_SAFETIES[rule.safety]} |"
    )
    ignore = f"To leave a line as it is: `# v1: ignore[{rule.id}] reason`. For the whole run: `--ignore {rule.id}`."
    return f"{_NOTICE}\n\n# {rule.id}: {rule.summary}\n\n{facts}\n\n{rule.doc.strip()}\n\n## Suppression\n{ignore}\n"


def _index(rules: list[Rule]) -> str:
    rows = [
        f"| [{rule.id}]({rule.id}.md) | `{rule.slug}` | {rule.summary} | {_SAFETIES[rule.safety]} |" for rule in rules
    ]
    head = "# Rules\n\nEach finding names its rule; `v1-migrate explain` shows the same pages.\n"
    return "\n".join(
        [_NOTICE, "", head, "| Rule | Name | What it finds | Edit, at best |", "|---|---|---|---|", *rows, ""]
    )
