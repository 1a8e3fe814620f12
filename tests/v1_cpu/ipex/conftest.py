"""The IPEX kernel for the tests: over IPEX itself where it is installed and usable, and over the stand-in everywhere."""

# ruff: noqa: E402

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from ipex_cases import Watch

from v1_cpu import select
from v1_cpu.kernels import ipex_kernel
from v1_cpu.kernels.ipex_kernel import _IPEXPagedAttention


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ipex: needs intel-extension-for-pytorch 2.8 beside torch 2.8 (make test-ipex)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("ipex")]
    reason = select.unavailable("ipex") if marked else None
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=f"make test-ipex runs it: {reason}"))


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """`kernel="ipex"` over the stand-in."""
    from standin import PagedAttention

    monkeypatch.setattr(ipex_kernel, "load", lambda: PagedAttention)
    caches = (select.get_kernel, select.unavailable, select.serving)
    for cache in caches:
        cache.cache_clear()
    kernel = select.get_kernel("ipex")
    assert isinstance(kernel, _IPEXPagedAttention)
    yield Watch(kernel, monkeypatch)
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """`kernel="ipex"` over IPEX."""
    kernel = select.get_kernel("ipex")
    assert isinstance(kernel, _IPEXPagedAttention)
    return Watch(kernel, monkeypatch)
