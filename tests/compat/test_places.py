"""Every warning points at the user's own line, once, whichever way the name was come by."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_migrate.rules import all_rules

# A line that ends in "# RULE" is to be warned of with that rule, once; no other line is.
PLACES = [
    pytest.param(
        "import os\nimport vllm.worker.cpu_worker  # V1M003\n", id="importing a module warns for its last part only"
    ),
    pytest.param(
        "from vllm.worker.cpu_worker import CPUWorker  # V1M003\n",
        id="a from-import warns of the name, not of the module",
    ),
    pytest.param("from vllm.worker import cpu_worker  # V1M003\n", id="a from-import of a module warns of the module"),
    pytest.param("import vllm.utils\n\ncdiv = vllm.utils.cdiv  # V1M001\n", id="attribute of a living module"),
    pytest.param("from vllm.utils import (  # V1M001\n    cdiv,\n)\n", id="an import over several lines"),
    pytest.param(
        "import vllm.utils as u\ndef f(x):\n    return u.cdiv(x, 2)  # V1M001\nf(1)\nf(2)\n",
        id="a place that is passed twice warns once",
    ),
    pytest.param(
        "import vllm.utils as u\na = u.cdiv  # V1M001\nb = u.cdiv  # V1M001\n",
        id="two places of one name are two warnings",
    ),
    pytest.param(
        "import importlib\nm = importlib.import_module('vllm.worker.cpu_worker')  # V1M003\nm.CPUWorker  # V1M003\n",
        id="importlib.import_module, and a name taken later",
    ),
    pytest.param(
        "from vllm.worker.cpu_worker import CPUWorker  # V1M003\n\n\nclass Mine(CPUWorker):  # V1M003\n    pass\n",
        id="subclassing a class of another contract",
    ),
    pytest.param(
        "from vllm.worker.cpu_worker import CPUCacheEngine  # V1M004\n\n\nclass Mine(CPUCacheEngine):  # V1M004\n    pass\n",
        id="subclassing a class that is gone",
    ),
    pytest.param(
        "import vllm.utils\n\n\n@vllm.utils.run_once  # V1M001\ndef f():\n    pass\n",
        id="a decorator is warned of at its own line",
    ),
    pytest.param(
        "from unittest import mock\nwith mock.patch('vllm.executor.ray_utils.RayWorkerWrapper'):  # V1M003,V1M003,V1M006\n    pass\n",
        id="mock.patch resolves a path in the standard library",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('vllm.worker.cpu_worker.CPUWorker.load_model')  # V1M003,V1M003\ndef f(m):\n    pass\n\n\nf()\n",
        id="mock.patch as a decorator is warned of at its own line",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('vllm.worker.cpu_worker.CPUWorker.load_model')  # V1M003,V1M003\ndef f(m):\n    pass\n\n\ntry:\n    f()\nexcept BaseException:\n    raise SystemExit\n",
        id="a decorated function is called in a try",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('vllm.worker.cpu_worker.CPUWorker.load_model')  # V1M003,V1M003\n@mock.patch('os.sep', '+')\nasync def f(m):\n    pass\n\n\nimport asyncio\ntry:\n    asyncio.run(f())\nexcept ImportError:\n    pass\n",
        id="a decorated coroutine, under two patches, in a try",
    ),
    pytest.param(
        "import io\nimport unittest\nfrom unittest import mock\n\n\nclass T(unittest.TestCase):\n    @mock.patch.dict('os.environ', x='1')\n    @mock.patch('vllm.worker.cpu_worker.CPUWorker.load_model')  # V1M003,V1M003\n    def test_x(self, m):\n        pass\n\n\n"
        "result = unittest.TextTestRunner(stream=io.StringIO()).run(T('test_x'))\nassert result.wasSuccessful()\n",
        id="unittest calls the decorated test",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch.dict('os.environ', x='1')\n@mock.patch('os.sep', '+')\n@mock.patch(\n    'vllm.utils.cdiv', 1\n)  # after\n"
        "def f():\n    pass\n\n\nf()\n".replace("@mock.patch(\n", "@mock.patch(  # V1M001,V1M006\n"),
        id="of several decorators the one that patches, over several lines",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('vllm.utils.cdiv', 1)  # V1M001,V1M006\n@mock.patch('vllm.utils.run_once', 1)  # V1M001,V1M006\n"
        "def f():\n    pass\n\n\nf()\n",
        id="two patches, each at its own line",
    ),
    pytest.param(
        "from unittest import mock\nimport vllm.utils as u\n\n\n@mock.patch('os.sep', '+')\n@mock.patch.object(u, 'cdiv', 1)  # V1M001,V1M006\n"
        "def f():\n    pass\n\n\nf()\n",
        id="patch.object",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('os.sep', '+')\n@mock.patch.multiple('vllm.utils', cdiv=1)  # V1M001,V1M006\n"
        "def f():\n    pass\n\n\nf()\n",
        id="patch.multiple",
    ),
    pytest.param(
        "from unittest import mock\n\n\n@mock.patch('os.sep', '+')\n@mock.patch('vllm.worker.cpu_worker.CPUWorker.load_model')  # V1M003,V1M003\n"
        "class T:\n    def test_x(self, m):\n        pass\n\n    @staticmethod\n    def other():\n        pass\n\n\nT().test_x()\n",
        id="a class under a patch",
    ),
    pytest.param(
        "from unittest import mock\n\n\nclass Base:\n    def test_x(self):\n        pass\n\n\n@mock.patch('os.sep', '+')\n@mock.patch('vllm.utils.cdiv', 1)  # V1M001,V1M006\n"
        "class T(Base):\n    pass\n\n\nT().test_x()\n",
        id="a class under a patch, and a test that it inherits",
    ),
    pytest.param(
        "from unittest import mock\nWHERE = 'vllm.utils'\n\n\n@mock.patch(WHERE + '.cdiv', 1)  # V1M001,V1M006\n@mock.patch('os.sep', '+')\n"
        "def f():\n    pass\n\n\nf()\n",
        id="a path that is put together is the first decorator's",
    ),
    pytest.param(
        "import pytest\np = pytest.MonkeyPatch()\np.setattr('vllm.worker.cpu_worker.CPUWorker.load_model', 1)  # V1M003,V1M003\n"
        "import vllm.envs as envs\np.setattr(envs, 'VLLM_USE_V1', False)  # V1M201\np.undo()\n",
        id="monkeypatch patches for the user",
    ),
    pytest.param(
        "import pickle\ndata = b'cvllm.utils\\ncdiv\\n.'\npickle.loads(data)  # V1M001\n",
        id="pickle finds the name for the user",
    ),
    pytest.param(
        "from vllm.sequence import IntermediateTensors\nimport vllm.v1.worker.cpu_worker\n",
        id="living names say nothing",
    ),
]


def expected(text: str) -> list[tuple[int, str]]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if "  # V1M" in line:
            found += [(number, rule) for rule in line.partition("  # ")[2].split(",")]
    return found


@pytest.mark.parametrize("text", PLACES)
def test_warnings_point_at_the_line(vllm: Path, run: Callable[..., Any], text: str) -> None:
    said = run(text)
    found = sorted((s.file, s.line, s.rule) for s in said)  # of two decorators the lower one comes first
    assert found == [("script.py", line, rule) for line, rule in expected(text)]


def test_a_reexport_is_warned_of_where_it_is_written(vllm: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text("from vllm.worker.cpu_worker import CPUWorker\n\n\n__all__ = ['CPUWorker']\n")
    said = run("import names\nfrom names import CPUWorker\nfrom names import *\n")
    assert [(s.file, s.line) for s in said] == [("names.py", 1)]


def test_a_star_import_is_one_warning(vllm: Path, run: Callable[..., Any]) -> None:
    said = run("from vllm.worker.cpu_worker import *\nCPUWorker, CPUCacheEngine\n")
    assert [(s.line, s.rule) for s in said] == [(1, "V1M003")]


def test_a_class_path_that_vllm_resolves_is_the_line_of_whoever_passed_it(vllm: Path, run: Callable[..., Any]) -> None:
    (vllm / "resolve.py").write_text(
        "import importlib\ndef resolve(m, n):\n    return getattr(importlib.import_module(m), n)\n"
    )
    said = run("from vllm.resolve import resolve\nfound = resolve('vllm.worker.cpu_worker', 'CPUWorker')\n")
    assert {(s.file, s.line) for s in said} == {("script.py", 2)}
    assert len(said) == 2  # the module, the name


@pytest.mark.parametrize(
    "line",
    ["from vllm.worker.cpu_worker import CPUWorker", "import vllm.worker.cpu_worker", "from vllm.utils import cdiv"],
)
def test_in_error_mode_the_warning_is_raised_at_the_line(vllm: Path, run: Callable[..., Any], line: str) -> None:
    with pytest.raises(v1_compat.LegacyWarning) as caught:
        run(f"import os\n{line}\n", "error")
    frames = [entry for entry in caught.traceback if Path(entry.path).name == "script.py"]
    assert [entry.lineno + 1 for entry in frames] == [2]


def test_warnings_have_a_class_per_removal_version(vllm: Path, run: Callable[..., Any]) -> None:
    said = run("from vllm.utils import cdiv\nfrom vllm.worker.cpu_worker import CPUWorker\n")
    assert [s.category.__name__ for s in said] == ["RemovedIn0_11_1Warning", "RemovedIn0_10_0Warning"]
    assert all(issubclass(s.category, v1_compat.LegacyWarning) for s in said)
    assert said[0].category is v1_compat.RemovedIn0_11_1Warning


def test_a_warning_names_the_new_name_and_the_removal(vllm: Path, run: Callable[..., Any]) -> None:
    (said,) = run("from vllm.utils import cdiv\n")
    assert "vllm.utils.math_utils.cdiv" in said.text and "0.11.1" in said.text


def test_ids_are_those_of_the_rules() -> None:
    from v1_compat.table import RULES

    known = {rule.id for rule in all_rules()}
    assert {*RULES.values(), "V1M006", "V1M201", "V1M202", "V1M203"} <= known


@pytest.mark.parametrize(
    "line",
    [
        "from vllm.envs import VLLM_USE_V1",
        "from vllm.envs import set_vllm_use_v1",
        "from vllm.utils import cdiv",
        "from vllm.sequence import SequenceGroup",
        "from vllm.worker.cpu_worker import CPUWorker, CPUCacheEngine",
        "import vllm.core.scheduler",
    ],
)
def test_a_message_has_one_id(vllm: Path, run: Callable[..., Any], line: str) -> None:
    said = run(f"{line}\n")
    assert said and all(set(re.findall(r"V1M\d+", s.text)) == {s.rule} for s in said), [s.text for s in said]


def test_what_an_adapter_says_points_at_the_line_too(
    vllm: Path, run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter of one name, as the part for attention calls has them."""
    package = {
        "__init__.py": "ADAPTERS = {'vllm.attention.ops.ipex_attn': 'v1_compat.legacy.small'}\n",
        "notice.py": "def say(rule_id, text, stacklevel=1): ...\n",
        "small.py": "from v1_compat.legacy.notice import say\n__all__ = ['PagedAttention']\n"
        "class PagedAttention:\n    def __init__(self):\n        say('V1M003', 'small differs')\nclass _PagedAttention: ...\n",
    }
    for name, text in package.items():
        (tmp_path / "legacy").mkdir(exist_ok=True)
        (tmp_path / "legacy" / name).write_text(text)
    for name in [n for n in sys.modules if n.startswith("v1_compat.legacy")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(v1_compat, "__path__", [str(tmp_path), *v1_compat.__path__])
    try:
        said = run("from vllm.attention.ops.ipex_attn import PagedAttention, _PagedAttention\n\nPagedAttention()\n")
    finally:
        for name in [n for n in sys.modules if n.startswith("v1_compat.legacy")]:
            del sys.modules[name]
        vars(v1_compat).pop("legacy", None)
    lines, texts = [s.line for s in said], [s.text for s in said]
    assert lines == [1, 1, 3]
    assert "write `v1_cpu.PagedAttention`, whose contract differs" in texts[0] and texts[0].endswith(
        " v1_compat's stands in."
    )
    assert texts[1].endswith(" A stub stands in, and raises when used.") and texts[2] == "V1M003 small differs"
