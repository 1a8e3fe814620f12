"""The command line: names and options only. What they do is in `commands`, imported when a command runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from . import __version__

if TYPE_CHECKING:
    from .session import Request

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
ATTENTIONS = ("auto", "v1_cpu", "vllm")
FORMATS = ("text", "json", "github", "sarif")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="v1-migrate")
def main() -> None:
    """Take code written for vLLM's V0 CPU engine to V1.

    \b
    v1-migrate plan PATH       how much there is to do
    v1-migrate rewrite PATH    make the safe edits, list the rest
    v1-migrate verify PATH     does each vllm name exist in the target?

    Exit codes: 0 no error or warning is left, 1 some are, 2 the work could not be done.
    """


def run_options(command: Command) -> Command:
    """PATH and what `rewrite`, `plan` and `verify` share."""
    for decorator in reversed(
        (
            click.argument("path", type=PATH, required=False),
            click.option("--target", metavar="RELEASE", help="The vLLM release to arrive at, such as 0.16.0."),
            click.option("--also", metavar="RELEASE", help="An older release that the code must go on to serve, too."),
            click.option("--attention", type=click.Choice(ATTENTIONS), help="Where CPU attention names go."),
            click.option("--select", metavar="RULES", multiple=True, help="Only these rules (V1M001,V1M0,moved-name)."),
            click.option("--ignore", metavar="RULES", multiple=True, help="Not these rules."),
            click.option("--exclude", metavar="PATTERN", multiple=True, help="Leave out, like a line of .gitignore."),
            click.option("--no-gitignore", is_flag=True, help="Read what git ignores, too."),
            click.option("--index", "indexes", type=PATH, multiple=True, help="One more file of a release's names."),
            click.option("--jobs", "-j", type=click.IntRange(1), metavar="N", help="Processes; default: one per core."),
            click.option("--timeout", type=click.FloatRange(0.1), default=60.0, help="Seconds per file; default: 60."),
            click.option("--baseline", type=PATH, help="Do not count the findings in this file."),
            click.option("--write-baseline", type=PATH, help="Write the findings to this file, and accept them."),
            click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True),
            click.option("--report", "html", type=PATH, metavar="FILE.html", help="Write a page to look at, too."),
            click.option("--statistics", is_flag=True, help="Counts per rule and name instead of places."),
            click.option("--exit-zero", is_flag=True, help="Exit with 0 whatever is found."),
        )
    ):
        command = decorator(command)
    return command


@main.command()
@run_options
@click.option("--diff", is_flag=True, help="Show what would change; write nothing.")
@click.option("--check", is_flag=True, help="Say what would change; write nothing.")
@click.option("--unsafe", is_flag=True, help="Also make edits that are probably, not certainly, meant.")
@click.option("--bridge", is_flag=True, help="Only edits that run on V0, too; what has none goes to v1_compat.bridge.")
@click.option("--allow-dirty", is_flag=True, help="Write although git has uncommitted changes.")
@click.option("--stdin", is_flag=True, help="Rewrite standard input to standard output.")
@click.option("--stdin-filename", metavar="NAME", help="What the text on standard input is called below PATH.")
def rewrite(
    diff: bool,
    check: bool,
    unsafe: bool,
    bridge: bool,
    allow_dirty: bool,
    stdin: bool,
    stdin_filename: str | None,
    **options: Any,
) -> int:
    """Make the safe edits below PATH and list what a person must do."""
    from . import commands

    if diff and (options["form"] != "text" or options["statistics"]):
        raise click.UsageError("--diff is a form of output of its own: leave out --format and --statistics")
    if bridge and unsafe:
        raise click.UsageError(
            "--bridge makes edits that both engines run, --unsafe some that only V1 runs: choose one"
        )
    writing = not (diff or check or stdin or options["write_baseline"])
    if stdin or stdin_filename:
        options["path"] = options["path"] or Path()
        request = _request("rewrite", options, unsafe=unsafe, bridge=bridge, streaming=not diff)
        return commands.rewrite_stdin(request, stdin_filename or "stdin.py", _view(options, diff))
    how = {"unsafe": unsafe, "bridge": bridge, "writing": writing, "allow_dirty": allow_dirty}
    request = _request("rewrite", options, **how)
    return commands.look(request, _view(options, diff))


@main.command()
@run_options
@click.option("--unsafe", is_flag=True, help="Count edits that are probably, not certainly, meant.")
@click.option("--usage", type=PATH, metavar="FILE", help="Rank by what V1_COMPAT=report saw in use.")
def plan(unsafe: bool, usage: Path | None, **options: Any) -> int:
    """Say how much there is to do below PATH, file by file. Nothing is written."""
    from . import commands

    return commands.look(_request("plan", options, unsafe=unsafe, usage=usage), _view(options))


@main.command()
@run_options
def verify(**options: Any) -> int:
    """Say which vllm names below PATH the target does not have. Nothing is written."""
    from . import commands

    return commands.look(_request("verify", options), _view(options))


@main.command()
@click.argument("rule_or_name")
@click.option("--target", metavar="RELEASE", help="The vLLM release to arrive at.")
@click.option("--attention", type=click.Choice(ATTENTIONS), default="auto", help="Where CPU attention names go.")
def explain(rule_or_name: str, target: str | None, attention: str) -> int:
    """Explain a rule (V1M001, moved-name) or what became of a name (vllm.worker.cpu_worker.CPUWorker)."""
    from . import commands

    return commands.explain(rule_or_name, target, attention)


@main.command()
@click.option("--write", type=PATH, metavar="FOLDER", help="Write a page per rule there.")
@click.option("--check", type=PATH, metavar="FOLDER", help="Fail unless the pages there are up to date.")
def rules(write: Path | None, check: Path | None) -> int:
    """List the rules."""
    from . import commands

    return commands.rule_pages(write, check) if write or check else commands.rules()


@main.command(context_settings={"ignore_unknown_options": True})
@click.option("--python", metavar="PATH", help="The environment's interpreter or folder; default: the running one.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--timeout", type=click.FloatRange(1), default=180.0, help="Seconds to wait; default: 180.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def doctor(python: str | None, form: str, timeout: float, arguments: tuple[str, ...]) -> int:
    """Say what an engine of an environment would do, and what it will refuse.

    Which vLLM, which attention and kernel, why, and what V0's settings are now. After -- a `vllm serve` line or the
    text of an LLM(...) call: what V1 on a CPU will refuse of it. Nothing is started.

    \b
    v1-migrate doctor --python .venv
    v1-migrate doctor -- vllm serve MODEL --kv-cache-dtype fp8
    v1-migrate doctor -- 'LLM("MODEL", block_size=16)'
    """
    from . import commands

    return commands.doctor(python, form, timeout, arguments)


@main.group()
def index() -> None:
    """The releases whose names are known; add that of a private fork."""


@index.command("list")
def index_list() -> int:
    """List them, oldest first."""
    from . import commands

    return commands.index_list()


@index.command("add")
@click.argument("path", type=PATH)
@click.option("--release", metavar="LABEL", required=True, help="What --target shall call it.")
def index_add(path: Path, release: str) -> int:
    """Learn the names of the vLLM source tree PATH."""
    from . import commands

    return commands.index_add(path, release)


def _request(command: str, options: dict[str, Any], **more: Any) -> Request:
    from .session import Request

    if options["path"] is None:
        raise click.UsageError(f"which PATH? For the current folder: v1-migrate {command} .")
    return Request(
        command=command,
        path=options["path"],
        target=options["target"],
        also=options["also"],
        attention=options["attention"],
        select=_split(options["select"]),
        ignore=_split(options["ignore"]),
        exclude=options["exclude"],
        indexes=options["indexes"],
        gitignore=not options["no_gitignore"],
        jobs=options["jobs"] or 0,
        timeout=options["timeout"],
        baseline=options["baseline"],
        **more,
    )


def _view(options: dict[str, Any], diff: bool = False) -> Any:
    from .commands import View

    return View(
        format=options["form"],
        diff=diff,
        statistics=options["statistics"],
        html=options["html"],
        write_baseline=options["write_baseline"],
        exit_zero=options["exit_zero"],
    )


def _split(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(item for value in values for item in value.split(",") if item.strip())
