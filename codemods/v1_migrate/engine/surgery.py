"""Edits on import statements and dotted chains: in place, on the text, with every comment kept beside its name.

An import never moves: what replaces it stands where it stood. A statement whose names go to several modules keeps its
place for those that stay together with it; the others get statements of their own directly behind.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ..findings import Edit
from ..source import Source
from .both import guarded as as_guarded
from .both import rewritten
from .tree import absolute

_MODULE = re.compile(r"from((?:\s|\\\r?\n)*)(?P<module>[.\w]+(?:\s*\.\s*\w+)*)(?:\s|\\\r?\n)*\bimport\b")
_RELATIVE_ONLY = re.compile(r"from(?:\s|\\\r?\n)*(?P<module>\.+)(?:\s|\\\r?\n)*\bimport\b")
_PRAGMA = re.compile(
    r"#\s*(?:noqa|type:\s*ignore|isort|pylint|pragma|ruff|fmt|yapf|pyright|mypy|nosec)\b", re.IGNORECASE
)
_COMMENT_BEHIND = re.compile(r"[ \t]*,?[ \t]*(#[^\r\n]*)")
_LINE_LIMITS = (80, 88, 100, 120)
_FEW_LINES = 40  # fewer say too little about a limit below 88


@dataclass(frozen=True, slots=True)
class _Name:
    """One imported name, as written, and where it goes."""

    alias: ast.alias
    start: int
    end: int
    module: str  # module it is to come from; "" for the one it comes from now
    name: str
    comment: str = ""  # behind it
    above: tuple[int, int] = (0, 0)  # the lines of comment directly above it, from the first line's start

    @property
    def text(self) -> str:
        local = self.alias.asname or self.alias.name
        keep = self.alias.asname is not None or self.name != local
        return f"{self.name} as {local}" if keep else self.name


class Surgery:
    """Edits for one file's text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text

    @cached_property
    def limit(self) -> int:
        """The length of line that the file keeps to: one line in a hundred may be longer."""
        lengths = sorted(map(len, self.text.splitlines()))
        usual = lengths[int(len(lengths) * 0.99)] if lengths else 0
        limits = _LINE_LIMITS if len(lengths) >= _FEW_LINES else _LINE_LIMITS[1:]
        return next((limit for limit in limits if usual <= limit), usual)

    def span(self, node: ast.AST) -> tuple[int, int]:
        start = self.source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self.source.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def chain(self, node: ast.expr, dotted: str, new: str) -> Edit | None:
        """Replace the part of a chain that spells `dotted`; None when its text is not exactly that."""
        length = dotted.count(".") + 1
        inner: ast.expr = node
        depth = _length(node)
        while depth > length and isinstance(inner, ast.Attribute):
            inner, depth = inner.value, depth - 1
        start, end = self.span(inner)
        if self.text[start:end] != dotted:
            return None
        return Edit(start, end, dotted, new)

    def plain_import(
        self, statement: ast.Import, new: dict[int, str], guarded: frozenset[int] = frozenset()
    ) -> tuple[Edit, ...]:
        """`import a.b [as c]`: the path is replaced; without `as`, what the statement bound stays bound.

        `guarded` are names (by the identity of their alias) that another release still needs under their old path.
        """
        if guarded:
            one = len(statement.names) == 1 and statement.names[0].asname
            return self._guard_all(statement, self.plain_import(statement, new)) if one else ()
        edits: tuple[Edit, ...] = ()
        for alias in statement.names:
            destination = new.get(id(alias))
            if destination is None:
                continue
            start, _ = self.span(alias)
            end = start + len(alias.name)
            if self.text[start:end] != alias.name:
                return ()
            if not alias.asname and not all(part.startswith("vllm") for part in destination.split(", ")):
                destination = "vllm, " + destination
            edits += (Edit(start, end, alias.name, destination),)
        return edits

    def from_import(
        self,
        statement: ast.ImportFrom,
        new: dict[int, str],
        siblings: list[ast.stmt],
        package: str,
        guarded: frozenset[int] = frozenset(),
    ) -> tuple[Edit, ...]:
        """`from a import b, c`: see the module's docstring. Empty when the text is better left alone.

        `guarded` are names (by the identity of their alias) that another release still needs under their old path.
        """
        if guarded and len(guarded) == len(statement.names):
            plain = self.from_import(statement, new, [], package)
            inside = all(edit.end <= self.span(statement)[1] for edit in plain)
            return self._guard_all(statement, plain) if inside else ()
        _, last = self.span(statement)
        names = [self._name(alias, new, last) for alias in statement.names]
        kept_old = [name for name in names if id(name.alias) in guarded]
        names_here = [name for name in names if name not in kept_old]
        redundant = [n for n in names_here if n.module and self._bound_before(n, statement, siblings, package)]
        wanted = [name for name in names_here if name not in redundant]
        if not wanted:
            if kept_old:
                return ()
            return self._delete(statement)
        groups: dict[str, list[_Name]] = {}
        for name in wanted:
            groups.setdefault(name.module, []).append(name)
        home = "" if "" in groups else wanted[0].module
        at_home = groups.pop(home)
        edits: list[Edit] = []
        if home:
            module = self._module_edit(statement, home)
            if module is None:
                return ()
            edits.append(module)
            edits += self._realigned(statement, len(module.replacement) - len(module.expected))
            edits += [Edit(n.start, n.end, self.text[n.start : n.end], n.text) for n in at_home if self._renamed(n)]
        if not groups and not redundant and not kept_old:
            wrapped = self._wrapped(statement, tuple(edits))
            return (wrapped,) if wrapped else tuple(edits)
        rest = self._rest(statement, names, at_home, home, [name for group in groups.values() for name in group])
        added = self._added(statement, groups, kept_old)
        if rest is None or added is None:
            return ()
        return (rest, *added)

    # parts of from_import

    def _wrapped(self, statement: ast.ImportFrom, edits: tuple[Edit, ...]) -> Edit | None:
        """One name a line, where only the new path makes the line longer than the file's lines are."""
        start, end = self.span(statement)
        line_start, line_end = self._line_start(start), self._line_end(end)
        indent, old = self.text[line_start:start], self.text[start:end]
        code = rewritten(old, start, edits)
        alone = not indent.strip() and not self.text[end:line_end].strip()
        if not alone or "\n" in old or "(" in old or not len(indent + old) <= self.limit < len(indent + code):
            return None
        head, _, names = code.partition(" import ")
        newline = self._newline_at(line_end) or self.source.newline
        inner = indent + ("\t" if indent.endswith("\t") else "    ")
        lines = "".join(f"{inner}{name.strip()},{newline}" for name in names.split(","))
        return Edit(start, end, old, f"{head} import ({newline}{lines}{indent})") if names else None

    def _name(self, alias: ast.alias, new: dict[int, str], last: int) -> _Name:
        start, end = self.span(alias)
        module, _, name = new.get(id(alias), "").rpartition(".")
        comment = self._comment_behind(end, last)
        return _Name(alias, start, end, module, name or alias.name, comment, self._comments_above(start))

    def _comments_above(self, start: int) -> tuple[int, int]:
        """The span of the comment lines above a name that begins its line, as far as they are indented like it."""
        line = first = self._line_start(start)
        indent = self.text[line:start]
        while not indent.strip() and first:
            above = self._line_start(first - (2 if self.text[first - 2 : first] == "\r\n" else 1))
            if not self.text.startswith(indent + "#", above):
                break
            first = above
        return first, line

    def _renamed(self, name: _Name) -> bool:
        return name.name != name.alias.name

    def _module_edit(self, statement: ast.ImportFrom, module: str) -> Edit | None:
        start, end = self.span(statement)
        match = _MODULE.match(self.text, start, end) or _RELATIVE_ONLY.match(self.text, start, end)
        if match is None:
            return None
        at, to = match.span("module")
        return Edit(at, to, self.text[at:to], _spaced(self.text, at, to, module))

    def _realigned(self, statement: ast.ImportFrom, delta: int) -> list[Edit]:
        """Continuation lines that are aligned with the opening bracket follow it."""
        start, end = self.span(statement)
        indent = self.text[self._line_start(start) : start]
        edits = []
        for at, to, blanks in _aligned_lines(self.text[start:end], indent):
            edits.append(Edit(start + at, start + to, self.text[start + at : start + to], blanks(delta)))
        return edits

    def _bound_before(self, name: _Name, statement: ast.ImportFrom, siblings: list[ast.stmt], package: str) -> bool:
        """An earlier statement of the same block imports the very same thing under the same name already."""
        for sibling in siblings:
            if sibling is statement:
                return False
            if isinstance(sibling, ast.ImportFrom):
                module = absolute(package, "." * sibling.level + (sibling.module or ""))
                for alias in sibling.names:
                    same = module == name.module and alias.name == name.name
                    if same and (alias.asname or alias.name) == (name.alias.asname or name.alias.name):
                        return True
        return False

    def _delete(self, statement: ast.ImportFrom) -> tuple[Edit, ...]:
        """The whole statement with its line; only when it has the line to itself."""
        start, end = self.span(statement)
        line_start = self._line_start(start)
        line_end = self._line_end(end)
        rest = self.text[end:line_end].strip()
        if self.text[line_start:start].strip() or (rest and not rest.startswith("#")):
            return ()
        to = line_end + len(self._newline_at(line_end))
        return (Edit(line_start, to, self.text[line_start:to], ""),)

    def _rest(
        self, statement: ast.ImportFrom, names: list[_Name], staying: list[_Name], home: str, carried: list[_Name]
    ) -> Edit | None:
        """The statement itself, with the names that stay together and, if they moved, their new module.

        `carried` are those that take the comments above them along.
        """
        from .names_list import without  # libcst: 0.2 s, paid by files with a mixed statement only

        start, end = self.span(statement)
        leaving = {position for position, name in enumerate(names) if name not in staying}
        renamed = {position: name.text for position, name in enumerate(names) if self._renamed(name)}
        alone = not self.text[end : self._line_end(end)].strip()
        gone = [name.above for name in carried]
        text = rewritten(self.text[start:end], start, tuple(Edit(a, b, self.text[a:b], "") for a, b in gone if a < b))
        code = without(text, leaving, renamed, alone=alone)
        if code is None:
            return None
        if home:
            match = _MODULE.match(code) or _RELATIVE_ONLY.match(code)
            if match is None:
                return None
            at, to = match.span("module")
            written = _spaced(code, at, to, home)
            code = _realigned(
                code, self.text[self._line_start(start) : start], len(written) - (to - at), at, to, written
            )
        return Edit(start, end, self.text[start:end], code)

    def _guard_all(self, statement: ast.Import | ast.ImportFrom, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """The whole statement as a `try` with its new and its old form."""
        start, end = self.span(statement)
        line_start, line_end = self._line_start(start), self._line_end(end)
        indent, rest = self.text[line_start:start], self.text[end:line_end].strip()
        if not edits or indent.strip() or (rest and not rest.startswith("#")):
            return ()
        old = self.text[start:end]
        new = rewritten(old, start, edits)
        pragma = self._pragma(statement) if rest.startswith("#") else ""
        newline = self._newline_at(line_end) or self.source.newline
        block = as_guarded(old, new + (f"  {pragma}" if pragma else ""), indent, newline)
        return (Edit(start, end, old, block),)

    def _added(
        self, statement: ast.ImportFrom, groups: dict[str, list[_Name]], kept_old: list[_Name]
    ) -> list[Edit] | None:
        if not groups and not kept_old:
            return []
        start, end = self.span(statement)
        line_start, line_end = self._line_start(start), self._line_end(end)
        indent = self.text[line_start:start]
        rest = self.text[end:line_end]
        alone = not indent.strip() and (not rest.strip() or rest.lstrip().startswith("#"))
        if not alone:
            if kept_old or any(name.comment or self._above(name) for group in groups.values() for name in group):
                return None
            joined = "".join(f"; from {module} import {_listed(group)}" for module, group in groups.items())
            return [Edit(end, end, "", joined)]
        pragma = self._pragma(statement)
        newline = self._newline_at(line_end) or self.source.newline
        per_line = self._one_per_line(statement)
        added = "".join(
            newline + indent + self._statement(module, group, indent, newline, pragma, per_line)
            for module, group in groups.items()
        )
        for module in dict.fromkeys(name.module for name in kept_old):
            group = [name for name in kept_old if name.module == module]
            here = "." * statement.level + (statement.module or "")
            old = f"from {here} import {', '.join(map(_as_written, group))}"
            tail = f"  {pragma}" if pragma else ""
            new = f"from {module} import {_listed(group)}"
            added += newline + indent + as_guarded(old + tail, new + tail, indent, newline)
        return [Edit(line_end, line_end, "", added)]

    def _statement(
        self, module: str, group: list[_Name], indent: str, newline: str, pragma: str, per_line: bool
    ) -> str:
        comments = [name.comment for name in group if name.comment and name.comment != pragma]
        flat = f"from {module} import {_listed(group)}"
        above = {name.name: self._above(name) for name in group if self._above(name)}
        if len(group) == 1 and comments and not above:
            return f"{flat}  {comments[0]}" + (f"  {pragma}" if pragma else "")
        tail = f"  {pragma}" if pragma else ""
        if not above and not comments and len(indent + flat) <= self.limit and not (per_line and len(group) > 1):
            return flat + tail
        inner = indent + ("\t" if indent.endswith("\t") else "    ")
        lines = "".join(
            "".join(f"{inner}{remark}{newline}" for remark in above.get(name.name, ()))
            + f"{inner}{name.text},{'  ' + name.comment if name.comment else ''}{newline}"
            for name in group
        )
        return f"from {module} import ({tail}{newline}{lines}{indent})"

    def _above(self, name: _Name) -> list[str]:
        """The comments directly above a name."""
        return [line.strip() for line in self.text[slice(*name.above)].splitlines()]

    def _one_per_line(self, statement: ast.ImportFrom) -> bool:
        lines = {alias.lineno for alias in statement.names}
        return len(lines) == len(statement.names) > 1

    def _pragma(self, statement: ast.Import | ast.ImportFrom) -> str:
        """A linter's remark on the statement's first or last line, which holds for all of it."""
        start, end = self.span(statement)
        for position in (end, start):
            line = self.text[position : self._line_end(position)]
            found = _PRAGMA.search(line)
            if found and (position == end or line[: found.start()].rstrip().endswith("(")):
                return line[found.start() :].rstrip()
        return ""

    def _comment_behind(self, end: int, last: int) -> str:
        """The comment on the rest of the line inside the statement, if only a comma and blanks come before it."""
        match = _COMMENT_BEHIND.match(self.text, end, last)
        return match.group(1).rstrip() if match else ""

    # lines

    def _line_start(self, position: int) -> int:
        return max(self.text.rfind("\n", 0, position), self.text.rfind("\r", 0, position)) + 1

    def _line_end(self, position: int) -> int:
        ends = [found for found in (self.text.find("\n", position), self.text.find("\r", position)) if found >= 0]
        return min(ends) if ends else len(self.text)

    def _newline_at(self, position: int) -> str:
        return "\r\n" if self.text.startswith("\r\n", position) else self.text[position : position + 1]


def _spaced(text: str, at: int, to: int, module: str) -> str:
    """The module with blanks where a relative import needed none (`from.a import b`)."""
    return ("" if text[at - 1].isspace() else " ") + module + ("" if text[to : to + 1].isspace() else " ")


def _aligned_lines(code: str, indent: str) -> list[tuple[int, int, Callable[[int], str]]]:
    """(start, end, new blanks for a shift) of the indentation of lines that are aligned with the bracket's content."""
    bracket = code.find("(")
    first_end = code.find("\n")
    if bracket < 0 or not 0 <= bracket < first_end or indent.strip() or "\t" in indent:
        return []
    column = len(indent) + bracket + 1
    found = []
    for match in re.finditer(r"\n( *)(?=[^\s])", code):
        if len(match.group(1)) == column:
            found.append((match.start(1), match.end(1), lambda delta: " " * max(column + delta, 0)))
    return found


def _realigned(code: str, indent: str, delta: int, at: int, to: int, written: str) -> str:
    """The statement with another module, its aligned lines shifted along."""
    for start, end, blanks in reversed(_aligned_lines(code, indent)):
        code = code[:start] + blanks(delta) + code[end:]
    return code[:at] + written + code[to:]


def _as_written(name: _Name) -> str:
    return name.alias.name + (f" as {name.alias.asname}" if name.alias.asname else "")


def _listed(group: list[_Name]) -> str:
    return ", ".join(name.text for name in group)


def _length(node: ast.expr) -> int:
    length = 1
    while isinstance(node, ast.Attribute):
        node, length = node.value, length + 1
    return length
