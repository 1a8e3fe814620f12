"""The meta path finder: real modules first, then stand-ins for the modules of older releases."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder

    from .serve import Server
else:  # importing them would cost every process of V1_COMPAT a tenth of a second
    MetaPathFinder = Loader = object

ROOT = "vllm"
ORIGIN = "v1_compat"


class Finder(MetaPathFinder):
    """Stands first, and answers for vllm and what is below it only."""

    def __init__(
        self, prepare: Callable[[ModuleSpec | None], Server | None], loaded: Callable[[ModuleType], None]
    ) -> None:
        """`prepare` is told of the real vllm (or that there is none) and gives the server, None to stay out of the way;
        `loaded` is told of each real module when it is there."""
        self._prepare, self._loaded = prepare, loaded
        self._busy = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != ROOT and not fullname.startswith("vllm."):
            return None
        asked: set[str] = self._busy.__dict__.setdefault("names", set())
        if fullname in asked:  # another finder of this kind asks everybody, as this one does
            return None
        asked.add(fullname)
        try:
            spec = None if _is_ours(fullname) else self.real(fullname, path, target)
        finally:
            asked.discard(fullname)
        server = self._prepare(spec) if fullname == ROOT else self._prepare(None)
        if server is None:
            return spec
        if spec is not None:
            return _watched(spec, self._loaded)
        return self._legacy(fullname, server)

    def real(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders say."""
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec: ModuleSpec | None = find(fullname, path, target)
                if spec is not None:
                    return spec
        return None

    def _legacy(self, fullname: str, server: Server) -> ModuleSpec | None:
        """A stand-in, if an older release has the module and whoever asks is served by one."""
        from .place import imported_by_vllm, request_for

        if imported_by_vllm(server.folder):
            return None
        request = request_for(fullname, server.folder)
        if request.probing or (request.by_vllm and request.statement) or (request.guarded and not request.by_us):
            return None
        if not server.stands_in(fullname):  # last: it reads the index
            if text := server.table.older_than_all(fullname):
                raise ModuleNotFoundError(text, name=fullname)
            return None
        if fullname == ROOT and request.last and not any(server.stands_in(f"{ROOT}.{name}") for name in request.names):
            return None  # whether vLLM is there is asked, or it is wanted itself
        package = server.is_package(fullname)
        named = request.last and not request.names and (request.statement or not package)  # resolvers go step by step
        if named and not request.by_us:
            server.say_module(fullname)
        return ModuleSpec(fullname, _StandIn(server), origin=ORIGIN, is_package=package)


class _StandIn(Loader):
    """Loads a module whose names are served."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from .modules import make_legacy

        make_legacy(module, self._server)


class _Watch(Loader):
    """Loads a real module by its own loader, and tells when it is there. Nothing of it is left in the module."""

    def __init__(self, loader: Any, spec: ModuleSpec, loaded: Callable[[ModuleType], None]) -> None:
        self._loader, self._spec, self._tell = loader, spec, loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._tell(sys.modules.get(module.__name__, module))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _watched(spec: ModuleSpec, loaded: Callable[[ModuleType], None]) -> ModuleSpec:
    if spec.loader is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = _Watch(spec.loader, spec, loaded)
    return spec


def _is_ours(fullname: str) -> bool:
    """The parent is a stand-in: there is nothing real below it."""
    spec = getattr(sys.modules.get(fullname.rpartition(".")[0]), "__spec__", None)
    return spec is not None and spec.origin == ORIGIN


def loaded() -> bool:
    """The real vllm has been imported."""
    spec = getattr(sys.modules.get(ROOT), "__spec__", None)
    return spec is not None and spec.origin != ORIGIN
