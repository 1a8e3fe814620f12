"""The fixture `driver`: the backend under test, behind one way of calling it."""

from __future__ import annotations

import pytest

from v1_compat.suite.driver import Driver, driver_for, load_backend
from v1_compat.suite.options import DEFAULT


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Driver:
    return driver_for(load_backend(request.config.getoption("--backend", default=DEFAULT)))


def pytest_report_header(config: pytest.Config) -> str:
    return f"v1_compat.suite: backend {config.getoption('--backend', default=DEFAULT)}"
