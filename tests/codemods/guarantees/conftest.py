"""Makes the judge importable as `guarantees`, as its own scripts do, and gives it two tiny releases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from guarantees import oracle  # noqa: E402
from guarantees.small_releases import write_releases  # noqa: E402


@pytest.fixture(scope="session")
def small_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_releases(tmp_path_factory.mktemp("releases"))


@pytest.fixture(scope="session")
def small_names(small_releases: Path) -> oracle.Names:
    return oracle.load(small_releases, "0.32.0")
