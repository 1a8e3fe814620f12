"""Where the installed vLLM keeps its attention base classes, if there is a vLLM and it can be imported."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import os
from types import ModuleType

_HOMES = ("vllm.v1.attention.backend", "vllm.attention.backends.abstract")  # from 0.14, before


@functools.cache
def attention_home() -> ModuleType | None:
    """The module with vLLM's `AttentionBackend`, or None. Files are looked for, so that no import hook answers."""
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):  # a stand-in without a spec
        return None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for name in _HOMES:
            if os.path.exists(os.path.join(folder, *name.split(".")[1:]) + ".py"):
                return _imported(name)
    return None


def _imported(name: str) -> ModuleType | None:
    try:
        module = importlib.import_module(name)
    except Exception as error:  # a vLLM whose torch is another raises anything; the calls here do not need it
        logging.getLogger(__name__).warning("%s cannot be imported (%s); V0's own base classes stand in", name, error)
        return None
    return module if hasattr(module, "AttentionBackend") else None
