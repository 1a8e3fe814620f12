"""`v1_compat.bridge.X`: vllm's X on V0, the shim's on V1, in silence and without installing anything."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import v1_compat

V0 = {
    "__init__.py": "",
    "_version.py": "__version__ = version = '0.9.2'\n",
    "worker/__init__.py": "",
    "worker/cpu_worker.py": "class CPUWorker: ...\n",
}


@pytest.fixture(autouse=True)
def _fresh(no_vllm: None) -> Iterator[None]:
    forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    forget()


def forget() -> None:
    finders = [f for f in sys.meta_path if type(f).__module__ == "v1_compat.bridge"]
    for name in [name for name in sys.modules if name.startswith("v1_compat.bridge")]:
        del sys.modules[name]
    for finder in finders:
        sys.meta_path.remove(finder)


def bridged(module: str) -> Any:
    return importlib.import_module(f"v1_compat.bridge.{module}")


def test_on_v1_it_is_what_the_shim_serves(vllm: Path) -> None:
    worker = bridged("worker.cpu_worker").CPUWorker
    assert issubclass(importlib.import_module("vllm.v1.worker.cpu_worker").CPUWorker, worker)
    assert bridged("utils").cdiv is importlib.import_module("vllm.utils.math_utils").cdiv
    with pytest.raises(v1_compat.LegacyUseError):
        bridged("worker.cpu_worker").CPUCacheEngine()
    assert bridged("envs").VLLM_USE_V1 is True


def test_a_living_name_is_vllms_own(vllm: Path) -> None:
    assert bridged("sequence").IntermediateTensors is importlib.import_module("vllm.sequence").IntermediateTensors


def test_on_v0_it_is_vllms_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in V0.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert bridged("worker.cpu_worker").CPUWorker is importlib.import_module("vllm.worker.cpu_worker").CPUWorker
    with pytest.raises(ModuleNotFoundError):
        bridged("worker.nonsense")


def test_without_vllm_v0s_cpu_names_are_there() -> None:
    assert bridged("worker.cpu_worker").CPUWorker


def test_nothing_else_is_served(vllm: Path) -> None:
    assert bridged("worker.cpu_worker")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm.worker.cpu_worker")
    assert v1_compat.mode() is v1_compat.Mode.OFF


@pytest.mark.parametrize("module", ["worker.nonsense", "nonsense"])
def test_a_module_nobody_had_is_not_found(vllm: Path, module: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        bridged(module)


def test_a_name_nobody_had_is_no_attribute(vllm: Path) -> None:
    with pytest.raises(AttributeError, match="never had"):
        bridged("worker.cpu_worker").Nonsense  # noqa: B018
    with pytest.raises(AttributeError):
        bridged("sequence").Nonsense  # noqa: B018


def test_beside_the_shim_it_is_one_object(vllm: Path) -> None:
    v1_compat.install("report")
    other = importlib.import_module("vllm.worker.cpu_worker").CPUWorker
    assert bridged("worker.cpu_worker").CPUWorker is other


def test_a_class_of_the_bridge_is_subclassed_in_silence(recwarn: pytest.WarningsRecorder) -> None:
    from v1_compat.bridge.worker.cpu_worker import CPUWorker

    class Mine(CPUWorker): ...

    assert issubclass(Mine, CPUWorker)
    assert not [str(w.message) for w in recwarn if "CPUWorker" in str(w.message)]


def test_a_module_of_vllm_that_lacks_a_dependency_says_which(
    no_vllm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_version.py").write_text("version = '0.32.0'\n")
    (package / "sequence.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        from v1_compat.bridge.sequence import IntermediateTensors  # noqa: F401
