"""The report of V1_COMPAT=report: which legacy names were used where, as lines of JSON in one file.

Engine cores and workers are processes of their own, and often killed: each use is written when it happens, as one
line by one append, so that processes share the file and nothing waits for an orderly end. A place that is used again
is written at 10, 100, ... uses and at the end; whoever reads takes the largest number of each process.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .place import Place

VARIABLE = "V1_COMPAT_REPORT"
DEFAULT = "v1_compat_usage.jsonl"
_Key = tuple[str, str, str, str, int]  # rule, name, use, file, line
_POWERS = frozenset(10**n for n in range(12))


class _Process:
    """Who writes; made anew in a forked child."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.id = f"{self.pid}-{time.time_ns():x}"
        self.written: dict[_Key, int] = {}
        self.seen: dict[_Key, int] = {}
        self.lock = threading.Lock()


_process = _Process()


def destination() -> str:
    """The file that is written, an absolute path."""
    return os.path.abspath(os.environ.get(VARIABLE) or DEFAULT)


def record(rule: str, name: str, place: Place, use: str = "") -> None:
    """Note that a name was used at a place, and how, if that is known."""
    global _process
    if _process.pid != os.getpid():
        _process = _Process()
    process = _process
    key = (rule, name, use, os.path.abspath(place.filename), place.line)
    with process.lock:
        process.seen[key] = process.seen.get(key, 0) + 1
        count = process.seen[key]
        if count in _POWERS:
            process.written[key] = count
            _append([_line(process.id, key, count)])


def flush() -> None:
    """Write the final numbers of this process."""
    process = _process
    if process.pid != os.getpid():
        return
    with process.lock:
        rest = {key: count for key, count in process.seen.items() if process.written.get(key) != count}
        process.written.update(rest)
        if rest:
            _append([_line(process.id, key, count) for key, count in rest.items()])


def _line(process: str, key: _Key, count: int) -> bytes:
    import json  # here: most processes write nothing

    rule, name, use, file, line = key
    entry = {"name": name, "rule": rule, "file": file, "line": line, "count": count, "process": process}
    entry |= {"use": use} if use else {}
    return json.dumps(entry, ensure_ascii=True).encode() + b"\n"


def _append(lines: list[bytes]) -> None:
    """One write per line: an append of a line is whole, whoever else appends."""
    try:
        handle = os.open(destination(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    except OSError as error:
        _complain(error)
        return
    try:
        for line in lines:
            os.write(handle, line)
    except OSError as error:
        _complain(error)
    finally:
        os.close(handle)


_complained = False


def _complain(error: OSError) -> None:
    """Once: a report that cannot be written is no reason to stop the program."""
    global _complained
    if not _complained:
        _complained = True
        import sys

        print(f"v1_compat: {destination()}: {error.strerror}; set {VARIABLE} to a file", file=sys.stderr)


atexit.register(flush)
