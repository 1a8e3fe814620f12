"""Huge pages under the cache that vLLM allocates: asked of torch, for the processes that vLLM starts.

Attention reads blocks from all over the cache, and with pages of 4 KB it waits for their addresses, too. torch asks the
system for pages of 2 MB under every large tensor where `THP_MEM_ALLOC_ENABLE=1`, which it reads at a process's first
allocation: too late for the process that loads the plugin, in time for the engine's own, which are spawned.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

ENV = "THP_MEM_ALLOC_ENABLE"
_SYSTEM = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPPINGS = Path("/proc/self/smaps")
_LARGE = 64 << 20  # bytes of a tensor that gets memory of its own


def ask() -> None:
    """Have torch ask for them in processes that are yet to be started; whoever has set the variable keeps its value."""
    os.environ.setdefault(ENV, "1")


def state(system: Path = _SYSTEM) -> str | None:
    """What to tell the user of this process's pages; None where asking changes nothing.

    `system` is the file in which Linux says who gets huge pages: all, those who ask (``[madvise]``), or nobody.
    """
    import torch

    if not system.exists() or not _MAPPINGS.exists() or "[madvise]" not in system.read_text():
        return None
    tensor = torch.empty(_LARGE, dtype=torch.int8)  # never touched
    if _asked(tensor.data_ptr() + _LARGE // 2):
        return "huge pages under the cache"
    return f"small pages under the cache: for huge ones, which are read faster, start Python with {ENV}=1"


def _asked(address: int) -> bool:
    """Whether the memory around an address has asked for huge pages: Linux marks its mapping "hg"."""
    inside = False
    for line in _MAPPINGS.read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= address < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()
    return False
