"""The option `--backend`. It exists only in a run of this suite, so that it cannot collide with anybody else's."""

from __future__ import annotations

import pytest

DEFAULT = "v1_compat.legacy.torch_sdpa:TorchSDPABackend"


_HERE = pytest.StashKey[bool]()  # the run has our option


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    config = pluginmanager.get_plugin("pytestconfig")
    assert isinstance(config, pytest.Config)
    arguments = [str(argument).partition("::")[0] for argument in config.invocation_params.args]
    if any(a.startswith("v1_compat.suite") and a != __name__ for a in arguments):
        config.stash[_HERE] = True
        parser.getgroup("v1_compat").addoption(
            "--backend",
            default=DEFAULT,
            metavar="MODULE:CLASS",
            help=f"attention backend class to hold to the suite (default: {DEFAULT})",
        )


def pytest_configure(config: pytest.Config) -> None:
    """A backend that cannot be tested is one error, before anything is collected."""
    if config.stash.get(_HERE, False):
        from v1_compat.suite.driver import BackendError, load_backend

        try:
            load_backend(config.getoption("--backend"))
        except BackendError as error:
            raise pytest.UsageError(str(error)) from None
