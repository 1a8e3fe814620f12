"""What a rewrite must never do to a tree: break a file, lose a name, or touch a byte that no finding speaks of."""

from __future__ import annotations

import ast
import io
import re
import stat
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from guarantees.bound import SCOPES, Lost, block, by_scope, lost
from guarantees.namespace import absolute
from guarantees.oracle import Findings, by_path
from guarantees.references import parse

LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
GRAMMARS = [(3, minor) for minor in range(7, 12)]
WIDEST = 40  # lines that one edit outside of imports may claim to have written
FOLDING = ("V1M2", "V1M3")  # rules that take branches, marks and parameters away
GUARANTEES = ("files", "compiles", "bound", "no-self-import", "same-thing", "only-findings", "faithful-bytes")


@dataclass(slots=True)
class Damage:
    """Offences by guarantee, and how many losses of a name were excused, by reason."""

    offences: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in GUARANTEES})
    excused: Counter[str] = field(default_factory=Counter)
    changed: int = 0


def lines(source: bytes) -> list[bytes]:
    return LINE.findall(source)


def lowest_grammar(source: bytes) -> tuple[int, int] | None:
    """The oldest grammar that accepts a file, None if the running Python cannot compile it at all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<file>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        for version in GRAMMARS:
            try:
                ast.parse(source, feature_version=version)
            except SyntaxError:
                continue
            return version
    return GRAMMARS[-1]


def compare(before: Path, after: Path, report: dict[str, Any]) -> Damage:
    """Judge one run by the two trees and its report (paths relative to the trees)."""
    damage = Damage()
    findings = by_path(report)
    old, new = (set(_files(tree)) for tree in (before, after))
    damage.offences["files"] += [f"{name}: gone" for name in sorted(old - new)]
    damage.offences["files"] += [f"{name}: created" for name in sorted(new - old)]
    readers = _Readers(after)
    for name in sorted(old & new):
        one, two = (before / name).read_bytes(), (after / name).read_bytes()
        if stat.S_IMODE((before / name).stat().st_mode) != stat.S_IMODE((after / name).stat().st_mode):
            damage.offences["faithful-bytes"].append(f"{name}: another mode")
        if one == two:
            if any(f["fixed"] for f in findings.get(name, ())):
                damage.offences["only-findings"].append(f"{name}: a finding says fixed, yet the file is as it was")
            continue
        damage.changed += 1
        _one_file(damage, name, one, two, findings)
        if name.endswith(".py") and lowest_grammar(one) is not None:
            _python(damage, name, one, two, readers, _folded(findings.get(name, ())))
            _same_things(damage, name, one, two, [f for f in findings.get(name, ()) if f["fixed"]])
    return damage


def _folded(findings: Iterable[dict[str, Any]]) -> bool:
    """Branches, `with` blocks or parameters that only chose an engine were folded away in the file."""
    return any(f["fixed"] and str(f.get("rule", "")).startswith(FOLDING) for f in findings)


def _files(tree: Path) -> Iterator[str]:
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink() and ".git" not in path.parts:
            yield path.relative_to(tree).as_posix()


def _one_file(damage: Damage, name: str, one: bytes, two: bytes, findings: Findings) -> None:
    fixed = [f for f in findings.get(name, ()) if f["fixed"]]
    left, right = lines(one), lines(two)
    imports = _import_lines(two) if name.endswith(".py") else set()
    claimed = [(low, high) for f in fixed for low, high in f["edited"]]
    places = [(low, high) for low, high in claimed if high - low < WIDEST or imports >= set(range(low, high + 1))]
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        first, last = (j1 + 1, j2) if j2 > j1 else (j1, j1 + 1)
        # Of equal lines side by side it is a matter of taste which ones went, and a comparison of lines takes the first.
        slack = _repeated(left, i1, i2, right, j1, j2)
        if not any(low <= last + slack and high >= first - slack for low, high in places):
            damage.offences["only-findings"].append(f"{name}:{first}: changed, and no fixed finding says so")
        kept = {line.strip() for line in left[i1:i2]}
        for number in range(j1 + 1, j2 + 1):
            said = any(low - slack <= number <= high + slack for low, high in places)
            line = right[number - 1].strip()
            if line and not said and line not in kept:
                damage.offences["only-findings"].append(f"{name}:{number}: beside an edit, and not part of it")
        allowed = {_end(line) for line in left[i1:i2] or left} | ({b""} if one[-1:] not in b"\r\n" else set())
        wrong = {_end(line) for line in right[j1:j2]} - allowed
        if wrong:
            damage.offences["faithful-bytes"].append(f"{name}:{first}: line ends {sorted(wrong)}")
    if _encoding(one) != _encoding(two):
        damage.offences["faithful-bytes"].append(f"{name}: {_encoding(one)} became {_encoding(two)}")


def _import_lines(source: bytes) -> set[int]:
    """The lines of all imports: a list of many names is rewritten as a whole."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {line for node in found for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _repeated(left: list[bytes], i1: int, i2: int, right: list[bytes], j1: int, j2: int) -> int:
    """How far lines that were taken out or put in could slide without another result."""
    if i1 < i2 and j1 < j2:
        return 0
    rows, low, high = (left, i1, i2) if i1 < i2 else (right, j1, j2)
    down = 0
    while high + down < len(rows) and rows[low + down] == rows[high + down]:
        down += 1
    up = 0
    while low - up > 0 and rows[low - up - 1] == rows[high - up - 1]:
        up += 1
    return max(down, up)


def _end(line: bytes) -> bytes:
    return line[len(line.rstrip(b"\r\n")) :]


def _encoding(source: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(source).readline)[0]
    except SyntaxError:
        return "?"


def _python(damage: Damage, name: str, one: bytes, two: bytes, readers: _Readers, folded: bool) -> None:
    old, new = lowest_grammar(one), lowest_grammar(two)
    if old is not None and (new is None or new > old):
        said = "compiles no more" if new is None else f"needs {new} where {old} did"
        damage.offences["compiles"].append(f"{name}: {said}")
    if new is None:
        return
    for module in sorted(_own_imports(two, name) - _own_imports(one, name)):
        damage.offences["no-self-import"].append(f"{name}: imports from {module}, which is this file")
    left, right = (block(name, parse(source).body, 1) for source in (one, two))
    still = by_scope(right) if folded else {}
    for gone in lost(left, right):
        scope = re.sub(r"/[a-z-]+@\d+", "", gone.where)
        if folded and (gone.name in still.get(scope, ()) or not _read_in(two, name, scope, gone.name)):
            damage.excused["folded"] += 1
            continue
        reader = readers.of(gone.name, name, two)
        if reader:
            damage.offences["bound"].append(f"{name}:{gone.line}: {gone.name} in {gone.where}: {gone.why}; {reader}")
        else:
            damage.excused["unread import" if gone.imported else _reason(gone)] += 1


def _same_things(damage: Damage, name: str, one: bytes, two: bytes, fixed: list[dict[str, Any]]) -> None:
    """An import that leads elsewhere leads to the namesake there, or to what a finding names."""
    if lowest_grammar(two) is None:
        return
    old, new = _origins(one), _origins(two)
    said = {word for f in fixed for word in re.findall(r"\w+", f["message"])}
    for local in sorted(old.keys() & new.keys()):
        known = {dotted.rpartition(".")[2] for dotted in old[local]}
        for dotted in sorted(new[local] - old[local]):
            last = dotted.rpartition(".")[2]
            if last not in known and last not in said:
                damage.offences["same-thing"].append(f"{name}: {local} was {sorted(old[local])[0]}, and is {dotted}")


def _origins(source: bytes) -> dict[str, set[str]]:
    """Local name -> what the file imports under it."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, set()).add(f"{node.module}.{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    found.setdefault(alias.asname, set()).add(alias.name)
    return found


def _read_in(source: bytes, path: str, scope: str, name: str) -> bool:
    """Anything in a function reads the name; of a module or class anything may."""
    node: ast.AST = parse(source)
    for part in scope[len(path) :].split(".")[1:]:
        inner = [n for n in ast.walk(node) if isinstance(n, SCOPES) and n.name == part]
        if not inner:
            return False  # the function went with the branch that held it
        node = inner[0]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    if name in {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}:
        return False  # the parameter still binds it
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _own_imports(source: bytes, path: str) -> set[str]:
    """The modules a file of a package `vllm` imports from that are the file itself."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    if "vllm" not in parts:
        return set()
    own = ".".join(parts[parts.index("vllm") :])
    package = own if path.endswith("__init__.py") else own.rpartition(".")[0]
    imports = (node for node in ast.walk(parse(source)) if isinstance(node, ast.ImportFrom))
    return {own for node in imports if absolute(node.module, node.level, package) == own and "." in own}


def _reason(gone: Lost) -> str:
    return "unread name" if gone.why == "not bound here any more" else f"unread: {gone.why}"


class _Readers:
    """Who in a tree can read a name of a file."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.imports: dict[tuple[str, str], str] | None = None

    def of(self, name: str, path: str, source: bytes) -> str:
        """One reader of `name`, as bound in the file at `path`, or ""."""
        tree = parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Store):
                return f"read on line {node.lineno}"
            if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
                return f"declared global on line {node.lineno}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _mentions(node.value, name):
                return f"named in a string on line {node.lineno}"
        if re.search(rb"#\s*type:[^#\n]*\b" + re.escape(name.encode()) + rb"\b", source):
            return "named in a type comment"
        return self._importers().get((_stem(path), name), "")

    def _importers(self) -> dict[tuple[str, str], str]:
        if self.imports is None:
            self.imports = {}
            for file in _files(self.tree):
                if file.endswith(".py"):
                    self._read_imports(file)
        return self.imports

    def _read_imports(self, file: str) -> None:
        assert self.imports is not None
        try:
            tree = parse((self.tree / file).read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            return
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                stem = (node.module or _parent(file)).rpartition(".")[2]
                for alias in node.names:
                    self.imports.setdefault((stem, alias.name), f"imported by {file}:{node.lineno}")


def _mentions(text: str, name: str) -> bool:
    """A string that is the name, or an annotation with it; prose does not count."""
    if text == name:
        return True
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _stem(path: str) -> str:
    stem = path.rpartition("/")[2].removesuffix(".py")
    return _parent(path) if stem == "__init__" else stem


def _parent(path: str) -> str:
    parts = path.split("/")
    return parts[-2] if len(parts) > 1 else ""
