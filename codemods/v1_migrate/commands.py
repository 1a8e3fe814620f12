"""What each command does, between the options of `cli` and the views of `reports`. Each returns the exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .session import Failure, Request, Session
from .terminal import progress, put, style

if TYPE_CHECKING:
    from .reports.report import Report

MACHINE_FORMATS = ("json", "github", "sarif")
_EXIT_1 = "exit code 1: something is left to do (a run that failed ends with 2; --exit-zero asks for 0)"


@dataclass(frozen=True, slots=True)
class View:
    """How a run is shown."""

    format: str = "text"
    diff: bool = False
    statistics: bool = False
    html: Path | None = None
    write_baseline: Path | None = None
    exit_zero: bool = False


def look(request: Request, view: View) -> int:
    """`rewrite`, `plan` and `verify`: one run, its report, and for `rewrite` the writing."""
    session = Session.open(request)
    with progress() as report_progress:
        session.run(report_progress)
    if view.write_baseline is None:
        session.apply_baseline()
    if request.writing:
        session.commit()
    report = session.report(written=request.writing)
    code = 0 if view.exit_zero or view.write_baseline is not None else report.exit_code
    if code and request.command == "plan":
        report = replace(report, notes=(*report.notes, _EXIT_1))
    if view.diff:
        _show_diff(session)
    _show(report, view)
    if view.write_baseline is not None:
        from .reports import baseline

        _save(view.write_baseline, baseline.render(report))
    return code


def rewrite_stdin(request: Request, filename: str, view: View) -> int:
    """For editors: text on standard input, the new text on standard output, the report on standard error."""
    from .overlay import overlay

    with overlay(request.path, filename, sys.stdin.buffer.read()) as found:
        session = Session.open(request, found)
        old = found.files[0].path.read_bytes()
        session.run(None)
        session.apply_baseline()
        report = session.report()
        if view.diff:
            _show_diff(session)
        elif view.format == "text":
            put(session.changes[0].old.encode(session.changes[0].new_text) if session.changes else old)
        _show(report, view, stream_is_taken=True)
    return 0 if view.exit_zero else int(bool(report.open))


def explain(wanted: str, target_option: str | None, attention: str) -> int:
    """A rule's page, or what became of a vllm name."""
    from .rules import all_rules

    for rule in all_rules():
        if wanted.upper() == rule.id or wanted.lower() == rule.slug:
            click.echo(f"# {rule.id}: {rule.summary}\n\n{rule.doc}")
            return 0
    from .names import explain as explanation

    try:
        said = explanation.explain(wanted, target_option, "v1_cpu" if attention == "v1_cpu" else "vllm")
    except explanation.UnknownName:
        near = explanation.names_like(wanted)
        hint = f"; did you mean {', '.join(near)}?" if near else "; `v1-migrate rules` lists the rules"
        raise Failure(f"{wanted!r} is neither a rule nor a name of vllm{hint}") from None
    except ValueError as error:
        raise Failure(str(error)) from None
    click.echo(said)
    return 0


def rules() -> int:
    """One line per rule."""
    from .rules import all_rules

    listed = all_rules()
    width = max((len(rule.slug) for rule in listed), default=0)
    for rule in listed:
        click.echo(f"{rule.id}  {rule.slug:<{width}}  {rule.safety.value:<6}  {rule.summary}")
    return 0


def rule_pages(folder: Path | None, checked: Path | None) -> int:
    """Write the rules' pages to a folder, or say which of those there are out of date."""
    from .reports import pages
    from .rules import all_rules

    names = pages.write(folder, all_rules()) if folder else pages.stale(checked, all_rules()) if checked else []
    for name in names:
        click.echo(f"{folder or checked}/{name}: {'written' if folder else 'out of date'}", err=True)
    return int(bool(names) and folder is None)


def doctor(python: str | None, form: str, timeout: float, words: tuple[str, ...]) -> int:
    """What an engine of an environment would do, and with arguments what it will refuse."""
    from .doctor import arguments, diagnosis, environment, render

    try:
        asked = arguments.read(words)
    except arguments.UnreadableArguments as error:
        raise Failure(str(error)) from None
    found = diagnosis.diagnose(environment.ask(python, asked, timeout), asked)
    look_and_feel = style(sys.stdout)
    said = render.as_json(found) if form == "json" else render.text(found, look_and_feel)
    click.echo(said, nl=False, color=look_and_feel.colour)
    return found.exit_code


def index_list() -> int:
    """The releases that names are known of."""
    from .names.index import Index

    for release in Index.load().releases:
        click.echo(release)
    return 0


def index_add(path: Path, label: str) -> int:
    """Learn the names of a source tree, under a label that --target takes from then on."""
    from .names.build import add_tree

    try:
        written = add_tree(path, label)
    except (ValueError, OSError) as error:
        raise Failure(str(error)) from None
    click.echo(f"{label}: written to {written}", err=True)
    return 0


def _show(report: Report, view: View, *, stream_is_taken: bool = False) -> None:
    from .reports import text

    to_stderr = view.diff or (stream_is_taken and view.format == "text")
    stream = sys.stderr if to_stderr else sys.stdout
    look_and_feel = style(stream)
    if view.format in MACHINE_FORMATS:
        click.echo(_machine(report, view.format), nl=False)
    elif view.statistics:
        from .reports import stats

        click.echo(stats.render(report), nl=False)
    elif report.command == "plan":
        from .reports import plan

        click.echo(plan.render(report, look_and_feel), nl=False, color=look_and_feel.colour)
    else:
        click.echo(text.render(report, look_and_feel), nl=False, err=to_stderr, color=look_and_feel.colour)
    if view.html is not None:
        from .reports import html

        _save(view.html, html.render(report))
        click.echo(f"report: {view.html}", err=True)


def _machine(report: Report, form: str) -> str:
    from .reports import github, json, sarif
    from .rules import all_rules

    if form == "json":
        return json.render(report)
    return github.render(report) if form == "github" else sarif.render(report, all_rules())


def _show_diff(session: Session) -> None:
    from .reports.diff import coloured, diff

    colour = style(sys.stdout).colour
    for change in session.changes:
        patch = diff(change.old, change.new_text)
        if colour:
            click.echo(coloured(patch), nl=False, color=True)
        else:
            put(patch)


def _save(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", errors="backslashreplace")  # names that are no UTF-8
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}; the report was not written") from None
