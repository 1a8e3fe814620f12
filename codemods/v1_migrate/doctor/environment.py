"""Asks an environment's Python in a child process, and keeps what it said."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..session import Failure
from .arguments import Arguments

PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True, slots=True)
class Stage:
    """What one stage of the probe found, or why it found nothing."""

    found: dict[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """The answers of an environment that has vLLM."""

    stages: dict[str, Stage]

    def get(self, stage: str) -> Stage:
        return self.stages.get(stage, Stage(error="was not asked"))

    @property
    def release(self) -> str:
        """vLLM's version as it says it itself, without what stands behind a plus sign."""
        return str(self.get("vllm").found["version"]).partition("+")[0]

    @property
    def machine(self) -> dict[str, Any]:
        return self.get("machine").found

    @property
    def variables(self) -> dict[str, str]:
        return dict(self.machine["variables"])


def ask(python: str | None, arguments: Arguments | None, timeout: float) -> Environment:
    """Run the probe. Raises Failure for no Python, no vLLM, a torch or vLLM that cannot be imported, and no answer."""
    command = _python(python)
    try:
        done = subprocess.run(
            [command, str(PROBE)],
            input=json.dumps(arguments.request() if arguments else {}),
            env=os.environ | (arguments.variables if arguments else {}),
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=timeout,
        )
    except subprocess.TimeoutExpired as error:
        stages, begun = _read(error.stdout or b"")
        raise Failure(
            f"{command} gave no answer in {timeout:g} s (it was at: {begun or 'its start'}); --timeout allows more"
        ) from None
    except OSError as error:
        raise Failure(f"cannot run {command}: {error.strerror}; --python takes an environment's interpreter") from None
    stages, begun = _read(done.stdout)
    if "machine" not in stages:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise Failure(f"{command} is no Python that can be asked: {last}")
    environment = Environment(stages)
    if done.returncode < 0 and begun not in stages:
        raise Failure(_killed(environment, begun, -done.returncode))
    _refuse_broken(environment, command)
    return environment


def _python(given: str | None) -> str:
    """An interpreter's path, a name on PATH, or an environment's folder; the running one if nothing is given."""
    if given is None:
        return sys.executable
    path = Path(given).expanduser()
    if path.is_dir():
        for inside in ("bin/python", "Scripts/python.exe", "python"):
            if (path / inside).is_file():
                return os.path.abspath(path / inside)
        raise Failure(f"{given}: a folder without bin/python; --python takes an environment's interpreter")
    found = shutil.which(str(path))
    if found is None:
        raise Failure(f"{given}: no such program; --python takes an environment's interpreter")
    return found


def _read(output: str | bytes) -> tuple[dict[str, Stage], str]:
    """The stages in the probe's output, and the one that was begun last."""
    text = output.decode(errors="backslashreplace") if isinstance(output, bytes) else output
    stages, begun = {}, ""
    for line in text.splitlines():
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if "begin" in message:
            begun = message["begin"]
        elif "stage" in message:
            stages[message["stage"]] = Stage(message.get("found", {}), message.get("error", ""))
    return stages, begun


def _killed(environment: Environment, stage: str, number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    flags = " ".join(environment.machine["flags"]) or "none that is known"
    hint = (
        f"it was built for instructions this processor lacks (it has: {flags})"
        if name == "SIGILL"
        else "running that import by hand may say more"
    )
    return f"{environment.machine['executable']} ended with {name} while asked about {stage}: {hint}"


def _refuse_broken(environment: Environment, command: str) -> None:
    installed: dict[str, str] = environment.machine["installed"]
    for name in ("torch", "vllm"):
        error = environment.get(name).error
        if not error:
            continue
        vllms = [f"{key} {version}" for key, version in installed.items() if key.startswith("vllm")]
        if not vllms and "No module named" in error:
            raise Failure(
                f"{command} has no vLLM; install one there, or name another environment with --python PATH"
                + ("" if "torch" in installed else " (it has no torch either)")
            )
        what = f"torch {installed.get('torch', '(not installed)')}" if name == "torch" else ", ".join(vllms)
        raise Failure(f"{command}: {what} cannot be imported: {error.splitlines()[-1]}")
