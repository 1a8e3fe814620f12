"""Every name of V0's CPU modules where there is no vLLM at all; tests/vllm/test_compat.py walks beside real releases."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from v1_migrate.names.index import Index

from .conftest import HIDE
from .walk_names import CPU_MODULES, OPERATIONS, V0, wanted

WALK = str(Path(__file__).with_name("walk_names.py"))


def test_the_walk_leaves_out_nothing_that_the_index_has() -> None:
    """Counted otherwise than the walk does: every module by its own list of names."""
    index = Index.load(user=False)
    walked = set(wanted("cpu"))
    for release in V0:
        for module in CPU_MODULES:
            names = index.of(release).names(module) if index.has_module(module, release) else ()
            public = {name for name in names if name and not name.startswith("_")}
            at_run_time = {name for name in public if index.runtime(f"{module}.{name}", release)}
            assert {(module, name) for name in at_run_time} <= walked, (release, module)
    assert {("vllm._custom_ops", name) for name in OPERATIONS} <= walked
    assert len(walked) > 530


def test_every_v0_cpu_name_resolves_without_vllm(
    child: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    start = f"{HIDE}\nimport runpy, sys\nsys.argv = ['', 'cpu']\nrunpy.run_path({WALK!r}, run_name='__main__')"
    found = json.loads(child(["-c", start], cwd=tmp_path).stdout.splitlines()[-1])
    assert found["failures"] == {}
    assert found["names"] == len(wanted("cpu"))
    assert found["how"]["adapter"] > 70, "the attention part is served by stubs"
