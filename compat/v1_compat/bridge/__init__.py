"""Names of V0 for code that serves both engines: `from v1_compat.bridge.worker.cpu_worker import CPUWorker`.

`v1_compat.bridge.X` is `vllm.X` where the installed vLLM has it, and what the shim serves for it elsewhere. It needs no
`install()`, changes nothing outside of itself, and warns of nothing: it is written on purpose, by
`v1-migrate rewrite --bridge`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import current
from ..mode import Mode

if TYPE_CHECKING:
    from ..serve import Server
    from ..shim import Shim

_PREFIX = f"{__name__}."
_lock = threading.Lock()
_quiet: Shim | None = None


class _Bridge(ModuleType):
    """A module of vLLM, in whatever release."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _take(_legacy(self.__name__), name)


class _Finder(MetaPathFinder, Loader):
    """Finds what lies below this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX) or not _exists(_legacy(fullname)):
            return None
        return ModuleSpec(fullname, self, origin="v1_compat.bridge", is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Bridge(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _take("vllm", name)


def _legacy(fullname: str) -> str:
    return "vllm" + fullname.removeprefix(__name__)


def _server() -> Server | None:
    """The shim's server; one of our own while it is not installed; None before a vLLM that has V0."""
    global _quiet
    installed = current()
    if installed is not None:
        return installed.server()
    with _lock:
        if _quiet is None:
            from ..shim import Shim

            _quiet = Shim(Mode.OFF)
        return _quiet.server()


def _exists(module: str) -> bool:
    server = _server()
    if server is not None and server.stands_in(module):
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _take(module: str, name: str) -> Any:
    server = _server()
    if server is None or not server.stands_in(module):
        try:
            real = importlib.import_module(module)
            if name in vars(real) or server is None or server.find(module, name) is None:
                return getattr(real, name)
        except ModuleNotFoundError as error:
            if server is None or error.name != module:
                raise
    served = server.find(module, name) if server is not None else None
    if served is None:
        raise AttributeError(f"vLLM never had {module}.{name}")
    return served.object


sys.meta_path.append(_Finder())
