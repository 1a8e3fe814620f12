"""What `v1-migrate plan` costs, beside what libcst needs for the same tree: `python plan_cost.py TREE [--target T]`.

CPU seconds (user and system, children included) of whole processes, interleaved, median of the runs. Peers:
parsing every file once with libcst, and `libcst.tool codemod rename.RenameCommand` with one name. The peak memory is
that of the largest process and of all of them together (parent plus workers, each at its own peak).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARSE = """
import sys, pathlib, libcst
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.py")):
    try:
        libcst.parse_module(path.read_bytes())
    except Exception:
        pass
"""


@dataclass(frozen=True)
class Run:
    cpu: float
    wall: float
    peak_mb: float  # largest process


def measure(command: Sequence[str], cwd: Path, bytecode: Path) -> Run:
    """Run a command to its end; exit code 1 (findings) is no failure.

    Modules are compiled once, into `bytecode`, as an installer does: a run that compiles them measures Python.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=cwd, stdout=output, stderr=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        output.seek(0)
        if "json" in command and not json.load(output)["findings"]:
            raise SystemExit("the plan found nothing: this is no measurement")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{' '.join(command)} failed with {os.waitstatus_to_exitcode(status)}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(cpu, wall, usage.ru_maxrss / 1024)


def commands(tree: Path, target: str, jobs: int, rename: bool) -> dict[str, list[str]]:
    python = sys.executable
    plan = [python, "-m", "v1_migrate", "plan", str(tree), "--target", target, "--jobs", str(jobs), "--format", "json"]
    found = {"v1-migrate plan": plan, "libcst parses every file": [python, "-c", PARSE, str(tree)]}
    if rename:
        old = "--old_name=vllm.worker.cpu_worker.CPUWorker"
        new = "--new_name=vllm.v1.worker.cpu_worker.CPUWorker"
        tool = [python, "-m", "libcst.tool", "codemod", "rename.RenameCommand", "-j", "2", "--no-format", old, new]
        found["libcst RenameCommand"] = [*tool, "."]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--target", default="0.32.0")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rename", action="store_true", help="also time RenameCommand once (minutes)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, list[Run]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / options.tree.name
        shutil.copytree(options.tree, tree, symlinks=True)
        bytecode = Path(scratch) / "bytecode"
        small = Path(scratch) / "small"
        small.mkdir()
        (small / "one.py").write_text("from vllm.worker.cpu_worker import CPUWorker\n")
        for command in commands(small, options.target, options.jobs, rename=False).values():
            measure(command, small, bytecode)
        for run in range(options.runs):
            for name, command in commands(tree, options.target, options.jobs, options.rename and run == 0).items():
                results.setdefault(name, []).append(measure(command, tree, bytecode))
    ours = statistics.median(run.cpu for run in results["v1-migrate plan"])
    print(f"{options.tree.name}, target {options.target}, {options.jobs} jobs")
    for name, runs in results.items():
        cpu = statistics.median(run.cpu for run in runs)
        spread = f"{min(run.cpu for run in runs):.1f}-{max(run.cpu for run in runs):.1f}"
        peak = max(run.peak_mb for run in runs)
        print(f"{name:28} {cpu:7.1f} CPU s ({spread})  plan/this {ours / cpu:5.2f}  peak {peak:4.0f} MB")
    if options.json:
        options.json.write_text(
            json.dumps({name: [vars(run) for run in runs] for name, runs in results.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
