"""The shim's warnings carry the id that `v1-migrate plan` gives to the same import, and say what to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import v1_compat
from v1_compat.table import RULES, Table

from .walk_names import wanted

NAMES = [f"{module}.{name}" for module, name in wanted("cpu")]


@pytest.fixture(scope="module")
def planned(
    child: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, set[str]]:
    """Name -> the rules of what `plan` finds in an import of it, in default settings."""
    pytest.importorskip("libcst")
    folder = tmp_path_factory.mktemp("plan")
    parts = [name.rpartition(".") for name in NAMES]
    lines = [f"from {module} import {last} as x{i}; print(x{i})\n" for i, (module, _, last) in enumerate(parts)]
    (folder / "imports.py").write_text("".join(lines))
    arguments = ["-m", "v1_migrate", "plan", "imports.py", "--target", "0.32.0", "--format", "json"]
    found: dict[str, set[str]] = {name: set() for name in NAMES}
    for finding in json.loads(child(arguments, cwd=folder, check=False).stdout)["findings"]:
        found[NAMES[finding["line"] - 1]].add(finding["rule"])
    return found


def test_every_v0_cpu_name_has_the_plans_rule(vllm: Path, planned: dict[str, set[str]]) -> None:
    v1_compat.install()
    server = v1_compat.current().server()  # type: ignore[union-attr]
    assert server is not None
    differ = {}
    for name in NAMES:
        module, _, last = name.rpartition(".")
        served = server.find(module, last)
        legacy = server.table.find(name)
        rules = {served.rule} if served is not None and legacy is not None else set()
        if legacy is not None and "at run time" in legacy.headline:
            rules = set()  # imported for type checkers only: that is not read from an import
        if rules != planned[name]:
            differ[name] = (rules, planned[name])
    assert differ == {}
    assert {rule for rules in planned.values() for rule in rules} == {*RULES.values(), "V1M101", "V1M201"}


def test_every_notice_says_what_to_do() -> None:
    """Beyond where it went: a notice of another contract, or of a name without a successor, has a second sentence."""
    table = Table("0.32.0")
    legacy = [found for name in NAMES if (found := table.find(name)) is not None]
    silent = [found.dotted for found in legacy if found.rule != RULES["moved"] and not found.advice]
    assert silent == []
    assert len(legacy) > 450


def test_cpu_attention_goes_where_the_plan_sends_it() -> None:
    table = Table("0.32.0")
    found = table.find("vllm.v1.attention.backends.cpu_attn.TorchSDPABackend")
    assert found is not None and "`v1_cpu.TorchSDPABackend`" in found.notice, found
    assert found.new.startswith("vllm."), "what is served is vLLM's own"
