"""The table of v1_cpu's members is what v1_cpu has; skipped where torch is not installed."""

from __future__ import annotations

import dataclasses
import json
import operator
from importlib import resources

import pytest
from v1_migrate.names.backend import backend_has
from v1_migrate.names.curated import Curated

TABLE = json.loads((resources.files("v1_migrate.names") / "data" / "v1_cpu.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(set(TABLE) - {"PagedAttention", "_IPEXPagedAttention"}))
def test_members(name: str) -> None:
    pytest.importorskip("torch", reason="v1_cpu needs torch")
    import v1_cpu.mla

    found = operator.attrgetter(name)(v1_cpu)
    members = {member for member in dir(found) if not member.startswith("_")}
    if dataclasses.is_dataclass(found):
        members |= {field.name for field in dataclasses.fields(found)}
    assert TABLE[name] == sorted(members)


def test_every_destination_in_v1_cpu_is_offered_there() -> None:
    pytest.importorskip("torch", reason="v1_cpu needs torch")
    import v1_cpu.mla

    destinations = {entry.v1_cpu for entry in Curated.load().entries() if entry.v1_cpu}
    offered = {f"v1_cpu.{name}" for name in (*v1_cpu.__all__, *v1_cpu._KERNELS)}
    offered |= {f"v1_cpu.mla.{name}" for name in v1_cpu.mla.__all__}
    assert destinations
    assert {name for name in destinations if not backend_has(name)} <= offered


def test_a_member_that_is_not_there_is_not_claimed() -> None:
    assert backend_has("v1_cpu.TorchSDPABackend.get_metadata_cls")
    assert not backend_has("v1_cpu.TorchSDPABackend.make_metadata")
    assert backend_has("v1_cpu.mla.CPUMLABackend.swap_blocks")
    assert not backend_has("v1_cpu.mla.CPUMLABackend.get_state_cls")
    assert not backend_has("v1_cpu.mla.CPUMLABackend")
