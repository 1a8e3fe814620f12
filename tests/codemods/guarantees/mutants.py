"""Seeded mutants: a stale vllm name planted in a random form at a random place; none may get by.

`python mutants.py --seed 7 --count 200 --target 0.32.0 --releases DIR [--tree TREE]`
"""

from __future__ import annotations

import argparse
import ast
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

if __package__ in {None, ""}:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from guarantees import oracle
from guarantees.judge import DEFAULT_CLI, Line, ToolFailed, differences, rewrite
from guarantees.mutant_forms import FORMS, MARK, fitting
from guarantees.nothing_breaks import compare, lines, lowest_grammar
from guarantees.references import parse, references
from guarantees.stale_names import Catalogue, Stale
from guarantees.synthetic import SOURCES

MAX_LINES = 1200


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file with a planted name."""

    path: str
    form: str
    stale: Stale
    source: bytes
    planted: tuple[int, ...]  # 1-based lines that hold the stale name

    def __str__(self) -> str:
        return f"{self.path}:{self.planted[0]}: {self.stale.dotted} ({self.form})"


def bases(tree: Path | None, rng: random.Random, count: int) -> list[bytes]:
    """Files to plant in: of a real tree, where one is given, and small ones of our own."""
    own = [source.encode() for source in SOURCES]
    if tree is None:
        return own
    real: list[bytes] = []
    paths = [path for path in oracle.python_files(tree) if path.stat().st_size < 60_000]
    rng.shuffle(paths)
    for path in paths:
        source = path.read_bytes()
        if len(real) < count and lowest_grammar(source) and source.count(b"\n") < MAX_LINES and b"\r" not in source:
            real.append(source)
    return real + own


def mutant(number: int, source: bytes, stale: Stale, form: str, rng: random.Random) -> Mutant | None:
    """Plant, then perhaps change the file's dress (line ends, cookie, BOM); None if the result does not compile."""
    _, make = FORMS[form]
    code = list(make(stale, f"planted{number}"))
    at, indent = rng.choice(_places(source))
    marked = [index for index, line in enumerate(code) if line.endswith(MARK)]
    planted = [(indent + line.rstrip(MARK) + "\n").encode() for line in code]
    if b"\t" in indent.encode():
        planted = [line.replace(b"    ", b"\t") for line in planted]
    if rng.random() < 0.05:
        planted[0] = b"\x0c" + planted[0]
    old = lines(source)
    text, shift = _dress(old[:at] + planted + old[at:], rng)
    result = b"".join(text)
    if lowest_grammar(result) is None:
        return None
    where = f"p{number % 7}/m{number:04d}.py"
    return Mutant(where, form, stale, result, tuple(at + shift + index + 1 for index in marked))


def _places(source: bytes) -> list[tuple[int, str]]:
    """(line index, indentation) before every statement that starts its line and may have another before it."""
    text = lines(source)
    tree = parse(source)
    found = [(len(text), "")] if source.endswith(b"\n") or not source else []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            found_suite = getattr(node, name, None)
            suite: list[ast.stmt] = found_suite if isinstance(found_suite, list) else []
            for position, statement in enumerate(suite):
                special = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
                docstring = (
                    position == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
                )
                first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
                lead = text[first - 1][: statement.col_offset].decode("latin-1")
                follows = position > 0 and (suite[position - 1].end_lineno or 0) >= first
                if not (special or docstring or lead.strip() or follows or _continued(text, first)):
                    found.append((first - 1, lead))
    future = max(
        (n.end_lineno or 0 for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"), default=0
    )
    return [place for place in found if place[0] >= future] or [(len(text), "")]


def _continued(text: list[bytes], line: int) -> bool:
    return line > 1 and text[line - 2].rstrip(b"\r\n").endswith(b"\\")


def _dress(text: list[bytes], rng: random.Random) -> tuple[list[bytes], int]:
    """CRLF, a latin-1 cookie, a BOM, no last newline, or (mostly) nothing; how many lines went before."""
    choice = rng.random()
    plain = all(line.isascii() for line in text)
    if choice < 0.08:
        return [line.rstrip(b"\r\n") + b"\r\n" for line in text], 0
    if choice < 0.14 and plain:
        return [b"# -*- coding: latin-1 -*-\n", b"# caf\xe9\n", *text], 2
    if choice < 0.18 and text and not text[0].startswith(b"\xef\xbb\xbf"):
        return [b"\xef\xbb\xbf" + text[0], *text[1:]], 0
    if choice < 0.22 and text:
        return [*text[:-1], text[-1].rstrip(b"\r\n")], 0
    return text, 0


def generate(names: oracle.Names, seed: int, count: int, tree: Path | None = None) -> list[Mutant]:
    """`count` mutants, each of whose planted lines the oracle itself calls stale."""
    rng = random.Random(seed)
    catalogue = Catalogue(names.olds[0], names.target, rng)
    sources = bases(tree, rng, count)
    made: list[Mutant] = []
    for number in range(count * 20):
        if len(made) == count:
            break
        stale = catalogue.pick(rng)
        candidate = mutant(number, rng.choice(sources), stale, rng.choice(fitting(stale)), rng)
        if candidate is not None and _stale_lines(candidate.source, names) >= set(candidate.planted):
            made.append(candidate)
    return made


def _stale_lines(source: bytes, names: oracle.Names) -> set[int]:
    return {line for r in references(source) if names.stale(r) for line in range(r.line, r.end_line + 1)}


def escaped(made: Mutant, after: bytes, findings: Sequence[dict[str, Any]], names: oracle.Names) -> str:
    """Why a mutant got by, "" if it was caught: rewritten to what exists, or spoken of on its line."""
    left, right = lines(made.source), lines(after)
    stale = [reference for reference in references(after) if names.stale(reference)]
    for _, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        for line in made.planted:
            if not i1 < line <= i2:
                continue
            # In a region of another size the lines cannot be told apart: all of it must be in order.
            first, last = (line - i1 + j1,) * 2 if i2 - i1 == j2 - j1 else (j1 + 1, j2)
            for reference in stale:
                if reference.line <= last and reference.end_line >= first and not oracle.speaking(findings, reference):
                    return f"names {reference.name}, which the target lacks, and no open finding says so"
    return ""


def run(
    mutants: list[Mutant], names: oracle.Names, target: str, cli: str = DEFAULT_CLI, keep: Path | None = None
) -> list[Line]:
    """One run of the tool over all mutants, judged."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        before, after, again = (Path(folder) / name for name in ("before", "after", "again"))
        for made in mutants:
            path = before / made.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made.source)
        shutil.copytree(before, after)
        report = rewrite(after, target, cli)
        findings = oracle.by_path(report)
        shutil.copytree(after, again)
        rewrite(again, target, cli)
        out = []
        for made in mutants:
            why = escaped(made, (after / made.path).read_bytes(), findings.get(made.path, []), names)
            if why:
                out.append(f"{made}: {why}")
        damage = compare(before, after, report)
        if keep:
            shutil.copytree(folder, keep, dirs_exist_ok=True)
        fixed = sum(any(f["fixed"] for f in findings.get(made.path, ())) for made in mutants)
        return [
            Line("mutants-that-got-by", out, f"of {len(mutants)}; {fixed} files rewritten"),
            *(Line(name, found) for name, found in damage.offences.items()),
            Line("second-run", differences(after, again)),
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--target", required=True)
    parser.add_argument(
        "--releases", type=Path, default=oracle.releases_folder(), required=oracle.releases_folder() is None
    )
    parser.add_argument("--tree", type=Path, help="a real tree whose files to plant in")
    parser.add_argument("--cli", default=DEFAULT_CLI)
    parser.add_argument("--keep", type=Path, help="leave the mutants, before and after, in this folder")
    options = parser.parse_args(arguments)
    names = oracle.load(options.releases, options.target)
    made = generate(names, options.seed, options.count, options.tree)
    try:
        outcome = run(made, names, options.target, options.cli, options.keep)
    except ToolFailed as error:
        print(error, file=sys.stderr)
        return 2
    for line in outcome:
        print("FAIL" if line.offenders else "ok  ", f"{line.guarantee}: {len(line.offenders)}  {line.note}".rstrip())
        for offender in line.offenders[:20]:
            print("      ", offender)
    return 1 if any(line.offenders for line in outcome) else 0


if __name__ == "__main__":
    raise SystemExit(main())
