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
from v1_migrate.names.index import LAST_V0, Index

NEWEST = "0.32.0"


def test_every_field_was_one_and_every_successor_is_one() -> None:
    index = Index.load(user=False)
    for owner, fields in FIELDS.items():
        before, now = (set(index.members(f"vllm.config.{owner}", release)) for release in (LAST_V0, NEWEST))
        for name, field in fields.items():
            assert name in before and name not in now, (owner, name)
            assert field.new in now if field.new else field.advice, (owner, name)


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
    assert dataclasses.asdict(config.parallel_config) == {"worker_cls": "auto"}, "it became a field of vLLM's"
    told = {(s.line, s.rule, s.text.split("`")[1].rpartition("vllm.config.")[2]) for s in said}
    assert told == {
        (1, "V1M003", "CompilationLevel"),
        (3, "V1M004", "CompilationLevel"),
        (3, "V1M001", "CompilationConfig.level"),
        (5, "V1M001", "CacheConfig.cpu_kvcache_space_bytes"),
        (6, "V1M001", "SchedulerConfig.chunked_prefill_enabled"),
        (6, "V1M004", "SchedulerConfig.is_multi_step"),
        (7, "V1M004", "ParallelConfig.sd_worker_cls"),
    }
    assert next(s.text for s in said if s.line == 3 and "NO_COMPILATION" in s.text).count("CompilationMode.NONE") == 1


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
    before = {name: dict(vars(getattr(module, name))) for name in FIELDS}
    v1_compat.install()
    config = module.CompilationConfig()
    config.level = 0
    assert config.mode == 0 and {name: dict(vars(getattr(module, name))) for name in FIELDS} != before
    v1_compat.uninstall()
    assert {name: dict(vars(getattr(module, name))) for name in FIELDS} == before
    config.level = 3
    assert config.mode == 0


def test_what_this_vllm_has_is_left_alone(vllm: Path) -> None:
    """A release between has both, or only the old one."""
    module = importlib.import_module("vllm.config")
    module.CompilationConfig = dataclasses.make_dataclass("CompilationConfig", [("level", int, 1), ("mode", int, 2)])
    module.CompilationConfig.__module__ = "vllm.config"
    v1_compat.install()
    assert module.CompilationConfig().level == 1
