"""The example plugin, with the real engine: every rule at work, and the README's words are those of a real run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from v1_migrate.rules import all_rules

ROOT = Path(__file__).parents[3]
NOT_IN_A_PLUGIN = {"V1M011", "V1M601", "V1M701", "V1M902"}  # forks; only when selected; edits given up
README = (ROOT / "README.md").read_text()


def migrate(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "v1_migrate", "rewrite", path.name, "--target", "0.32.0", *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=path.parent)


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "docs" / "examples" / "legacy_plugin", tmp_path / "legacy_plugin"))


def test_every_rule_is_at_work(plugin: Path) -> None:
    done = migrate(plugin, "--check", "--format", "json")
    assert done.returncode == 1, done.stderr
    found = {finding["rule"] for finding in json.loads(done.stdout)["findings"]}
    assert {rule.id for rule in all_rules()} - found == NOT_IN_A_PLUGIN


def test_the_result_compiles_and_stays_as_it_is(plugin: Path) -> None:
    assert migrate(plugin).returncode == 1
    after = {file: file.read_bytes() for file in plugin.rglob("*.*") if file.is_file()}
    assert after != {
        file: (ROOT / "docs/examples/legacy_plugin" / file.relative_to(plugin)).read_bytes() for file in after
    }
    for file, text in after.items():
        if file.suffix == ".py" and file.name != "legacy_client.py":  # that one is Python 2 on purpose
            compile(text, str(file), "exec")
    assert "none to rewrite" in migrate(plugin).stdout
    assert {file: file.read_bytes() for file in after} == after


def test_the_readme_shows_what_happens(plugin: Path) -> None:
    diff = migrate(plugin, "--diff").stdout.splitlines()
    shown = [line for block in re.findall(r"```diff\n(.*?)```", README, re.DOTALL) for line in block.splitlines()]
    assert len(shown) >= 5
    for line in shown:
        assert line in diff
    report = migrate(plugin, "--check").stdout
    findings = re.findall(r"```\n(legacy_plugin/.*?)```", README, re.DOTALL)
    assert findings
    for block in findings:
        assert block in report
