"""What is handed out for a legacy name: an adapter, the same object under its new path, a face, or a stub."""

from __future__ import annotations

import importlib
import inspect
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import EnumMeta
from functools import cached_property
from types import ModuleType
from typing import Any, Literal

from . import faces, stubs, switch, workers
from .installed import Vllm
from .mode import Mode
from .notices import LegacyMemberError, Notices
from .place import Place, asked_for_a_list, by_us, imports, tested_by_name, unwanted, user_place
from .table import RULES, Legacy, Table

# V0's CPU code, as far as its modules live on: what they lost is served without vLLM, too.
CPU_MODULES = (
    "vllm.attention.layer",
    "vllm.envs",
    "vllm.platforms.cpu",
    "vllm.platforms.interface",
    "vllm._custom_ops",
)
SWITCH = "V1M201"  # of the switch itself, however it is read
PROBED = "V1M010"  # the plan's, where the presence of a name is tested
How = Literal["adapter", "same", "face", "value", "outside", "stub"]


@dataclass(frozen=True, slots=True)
class Served:
    """An object, and what to say whenever it is taken."""

    value: Any
    how: How
    rule: str
    text: str
    since: str

    @property
    def object(self) -> Any:
        """The value; that of a variable is read anew each time."""
        return self.value.value if isinstance(self.value, switch.Variable) else self.value


class NotServed(AttributeError):
    """No older release has the name, or this one has it still."""


class Server:
    """Answers for names of legacy modules, and for names that living modules lost."""

    def __init__(self, table: Table, vllm: Vllm | None, notices: Notices) -> None:
        self.table, self.vllm, self.notices = table, vllm, notices
        self.folder = vllm.folder if vllm is not None else ""
        self.adapters = adapters()
        if self.adapters:
            self._speak_for_adapters()
        self._served: dict[tuple[str, str], Served | None] = {}
        self._stars: set[tuple[str, Place]] = set()
        self._lock = threading.Lock()

    def take(self, module: str, name: str) -> Any:
        """The object of a legacy name, with its notice. Raises NotServed."""
        dotted = f"{module}.{name}"
        if not name.startswith("__") and self.stands_in(dotted):
            if asked_for_a_list() or (unwanted(name) and not by_us()):
                raise NotServed(f"module {module!r} has no attribute {name!r}: it is a module, to be imported")
            return importlib.import_module(dotted)
        served, ours = self.find(module, name), by_us()
        if served is None and not ours:
            self._refuse_older(dotted, module)
        if served is None or not (ours or self._wanted(module, name, served.how)):
            raise NotServed(f"module {module!r} has no attribute {name!r}")
        place = user_place(self.folder)
        rule = PROBED if served.rule != SWITCH and tested_by_name(name) else served.rule
        if not ours and (module, place) not in self._stars and not asked_for_a_list():
            self.notices.say(rule, dotted, served.text, served.since, place)
        return served.object

    def _refuse_older(self, dotted: str, module: str) -> None:
        """An error with advice, for a name that is older than all that is served."""
        text = self.table.older_than_all(dotted)
        if text and imports():  # of an AttributeError there, Python would give its own words
            raise ImportError(text, name=module)
        if text:
            raise LegacyMemberError(text)

    def find(self, module: str, name: str) -> Served | None:
        """What a legacy name is served as; None if it is not one. Remembered: a name is one object."""
        key = (module, name)
        if key not in self._served:
            found = self._find(module, name)  # without a lock: it may import, and imports have locks of their own
            with self._lock:
                return self._served.setdefault(key, found)
        return self._served[key]

    def say(self, rule: str, name: str, text: str, since: str, use: str = "") -> None:
        """A notice at the user's line; `since` is the table's, if whoever says it does not know."""
        legacy = None if since or self.notices.mode is Mode.OFF else self.table.find(name)
        since = legacy.since if legacy is not None else since
        self.notices.say(rule, name, text, since, user_place(self.folder), use)

    def _speak_for_adapters(self) -> None:
        """What an adapter has to say goes the way of all notices. Adapters take `say` when they are imported."""
        notice: Any = importlib.import_module("v1_compat.legacy.notice")
        plain, names = notice.say, {ours: legacy for legacy, ours in self.adapters.items()}

        def say(rule_id: str, text: str, stacklevel: int = 1) -> None:
            if self.notices.mode is Mode.OFF:
                plain(rule_id, text, stacklevel + 1)
                return
            caller = sys._getframe(1).f_globals.get("__name__", "")
            self.say(rule_id, names.get(caller, caller), text, "")

        notice.say = say

    def stands_in(self, module: str) -> bool:
        """A module that vLLM, or the lack of it, leaves to be stood in for."""
        if self.vllm is not None:
            return self.table.lost_module(module)
        return module in self._without_vllm or self.table.lost_module(module)

    @cached_property
    def _without_vllm(self) -> frozenset[str]:
        """Living modules of which something is served although vLLM is not there, and their parents."""
        modules = {*self.adapters, *CPU_MODULES}
        parents = {".".join(m.split(".")[:i]) for m in modules for i in range(1, m.count(".") + 1)}
        return frozenset(modules | parents | {"vllm"})

    def is_package(self, module: str) -> bool:
        return self.table.is_package(module)

    def say_module(self, module: str) -> None:
        """A notice about a module that is imported as such."""
        legacy = self.table.find(module)
        if legacy is not None:
            self.say(legacy.rule, module, legacy.notice, legacy.since)

    def home(self, module: str, name: str) -> ModuleType | None:
        """vLLM's module that has the same object as a legacy name at its top."""
        served, legacy = self.find(module, name), self.table.find(f"{module}.{name}")
        if served is None or legacy is None or served.how != "same":
            return None
        return sys.modules.get(legacy.new.rpartition(".")[0])

    def say_star(self, module: str) -> None:
        """`from module import *`: one notice speaks for all the names."""
        self.say_module(module)
        self._stars.add((module, user_place(self.folder)))

    def _find(self, module: str, name: str) -> Served | None:
        if name.startswith("__"):
            return None
        dotted = f"{module}.{name}"
        legacy = self.table.find(dotted)
        adapted, cause = self._adapter(module, name)
        if adapted is not None:
            rule, since = (legacy.rule, legacy.since) if legacy else ("V1M003", "")
            ours = "v1_compat's stands in."
            text = legacy.notice_with(ours) if legacy else f"`{dotted}` does not work in this vLLM. {ours}"
            return Served(adapted[0], "adapter", rule, text, since)
        known = legacy is not None or module in self._without_vllm
        if self.vllm is None and known and self.table.has(dotted):
            legacy = self.table.own(dotted)
        if legacy is None:
            return None
        if module == switch.MODULE and (read := self._environment(legacy, name)) is not None:
            return read
        if legacy.fate == "gone" and legacy.new:
            outside, cause = _object(legacy.new)
            if cause is None:
                return Served(outside, "outside", legacy.rule, legacy.headline + f" Use {legacy.new}.", legacy.since)
        if legacy.fate != "gone" and self.vllm is not None:
            value, cause = _object(legacy.new)
            if cause is None:
                return self._living(legacy, value)
        return self._stub(legacy, cause)

    def _living(self, legacy: Legacy, value: Any) -> Served:
        """vLLM's own object, or a face of it."""
        if legacy.fate == "moved":
            return Served(value, "same", legacy.rule, legacy.notice, legacy.since)
        if inspect.isclass(value) and issubclass(value, BaseException):  # `except` takes none but the class itself
            return Served(value, "same", legacy.rule, legacy.notice, legacy.since)
        how: How = "face"
        if inspect.isclass(value) and legacy.what in ("class", "value"):
            members, mixin = self.table.members(legacy), workers.MIXINS.get(legacy.dotted)
            say = self._sayer(legacy, RULES["gone"] if isinstance(value, EnumMeta) else legacy.rule)  # of a member
            value = faces.class_face(legacy, value, members, self._params_of(legacy), say, mixin)
        elif inspect.isfunction(value) and legacy.what == "function":
            value = faces.function_face(legacy, value)
        elif legacy.what in ("class", "function"):
            return self._stub(legacy, None)  # it became another kind of thing
        return Served(value, how, legacy.rule, legacy.notice, legacy.since)

    def _stub(self, legacy: Legacy, cause: BaseException | None) -> Served:
        members = self.table.members(legacy) if legacy.what == "class" else ()
        bases = stubs.exceptions_among(self.table.outside_bases(legacy)) if legacy.what == "class" else ()
        value = stubs.stub(legacy, members, bases, self._sayer(legacy, legacy.rule), cause)
        text = legacy.notice_with("A stub stands in, and raises when used.")
        if stubs.lacks_torch(cause):
            text = f"{stubs.NO_TORCH} {legacy.headline}"
        return Served(value, "stub", legacy.rule, text, legacy.since)

    def _environment(self, legacy: Legacy, name: str) -> Served | None:
        """A variable that vllm.envs lost, or the function that set one; None for other names."""
        if name == "set_vllm_use_v1":

            def set_vllm_use_v1(use_v1: bool) -> None:
                switch.set_vllm_use_v1(use_v1, lambda rule, text: self.say(rule, legacy.dotted, text, legacy.since))

            return Served(set_vllm_use_v1, "value", legacy.rule, legacy.notice, legacy.since)
        rule = SWITCH if name == switch.VARIABLE else legacy.rule
        variable = switch.variable(name)
        if variable is None:
            return None
        return Served(variable, "value", rule, switch.notice(name, legacy), legacy.since)

    def _adapter(self, module: str, name: str) -> tuple[tuple[Any] | None, BaseException | None]:
        place = self.adapters.get(module)
        if place is None:  # perhaps imported there from where it is adapted
            home, _, own = self.table.origin(f"{module}.{name}").rpartition(".")
            return self._adapter(home, own) if home in self.adapters else (None, None)
        try:
            ours = importlib.import_module(place)
        except ImportError as error:  # torch, which is asked for here for the first time
            return None, error
        return ((getattr(ours, name),) if name in getattr(ours, "__all__", ()) else None), None

    def _params_of(self, legacy: Legacy) -> Any:
        return lambda method: self.table.params(f"{legacy.dotted}.{method}".rstrip("."), legacy.last)

    def _sayer(self, legacy: Legacy, rule: str) -> stubs.Say:
        def say(how: str) -> None:
            self.say(rule, legacy.dotted, f"`{legacy.dotted}` {how}. {legacy.headline}", legacy.since)

        return say

    def _wanted(self, module: str, name: str, how: How) -> bool:
        """Not where the line is ready to go on without the name, and the name would not be what it was.

        Who holds a module that only the shim has asks by `getattr` for what the module had.
        """
        if how in ("same", "outside") or (how == "adapter" and self.vllm is None):
            return True
        return not unwanted(name, by_probing=not (how == "adapter" and self.stands_in(module)))


def adapters() -> Mapping[str, str]:
    """Legacy module -> our module that adapts its calls; empty without that part."""
    try:
        legacy = importlib.import_module("v1_compat.legacy")
    except ModuleNotFoundError as error:
        if error.name != "v1_compat.legacy":
            raise
        return {}
    found: Mapping[str, str] = legacy.ADAPTERS
    return found


def _object(dotted: str) -> tuple[Any, BaseException | None]:
    """The object of a dotted name, or why it could not be had."""
    parts = dotted.split(".")
    missing: ImportError | None = None
    for i in range(len(parts), 0, -1):
        module = ".".join(parts[:i])
        try:
            found: Any = sys.modules.get(module) or importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
                missing = missing or error
                continue  # the rest of the name may be inside its parent
            return None, error
        except Exception as error:  # a vLLM that cannot be imported here
            return None, error
        try:
            for part in parts[i:]:
                found = found.__dict__[part] if _has(found, part) else getattr(found, part)
        except AttributeError as error:
            return None, error if i == len(parts) - 1 else missing
        return found, None
    return None, missing


def _has(found: Any, part: str) -> bool:
    return isinstance(found, ModuleType) and part in found.__dict__
