"""The command line with a stand-in for the engine."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_engine.py")


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    spec = importlib.util.spec_from_file_location("fake_engine", FAKE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "fake_engine", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    for name, stand_in in module.modules().items():
        monkeypatch.setitem(sys.modules, name, stand_in)
    yield


@pytest.fixture
def cli(fake: None, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""
    from v1_migrate.__main__ import run

    def call(*arguments: object) -> Done:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """Makes files below a folder of their own; returns the folder."""

    def make(**files: str) -> Path:
        root = tmp_path / "tree"
        for name, text in files.items():
            path = root / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return make
