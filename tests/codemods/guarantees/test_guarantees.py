"""The guarantees of `v1-migrate rewrite`, on mutants: once on releases written here, once on real ones."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from guarantees import mutants, oracle, release_trees

SEED, COUNT = 20260, 60
OLD, NEW = "98.0", "99.0"  # labels under which the tool learns the two small releases

COMMAND = importlib.util.find_spec("v1_migrate")
pytestmark = pytest.mark.skipif(
    COMMAND is None or importlib.util.find_spec("v1_migrate.__main__") is None, reason="v1_migrate is not installed"
)


@pytest.fixture(autouse=True)
def private_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line finds the package under test, and no index of the user's."""
    assert COMMAND is not None and COMMAND.origin is not None
    package = str(Path(COMMAND.origin).parent.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "data"))


def assert_guaranteed(made: list[mutants.Mutant], names: oracle.Names, target: str) -> None:
    lines = mutants.run(made, names, target)
    assert {line.guarantee: line.offenders for line in lines if line.offenders} == {}


def test_mutants_of_small_releases(small_releases: Path, small_names: oracle.Names) -> None:
    for label, folder in ((OLD, "0.9.2"), (NEW, "0.32.0")):
        tool = [sys.executable, "-m", "v1_migrate", "index", "add", str(small_releases / folder), "--release", label]
        subprocess.run(tool, check=True, capture_output=True)
    made = mutants.generate(small_names, SEED, COUNT)
    assert len(made) == COUNT
    assert_guaranteed(made, small_names, NEW)


@pytest.mark.wheels
def test_mutants_of_real_releases(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = release_trees.find(tmp_path_factory.mktemp("trees"))
    if folder is None:
        pytest.skip("set V1_MIGRATE_RELEASES (unpacked) or V1_MIGRATE_WHEELS to a folder with vLLM releases")
    known = sorted((path.name for path in folder.iterdir() if (path / "vllm").is_dir()), key=oracle.version_key)
    if known[-1] == known[0]:
        pytest.skip(f"two releases are needed, and {folder} has only {known[0]}")
    names = oracle.load(folder, known[-1])
    made = mutants.generate(names, SEED, COUNT)
    assert len(made) == COUNT
    assert_guaranteed(made, names, known[-1])
