"""Builds of the library and of the runner, for the native kernels' tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "v1_cpu" / "csrc"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build_hook() -> ModuleType:
    """The package's build hook, which is no importable module of the package."""
    spec = importlib.util.spec_from_file_location("v1_cpu_build_hook", SOURCES / "build_hook.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def build_runner(compiler: str, target: Path, *flags: str) -> Path:
    source = Path(__file__).with_name("runner.cpp")
    subprocess.run(
        [compiler, "-std=c++17", "-O2", *flags, f"-I{SOURCES}", str(source), "-o", str(target), "-ldl"], check=True
    )
    return target
