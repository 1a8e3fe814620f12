"""Release labels: their order, and what a user may type for one."""

from __future__ import annotations

import re
from collections.abc import Iterable

_VERSION = re.compile(r"^v?(\d+(?:\.\d+)*)(?:\.?post(\d+))?(?:\+[\w.]+)?$", re.IGNORECASE)


class UnknownRelease(ValueError):
    """The index does not have this release; the message says which near ones it has."""


def sort_key(release: str) -> tuple[int, tuple[int, ...], int, str]:
    """Versions in their order (0.9.0.post2 < 0.9.0.1), other labels after them."""
    match = _VERSION.match(release)
    if match is None:
        return (1, (), 0, release)
    numbers = [int(n) for n in match[1].split(".")]
    while len(numbers) > 3 and numbers[-1] == 0:
        numbers.pop()
    numbers += [0] * (3 - len(numbers))
    return (0, tuple(numbers), int(match[2] or -1), "")


def only_v1(release: str) -> str:
    """What the release has of engines, in words: V0 left CPUs with 0.10.0, other devices with 0.11.0."""
    return "has only V1" if sort_key(release) >= sort_key("0.11.0") else "has only V1 on CPUs"


def normalise(text: str, known: Iterable[str]) -> str:
    """The known release that `text` names ("0.11", "v0.11.0", "0.11.0+cpu"). Raises UnknownRelease."""
    releases = list(known)
    wanted = text.strip()
    if wanted in releases:
        return wanted
    key = sort_key(wanted)
    if key[0] == 0:
        for release in releases:
            if sort_key(release) == key:
                return release
    raise UnknownRelease(f"unknown vLLM release {text!r}: {_near(wanted, key, releases)}")


def _near(wanted: str, key: tuple[int, tuple[int, ...], int, str], releases: list[str]) -> str:
    if not releases:
        return "the index is empty"
    versions = [r for r in releases if sort_key(r)[0] == 0]
    if key[0] == 1 or not versions:
        import difflib  # costs more than the rest of the module, and only an error needs it

        close = difflib.get_close_matches(wanted, releases, 3) or [releases[0], releases[-1]]
    else:
        before = [r for r in versions if sort_key(r) < key][-2:]
        after = [r for r in versions if sort_key(r) > key][:2]
        close = before + after
    span = f"{releases[0]} ... {releases[-1]}"
    return f"the index has {', '.join(close)} (in all {span}); add yours with `v1-migrate index add PATH`"
