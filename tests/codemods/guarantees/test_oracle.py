"""Does the checker see every form in which code can name something of vLLM's, and nothing else?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guarantees import oracle, texts
from guarantees.small_releases import OLD, write_tree

# (source, {line: stale name} that need a finding, lines of mere uses)
STALE = [
    pytest.param("from vllm.worker.cpu import Worker\n", {1: "vllm.worker.cpu.Worker"}, [], id="from-import"),
    pytest.param("from vllm import OldThing as T\n", {1: "vllm.OldThing"}, [], id="lazy re-export"),
    pytest.param(
        "from vllm.kept import (\n    Engine,  # stays\n    Worker as W,  # goes\n)\nW()\n",
        {3: "vllm.kept.Worker"}, [5], id="mixed fates in one statement",
    ),
    pytest.param("import vllm.worker.cpu\n", {1: "vllm.worker.cpu"}, [], id="import of a module"),
    pytest.param(
        "import vllm.worker.cpu as c\nx = c.Worker()\n",
        {1: "vllm.worker.cpu", 2: "vllm.worker.cpu.Worker"}, [], id="attribute of an aliased module",
    ),
    pytest.param("import vllm\nx = vllm.kept.GONE_CONSTANT\n", {2: "vllm.kept.GONE_CONSTANT"}, [], id="long chain"),
    pytest.param(
        "from vllm import kept\nkept.GONE_CONSTANT = 2\nkept.brand_new = 3\n",
        {2: "vllm.kept.GONE_CONSTANT"}, [], id="a write to what is gone, beside an addition",
    ),
    pytest.param("from vllm import envs\nif envs.VLLM_GONE:\n    pass\n", {2: "vllm.envs.VLLM_GONE"}, [], id="envs"),
    pytest.param(
        "from vllm.kept import Engine\nEngine.stop = None\nEngine.start = None\n",
        {2: "vllm.kept.Engine.stop"}, [], id="member of a class that stays",
    ),
    pytest.param(
        "from vllm import kept\nsetattr(kept, 'Worker', 1)\ngetattr(kept, 'Worker')\ngetattr(kept, 'Worker', None)\n",
        {2: "vllm.kept.Worker", 3: "vllm.kept.Worker"}, [], id="attributes by name, but not a guarded one",
    ),
    pytest.param(
        "from unittest import mock\nfrom vllm import kept\nmock.patch.object(kept, 'Worker')\n",
        {3: "vllm.kept.Worker"}, [], id="patch.object",
    ),
    pytest.param("p = 'vllm.worker.cpu.Worker.load'\n", {1: "vllm.worker.cpu.Worker.load"}, [], id="dotted string"),
    pytest.param("p = 'mine = vllm.worker.cpu:Worker'\n", {1: "vllm.worker.cpu.Worker"}, [], id="entry point string"),
    pytest.param("p = 'vllm.plugins_group'\nq = 'see vllm.worker.cpu.Worker'\n", {}, [], id="strings that name nothing"),
    pytest.param("import importlib\nm = importlib.import_module('vllm.worker.cpu')\nm.make()\n",
                 {2: "vllm.worker.cpu", 3: "vllm.worker.cpu.make"}, [], id="import_module and its attribute"),
    pytest.param("import vllm\ndef f(x: 'list[vllm.OldThing]'):\n    pass\n", {2: "vllm.OldThing"}, [], id="string annotation"),
    pytest.param("x = None  # type: vllm.worker.cpu.Worker\n", {1: "vllm.worker.cpu.Worker"}, [], id="type comment"),
    pytest.param("x = None  # type: ignore\nimport vllm  # type: ignore[vllm.OldThing]\n", {}, [], id="type: ignore"),
    pytest.param("import typing\nimport vllm\ntyping.cast('vllm.OldThing', 1)\n", {3: "vllm.OldThing"}, [], id="cast"),
    pytest.param("from vllm.worker.cpu import *\n", {1: "vllm.worker.cpu"}, [], id="star import of a gone module"),
    pytest.param("from vllm.ancient.thing import X\n", {1: "vllm.ancient.thing.X"}, [], id="gone before the old release"),
    pytest.param(
        "def f(vllm):\n    return vllm.OldThing\nclass C:\n    kept = 1\n    def g(self):\n        return self.kept.Worker\n",
        {}, [], id="a parameter of that name",
    ),
    pytest.param(
        "try:\n    from vllm import kept\nexcept ImportError:\n    kept = None\nkept.Worker\n",
        {}, [], id="a name that may be something else is not certain",
    ),
    pytest.param("from vllm.kept import helper as kept\nalias = kept\nalias()\n", {}, [], id="what stays, through an alias"),
    pytest.param("import vllm.kept as k\nK = k\nK.Worker\n", {3: "vllm.kept.Worker"}, [], id="a module through an alias"),
    pytest.param(
        "from vllm.typed import Engine\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vllm.typed import Engine\n",
        {1: "vllm.typed.Engine"}, [], id="a typing-only name, imported at run time and not",
    ),
    pytest.param(
        "import vllm\n\n\ndef f():\n    return [vllm.OldThing for vllm in ()]\n\n\nclass C(vllm.OldThing):\n    pass\n",
        {8: "vllm.OldThing"}, [], id="a comprehension variable shadows, a base class does not",
    ),
    pytest.param("x = f\"{'vllm.worker.cpu'}\"\ny = f'vllm.worker.cpu'\n", {1: "vllm.worker.cpu"}, [], id="f-string parts"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "stale", "uses"), STALE)
def test_without_findings_all_stale_names_are_misses(
    tmp_path: Path, small_names: oracle.Names, source: str, stale: dict[int, str], uses: list[int]
) -> None:
    (tmp_path / "a.py").write_text(source)
    verdict = oracle.check(tmp_path, {"findings": []}, small_names)
    assert {place.reference.line: place.reference.name for place in verdict.misses} == stale
    assert [place.reference.line for place in verdict.uses] == uses


@pytest.mark.parametrize(
    ("findings", "misses", "wide"),
    [
        pytest.param([(3, 3)], [], 0, id="a finding on the line"),
        pytest.param([(1, 4)], [], 0, id="a finding on the statement"),
        pytest.param([(1, 1)], [3], 0, id="a finding on another line of the statement"),
        pytest.param([(1, 400)], [], 1, id="a finding on the whole file covers, and is counted"),
        pytest.param([(1, 400), (3, 3)], [], 0, id="a file finding beside one of its own"),
    ],
)
def test_a_finding_must_cover_the_line(
    tmp_path: Path, small_names: oracle.Names, findings: list[tuple[int, int]], misses: list[int], wide: int
) -> None:
    (tmp_path / "a.py").write_text("from vllm.kept import (\n    Engine,\n    Worker,\n)\n")
    verdict = oracle.check(tmp_path, report(*findings), small_names)
    assert [place.reference.line for place in verdict.misses] == misses
    assert (len(verdict.wide), verdict.stale) == (wide, 1)


def test_a_fixed_finding_does_not_speak_for_what_is_left(tmp_path: Path, small_names: oracle.Names) -> None:
    (tmp_path / "a.py").write_text("from vllm.v1.nowhere import Worker\n")
    said = report((1, 1))
    said["findings"][0]["fixed"] = True
    assert len(oracle.check(tmp_path, said, small_names).misses) == 1


def test_a_finding_of_another_file_does_not_help(tmp_path: Path, small_names: oracle.Names) -> None:
    write_tree(tmp_path, {"a.py": "", "b.py": "import vllm.worker.cpu\n"})
    assert len(oracle.check(tmp_path, report((1, 1)), small_names).misses) == 1


def test_files_that_cannot_be_read_are_listed_apart(tmp_path: Path, small_names: oracle.Names) -> None:
    write_tree(tmp_path, {"a.py": "print 'vllm'\n", "b.py": "vllm = (\n"})
    assert oracle.check(tmp_path, report((1, 1)), small_names).unreadable == [("a.py", True), ("b.py", False)]


def test_a_fork_resolves_its_relative_imports_and_keeps_its_own_names(tmp_path: Path, small_releases: Path) -> None:
    parts = dict.fromkeys(
        ("engine/__init__.py", "model_executor/__init__.py", "config.py", "entrypoints/__init__.py"), ""
    )
    write_tree(tmp_path / "vllm", {**OLD, **parts, "mine.py": "X = 1\n"})
    (tmp_path / "vllm" / "worker" / "user.py").write_text(
        "from .cpu import Worker\nfrom ..mine import X\nfrom .nowhere import Y\n"
    )
    names = oracle.load(small_releases, "0.32.0", tmp_path)
    found = oracle.check(tmp_path, {"findings": []}, names).misses
    mine = [place.reference.name for place in found if place.path == "vllm/worker/user.py"]
    assert mine == ["vllm.worker.cpu.Worker", "vllm.worker.nowhere.Y"]


def test_a_folder_called_vllm_in_a_plugin_is_no_fork(tmp_path: Path) -> None:
    write_tree(tmp_path, {"plugin/vllm/__init__.py": "", "plugin/vllm/worker.py": "from .engine import X\n"})
    assert oracle.fork(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        pytest.param(
            "run.sh", "vllm serve m \\\n  --worker-cls vllm.worker.cpu.Worker\n", [2], id="a flag in a script"
        ),
        pytest.param("setup.cfg", "x =\n    mine = vllm.worker.cpu:Worker\n", [2], id="an entry point"),
        pytest.param("notes.md", "Use `vllm.OldThing`.\n\nNot `vllm.LLM`, nor vllm.worker.cpu/x.\n", [1], id="prose"),
        pytest.param("data.bin", "vllm.worker.cpu.Worker\n", [], id="a file of another kind"),
        pytest.param("a.yaml", "group: vllm.general_plugins\nhost: my.vllm.worker.cpu\n", [], id="what names nothing"),
    ],
)
def test_paths_outside_python(
    tmp_path: Path, small_names: oracle.Names, name: str, text: str, found: list[int]
) -> None:
    (tmp_path / name).write_text(text)
    places = texts.unreported(tmp_path, {"findings": []}, small_names)
    assert [place.reference.line for place in places] == found


def report(*lines: tuple[int, int]) -> dict[str, Any]:
    return {"findings": [{"path": "a.py", "line": first, "end_line": last, "fixed": False} for first, last in lines]}
