"""Fixtures of the legacy calls' tests."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from v1_compat.legacy import ADAPTERS


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: one thread is fastest, and leaves the machine to others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """What a test draws does not depend on the tests before it."""
    torch.manual_seed(0)


@pytest.fixture
def legacy_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The legacy dotted modules, each as its adapter, without an import hook and without vLLM."""
    for name, path in ADAPTERS.items():
        module = importlib.import_module(path)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        while parent:
            package = sys.modules.get(parent)
            if package is None:
                package = ModuleType(parent)
                package.__path__ = []
                monkeypatch.setitem(sys.modules, parent, package)
            monkeypatch.setattr(package, last, sys.modules[f"{parent}.{last}"], raising=False)
            parent, _, last = parent.rpartition(".")
