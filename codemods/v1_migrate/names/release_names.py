"""One release of the index: looks dotted names up through modules, re-exports, classes and their bases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .builtin_names import CLASS_ATTRIBUTES, MODULE_ATTRIBUTES, attributes_of_base
from .hierarchy import Hierarchy, Place
from .store import DEFINITIONS, Store

_KINDS = {"f": "function", "F": "function", "c": "class", "v": "value", "m": "method", "M": "method", "k": "method"}
_KINDS |= {"s": "method", "p": "property", "a": "attribute", "A": "field", "i": "attribute"}
_GENERATED = ("_pb2", "_pb2_grpc")  # protobuf puts their names there when they are imported
_HOPS = 40  # re-exports followed before giving up on a cycle


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a dotted name is in one release."""

    dotted: str  # as asked
    found: bool | None  # None: cannot be known from source (C extension, value, base class outside vllm, ...)
    kind: str  # module class function method property field attribute value reexport:KIND; "" when missing
    canonical: str  # where it is defined, re-exports and inherited members followed
    missing_at: str  # found=False: the shortest missing prefix, else ""


class ReleaseNames:
    """The names of one release. Answers are kept."""

    def __init__(self, store: Store, bit: int) -> None:
        self._store, self._bit = store, bit
        self._resolved: dict[str, Resolution] = {}
        self.hierarchy = Hierarchy(self.record, self.class_place, self.names)

    def record(self, module: str, name: str) -> str | None:
        """The stored record of a name inside a module (see `extract`)."""
        return self._store.block(module).record(name, self._bit) if self.has_module(module) else None

    def names(self, module: str, scope: str = "") -> Iterator[str]:
        """Names at the top level of a module, or inside one of its classes."""
        return self._store.block(module).names(scope, self._bit)

    def has_module(self, module: str) -> bool:
        return bool(self._store.mask(module) & self._bit)

    def modules(self) -> Iterator[str]:
        return (name for name in self._store.modules() if self.has_module(name))

    def definitions(self, name: str) -> tuple[str, ...]:
        """Where modules define (not merely re-export) a class, function or constant of this name."""
        return tuple(
            f"{module}.{name}"
            for module in sorted(self._store.defined(name))
            if (self.record(module, name) or "=").lstrip("?!").startswith(DEFINITIONS)
        )

    def resolve(self, dotted: str) -> Resolution:
        known = self._resolved.get(dotted)
        if known is None:
            known = self._resolved[dotted] = self._resolve(dotted, _HOPS)
        return known

    def place(self, canonical: str) -> Place | None:
        """Splits "vllm.a.B.c" into its module and the name inside it."""
        module = canonical
        while module and not self.has_module(module):
            module = module.rpartition(".")[0]
        return (module, canonical[len(module) + 1 :]) if module and module != canonical else None

    def class_place(self, dotted: str) -> Place | None:
        """The place of the class that a name stands for."""
        found = self.resolve(dotted)
        if not found.found or found.kind.rpartition(":")[2] != "class":
            return None
        return self.place(found.canonical)

    def _resolve(self, dotted: str, hops: int) -> Resolution:
        parts = dotted.split(".")
        if parts[0] != "vllm" or not self.has_module("vllm") or not hops:
            return Resolution(dotted, None, "", dotted, "")
        module = "vllm"
        for i in range(1, len(parts)):
            inner = f"{module}.{parts[i]}"
            is_module = self.has_module(inner)
            record = self.record(module, parts[i])
            if record is not None and is_module:  # a submodule and an attribute of one name
                into = i + 1 < len(parts) and self._holds(inner, parts[i + 1])
                if into or record.lstrip("!?") == f"={inner}":
                    record = None
            if record is not None:
                return self._named(dotted, f"{module}.{parts[i]}", record, parts[i + 1 :], hops)
            if not is_module:
                return self._absent(dotted, module, parts[i], i + 1 == len(parts))
            module = inner
        return Resolution(dotted, True, "module", dotted, "")

    def _holds(self, module: str, name: str) -> bool:
        return self.record(module, name) is not None or self.has_module(f"{module}.{name}")

    def _absent(self, dotted: str, module: str, name: str, last: bool) -> Resolution:
        if name in MODULE_ATTRIBUTES:
            return Resolution(dotted, True if last else None, "value" if last else "", dotted, "")
        inner = f"{module}.{name}"
        generated = module.endswith(_GENERATED)
        if generated or self.record(module, "") is not None or self._store.phantoms.get(inner, 0) & self._bit:
            return Resolution(dotted, None, "", dotted, "")
        return Resolution(dotted, False, "", dotted, inner)

    def _named(self, dotted: str, place: str, record: str, rest: list[str], hops: int) -> Resolution:
        """`place` is bound to `record` at the top level of a module; `rest` is looked up inside it."""
        text = record.lstrip("!?")
        if text[0] == "=":
            return self._through(dotted, record, text[1:], rest, hops)
        if not rest:
            return Resolution(dotted, True, _KINDS[text[0]], place, "")
        if text[0] != "c":
            return Resolution(dotted, None, "", dotted, "")
        module, _, name = place.rpartition(".")
        return self._inside(dotted, (module, name), rest)

    def _through(self, dotted: str, record: str, target: str, rest: list[str], hops: int) -> Resolution:
        """Follows a re-export."""
        if target.partition(".")[0] != "vllm":
            outside = ".".join([target, *rest])
            return Resolution(dotted, None if rest else True, "" if rest else "reexport:external", outside, "")
        inner = self._resolve(".".join([target, *rest]), hops - 1)
        if not rest:
            kind = inner.kind.rpartition(":")[2] if inner.found else "unknown"
            return Resolution(dotted, True, f"reexport:{kind}", inner.canonical if inner.found else target, "")
        if inner.found is False:
            deeper = len(inner.dotted.split(".")) - len(inner.missing_at.split("."))
            if "?" in record[:2] or deeper >= len(rest):  # another arm may bind it, or the import itself fails
                return Resolution(dotted, None, "", dotted, "")
            missing = dotted.rsplit(".", deeper)[0] if deeper else dotted
            return Resolution(dotted, False, "", dotted, missing)
        return Resolution(dotted, inner.found, inner.kind, inner.canonical, "")

    def _inside(self, dotted: str, place: tuple[str, str], rest: list[str]) -> Resolution:
        """Looks attributes up in a class."""
        for i, attribute in enumerate(rest):
            last = i + 1 == len(rest)
            found = self.hierarchy.member(*place, attribute)
            if found is None:
                outside = [attributes_of_base(base) or () for base in self.hierarchy.lineage(*place).outside]
                if attribute in CLASS_ATTRIBUTES or any(attribute in names for names in outside):
                    return Resolution(dotted, True if last else None, "attribute" if last else "", dotted, "")
                special = attribute.startswith("__") and attribute.endswith("__")  # Python or a decorator may add it
                if special or self.hierarchy.lineage(*place).open:
                    return Resolution(dotted, None, "", dotted, "")
                missing = ".".join(dotted.split(".")[: len(dotted.split(".")) - (len(rest) - i - 1)])
                return Resolution(dotted, False, "", dotted, missing)
            place, record = found
            if last:
                return Resolution(dotted, True, _KINDS[record.lstrip("?!")[0]], ".".join(place), "")
            if record[:1] != "c":
                break
        return Resolution(dotted, None, "", dotted, "")
