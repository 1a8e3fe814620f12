"""Start of the command line: what may go wrong becomes one line and exit code 2."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence

import click

from .cli import main as group

FAILED = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point of the `v1-migrate` script."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character the terminal lacks is no reason to stop
    try:
        code = group.main(args=arguments, prog_name="v1-migrate", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        return _say(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted")
    except (BrokenPipeError, SystemExit):  # `v1-migrate ... | head`; click turns the one into the other
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED
    except Exception as error:
        from .discover import PathError
        from .session import Failure

        if isinstance(error, (Failure, PathError)):
            return _say(str(error))
        import traceback

        traceback.print_exc()
        return _say("the lines above show a fault of v1-migrate itself; please report them. Nothing was half-written")


def _say(message: str) -> int:
    click.echo(f"v1-migrate: {message}", err=True)
    return FAILED


if __name__ == "__main__":
    main()
