"""Judges `v1-migrate rewrite` on a tree: `python judge.py TREE --target 0.32.0 --releases DIR`.

The tree is copied first; exit code 1 if any guarantee fails, 2 if the tool itself did.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guarantees import oracle, texts
from guarantees.nothing_breaks import compare

SHOWN = 20
DEFAULT_CLI = f"{shlex.quote(sys.executable)} -m v1_migrate"


class ToolFailed(RuntimeError):
    """The command line did not do its work, so there is nothing to judge."""


@dataclass(slots=True)
class Line:
    """One guarantee's outcome."""

    guarantee: str
    offenders: list[str]
    note: str = ""
    counts: bool = True  # False: a figure worth knowing, not a failure


@dataclass(slots=True)
class Judgement:
    lines: list[Line] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return not any(line.offenders for line in self.lines if line.counts)

    def __str__(self) -> str:
        return "\n".join(self._text())

    def _text(self) -> list[str]:
        out = []
        for line in self.lines:
            state = "ok  " if not line.offenders else "FAIL" if line.counts else "note"
            out.append(f"{state} {line.guarantee}: {len(line.offenders)}{'  ' + line.note if line.note else ''}")
            out += [f"       {offender}" for offender in line.offenders[:SHOWN]]
            if len(line.offenders) > SHOWN:
                out.append(f"       ... and {len(line.offenders) - SHOWN} more")
        return out


def rewrite(tree: Path, target: str, cli: str = DEFAULT_CLI, extra: Sequence[str] = ()) -> dict[str, Any]:
    """Run the command line over a tree, in place, and give its report.

    Raises ToolFailed with the tool's own words on exit code 2, a crash, or output that is not the report.
    """
    command = [*shlex.split(cli), "rewrite", str(tree), "--target", target, "--format", "json", "--allow-dirty", *extra]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise ToolFailed(f"{shlex.join(command)}: exit code {done.returncode}\n{_last_words(done.stderr)}")
    try:
        report: dict[str, Any] = json.loads(done.stdout)
        for finding in report["findings"]:
            finding["line"], finding["end_line"], finding["fixed"], finding["path"]
    except (ValueError, KeyError, TypeError) as error:
        raise ToolFailed(
            f"{shlex.join(command)}: no report on stdout ({error!r})\n{_last_words(done.stderr)}"
        ) from error
    return report


def _last_words(text: str, count: int = 6) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def differences(left: Path, right: Path) -> list[str]:
    """Files that are not byte for byte the same in two trees."""
    names = sorted({p.relative_to(t).as_posix() for t in (left, right) for p in t.rglob("*") if p.is_file()})
    return [name for name in names if not _same(left / name, right / name)]


def _same(one: Path, two: Path) -> bool:
    return one.is_file() and two.is_file() and filecmp.cmp(one, two, shallow=False)


def judge(tree: Path, names: oracle.Names, target: str, cli: str = DEFAULT_CLI, untouched: bool = False) -> Judgement:
    """Copy, rewrite twice, and check every guarantee. `untouched`: no file may change at all."""
    with tempfile.TemporaryDirectory(prefix="guarantees-") as folder:
        after, again = Path(folder) / "after", Path(folder) / "again"
        shutil.copytree(tree, after, symlinks=True)
        report = rewrite(after, target, cli)
        shutil.copytree(after, again, symlinks=True)
        rewrite(again, target, cli)
        verdict, damage = oracle.check(after, report, names), compare(tree, after, report)
        judgement = Judgement(report=report)
        judgement.lines = _lines(verdict, damage.offences)
        other = [str(place) for place in texts.unreported(after, report, names)]
        judgement.lines.append(Line("paths-outside-python-without-finding", other, counts=False))
        judgement.lines.append(Line("second-run", differences(after, again)))
        if untouched:
            judgement.lines.append(Line("untouched", differences(tree, after)))
    fixed = sum(bool(f["fixed"]) for f in report["findings"])
    excused = ", ".join(f"{reason} {count}" for reason, count in damage.excused.items()) or "none"
    note = f"{len(report['findings'])} findings, {fixed} fixed, {damage.changed} files changed; names let go: {excused}"
    judgement.lines.append(Line("summary", [], note))
    return judgement


def _lines(verdict: oracle.Verdict, offences: dict[str, list[str]]) -> list[Line]:
    note = f"{verdict.stale} stale references left, in {verdict.files} files that mention vllm"
    unreported = [name for name, reported in verdict.unreadable if not reported]
    return [
        Line("silent-misses", [str(place) for place in verdict.misses], note),
        Line("unreadable-reported", unreported, f"{len(verdict.unreadable)} files this Python cannot parse"),
        *(Line(name, found) for name, found in offences.items()),
        Line("uses-without-finding", [str(place) for place in verdict.uses], counts=False),
        Line("covered-only-by-a-wide-finding", [str(place) for place in verdict.wide], counts=False),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--target", required=True, help="release to migrate to, as 0.32.0")
    parser.add_argument(
        "--releases", type=Path, default=oracle.releases_folder(), help="folder with a tree per release"
    )
    parser.add_argument("--cli", default=DEFAULT_CLI, help="the command to judge")
    parser.add_argument("--untouched", action="store_true", help="the tree uses nothing of V0: no file may change")
    parser.add_argument("--report", type=Path, help="also write the tool's report here")
    options = parser.parse_args(arguments)
    if options.releases is None:
        parser.error("say where the releases are: --releases DIR, or V1_MIGRATE_RELEASES")
    if not options.tree.is_dir():
        parser.error(f"{options.tree} is not a folder")
    try:
        names = oracle.load(options.releases, options.target, options.tree)
        judgement = judge(options.tree, names, options.target, options.cli, options.untouched)
    except (ToolFailed, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.report:
        options.report.write_text(json.dumps(judgement.report, indent=1))
    print(f"{options.tree.name} -> {options.target}\n{judgement}")
    return 0 if judgement.holds else 1


if __name__ == "__main__":
    raise SystemExit(main())
