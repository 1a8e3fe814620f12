"""Is our text set against what people wrote, line by line?"""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.score_human import changes, grade, ours_for
from guarantees.small_releases import write_tree

OLD = "import a\nfrom vllm.old.w import W\n\n\ndef f():\n    return 'vllm.old.w.W'\n"
NEW = OLD.replace("vllm.old.w", "vllm.new.w")


@pytest.mark.parametrize(
    ("ours", "grades"),
    [
        pytest.param(NEW, ["same", "same"], id="the same text"),
        pytest.param("# note\n" + NEW, ["same", "same"], id="the same text on other lines"),
        pytest.param(OLD, ["other", "other"], id="nothing done"),
        pytest.param(NEW.replace("import W", "import (\n    W)"), ["same code", "same"], id="the same code, wrapped"),
        pytest.param(NEW.replace("'vllm.new.w.W'", "'vllm.new.x.W'"), ["same", "other"], id="another path"),
    ],
)
def test_grades(tmp_path: Path, ours: str, grades: list[str]) -> None:
    for name, text in (("before", OLD), ("after", NEW), ("ours", ours)):
        write_tree(tmp_path / name, {"m.py": text})
    found = list(changes(tmp_path / "before", tmp_path / "after"))
    assert [grade(change, ours_for(change, tmp_path / "before", tmp_path / "ours")) for change in found] == grades


@pytest.mark.parametrize(
    ("new", "moved"),
    [
        pytest.param(NEW, [True, True], id="paths that moved"),
        pytest.param(OLD.replace("from vllm.old.w import W\n", ""), [False], id="a line that went"),
        pytest.param(
            OLD.replace("from vllm.old.w import W", "from vllm.other import Z"), [False], id="code written anew"
        ),
        pytest.param(OLD.replace("import a", "import b"), [], id="a line without a path"),
    ],
)
def test_moved(tmp_path: Path, new: str, moved: list[bool]) -> None:
    write_tree(tmp_path / "before", {"m.py": OLD})
    write_tree(tmp_path / "after", {"m.py": new})
    assert [change.moved for change in changes(tmp_path / "before", tmp_path / "after")] == moved
