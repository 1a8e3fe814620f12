"""Every occurrence of a vllm name that the target lacks, or has with another contract, and the edits that settle it.

This file finds; the rules (one per fate) claim the occurrences and put them into words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..findings import Edit
from . import guards
from .both import needs_guard
from .bridge import bridged, is_bridged
from .context import PythonFile
from .references import Imported, Reference, Role
from .scopes import Node, ancestors
from .surgery import Surgery
from .verdicts import Verdict

Form = Literal["import", "chain", "string", "text", "computed", "path", "attribute", "comment"]
IMPORTED_ONLY = "the module only imported it"
SAFE_ROLES: frozenset[Role] = frozenset({"annotation", "base"})

_EXACT = re.compile(r"vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*(?:\.\w+)*)?")
_DOTTED = re.compile(r"(?<![\w./-])vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_FILE = re.compile(r"(?<![\w.-])vllm((?:/[A-Za-z_]\w*)+)(?:\.py\b|/|\b)")
_TYPE_COMMENT = re.compile(r"#\s*type:\s*[^\r\n]*")
_ATTRIBUTE_CALLS = {"setattr", "getattr", "hasattr", "delattr", "object"}


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """One place that names something the target lacks, or has with another contract."""

    verdict: Verdict
    start: int
    end: int
    form: Form
    role: Role
    guard: str = ""  # "" | "twin" | "version" | "probe": why the old name is there on purpose
    primary: bool = True
    edits: tuple[Edit, ...] = ()
    destination: str = ""  # import: what to import instead, when that is decided
    module: bool = False  # import: of a module, whose destination is decided by what the file uses of it
    reason: str = ""  # why a movable name is not moved here
    roles: frozenset[Role] = frozenset()  # import: all that the name is used for in this file
    in_trial: bool = False  # import: stands in a `try` that would swallow the failure

    @property
    def dotted(self) -> str:
        return self.verdict.dotted


Claim = Callable[[Occurrence], str]  # the id of the rule that speaks about an occurrence


def occurrences(file: PythonFile, claim: Claim) -> list[Occurrence]:
    """All occurrences of a file, with edits planned where they are safe, selected and not suppressed."""
    return _Finder(file, claim).run()


class _Finder:
    def __init__(self, file: PythonFile, claim: Claim) -> None:
        self.file = file
        self.judge = file.judge.judge
        self.path_judge = file.judge.of_vllm.judge  # a path in a string is for vLLM to import
        self.claim = claim
        self.surgery = Surgery(file.source)
        self.out: list[Occurrence] = []
        self.carried: set[int] = set()  # references whose import's edit takes them to the target

    def run(self) -> list[Occurrence]:
        self._imports()
        self._strings()
        self._attribute_calls()
        self._type_comments()
        return self.out

    # imports and their uses

    def _imports(self) -> None:
        planned: dict[int, list[tuple[Imported, Occurrence, str]]] = {}
        moved: set[int] = set()  # id(Imported) of those that an edit carries to the target
        found: list[tuple[Imported, Occurrence]] = []
        for imported in self.file.references.imports:
            occurrence, new = self._import(imported)
            if occurrence is None:
                continue
            found.append((imported, occurrence))
            if new:
                planned.setdefault(id(imported.statement), []).append((imported, occurrence, new))
                moved.add(id(imported))
        edits = {key: self._statement_edits(group) for key, group in planned.items()}
        placed: dict[int, Occurrence] = {}
        for imported, occurrence in found:
            if id(imported) in moved:
                statement_edits = edits[id(imported.statement)]
                if statement_edits:
                    occurrence = replace(occurrence, edits=statement_edits)
                else:
                    moved.discard(id(imported))
                    why = "the statement has a form that cannot be edited safely"
                    occurrence = replace(occurrence, destination="", reason=why)
            placed[id(imported)] = occurrence
            self.out.append(occurrence)
        self._uses(moved, placed)

    def _import(self, imported: Imported) -> tuple[Occurrence | None, str]:
        """The occurrence of one imported name, and the dotted name to import instead ("" to leave it)."""
        verdict = self.judge(imported.dotted)
        if verdict.status == "unknown" or (verdict.status == "present" and verdict.fate == "same"):
            return None, ""
        if self._own(verdict):
            return None, ""
        start, end = self.file.span(imported.alias)
        uses = [use for use in imported.uses if self._belongs(use, imported)]
        roles = frozenset(use.role for use in uses if len(use.use.attributes) == 0)
        guard = self._guard(imported)
        trial = guards.import_trial(imported.path) is not None
        occurrence = Occurrence(verdict, start, end, "import", "value", guard, roles=roles, in_trial=trial)
        if verdict.status == "present":
            return (occurrence, "") if roles & {"base", "patch", "isinstance"} else (None, "")
        if guard or self.file.legacy:
            return occurrence, ""
        new, reason = self._destination(imported, verdict, uses, roles)
        if self.file.settings.bridge and self._needs_bridge(imported, verdict, new):
            new = bridged(imported.dotted)
        if not new:
            return replace(occurrence, reason=reason), ""
        decided = replace(occurrence, destination=new, module=self.file.judge.is_module(imported.dotted))
        return (decided, new) if self._may_edit(decided) else (occurrence, "")

    def _needs_bridge(self, imported: Imported, verdict: Verdict, new: str) -> bool:
        """With --bridge: no one import serves both engines, and one of the bridge can take its place.

        `import a.b` binds `vllm`, which the rest of the file may need: a chain on it stays.
        """
        if new and verdict.fate != "contract" and not self._two_objects(imported.dotted, new):
            return False
        plain = isinstance(imported.statement, ast.Import) and not imported.alias.asname
        return not plain and self.file.judge.index.resolve(imported.dotted, self.file.settings.also).found is True

    def _two_objects(self, old: str, new: str) -> bool:
        """The release to serve has both names, and each engine's own object behind them."""
        index, also = self.file.judge.index, self.file.settings.also
        there = [index.resolve(dotted, also) for dotted in (old, *new.split(", "))]
        return all(found.found is True for found in there) and len({found.canonical for found in there}) > 1

    def _destination(
        self, imported: Imported, verdict: Verdict, uses: list[Reference], roles: frozenset[Role]
    ) -> tuple[str, str]:
        if self.file.judge.is_module(imported.dotted):
            new, reason = self._module_destination(imported, verdict, uses)
            lacking = self._lacking(imported, new, uses) if new else ""
            if lacking:
                return "", f"vLLM {self.file.settings.also}, which is to be served, too, has no `{lacking}`"
            return new, reason
        if verdict.new and verdict.new.rpartition(".")[0] == self.file.module:
            return "", "this very file is where it lives now"
        if verdict.movable:
            return verdict.new, ""
        if verdict.fate == "contract" and verdict.new:
            namesake = verdict.new.rpartition(".")[2].lower() == imported.dotted.rpartition(".")[2].lower()
            if (namesake and roles and roles <= SAFE_ROLES) or self.file.settings.unsafe:
                return verdict.new, ""
            return "", "contract"
        return "", ""

    def _module_destination(self, imported: Imported, verdict: Verdict, uses: list[Reference]) -> tuple[str, str]:
        """Where a module went, by what the file uses of it; by the module itself if it uses nothing."""
        prefix = imported.dotted + "."
        bases: set[str] = set()
        for use in uses:
            if not use.dotted.startswith(prefix):
                return "", "the module itself is handed on"
            found = self.judge(use.dotted)
            suffix = use.dotted[len(imported.dotted) :]
            if found.status != "missing":
                continue
            if not found.movable or not use.certain:
                return "", "not everything used of it has a place in the target"
            base = self._new_base(imported, found, suffix)
            if use.role in ("patch", "delete") and base != verdict.new:
                return "", "a name is patched in it that it only imported"
            bases.add(base)
        if not uses:
            return (verdict.new, "") if verdict.movable else ("", "")
        bases.discard("")
        if isinstance(imported.statement, ast.Import) and not imported.alias.asname:
            return (", ".join(sorted(bases)), "") if bases else ("", "")
        if len(bases) == 1:
            return bases.pop(), ""
        return "", "what is used of it went to several modules" if bases else ""

    def _new_base(self, imported: Imported, found: Verdict, suffix: str) -> str:
        """The module to import so that `local` + suffix reaches the new place; for plain `import a.b`, that module."""
        if isinstance(imported.statement, ast.Import) and not imported.alias.asname:
            return self._module_of(found.new)
        return found.new[: -len(suffix)] if found.new.endswith(suffix) else "?" + found.new

    def _module_of(self, dotted: str) -> str:
        """The longest prefix of a name of the target that is a module."""
        while dotted.startswith("vllm.") and not self.file.judge.index.resolve(
            dotted, self.file.judge.target
        ).kind.endswith("module"):
            dotted = dotted.rpartition(".")[0]
        return dotted if dotted.startswith("vllm") else dotted.partition(".")[0]

    def _own(self, verdict: Verdict) -> bool:
        """A fork's own name, which no release of vLLM ever had."""
        return verdict.fate == "alien" and self.file.tree.is_vllm and self.file.tree.defines(verdict.dotted)

    def _belongs(self, use: Reference, imported: Imported) -> bool:
        """Of the uses of the name `vllm`, those that go through this very import."""
        if isinstance(imported.statement, ast.Import) and not imported.alias.asname:
            return use.dotted == imported.dotted or use.dotted.startswith(imported.dotted + ".")
        return True

    def _guard(self, imported: Imported) -> str:
        if guards.has_living_twin(imported, self.file.package, self._alive):
            return "twin"
        return "version" if guards.version_guard(imported.path, imported.statement) is not None else ""

    def _alive(self, dotted: str) -> bool:
        return self.judge(dotted).status != "missing"

    def _may_edit(self, occurrence: Occurrence) -> bool:
        rule = self.claim(occurrence)
        return bool(rule) and self.file.allowed(rule, occurrence.verdict.symbol)

    def _statement_edits(self, group: list[tuple[Imported, Occurrence, str]]) -> tuple[Edit, ...]:
        statement = group[0][0].statement
        new = {id(imported.alias): destination for imported, _, destination in group}
        guarded = frozenset(
            id(imported.alias)
            for imported, _, destination in group
            if self._serves_one(imported.dotted, destination) and not guards.for_type_checkers(imported.path)
        )
        if isinstance(statement, ast.Import):
            return self.surgery.plain_import(statement, new, guarded)
        body = self._siblings(group[0][0])
        return self.surgery.from_import(statement, new, body, self.file.package, guarded)

    def _serves_one(self, old: str, new: str) -> bool:
        """With `--also`: the new name is not on that release, the old one is."""
        also = self.file.settings.also
        return bool(also) and needs_guard(self.file.judge.index, old, new, also)

    def _lacking(self, imported: Imported, new: str, uses: list[Reference]) -> str:
        """With `--also`: a member used of a module that release has under the old name only, though it has the module.

        A `try` around the import would not notice: it fails where the module is absent, not where a member is.
        """
        if self._serves_one(imported.dotted, new) or guards.for_type_checkers(imported.path):
            return ""
        plain = isinstance(imported.statement, ast.Import) and not imported.alias.asname
        for use in uses:
            there = new + use.dotted[len(imported.dotted) :]
            if plain:  # its uses are edited one by one, those alone that the target lacks
                there = self.judge(use.dotted).new if self.judge(use.dotted).missing else ""
            if there and self._serves_one(use.dotted, there):
                return there
        return ""

    def _siblings(self, imported: Imported) -> list[ast.stmt]:
        parent, name, _ = imported.path
        body = getattr(parent, name, None)
        return body if isinstance(body, list) else []

    def _uses(self, moved: set[int], found: dict[int, Occurrence]) -> None:
        by_use: dict[int, list[Imported]] = {}
        for imported in self.file.references.imports:
            for reference in imported.uses:
                if self._belongs(reference, imported):
                    by_use.setdefault(id(reference), []).append(imported)
        for reference in self.file.references.uses:
            verdict = self.judge(reference.dotted)
            if verdict.status == "unknown" or self._own(verdict):
                continue
            owners = _nearest(by_use.get(id(reference), []))
            occurrence = self._use(reference, verdict, owners, moved, found)
            if occurrence is not None:
                self.out.append(occurrence)

    def _use(
        self,
        reference: Reference,
        verdict: Verdict,
        owners: list[Imported],
        moved: set[int],
        found: dict[int, Occurrence],
    ) -> Occurrence | None:
        role = reference.role
        if verdict.status == "present":
            if verdict.fate != "contract" or role not in ("patch", "base", "isinstance"):
                return None
        elif reference.through_alias and not reference.use.attributes:
            return None
        start, end = self.file.span(reference.node)
        owner_found = [found[id(owner)] for owner in owners if id(owner) in found]
        guard = next((occurrence.guard for occurrence in owner_found if occurrence.guard), "")
        guard = guard or ("version" if guards.version_guard(reference.use.path, reference.node) is not None else "")
        if owner_found and all(each.edits and is_bridged(each.destination) for each in owner_found):
            return None  # the bridge has it
        occurrence = Occurrence(verdict, start, end, "chain", role, guard, primary=not owner_found)
        is_moved = bool(owners) and all(id(owner) in moved for owner in owners)
        if is_moved:
            self.carried.add(id(reference))
        if is_moved and (verdict.movable or verdict.status == "present"):
            if role in ("patch", "delete") and reference.use.attributes:
                return self._chain_edit(reference, replace(occurrence, primary=True), owners)
            return self._chain_edit(reference, occurrence, owners) if self._plain(owners) else None
        if verdict.movable and not guard:
            why = next((each.reason for each in owner_found if each.reason not in ("", "contract")), "")
            return replace(occurrence, reason="its import stays" + (f" ({why})" if why else ""))
        return occurrence

    def _plain(self, owners: list[Imported]) -> bool:
        """The use spells the whole path, since the import was `import a.b.c`."""
        return any(isinstance(owner.statement, ast.Import) and not owner.alias.asname for owner in owners)

    def _chain_edit(self, reference: Reference, occurrence: Occurrence, owners: list[Imported]) -> Occurrence:
        if not self._plain(owners) or occurrence.verdict.status == "present":
            return occurrence
        edit = self.surgery.chain(reference.node, reference.dotted, occurrence.verdict.new)
        if edit is None or not self._may_edit(occurrence):
            return replace(occurrence, reason="its text is not the plain dotted path")
        return replace(occurrence, edits=(edit,))

    # names in strings

    def _strings(self) -> None:
        for found in self.file.model.nodes.get(ast.Constant, ()):
            value: str = found.node.value
            if "vllm" in value and not self._is_docstring(found):
                self._string(found, value)

    def _is_docstring(self, found: Node) -> bool:
        return isinstance(found.path[0], ast.Expr)

    def _string(self, found: Node, value: str) -> None:
        computed = isinstance(found.path[0], ast.JoinedStr) or _is_operand(found)
        if _EXACT.fullmatch(value) and not computed:
            self._exact_string(found, value)
            return
        seen: set[str] = set()
        for match in _DOTTED.finditer(value):
            dotted = match.group().replace(":", ".")
            if dotted not in seen and self._worth_saying(dotted):
                seen.add(dotted)
                form: Form = "computed" if computed else "text"
                self._add_in_string(found, dotted, match.group(), form)
        for match in _FILE.finditer(value):
            dotted = "vllm" + match.group(1).replace("/", ".")
            if dotted not in seen and self._worth_saying(dotted) and self.file.judge.is_module(dotted):
                seen.add(dotted)
                self._add_in_string(found, dotted, match.group(), "path")

    def _worth_saying(self, dotted: str) -> bool:
        verdict = self.path_judge(dotted)
        return verdict.missing and verdict.fate != "alien" and not self._own(verdict)

    def _add_in_string(self, found: Node, dotted: str, written: str, form: Form) -> None:
        start, end = self.file.span(found.node)
        position = self.file.source.text.find(written, start, end)
        if position >= 0:
            start, end = position, position + len(written)
        guard = "version" if guards.version_guard(found.path, found.node) is not None else ""
        self.out.append(Occurrence(self.path_judge(dotted), start, end, form, "value", guard))

    def _only_imported(self, dotted: str, verdict: Verdict) -> bool:
        """The path named a module's own copy of something it imported: patching the definition patches nobody."""
        judge = self.file.judge
        _, last = judge.span(dotted)
        if not last or verdict.symbol != dotted or not judge.is_module(dotted.rpartition(".")[0]):
            return False
        return judge.index.resolve(dotted, last).canonical != dotted

    def _exact_string(self, found: Node, value: str) -> None:
        dotted = value.replace(":", ".")
        if not self._worth_saying(dotted):
            return
        verdict = self.path_judge(dotted)
        start, end = self.file.span(found.node)
        literal = self.file.source.text[start:end]
        guard = "version" if guards.version_guard(found.path, found.node) is not None else ""
        occurrence = Occurrence(verdict, start, end, "string", _string_role(found), guard)
        if self._bridge_string(occurrence, value, literal):
            return
        movable = verdict.movable or (verdict.fate == "contract" and verdict.new and self.file.settings.unsafe)
        if not movable or guard or self.file.legacy:
            self.out.append(occurrence)
            return
        if self._serves_one(dotted, verdict.new):
            why = f"no one path is right on vLLM {self.file.settings.also} and on {self.file.judge.target}"
            self.out.append(replace(occurrence, reason=why))
            return
        if occurrence.role == "patch" and self._only_imported(dotted, verdict):
            self.out.append(replace(occurrence, reason=IMPORTED_ONLY))
            return
        if literal.count(value) != 1:
            self.out.append(replace(occurrence, reason="the string is put together from pieces"))
            return
        if self._may_edit(occurrence):
            at = start + literal.index(value)
            new = verdict.new
            if ":" in value:
                tail = value.rpartition(":")[2]
                new = new[: -len(tail) - 1] + ":" + tail if new.endswith("." + tail) else ":".join(new.rsplit(".", 1))
            occurrence = replace(occurrence, edits=(Edit(at, at + len(value), value, new),))
        self.out.append(occurrence)

    def _bridge_string(self, occurrence: Occurrence, value: str, literal: str) -> bool:
        """With --bridge: the path of a class that has no one place on both engines goes to the bridge."""
        settings, verdict = self.file.settings, occurrence.verdict
        if not settings.bridge or occurrence.role != "value" or occurrence.guard or self.file.legacy:
            return False
        dotted = occurrence.dotted
        found = self.file.judge.index.resolve(dotted, settings.also)
        is_class = found.found is True and found.kind.endswith("class")
        if not is_class or (verdict.movable and not self._serves_one(dotted, verdict.new)) or literal.count(value) != 1:
            return False
        decided = replace(occurrence, destination=bridged(dotted))
        if not self._may_edit(decided):
            return False
        at = occurrence.start + literal.index(value)
        self.out.append(replace(decided, edits=(Edit(at, at + len(value), value, bridged(value)),)))
        return True

    # setattr(module, "name"), patch.object(cls, "name"), getattr(...)

    def _attribute_calls(self) -> None:
        for found in self.file.model.nodes.get(ast.Call, ()):
            call: ast.Call = found.node
            function = call.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name not in _ATTRIBUTE_CALLS or len(call.args) < 2:
                continue
            literal = call.args[1]
            if not (
                isinstance(literal, ast.Constant) and isinstance(literal.value, str) and literal.value.isidentifier()
            ):
                continue
            for reference in self.file.by_node.get(id(call.args[0]), ()):
                dotted = f"{reference.dotted}.{literal.value}"
                verdict = self.judge(dotted)
                if verdict.missing and not self._own(verdict) and not literal.value.startswith("__"):
                    start, end = self.file.span(literal)
                    role: Role = "value" if name in ("getattr", "hasattr") else "patch"
                    guard = "probe" if name in ("hasattr", "getattr") else ""
                    if verdict.movable and id(reference) in self.carried:
                        continue
                    self.out.append(Occurrence(verdict, start, end, "attribute", role, guard))

    # `# type:` comments

    def _type_comments(self) -> None:
        text = self.file.source.text
        if "# type:" not in text and "#type:" not in text:
            return
        for comment in _TYPE_COMMENT.finditer(text):
            if "vllm." not in comment.group():
                continue
            for match in _DOTTED.finditer(comment.group()):
                if not self._worth_saying(match.group()):
                    continue
                start = comment.start() + match.start()
                verdict = self.judge(match.group())
                occurrence = Occurrence(verdict, start, start + len(match.group()), "comment", "annotation")
                if verdict.movable and not self.file.legacy and self._may_edit(occurrence):
                    edit = Edit(start, occurrence.end, match.group(), verdict.new)
                    occurrence = replace(occurrence, edits=(edit,))
                self.out.append(occurrence)


def _nearest(owners: list[Imported]) -> list[Imported]:
    """Of several `import a`, `import a.b` that bind one name, those that spell most of the path."""
    longest = max((len(owner.dotted) for owner in owners if _spells_path(owner)), default=0)
    return [owner for owner in owners if not _spells_path(owner) or len(owner.dotted) == longest]


def _spells_path(owner: Imported) -> bool:
    return isinstance(owner.statement, ast.Import) and not owner.alias.asname


def _is_operand(found: Node) -> bool:
    """The string is one side of `+` or `%`, or formatted: only a part of what is meant."""
    for parent, name in ancestors(found.path):
        if isinstance(parent, ast.BinOp):
            return isinstance(parent.op, ast.Add | ast.Mod)
        return isinstance(parent, ast.Attribute) and name == "value"
    return False


def _string_role(found: Node) -> Role:
    """`patch("a.b")` is a patch target, a key of sys.modules a stand-in for a module; other strings are values."""
    for parent, _ in ancestors(found.path):
        if isinstance(parent, ast.Call):
            function = parent.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            return (
                "patch"
                if name in ("patch", "setattr", "multiple", "dict") and parent.args[:1] == [found.node]
                else "value"
            )
        if isinstance(parent, ast.arg | ast.AnnAssign):
            return "annotation"
    return "value"
