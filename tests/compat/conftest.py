"""A small vLLM to put the shim before (small_vllm.py), scripts under the shim, and processes of their own."""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

import pytest
import v1_compat

from .small_vllm import TREE

ROOT = Path(__file__).parents[2]
SOURCES = [str(ROOT), str(ROOT / "codemods"), str(ROOT / "compat")]

_found = importlib.util.find_spec("vllm")
INSTALLED = _found.origin if _found is not None else ""  # a vLLM in this environment, which tests do not see
HIDE = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name == "vllm" else find(name, *rest)
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A warning, where it points and what it says."""

    file: str
    line: int
    text: str
    category: type[Warning]

    @property
    def rule(self) -> str:
        return self.text.split()[0]


def write_tree(folder: Path, tree: dict[str, str], package: str = "") -> Path:
    for name, text in tree.items():
        path = folder / package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def forget() -> None:
    for name in [name for name in sys.modules if name == "vllm" or name.startswith("vllm.")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def small_vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("site"), TREE, "vllm")


@pytest.fixture
def no_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No vLLM can be imported, and the shim is not installed; afterwards all is as before."""
    for variable in ("V1_COMPAT", "V1_COMPAT_REPORT", "VLLM_USE_V1"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)  # where a report is written
    find = PathFinder.find_spec

    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = find(name, path, target)
        return None if name == "vllm" and spec is not None and spec.origin == INSTALLED else spec

    monkeypatch.setattr(PathFinder, "find_spec", find_spec)
    before = list(sys.meta_path), {n: m for n, m in sys.modules.items() if n == "vllm" or n.startswith("vllm.")}
    v1_compat.uninstall()
    forget()
    yield
    v1_compat.uninstall()
    forget()
    sys.modules.update(before[1])
    assert sys.meta_path == before[0], "the shim left something on sys.meta_path"


@pytest.fixture
def vllm(no_vllm: None, small_vllm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small vLLM is there, and the shim is not installed."""
    monkeypatch.syspath_prepend(small_vllm)
    importlib.invalidate_caches()
    return small_vllm / "vllm"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Said]]:
    """`run(text, mode)`: the text as a script under the shim; what it was warned of, in order."""
    monkeypatch.syspath_prepend(tmp_path)

    def script(text: str, mode: str = "warn", name: str = "script.py") -> list[Said]:
        path = tmp_path / name
        path.write_text(text)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            v1_compat.install(mode)
            script.globals = runpy.run_path(str(path))  # type: ignore[attr-defined]
        return [Said(Path(w.filename).name, w.lineno, str(w.message), w.category) for w in caught]

    return script


@pytest.fixture(scope="session")
def child() -> Callable[..., subprocess.CompletedProcess[str]]:
    return _child


def _child(
    arguments: list[str], *more: Path, cwd: Path, check: bool = True, **env: str
) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own, with our sources, the folders `more` and nothing of ours in its environment."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("V1_COMPAT", "VLLM_", "PYTEST_"))}
    clean["PYTHONPATH"] = os.pathsep.join([*SOURCES, *map(str, more)])
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=clean | env, capture_output=True, text=True, timeout=120, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    return done
