"""Fixtures of the backend's tests: each test that takes `kernel` runs once for every kernel that can be loaded here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # reference.py and batches.py: test material, not a package

from v1_cpu import select


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore:v1_cpu. no native kernel:RuntimeWarning")


def loadable() -> list[str]:
    """The kernels to test; ipex has a layout and limits of its own and tests of its own."""
    return [name for name in ("torch", "native") if select.unavailable(name) is None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernel" in metafunc.fixturenames:
        metafunc.parametrize("kernel", loadable())


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: one thread is fastest, and leaves the machine to others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
