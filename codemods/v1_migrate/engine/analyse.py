"""One file from bytes to findings and new text. No rule is known here by name, and nothing is written."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from .. import suppress
from ..discover import File, Kind
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..rules import all_rules, slugs
from ..rules.rule import Phase, Rule
from ..rules.text_engine_argument import engine_keys
from ..source import EditError, Reason, Source, Unreadable
from .context import AnyFile, PythonFile, Settings, TextFile
from .occurrence import Occurrence
from .occurrences import occurrences
from .parse import Unparsable, parse
from .places import fixed, inverse, moved
from .tree import Tree
from .verdicts import Judge
from .verify import lost_names, unbound_names

SKIPPED, GIVEN_UP = "V1M901", "V1M902"
PYTHON = (Kind.PYTHON, Kind.STUB)
_SETTINGS = (Kind.JSON, Kind.YAML)

# Bytes without which a file has nothing to say about vLLM. UTF-16 is let through, to be reported.
_NEEDLE = re.compile(
    rb"vllm|v1_compat|guided_(?:json|regex|choice|grammar|decoding_backend)|^\xff\xfe|^\xfe\xff", re.IGNORECASE
)
_RELATIVE = re.compile(rb"import|vllm|VLLM")
_TEXT_NEEDLE = re.compile(rb"vllm", re.IGNORECASE)
_OURS = re.compile(rb'"(?:rule|ruleId)":\s*"V1M\d{3}"')  # a report or baseline of this tool, kept in the tree
_OF_NO_CONCERN = (Reason.ENCODING, Reason.NUL, Reason.TOO_BIG, Reason.COOKIE)  # in a file that is not Python


@dataclass(slots=True)
class Result:
    """What became of one file. The findings' lines are those of `new_text` where there is one."""

    rel: str
    findings: list[Finding]
    new_text: str | None = None  # None: unchanged
    old: Source | None = None  # None: the sieve left the file out, or it could not be read
    suppressed: int = 0
    before: list[Finding] | None = None  # the same findings at their places in the text as it was


def is_of_concern(raw: bytes) -> bool:
    """A Python text may have something to say about vLLM."""
    return _NEEDLE.search(raw) is not None


class GivenUp(Exception):
    """The edits of a file must not be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """What a file is and where it stands."""

    kind: Kind
    module: str
    package: str

    @property
    def python(self) -> bool:
        return self.kind in PYTHON


@dataclass(slots=True)
class Outcome:
    """A file after some phases."""

    file: AnyFile
    findings: list[Finding] = field(default_factory=list)
    before: list[Finding] = field(default_factory=list)  # the findings where they were
    suppressed: int = 0
    steps: list[tuple[list[Edit], Source, str]] = field(default_factory=list)  # how to get back, phase by phase

    @property
    def edited(self) -> bool:
        return bool(self.steps)

    def at_first(self, findings: list[Finding]) -> list[Finding]:
        """Findings of the present text at their places in the first one."""
        for back, after, before in reversed(self.steps):
            findings = moved(findings, back, after, before)
        return findings


class Analyser:
    """Looks at files of one tree for one target."""

    def __init__(self, tree: Tree, settings: Settings, judge: Judge | None = None, *, settle: bool = True) -> None:
        self.tree = tree
        self.settle = settle
        self.settings = settings
        self.judge = judge or Judge(settings.target, settings.attention)  # type: ignore[arg-type]
        self.rules: Sequence[Rule] = [rule for rule in all_rules() if settings.selected(rule.id)]
        self.phases = sorted({rule.phase for rule in self.rules} | {Phase.NAMES})
        self.folding = frozenset(rule.id for rule in self.rules if rule.folds)
        self.of_names = frozenset(rule.id for rule in self.rules if rule.of_the_text)
        self._opened: list[PythonFile] = []  # the file in hand, text by text
        self.claimants: Sequence[Rule] = sorted(all_rules(), key=lambda rule: (rule.order, rule.id))

    def file(self, file: File) -> Result:
        """Read and look at one file."""
        python = file.kind in PYTHON
        try:
            source = Source.read(file.path, file.rel, python=python)
        except Unreadable as error:
            said = python or error.reason not in _OF_NO_CONCERN or _mentions_vllm(file)
            return Result(file.rel, [_skipped(file.rel, error.message)] if said else [])
        if not self._relevant(source.raw, file):
            return Result(file.rel, [])
        module = self.tree.module(file.path) if python else ""
        return self.source(source, file.kind, module, self.tree.package(file.path) if python else "")

    def _relevant(self, raw: bytes, file: File) -> bool:
        if file.kind not in PYTHON:
            about = _TEXT_NEEDLE.search(raw) or (file.kind in _SETTINGS and engine_keys().search(raw))
            return about is not None and not (file.kind is Kind.JSON and _OURS.search(raw))
        if self.tree.is_vllm and self.tree.package(file.path).partition(".")[0] == "vllm":
            return _RELATIVE.search(raw) is not None
        return is_of_concern(raw)

    def source(self, source: Source, kind: Kind, module: str = "", package: str = "") -> Result:
        """Look at a text that is already there."""
        try:
            return self._result(source, Place(kind, module, package))
        finally:
            for file in self._opened:
                file.forget()
            self._opened.clear()

    def _result(self, source: Source, place: Place) -> Result:
        try:
            outcome = self._phases(self._open(source, place), place, edit=True)
            if self.settle and outcome.edited:
                again = self._phases(outcome.file, place, edit=True)
                if again.edited:
                    outcome = self._undone(source, place, "a second run would change the result again")
                else:
                    outcome.findings = self._settled(outcome.findings, again.findings)
        except Unparsable as error:
            return Result(source.rel, [_skipped(source.rel, error.reason, error.line)], old=source)
        except RecursionError:
            return Result(source.rel, [_skipped(source.rel, "an expression is nested too deeply")], old=source)
        if not outcome.edited:
            return Result(source.rel, outcome.findings, None, source, outcome.suppressed)
        new_text = outcome.file.source.text
        return Result(source.rel, outcome.findings, new_text, source, outcome.suppressed, outcome.before)

    def _settled(self, first: list[Finding], second: list[Finding]) -> list[Finding]:
        """What was edited, what a second run says, and what only the text before the edits told.

        What the first run said of names, it said with the edits still to come: the arm of a `try` whose other arm one
        of them has just repaired is no error any more. It counts where the second run has nothing to say of the line.
        """
        said = {(f.line, key) for f in second for key in (f.rule, f.name, "")}
        kept = []
        for finding in first:
            keys = (finding.rule, finding.name, *([""] if finding.rule in self.of_names else []))
            if finding.fixed or not any((finding.line, key) in said for key in keys):
                kept.append(finding)
        return _once([*kept, *second])

    def _phases(self, file: AnyFile, place: Place, *, edit: bool) -> Outcome:
        """Phase by phase: look, edit, and let the next phase look at the result."""
        source = file.source
        outcome = Outcome(file)
        for phase in self.phases:
            findings, suppressed = self._inspect(outcome.file, place, phase)
            outcome.suppressed += suppressed
            edits = sorted({edit for f in findings for edit in f.edits}, key=lambda each: (each.start, each.end))
            if edits and edit:
                try:
                    folds = any(f.rule in self.folding for f in findings if f.edits)
                    after = self._edited(outcome.file, place, edits, folds)
                except GivenUp as error:
                    return self._undone(source, place, str(error))
                findings = [fixed(f, outcome.file.source) if f.edits else f for f in findings]
                outcome.before += outcome.at_first(findings)
                before = outcome.file.source
                outcome.findings = moved(outcome.findings, edits, before, after.source.text)
                findings = moved(findings, edits, before, after.source.text)
                outcome.steps.append((inverse(edits), after.source, before.text))
                outcome.file = after
            else:
                outcome.before += outcome.at_first(findings)
            outcome.findings = _once([*outcome.findings, *findings])
        outcome.before = _once(outcome.before)
        return outcome

    def _undone(self, source: Source, place: Place, why: str) -> Outcome:
        """The file as it was, with every finding left to a person, and one that says so."""
        outcome = self._phases(self._open(source, place), place, edit=False)
        outcome.findings = _given_up(source.rel, outcome.findings, why)
        return outcome

    def _inspect(self, file: AnyFile, place: Place, phase: int) -> tuple[list[Finding], int]:
        """Findings of one phase with edits planned, after suppression."""
        file.blocked = frozenset()
        findings = self._collect(file, phase)
        kept, suppressed = self._suppress(file.source, findings, place, phase)
        held = frozenset(finding.name for finding in findings if finding.edits and finding not in kept)
        if held:  # plan again without the names that a comment holds on to: half a statement must not move
            file.blocked = held
            kept, suppressed = self._suppress(file.source, self._collect(file, phase), place, phase)
        return kept, suppressed

    def _suppress(self, source: Source, findings: list[Finding], place: Place, phase: int) -> tuple[list[Finding], int]:
        active = {rule.id for rule in self.rules if rule.phase == phase}
        return suppress.apply(source, findings, python=place.python, known=slugs(), active=active)

    def _open(self, source: Source, place: Place) -> AnyFile:
        if not place.python:
            return TextFile(source, self.tree, place.kind, self.judge, self.settings)
        parsed = parse(source.text)
        file = PythonFile(source, self.tree, place.module, place.package, parsed, self.judge, self.settings)
        self._opened.append(file)
        return file

    def _collect(self, file: AnyFile, phase: int) -> list[Finding]:
        findings: list[Finding] = []
        rules = [rule for rule in self.rules if rule.phase == phase]
        if isinstance(file, PythonFile):
            if phase == Phase.NAMES:
                for occurrence in occurrences(file, self._claim):
                    rule = self._claimant(occurrence)
                    if rule is not None and self.settings.selected(rule.id):
                        findings.append(rule.word(occurrence, file))
            for rule in rules:
                findings += map(self._serving_both, rule.check(file))
        elif isinstance(file, TextFile):
            for rule in rules:
                findings += map(self._serving_both, rule.check_text(file))
        return _once(findings)

    def _serving_both(self, finding: Finding) -> Finding:
        """With `--also`, without edits whose result only the target runs. Moved names see to it themselves."""
        also = self.settings.also
        if not also or not finding.edits or finding.safety is Safety.BRIDGE:
            return finding
        advice = f"{finding.advice} Not edited: vLLM {also}, which is to be served, too, may need it as it is.".strip()
        return replace(finding, edits=(), safety=Safety.MANUAL, effort=Effort.MINUTES, advice=advice)

    def _claim(self, occurrence: Occurrence) -> str:
        rule = self._claimant(occurrence)
        return rule.id if rule is not None else ""

    def _claimant(self, occurrence: Occurrence) -> Rule | None:
        return next((rule for rule in self.claimants if rule.claims(occurrence)), None)

    def _edited(self, file: AnyFile, place: Place, edits: list[Edit], folds: bool) -> AnyFile:
        """The file after the edits. Raises GivenUp when the result must not be used."""
        source = file.source
        try:
            new_text = source.apply(edits)
            after = Source.from_bytes(source.encode(new_text), source.rel, python=place.python)
            again = self._open(after, place)
        except EditError as error:
            raise GivenUp(str(error)) from None
        except (Unreadable, Unparsable) as error:
            raise GivenUp(f"the result would not be valid Python ({error})") from None
        if isinstance(file, PythonFile) and isinstance(again, PythonFile):
            # Folding takes blocks and names away on purpose; what is still read must still be bound.
            if folds:
                lost = unbound_names(file.model, again.model)
            else:
                lost = lost_names(file.parsed.tree, again.parsed.tree, _touched(source, edits))
            if folds and not _compiles(after.text) and _compiles(source.text):
                raise GivenUp("the result would not compile")
            if lost:
                names = ", ".join(f"`{name}`" for name in sorted(lost)[:3])
                raise GivenUp(f"the result would no longer bind {names}")
        return again


def _touched(source: Source, edits: Sequence[Edit]) -> Callable[[ast.stmt], bool]:
    """Whether an edit, sorted by place with the others, reaches into the lines of a statement."""
    firsts = [source.position(edit.start)[0] for edit in edits]
    lasts = [source.position(edit.end)[0] for edit in edits]

    def touched(statement: ast.stmt) -> bool:
        index = bisect_left(lasts, statement.lineno)  # edits do not overlap: both lists are sorted
        return index < len(firsts) and firsts[index] <= (statement.end_lineno or statement.lineno)

    return touched


def _compiles(text: str) -> bool:
    """More than parsing: `nonlocal` without a name to mean, `return` outside a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<file>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _mentions_vllm(file: File) -> bool:
    """The bytes of a file that cannot be decoded hold the word; one too big to read is taken to."""
    try:
        return _TEXT_NEEDLE.search(file.path.read_bytes()) is not None
    except OSError:
        return True


def _skipped(rel: str, reason: str, line: int = 0) -> Finding:
    return Finding(
        rel,
        max(line, 1),
        1,
        max(line, 1),
        1,
        SKIPPED,
        f"skipped: {reason}",
        Severity.WARNING,
        advice="Whatever this file uses of vLLM is not migrated. Repair the file, or exclude it on purpose.",
    )


def _given_up(rel: str, findings: list[Finding], why: str) -> list[Finding]:
    kept = [_by_hand(finding) if finding.edits else finding for finding in findings]
    first = min((finding.line for finding in findings if finding.edits), default=1)
    culprit = re.match(rf"{re.escape(rel)}:(\d+):", why)  # as an EditError begins
    first = int(culprit[1]) if culprit else first
    return [
        Finding(
            rel,
            first,
            1,
            first,
            1,
            GIVEN_UP,
            f"the edits of this file were given up: {why}",
            Severity.ERROR,
            advice="The file is as it was; make the changes below by hand.",
        ),
        *kept,
    ]


def _by_hand(finding: Finding) -> Finding:
    """The finding without its edits, which its advice puts into words."""
    edit = finding.edits[0]
    written = f"write `{edit.replacement}` for `{edit.expected}`" if edit.replacement else f"delete `{edit.expected}`"
    short = len(finding.edits) == 1 and "\n" not in edit.expected + edit.replacement and edit.expected
    by_hand = f"By hand: {written}." if short else "Its edit was given up: make the change by hand."
    advice = f"{finding.advice} {by_hand}".strip()
    return replace(finding, edits=(), safety=Safety.MANUAL, effort=Effort.MINUTES, advice=advice)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """Sorted by place; of further uses of one name on one line, the first."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for finding in sorted(findings, key=lambda f: (f.line, f.column, f.rule, not f.primary)):
        key = (finding.line, finding.rule, finding.name, finding.message)
        if key not in seen or finding.edits:
            kept.append(finding)
        seen.add(key)
    return kept
