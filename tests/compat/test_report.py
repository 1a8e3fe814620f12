"""The report of V1_COMPAT=report: one file for all processes, and what the plan makes of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SPAWNING = """
import multiprocessing, os, sys
def work(n):
    from vllm.utils import cdiv
    if n == 2:
        os.kill(os.getpid(), 9)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=work, args=(n,)) for n in range(3)]
    for c in children: c.start()
    for c in children: c.join()
    import vllm.worker.cpu_worker
"""


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def merged(path: Path) -> Counter[tuple[str, int]]:
    largest: dict[tuple[str, str, int], int] = {}
    for e in entries(path):
        key = e["process"], e["name"], e["line"]
        largest[key] = max(largest.get(key, 0), e["count"])
    total: Counter[tuple[str, int]] = Counter()
    for (_, name, line), count in largest.items():
        total[name, line] += count
    return total


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_children_of_every_kind_write_to_one_file(child: Any, small_vllm: Path, tmp_path: Path, method: str) -> None:
    (tmp_path / "app.py").write_text(SPAWNING)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import os, v1_compat\nif os.environ.get('V1_COMPAT'): v1_compat.activate()\n"
    )
    done = child(["app.py", method], site, small_vllm, cwd=tmp_path, V1_COMPAT="report")
    assert done.stderr == ""
    found = merged(tmp_path / "v1_compat_usage.jsonl")
    assert found == {("vllm.utils.cdiv", 4): 3, ("vllm.worker.cpu_worker", 12): 1}
    assert {e["file"] for e in entries(tmp_path / "v1_compat_usage.jsonl")} == {str(tmp_path / "app.py")}


def test_uses_are_counted_to_the_end(child: Any, small_vllm: Path, tmp_path: Path) -> None:
    text = "import vllm.utils as u\nfor _ in range(123):\n    u.cdiv\n"
    (tmp_path / "app.py").write_text(text)
    child(
        ["-m", "v1_compat", "app.py"],
        small_vllm,
        cwd=tmp_path,
        V1_COMPAT="report",
        V1_COMPAT_REPORT="out/u.jsonl",
        check=False,
    )
    (tmp_path / "out").mkdir()
    child(["-m", "v1_compat", "app.py"], small_vllm, cwd=tmp_path, V1_COMPAT="report", V1_COMPAT_REPORT="out/u.jsonl")
    found = entries(tmp_path / "out" / "u.jsonl")
    assert [e["count"] for e in found] == [1, 10, 100, 123]
    assert found[0] | {"process": ""} == {
        "name": "vllm.utils.cdiv", "rule": "V1M001", "file": str(tmp_path / "app.py"), "line": 3, "count": 1, "process": "",
    }  # fmt: skip


def test_a_report_that_cannot_be_written_is_said_once_and_stops_nothing(
    child: Any, small_vllm: Path, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text("import vllm.utils as u\nu.cdiv\nu.run_once\nprint('done')\n")
    done = child(
        ["-m", "v1_compat", "app.py"], small_vllm, cwd=tmp_path, V1_COMPAT="report", V1_COMPAT_REPORT="missing/u.jsonl"
    )
    assert done.stdout == "done\n"
    assert done.stderr.count("v1_compat:") == 1 and "V1_COMPAT_REPORT" in done.stderr


def test_many_processes_append_whole_lines(small_vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import vllm.utils as u\n" + "u.cdiv\n" * 200)
    env = {k: v for k, v in os.environ.items() if not k.startswith("V1_")} | {
        "PYTHONPATH": os.pathsep.join([*sys.path, str(small_vllm)]),
        "V1_COMPAT": "report",
    }
    running = [subprocess.Popen([sys.executable, "-m", "v1_compat", "app.py"], cwd=tmp_path, env=env) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len(entries(tmp_path / "v1_compat_usage.jsonl")) == 800


def test_what_is_written_survives_a_kill(child: Any, small_vllm: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import os, signal\nfrom vllm.utils import cdiv\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = child(["-m", "v1_compat", "app.py"], small_vllm, cwd=tmp_path, check=False, V1_COMPAT="report")
    assert done.returncode == -signal.SIGKILL
    assert merged(tmp_path / "v1_compat_usage.jsonl") == {("vllm.utils.cdiv", 2): 1}
