"""`rewrite --bridge`: names that no edit serves on both engines go to `v1_compat.bridge`, a mirror of vllm.

`v1_compat.bridge.X` is vLLM's X where there is one, and the compatibility shim's elsewhere. Without --bridge such a
name is read as vLLM's own, so that a later run finds what is still to be moved.
"""

from __future__ import annotations

PACKAGE = "v1_compat.bridge"


def bridged(dotted: str) -> str:
    """The place in the bridge of a name of vllm."""
    return PACKAGE + dotted.removeprefix("vllm")


def is_bridged(dotted: str) -> bool:
    return dotted == PACKAGE or dotted.startswith(f"{PACKAGE}.")


def unbridged(dotted: str) -> str:
    """The name of vllm that a place in the bridge stands for; other names as they are."""
    return "vllm" + dotted.removeprefix(PACKAGE) if is_bridged(dotted) else dotted
