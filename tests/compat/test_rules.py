"""The shim's warnings carry the id that `v1-migrate plan` gives to the same import, and say what to do."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_compat.table import RULES, Table
from v1_compat.wording import LIMIT, MORE, brief

from .walk_names import wanted

ADAPTERS = importlib.util.find_spec("torch") is not None  # V0's attention is computed, and its names are there
STUB = "A stub stands in, and raises when used."
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


IPEX, ENGINE_ARGS = (
    "import vllm.attention.ops.ipex_attn as m",
    "from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs",
)
ENGINE = "from vllm.v1.engine.llm_engine import LLMEngine\ndef use(e: LLMEngine): {}\nuse(LLMEngine())"
USES = [
    pytest.param(IPEX, "x = getattr(m, 'PagedAttention')", id="getattr"),
    pytest.param(IPEX, "x = getattr(m, 'PagedAttention', None)", id="getattr with a default"),
    pytest.param(IPEX, "x = hasattr(m, 'PagedAttention')", id="hasattr"),
    pytest.param(IPEX, "x = m.PagedAttention", id="an attribute"),
    pytest.param("import vllm.worker.cpu_worker as m", "x = getattr(m, 'CPUWorker')", id="getattr of vLLM's own"),
    pytest.param("import vllm.worker.cpu_worker as m", "x = getattr(m, 'CPUCacheEngine')", id="getattr of a stub"),
    pytest.param("import vllm.utils as m", "x = getattr(m, 'cdiv')", id="getattr of a living module"),
    pytest.param("from vllm import envs as m", "x = getattr(m, 'VLLM_USE_V1')", id="getattr of the switch"),
    pytest.param("import vllm.envs as m", "x = m.VLLM_USE_V1", id="the switch"),
    pytest.param(ENGINE_ARGS, "x = EngineArgs(model='m', swap_space=4)", id="a keyword that asks for nothing"),
    pytest.param(ENGINE_ARGS, "x = EngineArgs(model='m', swap_space=8)", id="a keyword with a value"),
    pytest.param(ENGINE_ARGS, "x = EngineArgs(model='m', num_scheduler_steps=8)", id="a keyword that chose V0"),
    pytest.param(ENGINE_ARGS, "x = AsyncEngineArgs(model='m', disable_log_requests=True)", id="a translated keyword"),
    pytest.param("from vllm import SamplingParams", "x = SamplingParams(n=1, best_of=1)", id="best_of=1"),
    pytest.param("from vllm import SamplingParams", "x = SamplingParams(n=2, best_of=2)", id="best_of=n"),
    pytest.param("from vllm import LLM; llm = LLM('m')", "x = llm.llm_engine.get_model_config()", id="a chain"),
    pytest.param("", ENGINE.format("e.get_model_config()"), id="a method of an engine"),
    pytest.param(
        "from vllm.platforms.cpu import CpuPlatform as P",
        "x = P.validate_request('raw', 'p', 'done')",
        id="a method of a platform in V0's form",
    ),
]


@pytest.fixture(scope="module")
def planned_uses(
    child: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], set[str]]:
    """(file, line) -> the rules of what `plan` finds there; a file for each use."""
    pytest.importorskip("libcst")
    folder = tmp_path_factory.mktemp("uses")
    for use in USES:
        start, line = use.values
        (folder / f"{_file(str(use.id))}").write_text(f"{start}\n{line}\n")
    arguments = ["-m", "v1_migrate", "plan", ".", "--target", "0.32.0", "--format", "json"]
    found: dict[tuple[str, int], set[str]] = {}
    for finding in json.loads(child(arguments, cwd=folder, check=False).stdout)["findings"]:
        found.setdefault((Path(finding["path"]).name, finding["line"]), set()).add(finding["rule"])
    return found


def _file(text: str) -> str:
    return f"{''.join(c if c.isalnum() else '_' for c in text)}.py"


@pytest.mark.parametrize(("start", "line"), USES)
def test_a_use_has_the_plans_rule(
    vllm: Path,
    run: Callable[..., Any],
    planned_uses: dict[tuple[str, int], set[str]],
    request: pytest.FixtureRequest,
    start: str,
    line: str,
) -> None:
    use = str(request.node.callspec.id)
    said = [(s.line, s.rule) for s in run(f"{start}\n{line}\n") if s.line > 1]
    if "PagedAttention'" in line and not ADAPTERS and ("hasattr" in line or "None" in line):
        assert said == [] and "V1M010" in planned_uses[_file(use), 2]  # a question; without torch the answer is no
        return
    assert said, "nothing was said"
    assert [rule for at, rule in said if rule not in planned_uses[_file(use), at]] == []


@pytest.mark.parametrize("release", ["0.11.1", "0.16.0", "0.32.0"])
def test_a_warning_is_short_and_says_what_to_write(release: str) -> None:
    """The names of V0's CPU modules; the long advice is what `explain` prints."""
    table = Table(release)
    legacy = [found for name in NAMES if (found := table.find(name)) is not None]
    said = {x.dotted: f"{x.rule} {x.notice_with(STUB if x.fate == 'gone' else '')}" for x in legacy}
    long = {dotted: text for dotted, text in said.items() if len(text) > LIMIT}
    assert long == {}
    lost = [x.dotted for x in legacy if x.fate != "gone" and f"`{x.new}`" not in x.notice and "v1_cpu" not in x.notice]
    assert lost == []
    cut = [x for x in legacy if len(x.notice) < len(f"{x.headline} {x.advice}".rstrip())]
    assert len(cut) > 50 and all(x.notice.endswith(MORE) for x in cut)


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("Use b.", "Use b."),
        ("Gone in 0.11.0. It " + "x" * 230 + ". Use b instead.", f"Use b instead. {MORE}"),
        ("Build the list yourself; " + "y" * 200 + ".", f"Build the list yourself. {MORE}"),
        ("z" * 230 + ".", MORE),
    ],
    ids=["it fits", "an action before history", "a clause", "nothing fits"],
)
def test_the_short_form_keeps_the_action(advice: str, expected: str) -> None:
    assert brief("`a` is gone.", advice) == f"`a` is gone. {expected}"
