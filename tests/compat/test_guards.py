"""Code that is ready for a vLLM without the name goes its own way, as it would without the shim."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat

GUARDED = [
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="except ImportError",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept (ImportError, OSError):\n    CPUCacheEngine = 'mine'\n",
        id="a tuple of errors",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept:\n    CPUCacheEngine = 'mine'\n",
        id="bare except",
    ),
    pytest.param(
        "CPUCacheEngine = 'mine'\nimport contextlib\nwith contextlib.suppress(ImportError):\n    from vllm.worker.cpu_worker import CPUCacheEngine\n",
        id="contextlib.suppress",
    ),
    pytest.param(
        "import importlib\ntry:\n    CPUCacheEngine = importlib.import_module('vllm.worker.cpu_worker').CPUCacheEngine\nexcept Exception:\n    CPUCacheEngine = 'mine'\n",
        id="import_module in a try",
    ),
    pytest.param(
        "try:\n    from vllm.sequence import SequenceData as CPUCacheEngine\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="name lost by a living module",
    ),
    pytest.param(
        "import vllm.sequence as s\nCPUCacheEngine = getattr(s, 'SequenceData', 'mine')\n", id="getattr with a default"
    ),
    pytest.param(
        "import vllm.sequence as s\nCPUCacheEngine = s.SequenceData if hasattr(s, 'SequenceData') else 'mine'\n",
        id="hasattr",
    ),
]
SERVED = [
    pytest.param("from vllm.worker.cpu_worker import CPUCacheEngine\n", id="plain import"),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept ImportError as e:\n    raise RuntimeError from e\n",
        id="a handler that only raises has no answer",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept KeyError:\n    pass\n", id="another error"
    ),
    pytest.param(
        "try:\n    def f():\n        from vllm.worker.cpu_worker import CPUCacheEngine\n        return CPUCacheEngine\nexcept ImportError:\n    pass\nCPUCacheEngine = f()\n",
        id="a function defined in a try is called outside of it",
    ),
    pytest.param(
        "try:\n    from vllm.utils import cdiv as CPUCacheEngine\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="the same object is given whatever the guard",
    ),
]


@pytest.mark.parametrize("text", GUARDED)
def test_a_guarded_import_is_left_to_fail(vllm: Path, run: Any, text: str) -> None:
    assert run(text) == []
    assert run.globals["CPUCacheEngine"] == "mine"


@pytest.mark.parametrize("text", SERVED)
def test_no_guard_no_failure(vllm: Path, run: Any, text: str) -> None:
    assert run(text)
    assert run.globals["CPUCacheEngine"] != "mine"


def test_a_module_imported_in_a_try_of_its_own_package_is_guarded(
    vllm: Path, run: Callable[..., Any], tmp_path: Path
) -> None:
    package = tmp_path / "plugin"
    package.mkdir()
    (package / "__init__.py").write_text(
        "try:\n    from plugin.v0 import answer\nexcept ImportError:\n    answer = 'v1'\n"
    )
    (package / "v0.py").write_text("from vllm.worker.cpu_worker import CPUCacheEngine\nanswer = 'v0'\n")
    run("from plugin import answer\n")
    assert run.globals["answer"] == "v1"  # type: ignore[attr-defined]


def test_a_try_of_somebody_elses_does_not_guard(vllm: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    """A test runner imports test modules in a `try`; their imports are served all the same."""
    (tmp_path / "runner.py").write_text(
        "def load(name):\n    try:\n        return __import__(name)\n    except ImportError:\n        return None\n"
    )
    (tmp_path / "loaded.py").write_text("from vllm.worker.cpu_worker import CPUCacheEngine\n")
    run("import runner\nfound = runner.load('loaded')\n")
    assert run.globals["found"] is not None  # type: ignore[attr-defined]


def test_find_spec_tells_what_is_there(vllm: Path) -> None:
    v1_compat.install()
    assert importlib.util.find_spec("vllm.utils") is not None
    with pytest.raises(ModuleNotFoundError):
        importlib.util.find_spec("vllm.worker.cpu_worker")
    assert importlib.util.find_spec("vllm.worker") is None


def test_vllms_own_imports_are_not_answered(vllm: Path, run: Callable[..., Any]) -> None:
    """vLLM asks for modules that may be missing; a stand-in would lead it astray."""
    (vllm / "asks.py").write_text("import vllm.worker.cpu_worker\n")
    with pytest.raises(ModuleNotFoundError):
        run("import vllm.asks\n")


def test_without_vllm_it_is_not_said_to_be_there(no_vllm: None, run: Callable[..., Any]) -> None:
    run("try:\n    import vllm\nexcept ImportError:\n    vllm = None\n")
    assert run.globals["vllm"] is None  # type: ignore[attr-defined]
    with pytest.raises(ModuleNotFoundError):
        run("import vllm\n")
    with pytest.raises(ModuleNotFoundError):
        run("from vllm import LLM\n")
    assert importlib.util.find_spec("vllm") is None


def test_without_vllm_what_is_vllms_own_says_so(no_vllm: None, run: Callable[..., Any]) -> None:
    said = run("from vllm.platforms import Platform\nclass Mine(Platform): ...\n")
    assert [(s.line, "vLLM's own, and vLLM is not installed" in s.text) for s in said] == [(1, True), (2, True)]
