"""Installing: idempotent, independent of the order of imports, thread-safe, without a trace afterwards."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import v1_compat
from v1_compat.finder import Finder
from v1_compat.modules import hook


def finders() -> int:
    return sum(isinstance(finder, Finder) for finder in sys.meta_path)


def test_importing_the_package_imports_nothing_heavy(child: Any, tmp_path: Path) -> None:
    text = "import sys, v1_compat; v1_compat.install()\nprint([m for m in ('torch', 'vllm', 'libcst', 'v1_migrate', 'ast', 'dis', 'json', 'importlib.resources') if m in sys.modules])"
    assert child(["-c", text], cwd=tmp_path).stdout.strip() == "[]"


def test_installing_twice_is_once(vllm: Path) -> None:
    v1_compat.install()
    v1_compat.install("error")
    assert finders() == 1
    assert v1_compat.mode() is v1_compat.Mode.ERROR
    v1_compat.uninstall()
    v1_compat.uninstall()
    assert finders() == 0
    assert v1_compat.mode() is v1_compat.Mode.OFF


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_a_module_is_hooked_once() -> None:
    module: Any = ModuleType("vllm.lake")
    server: Any = SimpleNamespace(take=lambda module, name: f"{module}.{name}", folder="")
    undo = hook(module, server)
    assert undo is not None and module.depth == "vllm.lake.depth"
    assert hook(module, server) is None
    undo()
    assert "__getattr__" not in module.__dict__


def test_uninstalling_restores_modules_attributes_and_the_environment(vllm: Path) -> None:
    import vllm as real

    before = set(sys.modules), dict(vars(real)), dict(os.environ)
    v1_compat.install("report")
    assert os.environ["V1_COMPAT"] == "report"
    importlib.import_module("vllm.worker.cpu_worker")
    assert "worker" in vars(real)
    v1_compat.uninstall()
    assert dict(os.environ) == before[2]
    assert dict(vars(real)) == before[1] | {n: m for n, m in vars(real).items() if n in ("v1", "logger")}
    assert not [name for name in sys.modules if name.startswith("vllm.worker")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm.worker.cpu_worker")


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
@pytest.mark.parametrize("first", [True, False], ids=["shim first", "vllm first"])
def test_the_order_of_imports_does_not_matter(vllm: Path, first: bool) -> None:
    if first:
        v1_compat.install()
    utils = importlib.import_module("vllm.utils")
    envs = importlib.import_module("vllm.envs")
    v1_compat.install()
    assert utils.cdiv is importlib.import_module("vllm.utils.math_utils").cdiv
    assert envs.VLLM_USE_V1 is True
    v1_compat.uninstall()
    assert not hasattr(utils, "cdiv")
    assert not hasattr(envs, "VLLM_USE_V1")
    assert envs.VLLM_CPU_KVCACHE_SPACE is None


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_a_hook_that_vllm_wrapped_is_dead_after_uninstalling(vllm: Path) -> None:
    """vLLM caches the `__getattr__` of vllm.envs when it serves."""
    v1_compat.install()
    envs = importlib.import_module("vllm.envs")
    envs.__getattr__ = functools.cache(envs.__getattr__)
    v1_compat.uninstall()
    assert not hasattr(envs, "VLLM_USE_V1")
    assert envs.VLLM_CPU_KVCACHE_SPACE is None


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_real_modules_keep_their_own_loader(vllm: Path) -> None:
    plain = type(importlib.import_module("vllm.sequence").__loader__)
    del sys.modules["vllm.sequence"]
    v1_compat.install()
    module = importlib.import_module("vllm.sequence")
    assert type(module.__loader__) is type(module.__spec__.loader) is plain
    importlib.reload(module)
    assert module.IntermediateTensors


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_threads_get_one_object(vllm: Path) -> None:
    v1_compat.install()
    found: list[object] = []
    barrier = threading.Barrier(8)

    def take() -> None:
        v1_compat.install()
        barrier.wait()
        found.append(importlib.import_module("vllm.worker.cpu_worker").CPUCacheEngine)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(map(id, found))) == 1


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_a_vllm_that_still_has_v0_is_left_alone(no_vllm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_version.py").write_text("__version__ = version = '0.9.2'\n")
    monkeypatch.syspath_prepend(tmp_path)
    v1_compat.install()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm.worker.cpu_worker")


class TestModes:
    def test_off_in_the_environment_wins_over_a_call(self, vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("V1_COMPAT", "off")
        v1_compat.install("warn")
        assert finders() == 0

    def test_the_environment_wins_over_the_argument(self, vllm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("V1_COMPAT", "error")
        v1_compat.install("warn")
        assert v1_compat.mode() is v1_compat.Mode.ERROR

    @pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
    def test_off_after_another_mode_is_as_uninstalled(self, vllm: Path) -> None:
        before = dict(os.environ)
        v1_compat.install("warn")
        importlib.import_module("vllm.worker.cpu_worker")
        sequence = importlib.import_module("vllm.sequence")
        assert sequence.SequenceGroup
        v1_compat.install("off")
        assert v1_compat.mode() is v1_compat.Mode.OFF and finders() == 0 and dict(os.environ) == before
        for module in ("vllm.worker.cpu_worker", "vllm.core.scheduler"):
            with pytest.raises(ModuleNotFoundError):
                importlib.import_module(module)
        with pytest.raises(AttributeError):
            _ = sequence.SequenceGroup
        v1_compat.install("warn")
        assert sequence.SequenceGroup and importlib.import_module("vllm.core.scheduler")

    @pytest.mark.parametrize("text", ["on", "1", "wran"])
    def test_an_unknown_mode_is_refused_with_the_choices(
        self, vllm: Path, monkeypatch: pytest.MonkeyPatch, text: str
    ) -> None:
        monkeypatch.setenv("V1_COMPAT", text)
        with pytest.raises(ValueError, match=f"{text!r}.*off, warn, error, report"):
            v1_compat.install()
        assert finders() == 0
