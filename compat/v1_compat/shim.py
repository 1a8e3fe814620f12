"""Installing and uninstalling: the one place that changes the process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from . import report
from .finder import ORIGIN, ROOT, Finder, loaded
from .mode import VARIABLE, Mode
from .notices import Notices

if TYPE_CHECKING:
    from .serve import Server
    from .switch import Switch


class Shim:
    """The shim of this process, from `start` to `stop`."""

    def __init__(self, mode: Mode) -> None:
        self.notices = Notices(mode)
        self.finder = Finder(self._prepare, self._loaded)
        self._server: Server | None = None
        self._out_of_the_way = False
        self._switch: Switch | None = None
        self._undo: list[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._environment: dict[str, str | None] = {}

    @property
    def mode(self) -> Mode:
        return self.notices.mode

    def start(self) -> None:
        """Take the first place on sys.meta_path, and hook what is loaded already."""
        self._set(VARIABLE, str(self.mode))
        if self.mode is Mode.REPORT:
            self._set(report.VARIABLE, report.destination())
        os.register_at_fork(after_in_child=self.notices.forked)
        sys.meta_path.insert(0, self.finder)
        if loaded():
            from .modules import living

            server = self._prepare(sys.modules[ROOT].__spec__)
            if server is not None:
                for module in living():
                    self._loaded(module)

    def stop(self) -> None:
        """Put everything back: finder, hooks, stand-ins, patches through old names, environment."""
        patches = sys.modules.get(f"{__package__}.patches")
        if patches is not None:
            patches.end_all()
        if self.finder in sys.meta_path:
            sys.meta_path.remove(self.finder)
        while self._undo:
            self._undo.pop()()
        for name, module in list(sys.modules.items()):
            if name == ROOT or name.startswith(f"{ROOT}."):
                self._remove(name, module)
        if self._switch is not None:
            self._switch.restore()
        for variable, value in self._environment.items():
            if value is None:
                os.environ.pop(variable, None)
            else:
                os.environ[variable] = value
        self.notices.mode = Mode.OFF  # for stand-ins that somebody kept

    def server(self) -> Server | None:
        """Who serves names; made when it is first needed."""
        if self._server is None and not self._out_of_the_way:
            self._prepare(self._real_root())
        return self._server

    def _prepare(self, root: ModuleSpec | None) -> Server | None:
        """The server for the vllm of this spec. None as a spec: as it was found before."""
        with self._lock:
            if self._server is not None or self._out_of_the_way:
                return self._server
            from .installed import describe
            from .serve import Server
            from .switch import Switch
            from .table import Table, newest

            if root is None and ROOT in sys.modules:
                root = sys.modules[ROOT].__spec__
            vllm = describe(root) if root is not None else None
            if vllm is not None and vllm.has_v0:
                self._out_of_the_way = True
                return None
            table = Table(lambda: vllm.release if vllm is not None else newest())
            self._server = Server(table, vllm, self.notices)
            if vllm is not None:
                self._switch = Switch()
                self._switch.neutralise(lambda: table.has("vllm.envs.VLLM_USE_V1"), self._say_switch)
            return self._server

    def _say_switch(self, rule: str, text: str) -> None:
        assert self._server is not None
        self._server.say(rule, "VLLM_USE_V1", text, "0.11.1")

    def _real_root(self) -> ModuleSpec | None:
        if loaded():
            return sys.modules[ROOT].__spec__
        return self.finder.real(ROOT)

    def _loaded(self, module: ModuleType) -> None:
        """A real module of vllm is there."""
        if self._server is None:
            return
        from .modules import hook

        undo = hook(module, self._server)
        if undo is not None:
            self._undo.append(undo)

    def _remove(self, name: str, module: ModuleType) -> None:
        spec = getattr(module, "__spec__", None)
        if spec is None or spec.origin != ORIGIN:
            return
        del sys.modules[name]
        parent, _, last = name.rpartition(".")
        if sys.modules.get(parent) is not None and sys.modules[parent].__dict__.get(last) is module:
            delattr(sys.modules[parent], last)

    def _set(self, variable: str, value: str) -> None:
        """Set an environment variable, for child processes."""
        self._environment[variable] = os.environ.get(variable)
        os.environ[variable] = value
