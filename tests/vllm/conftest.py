"""Runs jobs through vLLM's engine with and without v1_cpu, each side in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .cases import LOSSY, NEAR, SAME

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SERVED = "v1_cpu serves CPU attention"
SITE = os.environ.get("V1_VLLM_SITE", "")  # a folder with another release of vLLM, which goes before the installed one


@dataclass(frozen=True, slots=True)
class Run:
    """What one process answered, and what it logged."""

    results: dict[str, dict[str, Any]]
    log: str


@pytest.fixture(scope="session")
def entry_points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that declares this tree's entry points, so that vLLM finds them without an installation."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    folder = tmp_path_factory.mktemp("site")
    info = folder / "v1_migrate-0.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: v1-migrate\nVersion: 0.0.0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in declared.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="session")
def child_env(entry_points: Path) -> dict[str, str]:
    """The environment of a process that runs an engine: no hub, one thread, everything in one process."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("V1_CPU_", "VLLM_"))}
    return env | {
        "PYTHONPATH": os.pathsep.join([str(entry_points), str(ROOT), *([SITE] if SITE else [])]),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
    }


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, child_env: dict[str, str]) -> Path:
    """A folder of tiny models with random weights."""
    folder = tmp_path_factory.mktemp("models")
    names = sorted({job["llm"]["model"] for table in (SAME, NEAR, LOSSY) for job in table.values()})
    subprocess.run([sys.executable, HERE / "models.py", folder, *names], env=child_env, check=True, timeout=300)
    return folder


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory, child_env: dict[str, str], models: Path) -> Callable[..., Run]:
    """`engine(jobs, backend)`: the answers to named jobs with `V1_CPU_BACKEND=backend`."""

    without_space = {k: v for k, v in child_env.items() if k != "VLLM_CPU_KVCACHE_SPACE"}  # the jobs say how much

    def run(jobs: dict[str, dict[str, Any]], backend: str, **env: str) -> Run:
        folder = tmp_path_factory.mktemp("run")
        (folder / "jobs.json").write_text(json.dumps([located(job, models) for job in jobs.values()]))
        done = subprocess.run(
            [sys.executable, HERE / "run_engine.py", folder / "jobs.json", folder / "out.json"],
            env={**without_space, "V1_CPU_BACKEND": backend, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return Run(dict(zip(jobs, json.loads((folder / "out.json").read_text()), strict=True)), done.stdout)

    return run


def located(job: dict[str, Any], models: Path) -> dict[str, Any]:
    """A job with the folders of its model and adapter filled in."""
    job = {**job, "llm": {**job["llm"], "model": str(models / job["llm"]["model"])}}
    if "lora" in job:
        job["lora"] = str(models / job["lora"])
    return job
