"""Attributes that Python itself gives: to every module, to every class, to subclasses of standard-library bases."""

from __future__ import annotations

import builtins

MODULE_ATTRIBUTES = frozenset(
    f"__{name}__"
    for name in (
        *("name", "doc", "file", "path", "package", "spec", "loader", "dict", "all"),
        *("annotations", "builtins", "cached", "class"),
    )
)
CLASS_ATTRIBUTES = (
    frozenset(dir(type))
    | {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
    | frozenset(
        f"__{name}__"
        for name in (
            *("slots", "dict", "weakref", "annotations", "orig_bases", "parameters", "wrapped"),
            *("dataclass_fields", "match_args", "replace", "post_init", "signature"),
        )
    )
)
_ENUM = frozenset(("name", "value", "_name_", "_value_", "_missing_", "_generate_next_value_", "__members__"))
_KNOWN: dict[str, frozenset[str]] = {
    "ABC": frozenset(),
    "Generic": frozenset(),
    "Protocol": frozenset(),
    "Enum": _ENUM,
    "Flag": _ENUM,
    "IntEnum": _ENUM | frozenset(dir(int)),
    "IntFlag": _ENUM | frozenset(dir(int)),
    "StrEnum": _ENUM | frozenset(dir(str)),
    "NamedTuple": frozenset(dir(tuple)) | {"_asdict", "_fields", "_field_defaults", "_make", "_replace"},
    "TypedDict": frozenset(dir(dict)),
    "Struct": frozenset(("__struct_fields__", "__struct_config__", "__struct_defaults__")),
}
_STANDARD = ("abc.", "typing.", "typing_extensions.", "enum.", "msgspec.", "collections.abc.")


def attributes_of_base(dotted: str) -> frozenset[str] | None:
    """What a base class outside vllm brings along; None when that is not known here."""
    module, _, name = dotted.rpartition(".")
    if module == "builtins":
        value = getattr(builtins, name, None)
        return frozenset(dir(value)) if isinstance(value, type) else None
    return _KNOWN.get(name) if dotted.startswith(_STANDARD) else None
