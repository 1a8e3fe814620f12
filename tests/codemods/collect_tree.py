"""Whether a tree's tests still collect: `python tests/codemods/collect_tree.py TREE --old RELEASE --target RELEASE`.

Copies TREE, rewrites the copy with all rules, and lets pytest collect both against the old release and the target. vllm
is played by its releases' source (see release_shape.py), so neither it nor torch need be installed, and nothing is
fetched. A TREE that holds the package `vllm` is its own old release.

A file that was collected on the old release and is not on the target must have a finding where it fails. Since one
name that is gone from a conftest.py hides what is below it, both are also collected against a vllm with the names of
both releases: there the rewrite may lose no file at all. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FRAME = re.compile(r"^(\S+\.py):(\d+): in |^E\s+File \"([^\"]+)\", line (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Collected:
    """What pytest found: node ids of tests, and the report of what could not be collected."""

    items: tuple[str, ...]
    failed: dict[str, str]

    @property
    def files(self) -> set[str]:
        """Files with a test."""
        return {item.partition("::")[0] for item in self.items}

    def in_file(self, file: str) -> list[str]:
        """The file's tests."""
        return [item.partition("::")[2] for item in self.items if item.partition("::")[0] == file]


def collect(tree: Path, folder: str, shapes: dict[str, list[Path]], python: str) -> Collected:
    """Let pytest collect a folder of the tree."""
    with tempfile.TemporaryDirectory() as work:
        record = Path(work, "collected.json")
        environment = os.environ | {
            "RELEASE_SHAPE": os.pathsep.join(f"{name}={'|'.join(map(str, where))}" for name, where in shapes.items()),
            "COLLECTED": str(record),
            "PYTHONPATH": os.pathsep.join((str(tree), str(Path(__file__).parent))),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        options = ["-p", "release_shape", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "-W", "ignore"]
        command = [python, "-m", "pytest", "--collect-only", "-q", "--continue-on-collection-errors", *options, folder]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        if not record.exists():
            return Collected((), {folder: done.stdout[-4000:] + done.stderr[-4000:]})
        found = json.loads(record.read_text())
    return Collected(tuple(found["items"]), found["failed"])


def rewritten(tree: Path, copy: Path, target: str, attention: str) -> list[dict[str, object]]:
    """Copy the tree, rewrite the copy; the findings."""
    shutil.copytree(tree, copy, symlinks=True)
    command = [sys.executable, "-m", "v1_migrate", "rewrite", str(copy), "--target", target, "--format", "json"]
    command += ["--allow-dirty", *(("--attention", attention) if attention else ())]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "codemods")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(done.stderr)
    return list(json.loads(done.stdout)["findings"])


def explanation(report: str, tree: Path, findings: list[dict[str, object]]) -> str:
    """The finding where a collection failed; "" without one."""
    lines = report.splitlines()
    message = next((line for line in reversed(lines) if line.startswith("E ")), lines[-1] if lines else "")
    for match in reversed(list(_FRAME.finditer(report))):
        path, line = Path(match[1] or match[3]), int(match[2] or match[4])
        rel = path.relative_to(tree).as_posix() if path.is_absolute() and path.is_relative_to(tree) else str(path)
        low, high = statement_at(tree / rel, line)
        for finding in findings:
            first, last = int(str(finding["line"])), int(str(finding["end_line"]))
            if finding["path"] == rel and first <= high and low <= last and not finding["fixed"]:
                return f"{finding['rule']} {rel}:{line}: {finding['message']} | {message[:100]}"
    return ""


def statement_at(path: Path, line: int) -> tuple[int, int]:
    """The lines of the import around a line, else that line; an import's names have lines of their own."""
    found = (line, line)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))) if path.is_file() else ():
        if isinstance(node, ast.Import | ast.ImportFrom) and node.lineno <= line <= (node.end_lineno or 0):
            found = (node.lineno, node.end_lineno or line)
    return found


def print_figures(runs: dict[str, Collected]) -> None:
    for name, found in runs.items():
        print(f"{name:24} {len(found.files):4} files {len(found.items):6} tests {len(found.failed):4} failures")
        if not found.items and found.failed:
            print(*(text.splitlines()[-1] for text in found.failed.values() if text), sep="\n")


def print_differences(before: Collected, after: Collected) -> None:
    """Files that were never collected, and those with other tests than before."""
    for node, report in before.failed.items():
        print(f"never collected: {node}: {report.splitlines()[-1][:200]}")
    for file in sorted(before.files & after.files):
        was, now = set(before.in_file(file)), set(after.in_file(file))
        if was != now:
            print(
                f"other tests: {file}: {len(was)} -> {len(now)}, as {sorted(was - now)[:2]} -> {sorted(now - was)[:2]}"
            )


def lost(before: Collected, after: Collected, copy: Path, findings: list[dict[str, object]] | None) -> int:
    """Print every file that is not collected any more; how many have no finding that says why."""
    bad = 0
    reasons: dict[str, list[str]] = {}
    for file in sorted(before.files - after.files):
        failures = [text for node, text in after.failed.items() if file.startswith(node.partition("::")[0])]
        report = failures[0] if failures else "no tests in it"
        why = explanation(report, copy, findings) if findings else ""
        bad += not why
        reasons.setdefault(why or "UNEXPLAINED " + report[-600:], []).append(file)
    for why, files in reasons.items():
        print(f"lost: {why}\n  {' '.join(files[:5])}{f' and {len(files) - 5} more' if len(files) > 5 else ''}")
    return bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--old", default="0.9.2", help="the release that the tree was written for")
    parser.add_argument("--target", required=True)
    parser.add_argument("--releases", type=Path, default=os.environ.get("V1_MIGRATE_SOURCES"))
    parser.add_argument("--attention", default="")
    parser.add_argument("--tests", default="tests", help="the folder to collect")
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work, tree.name)
        findings = rewritten(tree, copy, arguments.target, arguments.attention)
        own = (tree / "vllm").is_dir()
        old = [tree] if own else [arguments.releases / arguments.old]
        new = [arguments.releases / arguments.target]
        runs = {}
        for name, code, vllm in (
            ("old release", tree, old),
            ("target, as it was", tree, new),
            ("target, rewritten", copy, new),
            ("either, as it was", tree, new + old),
            ("either, rewritten", copy, new + old),
        ):
            shapes = {"vllm": vllm, "v1_cpu": [ROOT]}
            runs[name] = collect(code, arguments.tests, shapes, arguments.python)
        print_figures(runs)
        print_differences(runs["either, as it was"], runs["either, rewritten"])
        bad = lost(runs["old release"], runs["target, rewritten"], copy, findings)
        bad += lost(runs["either, as it was"], runs["either, rewritten"], copy, None)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
