"""Fields of configurations that vLLM renamed or dropped, read and written under the names V0 had for them."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import v1_compat
from v1_compat.renamed import FIELDS, MEMBERS
from v1_migrate.names.curated import Curated
from v1_migrate.names.index import LAST_V0, Index

NEWEST = "0.32.0"
INITIAL = ("is_encoder_decoder", "max_model_len")  # given and not kept, which the index takes for fields


def lost() -> dict[str, set[str]]:
    """Configuration class of the newest release -> public members that an older one had."""
    index, found = Index.load(user=False), {}
    for dotted in {f"vllm.config.{name}" for r in index.releases for name in index.of(r).names("vllm.config") if name}:
        if index.resolve(dotted, NEWEST).found and index.fields(dotted, NEWEST):
            before = {name for release in index.releases for name in index.members(dotted, release)}
            went = {name for name in before - set(index.members(dotted, NEWEST)) if not name.startswith("_")}
            found.update({dotted.rpartition(".")[2]: went} if went else {})
    return found


def test_every_class_that_lost_something_is_listed_and_every_field_was_one() -> None:
    index, went = Index.load(user=False), lost()
    assert set(FIELDS) == set(went)
    for owner, fields in FIELDS.items():
        now = set(index.members(f"vllm.config.{owner}", NEWEST))
        for name, field in fields.items():
            of_another = field.old and index.known(f"{field.old}.{name}")
            assert name in went[owner] or of_another or name in INITIAL, (owner, name)
            assert not field.root or field.root in now, (owner, name)
            assert field.new or field.advice, (owner, name)


def test_everything_that_went_has_words_of_its_own() -> None:
    curated = Curated.load()
    without = [f"{owner}.{name}" for owner, names in lost().items() for name in names]
    assert len(without) > 100
    assert [n for n in without if not (entry := curated.entry(f"vllm.config.{n}")) or not entry.advice] == [
        "CompilationConfig.PassConfig"  # a class, which moved
    ]


def test_every_member_of_an_enumeration_is_named_with_its_successor() -> None:
    index = Index.load(user=False)
    for dotted, members in MEMBERS.items():
        assert set(members) == {m for m in index.members(dotted, LAST_V0) if m.isupper()}
        assert set(members.values()) <= set(index.members("vllm.config.CompilationMode", NEWEST))


SCRIPT = """
from vllm.config import VllmConfig, CompilationLevel
config = VllmConfig()
config.compilation_config.level = CompilationLevel.NO_COMPILATION
if getattr(config.cache_config, "cpu_kvcache_space_bytes", None) is None:
    config.cache_config.cpu_kvcache_space_bytes = 4 << 30
result = config.scheduler_config.chunked_prefill_enabled, config.scheduler_config.is_multi_step
config.parallel_config.sd_worker_cls = "mine.Worker"
""".lstrip()


@pytest.mark.usefixtures("vllm")
def test_a_platforms_settings_reach_vllms_fields(run: Callable[..., Any]) -> None:
    said = run(SCRIPT)
    config, found = run.globals["config"], run.globals  # type: ignore[attr-defined]
    assert config.compilation_config.mode is importlib.import_module("vllm.config").CompilationMode.NONE
    assert config.cache_config.kv_cache_memory_bytes == 4 << 30
    assert found["result"] == (True, False)
    assert config.parallel_config.sd_worker_cls == "mine.Worker"
    assert "sd_worker_cls" not in dataclasses.asdict(config.parallel_config), "it became a field of vLLM's"
    told = {(s.line, s.rule, s.text.split("`")[1].rpartition("vllm.config.")[2]) for s in said}
    assert told == {
        (1, "V1M003", "CompilationLevel"),
        (3, "V1M004", "CompilationLevel"),
        (3, "V1M102", "CompilationConfig.level"),
        (5, "V1M102", "CacheConfig.cpu_kvcache_space_bytes"),
        (6, "V1M102", "SchedulerConfig.chunked_prefill_enabled"),
        (6, "V1M102", "SchedulerConfig.is_multi_step"),
        (7, "V1M102", "ParallelConfig.sd_worker_cls"),
    }
    assert next(s.text for s in said if s.line == 3 and "NO_COMPILATION" in s.text).count("CompilationMode.NONE") == 1


VLLM = "from vllm.config import VllmConfig, CUDAGraphMode\nv = VllmConfig()\nc = v.compilation_config\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("found = v.decoding_config is v.structured_outputs_config", True, id="a part"),
        pytest.param(
            "v.decoding_config.reasoning_backend = 'r1'; found = v.decoding_config.reasoning_parser",
            "r1",
            id="a field of a part",
        ),
        pytest.param(
            "v.parallel_config.eplb_window_size = 7; found = v.parallel_config.eplb_config.window_size", 7, id="inside"
        ),
        pytest.param("found = v.cache_config.swap_space", 0, id="the one value"),
        pytest.param("found = c.use_cudagraph, c.full_cuda_graph", (False, False), id="before it is settled"),
        pytest.param(
            "c.use_cudagraph = True; found = c.cudagraph_mode.name, c.use_cudagraph", ("PIECEWISE", True), id="a switch"
        ),
        pytest.param(
            "c.full_cuda_graph = True; c.use_cudagraph = True; found = c.cudagraph_mode.name", "FULL", id="on, as it is"
        ),
        pytest.param(
            "c.full_cuda_graph = True; c.full_cuda_graph = False; found = c.cudagraph_mode.name", "PIECEWISE", id="less"
        ),
        pytest.param("c.use_cudagraph = False; found = c.cudagraph_mode", None, id="off, as it is"),
        pytest.param(
            "c.full_cuda_graph = True; c.use_cudagraph = False; found = c.cudagraph_mode.name", "NONE", id="off"
        ),
        pytest.param("c.use_inductor = False; found = c.backend, c.use_inductor", ("eager", False), id="a backend"),
        pytest.param("found = c.max_capture_size", 0, id="no graph"),
        pytest.param("c.max_capture_size = 4; found = c.max_cudagraph_capture_size", 4, id="the largest graph"),
        pytest.param(
            "p = c.pass_config; p.enable_fusion = True; found = p.fuse_norm_quant, p.fuse_act_quant",
            (True, True),
            id="two",
        ),
    ],
)
@pytest.mark.usefixtures("vllm")
def test_what_has_an_equal_is_served(run: Callable[..., Any], lines: str, expected: Any) -> None:
    said = run(f"{VLLM}{lines}\n")
    assert run.globals["found"] == expected  # type: ignore[attr-defined]
    assert {s.rule for s in said} == {"V1M102"} and {s.line for s in said} == {4}


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        pytest.param(
            "v.cache_config.cpu_offload_gb",
            r"`CacheConfig.cpu_offload_gb` is gone since vLLM 0.18.0. vllm_config.offload_config.uva",
            id="elsewhere",
        ),
        pytest.param("v.model_config.task", "since vLLM 0.13.0.*runner_type", id="no equal"),
        pytest.param("v.scheduler_config.max_model_len", "is gone. .*model_config.max_model_len", id="not kept"),
        pytest.param("v.scheduler_config.cuda_graph_sizes", "cudagraph_capture_sizes", id="a list"),
        pytest.param("v.model_config.verify_async_output_proc(1, 2, 3)", "drop the check", id="a method"),
    ],
)
@pytest.mark.usefixtures("vllm")
def test_what_has_none_is_an_attribute_error_with_advice(run: Callable[..., Any], expression: str, says: str) -> None:
    with pytest.raises(v1_compat.LegacyMemberError, match=f"{says}.*V1M102: v1-migrate explain vllm.config") as caught:
        run(f"{VLLM}{expression}\n")
    assert isinstance(caught.value, AttributeError)


@pytest.mark.parametrize(
    "lines",
    [
        "found = hasattr(v.model_config, 'task')",
        "found = getattr(v.model_config, 'task', False)",
        "name = 'ta' + 'sk'\nask = hasattr\nfound = ask(v.model_config, name)",
        "try:\n    found = v.cache_config.cpu_offload_gb\nexcept AttributeError:\n    found = False",
    ],
    ids=["hasattr", "a default", "hasattr by another name", "a handler"],
)
@pytest.mark.usefixtures("vllm")
def test_who_asks_for_what_has_none_finds_none(run: Callable[..., Any], lines: str) -> None:
    assert run(f"{VLLM}{lines}\n") == []
    assert run.globals["found"] is False  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["nonsense", "__nonsense__", "_task"])
@pytest.mark.usefixtures("vllm")
def test_what_no_release_had_is_pythons_own_error(run: Callable[..., Any], name: str) -> None:
    with pytest.raises(AttributeError, match=f"'ModelConfig' object has no attribute '{name}'") as caught:
        run(f"{VLLM}v.model_config.{name}\n")
    assert type(caught.value) is AttributeError


@pytest.mark.usefixtures("vllm")
def test_what_is_set_and_not_read_is_said(run: Callable[..., Any]) -> None:
    said = run(
        f"{VLLM}v.cache_config.cpu_offload_gb = 4\nv.cache_config.mine = 5\nfound = v.cache_config.cpu_offload_gb\n"
    )
    assert run.globals["found"] == 4  # type: ignore[attr-defined]
    assert [(s.line, s.rule) for s in said] == [(4, "V1M102")]
    assert "vLLM does not read what is set" in said[0].text


@pytest.mark.usefixtures("vllm")
def test_makers_are_the_constructor(run: Callable[..., Any]) -> None:
    lines = """from vllm.config import CompilationConfig as C, CUDAGraphMode
found = C.from_cli("0").mode, C.from_cli('{"level": 3, "backend": "eager"}')
ready = hasattr(C, "from_cli"), getattr(C, "from_cli", None)
"""
    said = run(lines)
    mode, made = run.globals["found"]  # type: ignore[attr-defined]
    assert (mode, made.mode, made.backend) == (0, 3, "eager")
    assert run.globals["ready"] == (False, None)  # type: ignore[attr-defined]
    assert [(s.line, s.rule) for s in said] == [(2, "V1M102"), (2, "V1M112")]
    assert "Write `CompilationConfig(**json.loads(text))`" in said[0].text
    v1_compat.uninstall()
    assert not hasattr(importlib.import_module("vllm.config").CompilationConfig, "from_cli")


def test_a_report_has_what_was_refused(vllm: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(v1_compat.LegacyMemberError):
        run(f"{VLLM}v.model_config.task\n", "report")
    assert '"vllm.config.ModelConfig.task"' in (tmp_path / "v1_compat_usage.jsonl").read_text()


CONFIG = "from vllm.config import CacheConfig, CompilationConfig, SchedulerConfig\nc, k = CompilationConfig(), CacheConfig()\n"


@pytest.mark.parametrize(
    "lines",
    [
        "found = hasattr(c, 'level') or hasattr(k, 'swap_space_bytes')",
        "found = getattr(c, 'level', False) or getattr(k, 'swap_space_bytes', False)",
        "try:\n    found = c.level\nexcept AttributeError:\n    found = False",
        "found = not [getattr(c, name) for name in dir(c) + dir(CompilationConfig)]",
        "import inspect; found = not inspect.getmembers(c) + inspect.getmembers(k) + inspect.getmembers(CompilationConfig)",
        "from unittest.mock import create_autospec; found = not create_autospec(c) or not create_autospec(CompilationConfig)",
        "found = 'level' in dir(c) + dir(CompilationConfig) + list(vars(CompilationConfig))",
        "import copy, pickle; found = pickle.loads(pickle.dumps(copy.deepcopy(c))) != c",
    ],
    ids=["hasattr", "a default", "a handler", "dir", "getmembers", "autospec", "names", "copies"],
)
@pytest.mark.usefixtures("vllm")
def test_who_does_not_need_them_never_meets_them(run: Callable[..., Any], lines: str) -> None:
    assert run(f"{CONFIG}{lines}\n") == []
    assert run.globals["found"] is False  # type: ignore[attr-defined]


@pytest.mark.usefixtures("vllm")
def test_warnings_are_of_the_release_that_took_the_field(run: Callable[..., Any]) -> None:
    said = run(f"{CONFIG}c.level, k.swap_space_bytes\n")
    assert [s.category.__name__ for s in said] == ["RemovedIn0_18_0Warning", "RemovedIn0_11_1Warning"]


def test_uninstall_takes_them_away(vllm: Path) -> None:
    module = importlib.import_module("vllm.config")
    names = [name for name in FIELDS if hasattr(module, name)]
    before = {name: dict(vars(getattr(module, name))) for name in names}
    v1_compat.install()
    config = module.CompilationConfig()
    config.level = 0
    assert config.mode == 0 and {name: dict(vars(getattr(module, name))) for name in names} != before
    v1_compat.uninstall()
    assert {name: dict(vars(getattr(module, name))) for name in names} == before
    config.level = 3
    assert config.mode == 0


def test_what_this_vllm_has_is_left_alone(vllm: Path) -> None:
    """A release between has both, or only the old one."""
    module = importlib.import_module("vllm.config")
    module.CompilationConfig = dataclasses.make_dataclass("CompilationConfig", [("level", int, 1), ("mode", int, 2)])
    module.CompilationConfig.__module__ = "vllm.config"
    v1_compat.install()
    assert module.CompilationConfig().level == 1
