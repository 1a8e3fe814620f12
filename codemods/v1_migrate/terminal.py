"""What depends on where the output goes: colour, width, the progress bar."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

from .reports.text import Style

_REFRESH = 0.1  # seconds


def style(stream: IO[str]) -> Style:
    """Colour on a terminal only, and not where NO_COLOR asks for none (https://no-color.org)."""
    colour = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = shutil.get_terminal_size((100, 24)).columns if stream.isatty() else 100
    return Style(colour, min(width, 110))


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, int], None] | None]:
    """A function that shows how many files are done, on standard error; None where nobody would see it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("looking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # No thread of its own: a process with threads cannot safely be forked into workers.
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("looking")
        last = 0.0

        def show(done: int, total: int) -> None:
            nonlocal last
            due = time.monotonic() - last > _REFRESH or done == total
            last = time.monotonic() if due else last
            bar.update(task, completed=done, total=total, refresh=due)

        yield show


def put(data: bytes) -> None:
    """Bytes to standard output, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
