"""Many files: a pool of processes, a time limit per file, results in the order of the files."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
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
_GC_THRESHOLD = 500_000


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
    also: str = ""  # a release that the code must go on to serve, too
    bridge: bool = False  # ... and what no edit serves there goes to v1_compat.bridge
    settle: bool = True  # look at every edited file a second time; of no use to who writes nothing

    @property
    def settings(self) -> Settings:
        return Settings(self.target, self.attention, self.unsafe, self.select, self.ignore, self.also, self.bridge)


def run(files: Sequence[File], options: Options, progress: Progress | None = None) -> Iterator[Result]:
    """Look at every file; one result per file, in order. Nothing is written."""
    tree = Tree.of(options.root, [file.path for file in files if file.path.suffix in (".py", ".pyi")])
    jobs = options.jobs or os.cpu_count() or 1
    jobs = min(jobs, max(1, len(files) // _FILES_PER_WORKER))
    results = _in_process(tree, files, options) if jobs == 1 else _in_pool(tree, files, options, jobs)
    for done, result in enumerate(results, 1):
        if progress is not None:
            progress(done, len(files))
        yield result


def _analyser(tree: Tree, options: Options) -> Analyser:
    index = Index.load(options.extra_indexes)
    judge = Judge(options.target, options.attention, index)  # type: ignore[arg-type]
    return Analyser(tree, options.settings, judge, settle=options.settle)


def _in_process(tree: Tree, files: Sequence[File], options: Options) -> Iterator[Result]:
    analyser = _analyser(tree, options)
    _prepare()
    for file in files:
        yield _look(analyser, file, options.timeout)


_worker: tuple[Analyser, float] | None = None  # of a worker process, set when it starts


def _in_pool(tree: Tree, files: Sequence[File], options: Options, jobs: int) -> Iterator[Result]:
    """Chunks to workers. When one dies, the chunks in flight are done file by file, then the rest by a new pool."""
    import libcst  # noqa: F401  here, once, and not in every worker

    _analyser(tree, options)  # loads the tables once, for forked workers to share
    done = 0
    with _pool(tree, options, jobs) as pool:
        chunks = [files[start : start + _CHUNK] for start in range(0, len(files), _CHUNK)]
        futures: list[Future[list[Result]]] = [pool.submit(_chunk, chunk) for chunk in chunks]
        try:
            for future in futures:
                results = future.result()
                done += len(results)
                yield from results
        except BrokenProcessPool:
            pass
        finally:
            for future in futures:
                future.cancel()
    if done < len(files):
        suspects = files[done : done + _CHUNK * (jobs + 1)]
        yield from _one_by_one(tree, suspects, options)
        rest = files[done + len(suspects) :]
        if rest:
            yield from _in_pool(tree, rest, options, jobs)


def _one_by_one(tree: Tree, files: Sequence[File], options: Options) -> Iterator[Result]:
    """A worker died: find out over which file."""
    for file in files:
        with _pool(tree, options, 1) as pool:
            try:
                yield from pool.submit(_chunk, [file]).result()
            except BrokenProcessPool:
                yield Result(file.rel, [_skipped(file.rel, "reading it ended the process")])


def _pool(tree: Tree, options: Options, jobs: int) -> ProcessPoolExecutor:
    """Forked workers share the tables; where that is not possible, or threads run, they are spawned."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if can_fork else "spawn")
    return ProcessPoolExecutor(jobs, context, _start, (tree, options))


def _start(tree: Tree, options: Options) -> None:
    global _worker
    _worker = (_analyser(tree, options), options.timeout)
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
    except Exception as error:  # a fault of ours in one file must not cost the user the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        fault = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"
        return Result(file.rel, [_skipped(file.rel, f"a fault in v1-migrate ({fault}); please report it")])


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
