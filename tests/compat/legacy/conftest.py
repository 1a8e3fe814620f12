"""Fixtures of the legacy calls' tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # v0_batches.py: test material, not a package


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: one thread is fastest, and leaves the machine to others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
