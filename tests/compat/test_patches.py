"""Assignments to names that living modules lost: they reach where the name went, and end with the patch and the shim."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import v1_compat

Run = Callable[..., Any]
REACHING = [
    pytest.param("with mock.patch('vllm.utils.cdiv', return_value=77):\n    seen = m.uses_cdiv()\n", id="mock.patch"),
    pytest.param("with mock.patch.object(u, 'cdiv', lambda a, b: 77):\n    seen = m.uses_cdiv()\n", id="patch.object"),
    pytest.param(
        "with mock.patch('vllm.utils.cdiv', return_value=1):\n    with mock.patch('vllm.utils.cdiv', return_value=77):\n"
        "        seen = m.uses_cdiv()\n    assert m.uses_cdiv() == 1\n",
        id="a patch within a patch",
    ),
    pytest.param(
        "p = pytest.MonkeyPatch()\np.setattr('vllm.utils.cdiv', lambda a, b: 77)\nseen = m.uses_cdiv()\np.undo()\n",
        id="monkeypatch",
    ),
    pytest.param(
        "before = u.cdiv\nu.cdiv = lambda a, b: 77\nseen = m.uses_cdiv()\nu.cdiv = before\n", id="an assignment, undone"
    ),
    pytest.param("u.cdiv = lambda a, b: 77\nseen = m.uses_cdiv()\ndel u.cdiv\n", id="an assignment, deleted"),
    pytest.param("u.cdiv = lambda a, b: 1\nu.cdiv = lambda a, b: 77\nseen = m.uses_cdiv()\ndel u.cdiv\n", id="twice"),
    pytest.param(
        "@mock.patch('vllm.utils.cdiv', return_value=77)\ndef f(_):\n    return m.uses_cdiv()\nseen = f()\n",
        id="a decorator",
    ),
]
HEAD = "import pytest\nfrom unittest import mock\nimport vllm.utils as u\nimport vllm.utils.math_utils as m\n"


@pytest.mark.parametrize("text", REACHING)
def test_a_patch_of_a_name_that_moved_reaches_it_and_ends(vllm: Path, run: Run, text: str) -> None:
    said = run(HEAD + text + "after = m.uses_cdiv()\n")
    assert run.globals["seen"] == 77 and run.globals["after"] == 4  # type: ignore[attr-defined]
    assert "cdiv" not in vars(sys.modules["vllm.utils"])
    replaced = [s for s in said if s.rule == "V1M006"]
    assert replaced and all("as is `vllm.utils.math_utils.cdiv`" in s.text for s in replaced)
    assert {s.file for s in said} == {"script.py"}


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        pytest.param("import vllm.sequence as s; s.SequenceGroup = 5", ["V1M006"], id="a name that is gone"),
        pytest.param(
            "with mock.patch('vllm.sequence.SequenceGroup'): pass", ["V1M003", "V1M006"], id="the same, patched"
        ),
        pytest.param("import vllm.envs as e; e.VLLM_USE_V1 = False", ["V1M201"], id="the switch of the engine"),
    ],
)
def test_what_reaches_nothing_is_said_at_the_line(vllm: Path, run: Run, line: str, rules: list[str]) -> None:
    said = run(f"from unittest import mock\n\n{line}\n")
    assert [(s.line, s.rule) for s in said] == [(3, rule) for rule in rules]
    assert all("vLLM does not see" in s.text for s in said if s.rule == "V1M006")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import vllm.utils as u\nu.mine = 1\n", id="a name that vLLM never had"),
        pytest.param("import vllm.utils.math_utils as m\nm.cdiv = m.cdiv\n", id="a name that is there"),
        pytest.param(
            "import vllm.utils as u\nfrom vllm.utils.math_utils import cdiv\nu.cdiv = cdiv\nassert u.cdiv is cdiv\n",
            id="the very object under its old name",
        ),
        pytest.param("import types, vllm.utils as u\nu.cdiv = types.ModuleType('x')\n", id="a module"),
    ],
)
def test_other_assignments_say_nothing(vllm: Path, run: Run, text: str) -> None:
    assert run(text) == []


def test_vllms_own_assignments_stay_where_they_are(vllm: Path, run: Run) -> None:
    binds = vllm / "binds.py"
    binds.write_text("import vllm.utils\nvllm.utils.cdiv = lambda a, b: 1\n")
    try:
        said = run("import vllm.utils.math_utils as m\nimport vllm.binds\nseen = m.uses_cdiv()\n")
    finally:
        binds.unlink()
    assert said == [] and run.globals["seen"] == 4  # type: ignore[attr-defined]


def test_vllms_own_assignments_do_not_read_the_index(vllm: Path) -> None:
    v1_compat.install()
    utils: Any = importlib.import_module("vllm.utils")
    shim = v1_compat.current()
    assert shim is not None
    table = shim.server().table  # type: ignore[union-attr]
    importlib.import_module("vllm.utils.math_utils")
    utils.__doc__, utils.__path__ = "", utils.__path__
    assert "index" not in vars(table) and table._names == {}


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
@pytest.mark.parametrize(
    "module", ["vllm.utils", "vllm.worker.worker_base"], ids=["a living module", "one that is gone"]
)
def test_uninstalling_gives_back_what_was_replaced(vllm: Path, module: str) -> None:
    name, home = {
        "vllm.utils": ("cdiv", "vllm.utils.math_utils"),
        "vllm.worker.worker_base": ("WorkerWrapperBase", "vllm.v1.worker.worker_base"),
    }[module]
    real = getattr(importlib.import_module(home), name)
    v1_compat.install()
    setattr(importlib.import_module(module), name, 5)
    assert getattr(importlib.import_module(home), name) == 5
    v1_compat.uninstall()
    assert getattr(importlib.import_module(home), name) is real
    assert {type(m) for n, m in sys.modules.items() if n.split(".")[0] == "vllm"} == {ModuleType}


@pytest.mark.filterwarnings("ignore::v1_compat.LegacyWarning")
def test_in_error_mode_nothing_is_replaced(vllm: Path) -> None:
    v1_compat.install("error")
    utils: Any = importlib.import_module("vllm.utils")
    math: Any = importlib.import_module("vllm.utils.math_utils")
    with pytest.raises(v1_compat.LegacyWarning):
        utils.cdiv = 5
    assert "cdiv" not in vars(utils) and math.uses_cdiv() == 4


def test_modules_are_pickled_by_name(vllm: Path) -> None:
    """As cloudpickle does with modules that a function of `__main__` has; it knows them by their very type."""
    v1_compat.install()
    for name in ("vllm.utils", "vllm.sampling_params"):
        module = importlib.import_module(name)
        assert pickle.loads(pickle.dumps(module)) is module
        assert isinstance(module, ModuleType)
