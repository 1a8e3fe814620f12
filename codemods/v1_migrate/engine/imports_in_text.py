"""Imports that a text holds: `from vllm.utils import X` in a string for `exec`, in `python -c`, in a here-document."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FROM = re.compile(
    r"\bfrom[ \t]+(?P<module>vllm(?:\.[A-Za-z_]\w*)*)[ \t]+import[ \t]+\(?[ \t]*"
    r"(?P<names>[A-Za-z_]\w*(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[A-Za-z_]\w*(?:[ \t]+as[ \t]+\w+)?)*)"
)
_NAME = re.compile(r"(?:\A|,)[ \t]*(?P<name>[A-Za-z_]\w*)")


def imports_in_text(text: str) -> Iterator[tuple[str, int, int]]:
    """The dotted names that are imported one by one, and where each stands."""
    for match in _FROM.finditer(text):
        for found in _NAME.finditer(match["names"]):
            start = match.start("names") + found.start("name")
            yield f"{match['module']}.{found['name']}", start, start + len(found["name"])
