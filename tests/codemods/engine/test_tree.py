"""Which folder called `vllm` is vLLM: the package, a vendored part of it, or another package of that name."""

from __future__ import annotations

from pathlib import Path

import pytest
from v1_migrate.engine.tree import Tree


@pytest.mark.parametrize(
    ("files", "module", "own", "fork"),
    [
        pytest.param(["__init__.py", "envs.py", "engine/__init__.py"], "vllm.envs", True, True, id="the package"),
        pytest.param(["__init__.py", "worker/__init__.py", "envs.py"], "vllm.envs", True, False, id="a part, vendored"),
        pytest.param(
            ["__init__.py", "platform.py"], "another.vllm.platform", False, False, id="a plugin's, copied out"
        ),
        pytest.param(["__init__.py", "utils.py", "core.py"], "another.vllm.utils", False, False, id="utils of its own"),
        pytest.param(
            ["__init__.py", "utils.py", "config.py"], "vllm.utils", True, False, id="utils and config, vendored"
        ),
        pytest.param(["runner.py"], "runner", False, False, id="no package at all"),
    ],
)
def test_a_folder_called_vllm(tmp_path: Path, files: list[str], module: str, own: bool, fork: bool) -> None:
    for name in files:
        (tmp_path / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vllm" / name).write_text("")
    paths = sorted((tmp_path / "vllm").rglob("*.py"))
    tree = Tree.of(tmp_path, paths)
    last = module.rpartition(".")[2]
    assert tree.module(tmp_path / "vllm" / f"{last}.py") == module
    assert (module in tree.own, tree.is_vllm) == (own, fork)
