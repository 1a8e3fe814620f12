"""`rewrite --bridge`: the result runs on V0 and on V1; what no edit serves goes to v1_compat.bridge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from v1_migrate.cli import main

BRIDGED = [
    pytest.param(
        "from vllm.worker.cpu_worker import CPUCacheEngine\n",
        "from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\n",
        id="a name that is gone",
    ),
    pytest.param(
        "from vllm.worker.cpu_worker import CPUWorker as Base  # noqa\n\n\nclass W(Base): ...\n",
        "from v1_compat.bridge.worker.cpu_worker import CPUWorker as Base  # noqa\n\n\nclass W(Base): ...\n",
        id="a name with another contract, even where V1's would do",
    ),
    pytest.param(
        "import vllm.worker.cpu_model_runner as r\n\nr.CPUModelRunner\n",
        "import v1_compat.bridge.worker.cpu_model_runner as r\n\nr.CPUModelRunner\n",
        id="a module under a name of its own",
    ),
    pytest.param(
        "from vllm.worker import cpu_worker\n\ncpu_worker.CPUWorker\n",
        "from v1_compat.bridge.worker import cpu_worker\n\ncpu_worker.CPUWorker\n",
        id="a module from its package",
    ),
    pytest.param(
        "from vllm.sequence import IntermediateTensors, SequenceData\n",
        "from vllm.sequence import IntermediateTensors\nfrom v1_compat.bridge.sequence import SequenceData\n",
        id="of two names the one that is lost",
    ),
    pytest.param(
        "from vllm.utils import cdiv\n",
        "try:\n    from vllm.utils.math_utils import cdiv\nexcept ImportError:\n    from vllm.utils import cdiv\n",
        id="a moved name needs no bridge",
    ),
    pytest.param(
        "from vllm.worker.worker_base import WorkerBase\n",
        "from v1_compat.bridge.worker.worker_base import WorkerBase\n",
        id="a name of which the last V0 release has both engines' objects",
    ),
    pytest.param(
        'llm = LLM(worker_cls="vllm.worker.cpu_worker.CPUWorker")\n',
        'llm = LLM(worker_cls="v1_compat.bridge.worker.cpu_worker.CPUWorker")\n',
        id="the path of a class",
    ),
    pytest.param(
        "from vllm.attention.backends.torch_sdpa import TorchSDPABackend\n\nTorchSDPABackend.get_kv_cache_shape(4, 16, 2, 64)\n",
        "from v1_compat.bridge.attention.backends.torch_sdpa import TorchSDPABackend\n\nTorchSDPABackend.get_kv_cache_shape(4, 16, 2, 64)\n",
        id="a class of which a method with another answer is called",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept ImportError as e:\n    raise SystemExit(1) from e\n",
        "try:\n    from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\nexcept ImportError as e:\n    raise SystemExit(1) from e\n",
        id="a handler that raises has no answer",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\nexcept ValueError:\n    pass\n",
        "try:\n    from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\nexcept ValueError:\n    pass\n",
        id="a handler of another error",
    ),
    pytest.param(
        "try:\n    from vllm.worker.cpu_worker import CPUCacheEngine\n    CPUCacheEngine(1)\nexcept Exception:\n    print(1)\n",
        "try:\n    from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\n    CPUCacheEngine(1)\nexcept Exception:\n    print(1)\n",
        id="a handler of everything around work",
    ),
    pytest.param(
        "try:\n\n    def f():\n        from vllm.worker.cpu_worker import CPUCacheEngine\nexcept ImportError:\n    pass\n",
        "try:\n\n    def f():\n        from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\nexcept ImportError:\n    pass\n",
        id="a function that is defined in a try runs later",
    ),
    pytest.param(
        "try:\n    import torch\nexcept ImportError:\n    from vllm.worker.cpu_worker import CPUCacheEngine\n",
        "try:\n    import torch\nexcept ImportError:\n    from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine\n",
        id="an import in a handler",
    ),
]
GUARDED = [
    pytest.param("try:\n    {}\nexcept ImportError:\n    {} = None\n", id="a name that is None otherwise"),
    pytest.param("try:\n    {}\n    HAS = True\nexcept ModuleNotFoundError:\n    HAS = False\n", id="a flag"),
    pytest.param("try:\n    {}\nexcept (AttributeError, ImportError):\n    pass\n", id="one of several errors"),
    pytest.param("try:\n    {}\nexcept Exception:\n    {} = None\n", id="everything, where only imports are tried"),
    pytest.param("try:\n    {}\nexcept:\n    {} = None\n", id="a bare handler"),
    pytest.param("def f():\n    try:\n        {}\n    except ImportError:\n        return None\n", id="in a function"),
    pytest.param("import contextlib\n\nwith contextlib.suppress(ImportError):\n    {}\n", id="contextlib.suppress"),
    pytest.param("import pytest\n\nwith pytest.raises(ImportError):\n    {}\n", id="a test that it fails"),
    pytest.param("try:\n    if True:\n        {}\nexcept ImportError:\n    {} = None\n", id="deeper in the try"),
    pytest.param(
        "from importlib.util import find_spec\n\nif find_spec('vllm.worker') is not None:\n    {}\nelse:\n    {} = None\n",
        id="find_spec",
    ),
    pytest.param("import vllm\n\nif hasattr(vllm, 'worker'):\n    {}\nelse:\n    {} = None\n", id="hasattr"),
]
STATEMENTS = [
    pytest.param("from vllm.worker.worker_base import LoRANotSupportedWorkerBase", id="gone"),
    pytest.param("from vllm.worker.cpu_worker import CPUWorker", id="another contract"),
    pytest.param("from vllm.worker.worker_base import WorkerBase", id="two objects"),
    pytest.param("from vllm.worker import cpu_worker", id="a module"),
    pytest.param("import vllm.worker.cpu_worker as cpu_worker", id="a module under a name"),
]
LEFT = [
    pytest.param("import vllm.core.scheduler\n\nvllm.core.scheduler.Scheduler\n", id="a chain on the name vllm"),
    pytest.param("from vllm.sequence import IntermediateTensors\n", id="a living name"),
    pytest.param(
        "try:\n    from vllm.v1.sample.metadata import SamplingMetadata\nexcept ImportError:\n"
        "    from vllm.model_executor import SamplingMetadata\n",
        id="code that serves both already",
    ),
    pytest.param(
        'from unittest import mock\n\nmock.patch("vllm.worker.worker.Worker.load_model")\n', id="a patched path"
    ),
    pytest.param("from vllm.sequence import Nonsense\n", id="a name that V0 never had"),
    pytest.param("from v1_compat.bridge.worker.cpu_worker import CPUWorker\n", id="the bridge itself"),
]


def run(path: Path, *options: str) -> tuple[str, list[dict[str, object]]]:
    command = [*options, str(path), "--target", "0.32.0", "--attention", "vllm", "--format", "json"]
    if options[0] == "rewrite":
        command.append("--allow-dirty")
    report = json.loads(CliRunner().invoke(main, command, standalone_mode=False).output)
    return path.read_text(), report["findings"]


@pytest.mark.parametrize(("before", "after"), BRIDGED)
def test_bridged(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(before)
    text, findings = run(path, "rewrite", "--bridge")
    assert text == after
    assert [f["safety"] for f in findings if f["fixed"]] != []
    assert run(path, "rewrite", "--bridge")[0] == after, "a second run changed something"


@pytest.mark.parametrize("text", LEFT)
def test_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "code.py"
    path.write_text(text)
    assert run(path, "rewrite", "--bridge")[0] == text


@pytest.mark.parametrize("guard", GUARDED)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_import_that_may_fail_is_left(tmp_path: Path, guard: str, statement: str) -> None:
    """The bridge's never fails: whoever tests for None afterwards would take V0's way on V1."""
    path = tmp_path / "code.py"
    text = guard.format(statement, statement.split()[-1])
    path.write_text(text)
    after, findings = run(path, "rewrite", "--bridge")
    assert after == text
    assert {f["severity"] for f in findings} == {"info"}, findings


def test_the_path_of_a_class_that_may_fail_to_be_imported_is_left(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    text = 'try:\n    W = resolve("vllm.worker.cpu_worker.CPUWorker")\nexcept ImportError:\n    W = None\n'
    path.write_text(text)
    assert run(path, "rewrite", "--bridge")[0] == text


@pytest.mark.parametrize("option", [[], ["--bridge"]], ids=["to V1", "for both"])
def test_a_question_for_a_module_keeps_its_answer(tmp_path: Path, option: list[str]) -> None:
    """Asked for the new path, it says yes where the imports behind it are V0's."""
    path = tmp_path / "code.py"
    text = 'import importlib.util\n\nHAS_V0 = importlib.util.find_spec("vllm.worker.worker_base") is not None\n'
    path.write_text(text)
    after, findings = run(path, "rewrite", *option)
    assert after == text and [(f["rule"], f["severity"]) for f in findings] == [("V1M010", "info")]


def test_all_edits_run_on_both_engines(tmp_path: Path) -> None:
    """V1-only edits, such as dropping the engine switch, wait for the day V0 is dropped."""
    path = tmp_path / "code.py"
    text = 'import os\n\nos.environ["VLLM_USE_V1"] = "1"\nfrom vllm.worker.cpu_worker import CPUCacheEngine\n'
    path.write_text(text)
    after, findings = run(path, "rewrite", "--bridge")
    assert 'os.environ["VLLM_USE_V1"] = "1"' in after
    assert {f["safety"] for f in findings if f["fixed"]} == {"bridge"}


def test_what_was_bridged_is_found_by_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("from v1_compat.bridge.worker.cpu_worker import CPUCacheEngine, CPUWorker as W\n\nW(1)\n")
    _, findings = run(path, "plan")
    assert {(f["rule"], f["name"]) for f in findings} >= {
        ("V1M003", "vllm.worker.cpu_worker.CPUWorker"),
        ("V1M004", "vllm.worker.cpu_worker.CPUCacheEngine"),
    }


def test_a_bridged_name_that_may_move_moves_when_v0_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text("from v1_compat.bridge.worker.worker_base import WorkerBase\n\n\nclass W(WorkerBase): ...\n")
    assert run(path, "rewrite")[0].startswith("from vllm.v1.worker.worker_base import WorkerBase\n")


def test_bridge_and_unsafe_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("")
    result = CliRunner().invoke(main, ["rewrite", str(tmp_path), "--bridge", "--unsafe"])
    assert result.exit_code == 2 and "choose one" in result.output
