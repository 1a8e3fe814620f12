"""Many files: a pool of processes, a time limit per file, results in the order of the files."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..discover import File
from ..findings import Finding, Severity
from ..names.index import Index
from .analyse import SKIPPED, Analyser, Result
from .context import Settings
from .tree import Tree
from .verdicts import Judge

__all__ = ["Options", "Result", "run"]

Progress = Callable[[int, int], None]
_CHUNK = 8
_FILES_PER_WORKER = 20  # below that, a worker costs more than it does
_RECURSION_LIMIT = 10_000
_GC_THRESHOLD = 200_000


@dataclass(frozen=True, slots=True)
class Options:
    """What a run was asked to do."""

    root: Path
    target: str
    attention: str = "vllm"
    unsafe: bool = False
    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    jobs: int = 0  # 0: as many as there are processors
    timeout: float = 30.0  # seconds for one file
    extra_indexes: tuple[Path, ...] = ()

    @property
    def settings(self) -> Settings:
        return Settings(self.target, self.attention, self.unsafe, self.select, self.ignore)


def run(files: Sequence[File], options: Options, progress: Progress | None = None) -> Iterator[Result]:
    """Look at every file; one result per file, in order. Nothing is written."""
    analyser = _analyser(files, options)
    jobs = options.jobs or os.cpu_count() or 1
    jobs = min(jobs, max(1, len(files) // _FILES_PER_WORKER))
    results = _in_process(analyser, files, options) if jobs == 1 else _in_pool(analyser, files, options, jobs)
    for done, result in enumerate(results, 1):
        if progress is not None:
            progress(done, len(files))
        yield result


def _analyser(files: Sequence[File], options: Options) -> Analyser:
    index = Index.load(options.extra_indexes)
    tree = Tree.of(options.root, [file.path for file in files if file.path.suffix in (".py", ".pyi")])
    judge = Judge(options.target, options.attention, index)  # type: ignore[arg-type]
    return Analyser(tree, options.settings, judge)


def _in_process(analyser: Analyser, files: Sequence[File], options: Options) -> Iterator[Result]:
    _prepare()
    for file in files:
        yield _look(analyser, file, options.timeout)


_worker: tuple[Analyser, float] | None = None  # inherited by forked workers, set by the initializer of spawned ones


def _in_pool(analyser: Analyser, files: Sequence[File], options: Options, jobs: int) -> Iterator[Result]:
    chunks = [files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK)]
    with _pool(analyser, options.timeout, jobs) as pool:
        futures: list[Future[list[Result]]] = [pool.submit(_chunk, chunk) for chunk in chunks]
        try:
            for chunk, future in zip(chunks, futures, strict=True):
                try:
                    yield from future.result()
                except BrokenProcessPool:
                    yield from _one_by_one(analyser, chunk, options)
        finally:
            for future in futures:
                future.cancel()


def _one_by_one(analyser: Analyser, files: Sequence[File], options: Options) -> Iterator[Result]:
    """A worker died: find out over which file, and go on with the rest."""
    for file in files:
        with _pool(analyser, options.timeout, 1) as pool:
            try:
                yield from pool.submit(_chunk, [file]).result()
            except BrokenProcessPool:
                yield Result(file.rel, [_skipped(file.rel, "reading it ended the process")])


def _pool(analyser: Analyser, timeout: float, jobs: int) -> ProcessPoolExecutor:
    """Forked workers share the tables; where that is not possible, or threads run, they are spawned."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    return ProcessPoolExecutor(jobs, context, _start, (analyser, timeout))


def _start(analyser: Analyser, timeout: float) -> None:
    global _worker
    _worker = (analyser, timeout)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    _prepare()


def _prepare() -> None:
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    gc.set_threshold(
        _GC_THRESHOLD
    )  # trees are many objects and no garbage: collecting at 700 costs a third of the time


def _chunk(files: Sequence[File]) -> list[Result]:
    assert _worker is not None
    analyser, timeout = _worker
    return [_look(analyser, file, timeout) for file in files]


def _look(analyser: Analyser, file: File, timeout: float) -> Result:
    try:
        with _limit(timeout):
            return analyser.file(file)
    except TimeoutError:
        return Result(file.rel, [_skipped(file.rel, f"it takes more than {timeout:g} s")])
    except (RecursionError, MemoryError):
        return Result(file.rel, [_skipped(file.rel, "it is nested too deeply")])


def _skipped(rel: str, reason: str) -> Finding:
    advice = "Whatever this file uses of vLLM is not migrated. Look at it by hand, or exclude it on purpose."
    return Finding(rel, 1, 1, 1, 1, SKIPPED, f"skipped: {reason}", Severity.WARNING, advice=advice)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after that many seconds, where the platform can."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(*_: object) -> None:
        raise TimeoutError

    previous = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
