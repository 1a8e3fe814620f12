"""Attributes that Python itself gives: to every module, to every class, to subclasses of standard-library bases."""

from __future__ import annotations

import builtins

MODULE_ATTRIBUTES = frozenset(
    """
    __name__ __doc__ __file__ __path__ __package__ __spec__ __loader__ __dict__ __all__
    __annotations__ __builtins__ __cached__ __class__
    """.split()
)
CLASS_ATTRIBUTES = frozenset(dir(type)) | frozenset(
    """
    __slots__ __dict__ __weakref__ __annotations__ __orig_bases__ __parameters__ __wrapped__
    __dataclass_fields__ __match_args__ __replace__ __post_init__ __signature__
    """.split()
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
