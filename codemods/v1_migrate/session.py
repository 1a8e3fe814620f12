"""One run from PATH to report: settings, guard, discovery, engine, baseline. Only `commit` writes; nothing prints."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from . import config as configuration
from . import gitguard, target
from .discover import Discovery, File, PathError, discover
from .findings import Edit, Finding, Severity
from .reports import baseline
from .reports.report import Report, plural
from .source import EditError, Source
from .usage import UsageError, Use
from .usage import join as join_usage
from .usage import read as read_usage
from .write import WriteError, hindrance, write

if TYPE_CHECKING:
    from .engine.analyse import Result
    from .engine.run import Options

Progress = Callable[[int, int], None]
_LOST_MEMBERS = frozenset({"V1M102", "V1M111"})
_LISTED = 10  # dirty or read-only files named in full


class Failure(Exception):
    """The tool could not do its work: exit code 2, and this message."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; None and () leave it to the configuration."""

    command: str
    path: Path
    target: str | None = None
    also: str | None = None
    attention: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    indexes: tuple[Path, ...] = ()
    unsafe: bool = False
    bridge: bool = False  # both engines must run the result
    gitignore: bool = True
    jobs: int = 0  # 0: one per processor
    timeout: float = 60.0  # seconds per file
    baseline: Path | None = None
    writing: bool = False
    streaming: bool = False  # the new text goes to standard output
    allow_dirty: bool = False
    usage: Path | None = None  # of V1_COMPAT=report


@dataclass(frozen=True, slots=True)
class Change:
    """A file with a new text."""

    path: Path
    old: Source
    new_text: str


@dataclass(slots=True)
class Session:
    """What a run needs to know and what it has found so far."""

    request: Request
    config: configuration.Config
    guard: gitguard.State
    target: target.Target
    attention: str
    also: str
    found: Discovery
    findings: list[Finding] = field(default_factory=list)
    lines: dict[tuple[str, int], str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    suppressed: int = 0
    baselined: int = 0
    uses: list[Use] | None = None

    @classmethod
    def open(cls, request: Request, found: Discovery | None = None) -> Session:
        """Everything that can be refused is refused here, before any file is read. Raises Failure.

        `found` is what to look at, if that is known already.
        """
        try:
            if not request.path.exists():
                raise PathError(f"{request.path}: no such file or directory")
            config = configuration.load(request.path)
            guard = _guard(request)
            chosen = _target(request, config)
            also = _also(request, config, chosen.release)
            uses = read_usage(request.usage) if request.usage else None
            found = found or _discover(request, config)
        except (PathError, configuration.ConfigError, UsageError, ValueError) as error:
            raise Failure(str(error)) from None
        except OSError as error:
            raise Failure(f"{error.filename or request.path}: {error.strerror}") from None
        if any(skipped.failed and skipped.rel == "." for skipped in found.skipped):
            raise Failure(f"{request.path}: {found.skipped[0].reason}")
        attention = request.attention or config.attention or "auto"
        if attention == "auto":
            attention = _attention(found)
        return cls(request, config, guard, chosen, attention, also, found, uses=uses)

    def run(self, progress: Progress | None) -> None:
        """Look at every file. Nothing is written."""
        from .engine.run import run

        done = 0
        paths = {file.rel: file.path for file in self.found.files}
        for files, options in self._batches():
            report = _shifted(progress, done, len(self.found.files)) if progress else None
            for result in run(files, options, report):
                self._take(result, paths[result.rel])
            done += len(files)
        self.findings.sort(key=lambda finding: (finding.path, finding.line, finding.column, finding.rule))

    def apply_baseline(self) -> None:
        """Leave out what the baseline file accepts. Raises Failure."""
        file = self.request.baseline or self.config.baseline
        if file is None:
            return
        try:
            accepted = baseline.read(file)
        except OSError as error:
            raise Failure(f"{file}: {error.strerror}; write a baseline first with --write-baseline") from None
        except baseline.BaselineError as error:
            raise Failure(str(error)) from None
        self.findings, self.baselined = baseline.subtract(self.findings, self.lines, accepted)

    def commit(self) -> None:
        """Write every change. Raises Failure before the first if the files' permissions forbid any of them.

        What only shows while writing (a full disk, Ctrl-C) is a Failure, too: the files before it are done.
        """
        self._refuse_unwritable()
        done = 0
        try:
            for change in self.changes:
                write(change.path, change.old.encode(change.new_text), expected=change.old.raw)
                done += 1
        except (WriteError, EditError, KeyboardInterrupt) as error:
            what = "interrupted; every file is whole" if isinstance(error, KeyboardInterrupt) else str(error)
            raise Failure(f"{what} ({done} of {len(self.changes)} files rewritten)") from None

    def _refuse_unwritable(self) -> None:
        refused = [f"{c.path} ({why})" for c in self.changes if (why := hindrance(c.path))]
        if refused:
            more = f" and {len(refused) - _LISTED} more" if len(refused) > _LISTED else ""
            raise Failure(
                f"nothing was written, because {plural(len(refused), 'file')} to change cannot be: "
                f"{', '.join(refused[:_LISTED])}{more}; make them writable (chmod u+w) or --exclude them, and run again"
            )

    def report(self, *, written: bool = False) -> Report:
        edits: defaultdict[str, set[Edit]] = defaultdict(set)  # findings may share one: an import of three names
        for finding in self.findings:
            if finding.fixed:
                edits[finding.path].update(finding.edits)
        rewritten = {change.old.rel: max(len(edits[change.old.rel]), 1) for change in self.changes}
        report = Report(
            command=self.request.command,
            path=str(self.request.path),
            root=self.found.root,
            target=self.target.release,
            target_origin=self.target.origin,
            attention=self.attention,
            files=len(self.found.files),
            findings=tuple(self.findings),
            lines=self.lines,
            rewritten=rewritten,
            written=written,
            skipped=tuple(self.found.skipped),
            pins=tuple(target.pins(self.found.files)),
            suppressed=self.suppressed,
            baselined=self.baselined,
            notes=tuple(self._notes(written)),
            usage=join_usage(self.uses, self.found.root, self.findings) if self.uses is not None else None,
        )
        return replace(report, next_command=self._next(report))

    def _batches(self) -> Iterator[tuple[list[File], Options]]:
        """Files with the same rules turned off by `per-file-ignores`, together."""
        from .engine.run import Options

        batches: defaultdict[frozenset[str], list[File]] = defaultdict(list)
        for file in self.found.files:
            batches[self.config.ignored_in(file.path)].append(file)
        select = rule_ids(self.request.select or self.config.select)
        ignore = rule_ids((*self.request.ignore, *self.config.ignore))
        for ignored, files in batches.items():
            yield (
                files,
                Options(
                    root=self.found.root,
                    target=self.target.release,
                    attention=self.attention,
                    unsafe=(self.request.unsafe or self.config.unsafe) and not self.request.bridge,
                    select=select,
                    ignore=ignore | rule_ids(ignored),
                    jobs=self.request.jobs,
                    timeout=self.request.timeout,
                    extra_indexes=(*self.config.indexes, *self.request.indexes),
                    also=self.also,
                    bridge=self.request.bridge,
                    settle=self.request.command == "rewrite",
                ),
            )

    def _take(self, result: Result, path: Path) -> None:
        old = result.old.text if result.old else ""
        if self.request.writing or self.request.streaming:
            found, text = result.findings, old if result.new_text is None else result.new_text
        else:
            found, text = _before(result), old
        if self.request.command == "verify":
            found = [replace(finding, fixed=False, edited=()) for finding in found if _of_verify(finding)]
        source = Source(result.rel, b"", text)
        for finding in found:
            self.findings.append(finding)
            self.lines[finding.path, finding.line] = source.line(finding.line)
        self.suppressed += result.suppressed
        if result.new_text is not None and result.old is not None and self.request.command == "rewrite":
            self.changes.append(Change(path, result.old, result.new_text))

    def _notes(self, written: bool) -> Iterator[str]:
        if written and self.changes and self.guard.undo:
            yield f"to undo: {self.guard.undo}"
        if self.request.writing and self.guard.note:
            yield self.guard.note
        if any(finding.fixed and "`v1_cpu." in finding.message for finding in self.findings):
            yield (
                "CPU attention names go to v1_cpu: install `v1-migrate[backend]` and add it to your requirements, "
                "or ask for vLLM's own with --attention vllm"
            )

    def _next(self, report: Report) -> str:
        path = shlex.quote(report.path)
        options = f" --target {shlex.quote(self.request.target)}" if self.request.target else ""
        options += f" --also {shlex.quote(self.request.also)}" if self.request.also else ""
        options += " --bridge" if self.request.bridge and report.rewritten and not report.written else ""
        if self.request.command == "plan":
            return f"v1-migrate rewrite {path} --diff{options}"
        if self.request.command == "verify":
            return f"v1-migrate plan {path}{options}" if report.open else "python -m pytest"
        if report.rewritten and not report.written:
            return f"v1-migrate rewrite {path}{options}"
        return f"v1-migrate verify {path}{options}"


def rule_ids(wanted: Iterable[str]) -> frozenset[str]:
    """Ids for ids, beginnings of ids and slugs. Raises Failure for what fits no rule."""
    from .rules import all_rules

    rules = all_rules()
    found: set[str] = set()
    for item in wanted:
        text = item.strip()
        matching = {rule.id for rule in rules if rule.id.startswith(text.upper()) or rule.slug == text.lower()}
        if not matching or not text:
            raise Failure(f"unknown rule {item!r}{_near(text, rules)}; `v1-migrate rules` lists them")
        found |= matching
    return frozenset(found)


def _near(text: str, rules: Sequence[object]) -> str:
    import difflib

    names = [name for rule in rules for name in (getattr(rule, "id", ""), getattr(rule, "slug", ""))]
    near = difflib.get_close_matches(text, names, 2) or difflib.get_close_matches(text.upper(), names, 2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _discover(request: Request, config: configuration.Config) -> Discovery:
    exclude = [(request.path if request.path.is_dir() else request.path.parent, request.exclude)]
    if config.file is not None:
        exclude.append((config.file.parent, config.exclude))
    return discover(request.path, exclude=exclude, gitignore=request.gitignore)


def _guard(request: Request) -> gitguard.State:
    if not request.writing:
        return gitguard.State()
    try:
        state = gitguard.check(request.path)
    except gitguard.GitError as error:
        if request.allow_dirty:
            return gitguard.State(note=str(error))
        raise Failure(f"{error}; --allow-dirty goes on all the same") from None
    if state.dirty and not request.allow_dirty:
        listed = "".join(f"\n  {name}" for name in state.dirty[:_LISTED])
        more = f"\n  and {len(state.dirty) - _LISTED} more" if len(state.dirty) > _LISTED else ""
        raise Failure(
            f"{plural(len(state.dirty), 'file')} below {request.path} not committed:{listed}{more}\n"
            "commit or stash them first, so that git can undo the rewrite; --allow-dirty goes on all the same"
        )
    return state if not state.dirty else replace(state, undo="")  # restoring would take the user's own changes, too


def _target(request: Request, config: configuration.Config) -> target.Target:
    from .names.index import Index

    index = Index.load((*config.indexes, *request.indexes))
    return target.resolve(index, request.target, config.target, str(config.file))


def _attention(found: Discovery) -> str:
    """CPU attention names go to v1_cpu; in a fork of vLLM itself, to vLLM's own module of the target."""
    from .engine.tree import Tree

    python = [file.path for file in found.files if file.path.suffix in (".py", ".pyi")]
    return "vllm" if Tree.of(found.root, python).is_vllm else "v1_cpu"


def _of_verify(finding: Finding) -> bool:
    """What is not there: each error, and members that a class has lost, though a subclass may still give them."""
    lost = finding.rule in _LOST_MEMBERS and finding.severity is Severity.WARNING
    return lost or finding.severity is Severity.ERROR


def _before(result: Result) -> list[Finding]:
    """The findings at their places in the file as it is, for a run that writes nothing."""
    return result.findings if result.before is None else result.before


def _also(request: Request, config: configuration.Config, chosen: str) -> str:
    """The release of --also, "" without it. Raises ValueError for one that is unknown or not older than the target."""
    if not request.also and not request.bridge:
        return ""
    from .names.index import LAST_V0, Index
    from .names.releases import sort_key

    also = Index.load((*config.indexes, *request.indexes)).release(request.also or LAST_V0)
    if sort_key(also) >= sort_key(chosen):
        raise ValueError(f"--also {request.also}: not older than the target, {chosen}; name an older release")
    return also


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)
