"""Options and variables that the target does not take, in commands, images, compose files and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from v1_migrate.discover import Kind
from v1_migrate.findings import Severity
from v1_migrate.names import flag_spans, flags

from tests.codemods.rules.harness import rewrite

FLAG, VARIABLE = "V1M402", "V1M403"

COMMANDS = [
    pytest.param("vllm serve m --device cpu\n", "vllm serve m\n", id="a switch with a value"),
    pytest.param("vllm serve m --device=cpu -x\n", "vllm serve m -x\n", id="joined with its value"),
    pytest.param("vllm serve m --disable-log-requests -x\n", "vllm serve m -x\n", id="a switch without one"),
    pytest.param("vllm serve m --disable_log_requests\n", "vllm serve m\n", id="written with underscores"),
    pytest.param(
        "vllm serve m --multi-step-stream-outputs false -x\n", "vllm serve m -x\n", id="a switch with a truth"
    ),
    pytest.param(
        "vllm serve m \\\n  --swap-space 4 \\\n  -x\n", "vllm serve m \\\n  -x\n", id="alone on a continued line"
    ),
    pytest.param(
        "vllm serve m \\\n  -x \\\n  --swap-space 4\n", "vllm serve m \\\n  -x\n", id="the last continued line"
    ),
    pytest.param(
        "vllm serve m --device cpu --swap-space 4\n", "vllm serve m\n", id="two neighbours at the end of the line"
    ),
    pytest.param(
        "vllm serve m --device cpu \\\n  --swap-space 4 \\\n  -x\n",
        "vllm serve m \\\n  -x\n",
        id="neighbours on two lines",
    ),
    pytest.param(
        "python -m vllm.entrypoints.openai.api_server --device cpu -x\n",
        "python -m vllm.entrypoints.openai.api_server -x\n",
        id="the module",
    ),
    pytest.param(
        "docker run --device /dev/kfd vllm/vllm-openai:v0.32.0 --model m --device cpu\n",
        "docker run --device /dev/kfd vllm/vllm-openai:v0.32.0 --model m\n",
        id="docker has an option of that name, too",
    ),
    pytest.param("bash -c 'vllm serve m --device cpu'\n", "bash -c 'vllm serve m'\n", id="inside a quoted command"),
    pytest.param(
        "vllm serve m --guided-decoding-backend outlines\n",
        "vllm serve m --structured-outputs-config.backend outlines\n",
        id="renamed",
    ),
    pytest.param(
        "VLLM_USE_V1=1 VLLM_USE_RAY_SPMD_WORKER=1 vllm serve m --device cpu\n",
        "vllm serve m\n",
        id="what three rules take out of one command",
    ),
    pytest.param(
        "export VLLM_USE_V1=1 VLLM_USE_RAY_SPMD_WORKER=1\nvllm\n", "vllm\n", id="what two rules take out of one export"
    ),
]


@pytest.mark.parametrize(("before", "after"), COMMANDS)
def test_commands(before: str, after: str) -> None:
    outcome = rewrite(before, "0.32.0", kind=Kind.SHELL)
    assert outcome.text == after
    assert not outcome.open
    assert subprocess.run(["bash", "-n"], input=after, text=True).returncode == 0


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        pytest.param(
            Kind.DOCKER,
            'FROM x\nCMD ["vllm", "serve", "m", "--device", "cpu"]\n',
            'FROM x\nCMD ["vllm", "serve", "m"]\n',
            id="the list form of CMD",
        ),
        pytest.param(
            Kind.YAML,
            "a:\n  image: vllm/vllm-openai\n  command:\n    - --model\n    - '--device'\n    - cpu\n    - m\n",
            "a:\n  image: vllm/vllm-openai\n  command:\n    - --model\n    - m\n",
            id="a block list beside vLLM's image",
        ),
        pytest.param(
            Kind.YAML,
            "a:\n  image: vllm/vllm-openai\n  args: [--device=cpu, --model, m]\n",
            "a:\n  image: vllm/vllm-openai\n  args: [--model, m]\n",
            id="a flow list beside vLLM's image",
        ),
        pytest.param(
            Kind.YAML,
            "a:\n  image: vllm/vllm-openai\n  command: --model m --device cpu\n",
            "a:\n  image: vllm/vllm-openai\n  command: --model m\n",
            id="a string beside vLLM's image",
        ),
        pytest.param(
            Kind.JSON,
            '{"args": ["vllm", "serve", "m", "--device", "cpu", "-x"]}\n',
            '{"args": ["vllm", "serve", "m", "-x"]}\n',
            id="a list of JSON",
        ),
        pytest.param(
            Kind.MARKDOWN,
            "Run `vllm serve m --device cpu`.\n\n```\nvllm serve m \\\n    --device cpu\n```\n",
            "Run `vllm serve m`.\n\n```\nvllm serve m\n```\n",
            id="a document",
        ),
    ],
)
def test_argument_lists(kind: Kind, before: str, after: str) -> None:
    outcome = rewrite(before, "0.32.0", kind=kind)
    assert outcome.text == after
    assert not outcome.open
    if kind is Kind.YAML:
        yaml.safe_load(after)
    elif kind is Kind.JSON:
        json.loads(after)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("python train.py --device cpu --task x\n# vllm\n", id="another program's options"),
        pytest.param("docker run --device /dev/kfd vllm/vllm-openai:v0.32.0\n", id="docker's option"),
        pytest.param("vllm serve m --speculative-config '{}'\n", id="an option of the target"),
        pytest.param("vllm serve m --devices 3\n", id="a longer name"),
        pytest.param("export VLLM_CPU_KVCACHE_SPACE=4 VLLM_TARGET_DEVICE=cpu VLLM_PLUGINS=x\n", id="valid variables"),
    ],
)
def test_what_is_not_touched(text: str) -> None:
    outcome = rewrite(text, "0.32.0", kind=Kind.SHELL)
    assert outcome.text == text
    assert not outcome.findings


def test_an_option_that_an_earlier_release_still_takes_stays_there() -> None:
    text = "vllm serve m --swap-space 4\n"
    assert rewrite(text, "0.16.0", kind=Kind.SHELL).text == text
    assert rewrite(text, "0.18.0", kind=Kind.SHELL).text == "vllm serve m\n"


def test_options_outside_a_command_are_reported() -> None:
    outcome = rewrite('ARGS="--num-scheduler-steps 8"\nA=(--device cpu)\nvllm serve $ARGS\n', kind=Kind.SHELL)
    assert outcome.lines(FLAG) == [1, 2]
    assert {f.severity for f in outcome.said(FLAG)} == {Severity.ERROR}


BACKEND = "VLLM_ATTENTION_BACKEND"


@pytest.mark.parametrize(
    ("target", "before", "after"),
    [
        pytest.param("0.10.0", "TORCH_SDPA", "TORCH_SDPA_VLLM_V1", id="0.10 has a name of its own for V1"),
        pytest.param("0.11.0", "TORCH_SDPA_VLLM_V1", "TORCH_SDPA", id="0.11.0 has the old name again"),
        pytest.param("0.11.2", "TORCH_SDPA", "CPU_ATTN", id="then it is CPU_ATTN"),
        pytest.param("0.14.1", '"TORCH_SDPA"', '"CPU_ATTN"', id="up to the last release that reads it"),
    ],
)
def test_the_attention_backend_is_translated_for_a_cpu(target: str, before: str, after: str) -> None:
    text = f"export VLLM_CPU_KVCACHE_SPACE=4\nexport {BACKEND}=%s\n"
    assert rewrite(text % before, target, kind=Kind.SHELL).text == text % after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            f"VLLM_CPU_KVCACHE_SPACE=4 {BACKEND}=TORCH_SDPA vllm serve m -x\n",
            "VLLM_CPU_KVCACHE_SPACE=4 vllm serve m --attention-backend CPU_ATTN -x\n",
            id="a command gets the option",
        ),
        pytest.param(
            f"export VLLM_CPU_KVCACHE_SPACE=4\nexport {BACKEND}=TORCH_SDPA\n",
            "export VLLM_CPU_KVCACHE_SPACE=4\n",
            id="an export goes: a CPU has one backend",
        ),
        pytest.param(
            f"{BACKEND}=FLASHINFER vllm serve m\n",
            "vllm serve m --attention-backend FLASHINFER\n",
            id="another device keeps its backend",
        ),
    ],
)
def test_from_0_15_on_the_attention_backend_is_an_option(before: str, after: str) -> None:
    outcome = rewrite(before, "0.16.0", kind=Kind.SHELL)
    assert outcome.text == after
    assert not outcome.open


@pytest.mark.parametrize(
    ("target", "text"),
    [
        pytest.param("0.11.2", f"export {BACKEND}=TORCH_SDPA\nvllm serve\n", id="nothing says that it is a CPU"),
        pytest.param("0.32.0", f"{BACKEND}=TORCH_SDPA vllm serve m\n", id="nor here, where the name is an empty tag"),
        pytest.param("0.32.0", f"{BACKEND}=XFORMERS vllm serve m\n", id="a backend that the target lacks"),
        pytest.param("0.32.0", f"export {BACKEND}=FLASHINFER\nvllm serve m\n", id="an export for other devices"),
        pytest.param("0.32.0", "export VLLM_TORCH_PROFILER_DIR=/tmp\n", id="a variable with a successor"),
    ],
)
def test_variables_that_need_a_person(target: str, text: str) -> None:
    outcome = rewrite(text, target, kind=Kind.SHELL)
    assert outcome.text == text
    assert [f.severity for f in outcome.said(VARIABLE)] == [Severity.WARNING]


def test_the_name_of_v0_is_no_name_to_say_on_the_target() -> None:
    (found,) = rewrite(f"export {BACKEND}=TORCH_SDPA\n", "0.32.0", kind=Kind.SHELL).said(VARIABLE)
    assert found.advice.startswith("On a CPU leave it out: there is one backend, `CPU_ATTN`.")


def test_every_curated_flag_has_a_span_and_advice() -> None:
    for flag in (*flags.options().values(), *flags.variables().values()):
        assert flag.gone, flag.name
        assert flag.advice or not flag.listed, flag.name
        assert flag.to or flag.action != "rename", flag.name
    assert flags.variables()["VLLM_USE_V1"].gone == "0.11.1"
    assert not {"VLLM_CPU_KVCACHE_SPACE", "VLLM_TARGET_DEVICE"} & flags.variables().keys()


def test_spans_come_from_the_source(tmp_path: Path) -> None:
    for release, name in (("0.8.5", "old"), ("0.9.1", "new")):
        engine = tmp_path / release / "vllm" / "engine"
        engine.mkdir(parents=True)
        (engine / "arg_utils.py").write_text(f'p.add_argument("--{name}-one")\n"--both-one"\n')
        (engine.parent / "envs.py").write_text(f'd = {{"VLLM_{name.upper()}": 1}}\n')
    found = {r: flag_spans.of_release(tmp_path / r / "vllm") for r in ("0.8.5", "0.9.1")}
    assert flag_spans.gone({r: options for r, (options, _) in found.items()}) == {
        "--old-one": ("0.8.5", "0.8.5", "0.9.1")
    }
    assert flag_spans.gone({r: names for r, (_, names) in found.items()}) == {"VLLM_OLD": ("0.8.5", "0.8.5", "0.9.1")}


@pytest.mark.wheels
@pytest.mark.skipif("V1_MIGRATE_SOURCES" not in os.environ, reason="needs the releases' source in V1_MIGRATE_SOURCES")
@pytest.mark.parametrize("release", ["0.9.2", "0.10.0", "0.16.0"])
def test_spans_agree_with_a_release(release: str) -> None:
    generated = tomllib.loads(flag_spans.DATA.read_text("utf-8"))
    options, variables = flag_spans.of_release(Path(os.environ["V1_MIGRATE_SOURCES"]) / release / "vllm")
    for name in options & generated["options"].keys():
        assert not flags.options()[name].missing(release), name
    for name in variables & generated["variables"].keys():
        assert not flags.variables()[name].missing(release), name
    assert options & generated["options"].keys() or release == "0.32.0"
