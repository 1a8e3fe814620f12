"""Scores a rewrite against one that people made: `python tests/codemods/score_trees.py BEFORE AFTER --target RELEASE`.

BEFORE and AFTER are two folders; nothing is fetched and nothing is written. For each file that people changed it says
whether ours is identical, and how many of their removed lines we removed. With `--needle WORD`, every line of BEFORE
that holds the word and was neither removed nor has a finding is listed, and the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import difflib
import filecmp
import sys
from collections.abc import Iterator
from pathlib import Path

from v1_migrate.discover import File, discover
from v1_migrate.engine.run import Options, Result, run


def changed(before: Path, after: Path) -> list[str]:
    """Files of `before` that `after` has otherwise, or not at all."""
    names = (p.relative_to(before).as_posix() for p in sorted(before.rglob("*")) if p.is_file())
    return [n for n in names if not (after / n).is_file() or not filecmp.cmp(before / n, after / n, shallow=False)]


def removed_lines(old: str, new: str) -> list[str]:
    return [line[1:].strip() for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line.startswith("- ")]


def missed(result: Result, text: str, needle: str) -> Iterator[tuple[int, str]]:
    """Lines of the new text with the needle and no finding on them."""
    said = {line for f in result.findings for line in range(f.line, f.end_line + 1)}
    for number, line in enumerate(text.splitlines(), 1):
        if needle in line and number not in said:
            yield number, line.strip()


def score(before: Path, after: Path, results: dict[str, Result]) -> tuple[int, int]:
    """Prints a line per file; returns (identical, all)."""
    identical = 0
    names = changed(before, after)
    for name in names:
        old = (before / name).read_text("utf-8")
        theirs = (after / name).read_text("utf-8") if (after / name).is_file() else ""
        result = results.get(name)
        ours = result.new_text if result is not None and result.new_text is not None else old
        same = ours == theirs
        identical += same
        wanted, done = removed_lines(old, theirs), removed_lines(old, ours)
        both = sum(line in done for line in wanted)
        print(f"{'same' if same else 'differs':8} {both:3}/{len(wanted):<3} of theirs, ours {len(done):3}  {name}")
    return identical, len(names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--needle", default="")
    parser.add_argument("--unsafe", action="store_true")
    parser.add_argument("--only-changed", action="store_true", help="look at files that people changed, not at all")
    options = parser.parse_args()
    files: list[File] = discover(options.before, gitignore=False).files
    if options.only_changed:
        wanted = set(changed(options.before, options.after))
        files = [file for file in files if file.rel in wanted]
    settings = Options(options.before, options.target, unsafe=options.unsafe, jobs=1)
    results = {result.rel: result for result in run(files, settings)}
    identical, total = score(options.before, options.after, results)
    print(f"{identical} of {total} files identical")
    lost = 0
    for file in files if options.needle else ():
        result = results[file.rel]
        text = result.new_text if result.new_text is not None else file.path.read_text("utf-8", "replace")
        for number, line in missed(result, text, options.needle):
            lost += 1
            print(f"no finding: {file.rel}:{number}: {line[:100]}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
