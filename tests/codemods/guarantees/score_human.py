"""Scores our rewrite against a migration people made: `python score_human.py BEFORE AFTER --target 0.11.2`.

Each import and each line with a dotted path that people changed to a new path should come out of our run of BEFORE
with the same text. What does not is printed; exit code 1 if anything is.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guarantees.judge import DEFAULT_CLI, ToolFailed, rewrite

PATH = re.compile(r"\bvllm(?:[./][A-Za-z_]\w*)+|^\s*from\s+\.[\w.]*\s+import\b")
TEXT = {".py", ".md", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".txt", ".ini", ".rst"}


@dataclass(frozen=True, slots=True)
class Change:
    """A run of lines that people replaced, with a vllm path on either side."""

    path: str
    first: int  # index into the lines before
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def moved(self) -> bool:
        """People gave a name a new path, rather than dropping the name or writing the code anew."""
        old, new = named(self.old), named(self.new)
        return any(name in old and path not in old[name] for name in new for path in new[name])


def named(text: Sequence[str]) -> dict[str, set[str]]:
    """Names that these lines take from a path: what an import imports, the last part of any other path."""
    found: dict[str, set[str]] = {}
    for line in text:
        for match in PATH.finditer(line):
            path = match.group().strip()
            imports = re.search(r"\bimport\s+(.+)", line)
            names = re.findall(r"\w+", imports.group(1)) if imports else [re.split(r"[./]", path)[-1]]
            for name in names:
                found.setdefault(name, set()).add(path)
    return found


def changes(before: Path, after: Path) -> Iterator[Change]:
    """What people changed on lines with a path, in files that both trees have."""
    for path in sorted(before.rglob("*")):
        name = path.relative_to(before).as_posix()
        other = after / name
        if path.suffix not in TEXT or not path.is_file() or not other.is_file():
            continue
        one, two = (file.read_text("utf-8", "replace").splitlines() for file in (path, other))
        if one == two:
            continue
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
            if tag != "equal" and any(PATH.search(line) for line in one[i1:i2]):
                yield Change(name, i1, tuple(one[i1:i2]), tuple(two[j1:j2]))


def ours_for(change: Change, before: Path, ours: Path) -> list[str]:
    """What our run made of the lines of a change."""
    one, two = ((tree / change.path).read_text("utf-8", "replace").splitlines() for tree in (before, ours))
    out: list[str] = []
    last = change.first + len(change.old)
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():
        low, high = max(i1, change.first), min(i2, last)
        if low >= high:
            continue
        out += two[j1 + low - i1 : j1 + high - i1] if tag == "equal" else two[j1:j2]
    return out


def grade(change: Change, got: Sequence[str]) -> str:
    """ "same" text on every line with a path, "same code" but for white space and wrapping, or "other"."""
    wanted = [line for line in change.new if PATH.search(line)]
    if all(line in got for line in wanted):
        return "same"
    flat = "".join("".join(got).split())
    if all("".join(line.split()) in flat for line in wanted) or _code(change.new) == _code(got) != "":
        return "same code"
    return "other"


def _code(text: Sequence[str]) -> str:
    try:
        return ast.dump(ast.parse("\n".join(line.strip() for line in text)))
    except SyntaxError:
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--target", required=True)
    parser.add_argument("--cli", default=DEFAULT_CLI)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="human-") as folder:
        ours = Path(folder) / "ours"
        shutil.copytree(options.before, ours)
        try:
            rewrite(ours, options.target, options.cli)
        except ToolFailed as error:
            print(error, file=sys.stderr)
            return 2
        return _print(options.before, options.after, ours)


def _print(before: Path, after: Path, ours: Path) -> int:
    counts = {"same": 0, "same code": 0, "other": 0, "people dropped the line": 0}
    for change in changes(before, after):
        got = ours_for(change, before, ours)
        verdict = grade(change, got) if change.moved else "people dropped the line"
        counts[verdict] += 1
        if verdict != "same":
            print(f"{change.path}:{change.first + 1}: {verdict}")
            for sign, text in (("-", change.old), ("+", change.new), (">", got)):
                shown = [line for line in text if PATH.search(line)]
                print("\n".join(f"   {sign} {line}" for line in shown[:8]) or f"   {sign} (no line with a path)")
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))
    return 1 if counts["other"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
