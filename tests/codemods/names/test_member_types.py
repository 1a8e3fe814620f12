"""The types that vLLM writes down of its members and functions."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest
from v1_migrate.names.index import Index
from v1_migrate.names.member_types import Typed, subclasses, type_of
from v1_migrate.names.types_source import Chain, module_types

SOURCE = """
from typing import Annotated, Any, Optional
from contextlib import asynccontextmanager
from vllm.config import Made, ModelConfig, VllmConfig

class Base:
    plain: ModelConfig
    optional: Optional["ModelConfig"] = None
    newer: ModelConfig | None = None
    several: ModelConfig | dict
    many: list[ModelConfig]
    by_key: "dict[str, ModelConfig]"
    wrapped: Annotated[ModelConfig, 1]
    number: int

    def __init__(self, config: VllmConfig, other: VllmConfig, Made):
        other = load()
        self.config = config
        self.model = config.model_config
        self.again = self.config.model_config
        self.made = VllmConfig()
        self.from_args = VllmConfig.from_args()
        self.unknown = other.model_config
        self.local = Made()
        self.said: ModelConfig = load()
        self.nothing = None

    @property
    def prop(self) -> ModelConfig: ...
    def result(self) -> ModelConfig: ...
    async def awaited(self) -> ModelConfig: ...
    async def each(self) -> "AsyncIterator[ModelConfig]":
        yield load()

@asynccontextmanager
async def context() -> "AsyncIterator[VllmConfig]": yield
"""
MODEL, CONFIG = "vllm.config.ModelConfig", "vllm.config.VllmConfig"
DECLARED = {
    "Base.plain": (":", (MODEL,)),
    "Base.optional": (":", (MODEL, "None")),
    "Base.newer": (":", (MODEL, "None")),
    "Base.several": (":", (MODEL, "")),
    "Base.many": (":", ("[]" + MODEL,)),
    "Base.by_key": (":", ("{}" + MODEL,)),
    "Base.wrapped": (":", (MODEL,)),
    "Base.said": (":", (MODEL,)),
    "Base.prop": (":", (MODEL,)),
    "Base.result": ("(", (MODEL,)),
    "Base.awaited": ("~", (MODEL,)),
    "Base.each": ("(", ("[]" + MODEL,)),
    "context": ("@", ("[]" + CONFIG,)),
}
ASSIGNED = {
    "Base.config": [Chain((CONFIG,), ())],
    "Base.model": [Chain((CONFIG,), ("model_config",))],
    "Base.again": [Chain(("vllm.m.Base",), ("config", "model_config"))],
    "Base.made": [Chain((CONFIG,), ())],
    "Base.from_args": [Chain((CONFIG,), ())],
    "Base.unknown": [None],
    "Base.local": [None],
}


def test_what_a_module_writes_down() -> None:
    found = module_types(ast.parse(SOURCE), "vllm.m", False)
    assert found.declared == DECLARED
    assert found.assigned == ASSIGNED


FACTS = [
    ("vllm.config.VllmConfig.model_config", "0.32.0", Typed("attribute", ("vllm.config.model.ModelConfig",))),
    ("vllm.config.VllmConfig.model_config", "0.9.2", Typed("attribute", ("vllm.config.ModelConfig",))),
    ("vllm.v1.worker.cpu_worker.CPUWorker.model_config", "0.32.0", Typed("attribute", ("vllm.config.model.ModelConfig",))),
    ("vllm.forward_context.get_forward_context", "0.32.0", Typed("result", ("vllm.forward_context.ForwardContext",))),
    ("vllm.LLM.llm_engine", "0.32.0", Typed("attribute", ("vllm.v1.engine.llm_engine.LLMEngine",))),
    ("vllm.LLM.generate", "0.9.2", Typed("result", ("vllm.outputs.RequestOutput",), "elements")),
    ("vllm.v1.core.sched.output.SchedulerOutput.scheduled_cached_reqs", "0.9.1", Typed("attribute", ("vllm.v1.core.sched.output.CachedRequestData",), "elements")),
    ("vllm.v1.core.sched.output.SchedulerOutput.scheduled_cached_reqs", "0.9.2", Typed("attribute", ("vllm.v1.core.sched.output.CachedRequestData",))),
    ("vllm.config.VllmConfig.lora_config", "0.32.0", Typed("attribute", ("vllm.config.lora.LoRAConfig",), optional=True)),
    ("vllm.config.VllmConfig.instance_id", "0.32.0", None),
    ("vllm.config.VllmConfig.nothing", "0.32.0", None),
]  # fmt: skip


@pytest.mark.parametrize(("dotted", "release", "typed"), FACTS, ids=[f"{d} of {r}" for d, r, _ in FACTS])
def test_facts_of_released_trees(dotted: str, release: str, typed: Typed | None) -> None:
    assert type_of(Index.load(user=False), dotted, release) == typed


def test_what_derives_from_a_class() -> None:
    below = subclasses(Index.load(user=False), "vllm.engine.protocol.EngineClient", "0.32.0")
    assert below == ("vllm.v1.engine.async_llm.AsyncLLM",)


def test_every_release_without_a_rebuild_is_there() -> None:
    from v1_migrate.names.member_types import TYPES_FILE
    from v1_migrate.names.store import Store

    shipped = {release for release in Index.load(user=False).releases if ".post" not in release}
    assert set(Store(TYPES_FILE).releases) == shipped


@pytest.mark.wheels
def test_one_release_read_anew_agrees_with_the_shipped_types(tmp_path: Path) -> None:
    from v1_migrate.names.build import wheels_in
    from v1_migrate.names.member_types import TYPES_FILE
    from v1_migrate.names.store import Store
    from v1_migrate.names.types_build import build

    folder = os.environ.get("V1_MIGRATE_WHEELS")
    if not folder:
        pytest.skip("set V1_MIGRATE_WHEELS to the folder that holds the wheels")
    build({"0.9.2": wheels_in(folder)["0.9.2"]}, tmp_path / "one.names")
    anew, shipped = Store(tmp_path / "one.names"), Store(TYPES_FILE)
    bit = 1 << shipped.releases.index("0.9.2")

    def records(store: Store, bit: int) -> set[tuple[str, str, str | None]]:
        modules = (module for module in store.modules() if store.mask(module) & bit)
        names = (
            (m, f"{s}.{n}" if s else n)
            for m in modules
            for s in store.block(m).scopes()
            for n in store.block(m).names(s, bit)
        )
        return {(module, name, store.block(module).record(name, bit)) for module, name in names}

    assert records(anew, 1) == records(shipped, bit)
