"""Every occurrence of a vllm name that the target lacks, or has with another contract, and the edits that settle it.

This file finds; the rules (one per fate) claim the occurrences and put them into words.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from ..findings import Edit
from . import guards
from .bridge import bridged, is_bridged
from .context import PythonFile
from .occurrence import Claim, Finder, Occurrence
from .references import Imported, Reference, Role
from .surgery import Surgery
from .text_finder import TextFinder
from .verdicts import Verdict

TAKEN = "the test of the release around it leads other releases there, too"
SAFE_ROLES: frozenset[Role] = frozenset({"annotation", "base"})


def occurrences(file: PythonFile, claim: Claim) -> list[Occurrence]:
    """All occurrences of a file, with edits planned where they are safe, selected and not suppressed."""
    imports = _ImportFinder(file, claim)
    return [*imports.run(), *TextFinder(file, claim, imports.carried).run()]


class _ImportFinder(Finder):
    """Imports and their uses."""

    def __init__(self, file: PythonFile, claim: Claim) -> None:
        super().__init__(file, claim)
        self.surgery = Surgery(file.source)
        self.carried: set[int] = set()  # references whose import's edit takes them to the target

    def run(self) -> list[Occurrence]:
        self._imports()
        return self.out

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
        if self.own(verdict):
            return None, ""
        start, end = self.file.span(imported.alias)
        uses = [use for use in imported.uses if self._belongs(use, imported)]
        roles = frozenset(use.role for use in uses if len(use.use.attributes) == 0)
        guard = self._guard(imported)
        trial = guards.swallowed(imported.path)
        occurrence = Occurrence(verdict, start, end, "import", "value", guard, roles=roles, in_trial=trial)
        occurrence = replace(occurrence, sets=self.set_by_tree(verdict))
        if verdict.status == "present":
            return (occurrence, "") if roles & {"base", "patch", "isinstance"} else (None, "")
        if guard == "taken":
            return replace(occurrence, reason=TAKEN), ""
        if guard or self.file.legacy:
            return occurrence, ""
        new, reason = self._destination(imported, verdict, uses, roles)
        if self.file.settings.bridge and self._needs_bridge(imported, verdict, new, uses):
            if guards.goes_on_without(imported.path):  # is right on both engines, and the bridge never fails
                return replace(occurrence, guard="trial"), ""
            new = bridged(imported.dotted)
        if not new:
            return replace(occurrence, reason=reason), ""
        decided = replace(occurrence, destination=new, module=self.file.judge.is_module(imported.dotted))
        return (decided, new) if self.may_edit(decided) else (occurrence, "")

    def _needs_bridge(self, imported: Imported, verdict: Verdict, new: str, uses: list[Reference]) -> bool:
        """With --bridge: no one import serves both engines, and one of the bridge can take its place.

        `import a.b` binds `vllm`, which the rest of the file may need: a chain on it stays.
        """
        changed = "contract" in (verdict.fate, *(self.judge(use.dotted).fate for use in uses))
        if new and not changed and not self._two_objects(imported.dotted, new):
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

    def _belongs(self, use: Reference, imported: Imported) -> bool:
        """Of the uses of the name `vllm`, those that go through this very import."""
        if isinstance(imported.statement, ast.Import) and not imported.alias.asname:
            return use.dotted == imported.dotted or use.dotted.startswith(imported.dotted + ".")
        return True

    def _guard(self, imported: Imported) -> str:
        for asked in (guards.has_living_twin, guards.tried_before):
            if asked(imported, self.file.package, self._alive):
                return "twin"
        verdict = self.judge(imported.dotted)
        successors = {self._defined(name) for name in (verdict.new, verdict.successor) if name}
        if verdict.missing and guards.succeeded(
            imported, self.file.references.imports, self._alive, lambda name: self._defined(name) in successors
        ):
            return "twin"
        return self.guard_around(imported.path, imported.statement)

    def _defined(self, dotted: str) -> str:
        """Where the target defines what it calls so."""
        return self.file.judge.index.resolve(dotted, self.file.judge.target).canonical or dotted

    def _alive(self, dotted: str) -> bool:
        return self.judge(dotted).status != "missing"

    def _statement_edits(self, group: list[tuple[Imported, Occurrence, str]]) -> tuple[Edit, ...]:
        statement = group[0][0].statement
        new = {id(imported.alias): destination for imported, _, destination in group}
        guarded = frozenset(
            id(imported.alias)
            for imported, _, destination in group
            if self.serves_one(imported.dotted, destination) and not guards.for_type_checkers(imported.path)
        )
        if isinstance(statement, ast.Import):
            return self.surgery.plain_import(statement, new, guarded)
        body = self._siblings(group[0][0])
        return self.surgery.from_import(statement, new, body, self.file.package, guarded)

    def _lacking(self, imported: Imported, new: str, uses: list[Reference]) -> str:
        """With `--also`: a member used of a module that release has under the old name only, though it has the module.

        A `try` around the import would not notice: it fails where the module is absent, not where a member is.
        """
        if self.serves_one(imported.dotted, new) or guards.for_type_checkers(imported.path):
            return ""
        plain = isinstance(imported.statement, ast.Import) and not imported.alias.asname
        for use in uses:
            there = new + use.dotted[len(imported.dotted) :]
            if plain:  # its uses are edited one by one, those alone that the target lacks
                there = self.judge(use.dotted).new if self.judge(use.dotted).missing else ""
            if there and self.serves_one(use.dotted, there):
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
        for reference in self.file.references.uses if not self.file.for_release else ():  # its imports say it all
            verdict = self.judge(reference.dotted)
            if verdict.status == "unknown" or self.own(verdict) or self._of_another_arm(reference, verdict):
                continue
            owners = _nearest(by_use.get(id(reference), []))
            occurrence = self._use(reference, verdict, owners, moved, found)
            if occurrence is not None:
                self.out.append(occurrence)

    def _of_another_arm(self, reference: Reference, verdict: Verdict) -> bool:
        """A name that the target never had, of one of several things the root may be, where another one has it.

        `if on_cuda: from vllm import a as ops` / `else: from vllm import b as ops`: what is used is chosen likewise.
        """
        if not verdict.missing or verdict.since:
            return False
        others = (other for other in self.file.by_node.get(id(reference.node), ()) if other.dotted != reference.dotted)
        return any(self.judge(other.dotted).status == "present" for other in others)

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
        if any(each.in_trial for each in owner_found) and guards.asks_for_none(reference.use.path):
            return None
        guard = next((occurrence.guard for occurrence in owner_found if occurrence.guard), "")
        guard = guard or self.guard_around(reference.use.path, reference.node)
        if owner_found and all(each.edits and is_bridged(each.destination) for each in owner_found):
            return None  # the bridge has it
        sets = role == "patch" or self.set_by_tree(verdict)
        occurrence = Occurrence(verdict, start, end, "chain", role, guard, primary=not owner_found, sets=sets)
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
        if edit is None or not self.may_edit(occurrence):
            return replace(occurrence, reason="its text is not the plain dotted path")
        return replace(occurrence, edits=(edit,))


def _nearest(owners: list[Imported]) -> list[Imported]:
    """Of several `import a`, `import a.b` that bind one name, those that spell most of the path."""
    longest = max((len(owner.dotted) for owner in owners if _spells_path(owner)), default=0)
    return [owner for owner in owners if not _spells_path(owner) or len(owner.dotted) == longest]


def _spells_path(owner: Imported) -> bool:
    return isinstance(owner.statement, ast.Import) and not owner.alias.asname
