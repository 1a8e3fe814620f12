"""Members of enumerations and fields of configurations that vLLM renamed or dropped, under the names V0 had for them.

Plugins of V0's time read and write these fields of vLLM's own configuration objects. What stands for a field is in the
table of `fields`; any other that an older release had is an AttributeError with the advice of the names table.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .fields import FIELDS, Field
from .mode import Mode
from .notices import LegacyMemberError
from .place import asked_by, unwanted

if TYPE_CHECKING:
    from .serve import Server

MODULE = "vllm.config"
RULE = "V1M102"  # the plan's: a member that went

MEMBERS: Mapping[str, Mapping[str, str]] = {
    "vllm.config.CompilationLevel": {
        "NO_COMPILATION": "NONE",
        "DYNAMO_AS_IS": "STOCK_TORCH_COMPILE",
        "DYNAMO_ONCE": "DYNAMO_TRACE_ONCE",
        "PIECEWISE": "VLLM_COMPILE",
    }
}
"""Enumeration -> old member -> the member of the successor that means the same."""


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Answer for the fields that the configuration classes of a module lost; returns the way back.

    They are asked for last and stand in no class: what lists the attributes of a configuration never meets them.
    """
    undo: list[Callable[[], None]] = []
    for name, fields in FIELDS.items():
        owner = module.__dict__.get(name)
        if not isinstance(owner, type) or owner.__module__ != module.__name__ or hasattr(owner, "__getattr__"):
            continue
        lost = _Lost(owner, name, fields, server)
        given: dict[str, Any] = {"__getattr__": _reader(lost), "__setattr__": _writer(owner, lost)}
        undo += [_put(owner, attribute, function) for attribute, function in given.items()]

    def back() -> None:
        while undo:
            undo.pop()()

    return back if undo else None


def _put(owner: type, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    before = owner.__dict__.get(name)
    setattr(owner, name, function)
    return lambda: delattr(owner, name) if before is None else setattr(owner, name, before)


class _Lost:
    """What a configuration class lost."""

    def __init__(self, owner: type, name: str, fields: Mapping[str, Field], server: Server) -> None:
        self.name, self.server = name, server
        self.own = (
            frozenset(field.name for field in dataclasses.fields(owner))
            if dataclasses.is_dataclass(owner)
            else frozenset()
        )
        self._fields = {old: field for old, field in fields.items() if self._went(owner, old, field)}

    def _went(self, owner: type, old: str, field: Field) -> bool:
        """The release has what stands for the field, and the field itself no longer."""
        here, root = old in self.own or hasattr(owner, old), field.root
        return not here and (not root or root in self.own or hasattr(owner, root))

    def served(self, attribute: str) -> Field | None:
        """The field, if something stands for it."""
        field = self._fields.get(attribute)
        return field if field is not None and field.served else None

    def dotted(self, attribute: str) -> str:
        """The name under which an older release had it."""
        field = self._fields.get(attribute)
        return f"{(field.old if field is not None else '') or f'{MODULE}.{self.name}'}.{attribute}"

    def refused(self, attribute: str) -> str:
        """That the field went, and what to do instead; "" for what no older release had."""
        if attribute.startswith("_"):
            return ""
        field, now = self._fields.get(attribute), f"`{self.name}.{attribute}` is gone"
        if field is not None:
            return f"{now}. {field.advice}"
        legacy = self.server.table.find(self.dotted(attribute))
        return f"{now} since vLLM {legacy.since}. {legacy.advice}".rstrip() if legacy is not None else ""

    def say(self, attribute: str, text: str) -> None:
        """A notice at the user's line."""
        self.server.say(RULE, self.dotted(attribute), text, "")

    def say_served(self, attribute: str, field: Field) -> None:
        """A notice of a use that is served."""
        if field.new:
            text = f"is `{field.new}` in this vLLM. Write {field.new}."
        else:
            text = f"is gone{f'; it reads as {field.value[0]!r}' if field.value else ''}. {field.advice}"
        self.say(attribute, f"`{self.name}.{attribute}` {text}")


def _reader(lost: _Lost) -> Callable[[Any, str], Any]:
    def __getattr__(self: Any, attribute: str) -> Any:
        theirs = attribute.startswith("__") or _has(type(self), attribute)
        if theirs or asked_by(lost.server.folder) or unwanted(attribute):
            return object.__getattribute__(self, attribute)  # fails as it has failed
        field = lost.served(attribute)
        if field is not None:
            lost.say_served(attribute, field)
            return field.get(self)
        text = lost.refused(attribute)
        if not text:
            return object.__getattribute__(self, attribute)
        if lost.server.notices.mode is Mode.REPORT:
            lost.say(attribute, text)
        words = f"{text} [{RULE}: v1-migrate explain {lost.dotted(attribute)}]"
        raise LegacyMemberError(words, name=attribute, obj=self)

    return __getattr__


def _writer(owner: type, lost: _Lost) -> Callable[[Any, str, Any], None]:
    write: Any = owner.__setattr__

    def __setattr__(self: Any, attribute: str, value: Any) -> None:
        if attribute in lost.own or _has(type(self), attribute) or asked_by(lost.server.folder):
            write(self, attribute, value)
            return
        field = lost.served(attribute)
        if field is not None and (field.new or field.write):
            lost.say_served(attribute, field)
            if field.write is not None:
                field.write(self, value)
            else:
                holder, _, name = field.new.rpartition(".")
                setattr(attrgetter(holder)(self) if holder else self, name, value)
            return
        text = f"`{lost.name}.{attribute}` is gone. {field.advice}" if field is not None else lost.refused(attribute)
        if text:
            lost.say(attribute, text.replace(" is gone", " is gone, vLLM does not read what is set", 1))
        write(self, attribute, value)

    return __setattr__


def _has(cls: type, name: str) -> bool:
    return inspect.getattr_static(cls, name, None) is not None
