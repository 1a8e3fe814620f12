"""`pytest -p v1_compat.pytest_plugin`: run a test suite with the shim, and list the legacy names it used.

The mode is V1_COMPAT's, else --v1-compat, else warn.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import v1_compat

from .mode import Mode, parse

if TYPE_CHECKING:
    import pytest

_SHOWN = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("v1_compat")
    group.addoption("--v1-compat", metavar="MODE", default=None, help=f"{'|'.join(Mode)}: what legacy vLLM names do.")


def pytest_load_initial_conftests(early_config: Any) -> None:
    """Before the first conftest is imported."""
    _start(getattr(early_config.known_args_namespace, "v1_compat", None))


def pytest_configure(config: pytest.Config) -> None:
    """Where there was no earlier moment: a plugin named in a conftest or in PYTEST_PLUGINS."""
    _start(config.getoption("--v1-compat", None))


def pytest_unconfigure() -> None:
    v1_compat.uninstall()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The names, the most used first."""
    shim = v1_compat.current()
    uses: Counter[tuple[str, str]] = Counter()
    for (rule, name, _, _), count in shim.notices.counts().items() if shim is not None else ():
        uses[rule, name] += count
    if not uses:
        return
    terminalreporter.section("legacy vLLM names (v1_compat)")
    for (rule, name), count in uses.most_common(_SHOWN):
        terminalreporter.write_line(f"{count:>6}  {rule}  {name}")
    if len(uses) > _SHOWN:
        terminalreporter.write_line(f"        and {len(uses) - _SHOWN} more")
    terminalreporter.write_line("v1-migrate rewrite PATH moves them; v1-migrate explain NAME says how")


def _start(option: str | None) -> None:
    import pytest

    try:
        v1_compat.install(parse(option, "--v1-compat") if option else None)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
