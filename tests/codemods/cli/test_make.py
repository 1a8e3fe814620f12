"""The README's two commands, as far as make says what it would do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, env=environment)


def would_run(*arguments: str) -> str:
    done = make(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_code_a_copy_of_the_example_is_migrated() -> None:
    commands = would_run("migrate")
    assert "cp -R docs/examples/legacy_plugin build/legacy_plugin" in commands
    assert ".venv/bin/v1-migrate rewrite build/legacy_plugin" in commands


def test_with_code_that_code_is_migrated_under_the_guard(tmp_path: Path) -> None:
    code = tmp_path / "my plugin"
    code.mkdir()
    commands = would_run("migrate", f"CODE={code}", "ARGS=--target 0.16.0")
    assert f'.venv/bin/v1-migrate rewrite "{code}" --target 0.16.0' in commands
    assert "--allow-dirty" not in commands


def test_code_that_is_not_there_is_said_before_anything_is_installed() -> None:
    done = make("migrate", "CODE=no/where")
    assert done.returncode == 2 and "CODE=no/where: there is no such file or folder" in done.stderr
    assert not done.stdout


def test_continuous_integration_runs_what_a_person_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().rstrip().endswith("exec make test")
    commands = would_run("test")
    for piece in ("ruff check .", "ruff format --check .", "mypy", "rules --check docs/rules", "pytest -n 2"):
        assert piece in commands
