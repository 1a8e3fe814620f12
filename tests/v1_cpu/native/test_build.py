"""The package's own build: with and without a compiler, as a wheel and in place."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from builds import ROOT

pytest.importorskip("hatchling")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the build needs."""
    target = tmp_path / "tree"
    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, target)
    (target / "README.md").touch()
    for name in ("v1_cpu", "codemods", "compat"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return target


def build(tree: Path, **env: str) -> tuple[Path, str]:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "dist")],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | env,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tree / "dist").glob("*.whl")
    return wheel, done.stdout + done.stderr


@pytest.mark.slow
def test_a_wheel_holds_the_library_and_is_tagged_for_its_platform(tree: Path, compiler: str) -> None:
    wheel, _ = build(tree, V1_CPU_BUILD="require")
    assert wheel.name.endswith(".whl") and "-py3-none-linux_" in wheel.name
    assert "v1_cpu/libv1_cpu.so" in zipfile.ZipFile(wheel).namelist()
    assert not (tree / "v1_cpu" / "libv1_cpu.so").exists()


@pytest.mark.parametrize(
    "env", [{"CXX": "no-such-compiler"}, {"V1_CPU_BUILD": "skip"}], ids=["no compiler", "not wanted"]
)
def test_without_a_library_the_wheel_is_for_any_platform(tree: Path, env: dict[str, str]) -> None:
    wheel, printed = build(tree, **env)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())
    assert ("WITHOUT its native kernels" in printed) == ("CXX" in env)


def test_a_required_library_that_cannot_be_built_is_an_error(tree: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tree / "dist")],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"CXX": "no-such-compiler", "V1_CPU_BUILD": "require"},
    )
    assert done.returncode != 0 and "no-such-compiler not found" in done.stdout + done.stderr
