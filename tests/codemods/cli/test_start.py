"""The command line starts in a blink: help imports nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest
from v1_migrate import cli, config

HEAVY = {"libcst", "rich", "pathspec", "torch", "vllm", "multiprocessing", "asyncio", "email", "importlib.metadata"}


@pytest.mark.parametrize("arguments", [["--help"], ["rewrite", "--help"], ["--version"], ["explain", "--help"]])
def test_help_imports_click_and_little_else(arguments: list[str]) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from v1_migrate.__main__ import run\n"
        f"assert run({arguments!r}) == 0\n"
        "print('|', *sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.rpartition("|")[2].split())
    ours = {name for name in imported if name.startswith("v1_migrate")}
    assert ours <= {"v1_migrate", "v1_migrate.__main__", "v1_migrate.cli"}
    assert not imported & HEAVY
    assert len(imported) < 120, sorted(imported)  # click itself brings about seventy


def _environment() -> dict[str, str]:
    """-S keeps what site-packages' own start-up files import out of the count."""
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_every_choice_of_the_configuration_is_one_of_the_command_line() -> None:
    assert cli.ATTENTIONS == config.ATTENTIONS
