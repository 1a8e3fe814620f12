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
GUARDED += [
    pytest.param(
        "try:\n    from vllm.sequence import SequenceGroup as CPUCacheEngine\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="a class that has a successor of another contract",
    ),
    pytest.param(
        "import vllm.sequence as s\nname = 'SequenceGroup'\nCPUCacheEngine = getattr(s, name, 'mine')\n",
        id="getattr with a default and a computed name",
    ),
    pytest.param(
        "import vllm.sequence as s\nCPUCacheEngine = s.ExecuteModelRequest if hasattr(s, 'ExecuteModelRequest') else 'mine'\n",
        id="hasattr of a class with a successor",
    ),
    pytest.param(
        "import vllm.sequence as s\ntry:\n    CPUCacheEngine = s.SequenceGroup\nexcept AttributeError:\n    CPUCacheEngine = 'mine'\n",
        id="an attribute, except AttributeError",
    ),
    pytest.param(
        "import vllm\nCPUCacheEngine = vllm.worker if hasattr(vllm, 'worker') else 'mine'\n", id="hasattr of a module"
    ),
    pytest.param(
        "import vllm.envs as e\nCPUCacheEngine = getattr(e, 'VLLM_USE_V1', 'mine')\n",
        id="a variable that vllm.envs lost",
    ),
    pytest.param(
        "try:\n    from vllm.sequence import SequenceGroup as CPUCacheEngine\n    V0, NAME = True, CPUCacheEngine.__name__\nexcept Exception:\n    CPUCacheEngine = 'mine'\n",
        id="imports and assignments, except Exception",
    ),
    pytest.param(
        "try:\n    from vllm.lora.request import AdapterRequest as CPUCacheEngine\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="a module whose structures are handed out by who asks",
    ),
    pytest.param(
        "import vllm.pooling_params as p\nCPUCacheEngine = getattr(p, 'get_use_activation', 'mine')\n",
        id="an attribute of such a module",
    ),
    pytest.param(
        "import pytest\nCPUCacheEngine = 'mine'\ntry:\n    CPUCacheEngine = pytest.importorskip('vllm.core.scheduler')\nexcept pytest.skip.Exception:\n    pass\n",
        id="pytest.importorskip",
    ),
]
WORK = "except Exception as e:\n    CPUCacheEngine = 'mine'\n"
SERVED = [
    pytest.param(
        f"try:\n    from vllm.core.scheduler import Scheduler as CPUCacheEngine\n    print(len('work'))\n{WORK}",
        id="work in the try, except Exception",
    ),
    pytest.param(
        "def main():\n    try:\n        from vllm.core.scheduler import Scheduler\n        print('work')\n        return Scheduler\n"
        "    except Exception:\n        return 'mine'\nCPUCacheEngine = main()\n",
        id="a main that prints what goes wrong",
    ),
    pytest.param(
        f"import vllm.utils as u\ntry:\n    CPUCacheEngine = u.cdiv(7, 2)\n{WORK}", id="a call, except Exception"
    ),
    pytest.param(
        f"import vllm.sequence as s\ntry:\n    CPUCacheEngine = isinstance(1, s.SequenceGroup)\n{WORK}",
        id="an argument of a call, except Exception",
    ),
    pytest.param(
        f"import vllm.sequence as s\ntry:\n    for CPUCacheEngine in [s.SequenceGroup]:\n        pass\n{WORK.replace('Exception as e', 'BaseException')}",
        id="a loop, except BaseException",
    ),
    pytest.param(
        "import vllm.sequence as s\ntry:\n    CPUCacheEngine = s.SequenceGroup\nexcept ImportError:\n    CPUCacheEngine = 'mine'\n",
        id="an attribute, whose lack is no ImportError",
    ),
    pytest.param(
        "try:\n    from vllm.sequence import SequenceGroup as CPUCacheEngine\nexcept ImportError:\n    raise\nexcept Exception:\n    CPUCacheEngine = 'mine'\n",
        id="the first handler that catches decides",
    ),
    pytest.param(
        "import contextlib\nCPUCacheEngine = 'mine'\nwith contextlib.suppress(Exception):\n    from vllm.core.scheduler import Scheduler as CPUCacheEngine\n    print('work')\n",
        id="work under contextlib.suppress(Exception)",
    ),
    pytest.param("from vllm.worker.cpu_worker import CPUCacheEngine\n", id="plain import"),
    pytest.param(
        "from vllm.sampling_params import GuidedDecodingParams as CPUCacheEngine\n",
        id="a module whose structures are handed out by who asks",
    ),
    pytest.param("import vllm.lora.request as r\nCPUCacheEngine = r.AdapterRequest\n", id="an attribute of such a one"),
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


def test_a_guard_answers_the_same_before_and_after_an_unguarded_import(vllm: Path, run: Any) -> None:
    """But for a bare import of the module: Python finds it without asking."""
    guards = "".join(
        f"    try:\n        from {module} import {name}\n        found.append({name})\n    except ImportError:\n        found.append(None)\n"
        for module, name in [
            ("vllm.core.scheduler", "Scheduler"),
            ("vllm.core.scheduler", "PreemptionMode"),
            ("vllm.core.evictor", "LRUEvictor"),
            ("vllm.sequence", "SequenceGroup"),
            ("vllm.worker.cpu_worker", "CPUWorker"),
        ]
    )
    unguarded = "from vllm.core.scheduler import Scheduler, PreemptionMode\nfrom vllm.worker.cpu_worker import CPUWorker\nimport vllm.core.evictor\n"
    run(f"found = []\ndef ask():\n{guards}ask()\n{unguarded}from vllm.sequence import SequenceGroup\nask()\n")
    assert run.globals["found"] == [None] * 10
