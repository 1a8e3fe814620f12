"""Fixtures of the native kernels' tests: a fresh build of the library and of the runner."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # builds.py: test material, not a package

from builds import ROOT, SOURCES, build_hook, build_runner


@pytest.fixture(scope="session")
def compiler() -> str:
    path = shutil.which("g++") or shutil.which("clang++")
    if path is None:
        pytest.skip("no C++ compiler here")
    return path


@pytest.fixture(scope="session")
def library(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of this checkout: the one built in place if it is newer than its sources, else a fresh build."""
    installed = ROOT / "v1_cpu" / "libv1_cpu.so"
    if installed.exists() and installed.stat().st_mtime > max(path.stat().st_mtime for path in SOURCES.iterdir()):
        return installed
    target = tmp_path_factory.mktemp("native") / "libv1_cpu.so"
    build_hook().compile_library(SOURCES, target)
    return target


@pytest.fixture(scope="session")
def runner(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runner(compiler, tmp_path_factory.mktemp("runner") / "runner")
