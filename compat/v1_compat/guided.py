"""`GuidedDecodingParams.from_optional`: a maker that the class lost when it became `StructuredOutputsParams`.

The class is one object under both names, so that the maker is put there; to take it is not to use it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .makers import LostMaker

if TYPE_CHECKING:
    from .serve import Server

MODULE, OLD, NEW = "vllm.sampling_params", "GuidedDecodingParams", "StructuredOutputsParams"
MAKER = "from_optional"
_LAST = ("whitespace_pattern", "structural_tag")
_ASKS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")


def adapt(module: ModuleType, server: Server) -> Callable[[], None] | None:
    """Let the module's class make objects in V0's way; returns the way back."""
    cls: Any = module.__dict__.get(NEW)
    if module.__name__ != MODULE or cls is None or hasattr(cls, MAKER):
        return None

    def from_optional(json: Any = None, *args: Any, **kwargs: Any) -> Any:
        dotted = f"{MODULE}.{OLD}.{MAKER}"
        given = dict(zip(("regex", "choice", "grammar", "json_object", "backend", *_LAST), args, strict=False)) | kwargs
        server.say("V1M004", dotted, f"`{dotted}` is gone. Write `{NEW}(...)`, or None where nothing is asked for.", "")
        if isinstance(json, type) and hasattr(json, "model_json_schema"):
            json = json.model_json_schema()
        given = {"json": json, **given}
        return None if all(given.get(name) is None for name in _ASKS) else cls(**given)

    cls.from_optional = LostMaker(MAKER, from_optional, server.folder)

    def undo() -> None:
        del cls.from_optional

    return undo
