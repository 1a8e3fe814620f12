"""The file format of the generated index: one compressed block per module, found through a directory.

    magic line | length of directory, 8 hex digits, newline | directory | blocks

The directory is zlib-compressed JSON; a block is zlib-compressed JSON with a shared preset dictionary. Only what is
looked up is decompressed. Sets of releases are bit masks over the directory's ordered list of releases.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

MAGIC = b"v1-migrate names 1\n"
SHARDS = 64  # of the reverse index: last name -> where it is defined
_WINDOW = 32_000  # a deflate preset dictionary is at most the window, 32 KiB
_LEAVES = ("vllm.model_executor.models.", "vllm.models.", "vllm.transformers_utils.")  # many, and rarely asked for
_LEAF_BYTES, _GROUP_BYTES = 80_000, 15_000  # smaller blocks open faster, larger ones pack better
DEFINITIONS = ("c", "f", "F", "v")  # first letters of records that are no re-export
_EVERYWHERE = frozenset(("logger", "envs"))  # names nobody looks for by where they are defined

Versions = dict[str, int]  # record -> mask of the releases that have it


def shard_of(name: str) -> int:
    return zlib.crc32(name.encode()) % SHARDS


class IndexFormatError(ValueError):
    """The file is no names index of this version."""


class Block:
    """The names of one module over all releases, by scope: "" is the module, "A" and "A.B" are classes."""

    __slots__ = ("_expanded", "_masks", "_scopes")

    def __init__(self, masks: list[int], scopes: dict[str, list[Any]]) -> None:
        self._masks, self._scopes = masks, scopes
        self._expanded: dict[str, dict[str, list[tuple[int, str]]]] = {}

    def scope(self, name: str) -> dict[str, list[tuple[int, str]]]:
        """name -> [(mask, record), ...] of what one module or class holds."""
        known = self._expanded.get(name)
        if known is None:
            known = self._expanded[name] = {}
            packed = self._scopes.get(name, ())
            for i in range(0, len(packed), 2):
                mask = self._masks[packed[i]]
                for record, members in packed[i + 1].items():
                    follow = record[-1:] == "."
                    for member in members.split(" "):
                        known.setdefault(member, []).append((mask, record + member if follow else record))
        return known

    def record(self, name: str, bit: int) -> str | None:
        """What `name` ("f", "A.f") is in the release of this bit; None when it is not there."""
        scope, _, last = name.rpartition(".")
        for mask, record in self.scope(scope).get(last, ()):
            if mask & bit:
                return record
        return None

    def scopes(self) -> Iterator[str]:
        return iter(self._scopes)

    def names(self, scope: str, bit: int) -> Iterator[str]:
        return (name for name, versions in self.scope(scope).items() if any(mask & bit for mask, _ in versions))


class Store:
    """Reads one index file. Opening it reads the directory alone."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as file:
            self._data = file.read()
        start = len(MAGIC) + 9
        try:
            size = int(self._data[len(MAGIC) : start], 16) if self._data.startswith(MAGIC) else 0
            directory = json.loads(zlib.decompress(self._data[start : start + size]))
        except (ValueError, zlib.error):
            raise IndexFormatError(
                f"{os.fspath(path)} is damaged or no names index of this version: remove it, and build it again "
                "(`v1-migrate index add PATH` for a tree you added)"
            ) from None
        self.releases: tuple[str, ...] = tuple(directory["releases"])
        self.phantoms: dict[str, int] = directory["phantoms"]
        self._masks: list[int] = directory["masks"]
        self._modules: dict[str, list[int]] = directory["modules"]  # name -> [group, mask number]
        self._groups: list[list[int]] = directory["groups"]  # [offset, length]
        self._shards: list[list[int]] = directory["shards"]
        self._start = start + size
        self._dictionary = self._data[self._start : self._start + directory["dictionary"]]
        self._blocks: dict[str, Block] = {}
        self._order: list[str] = []

    def modules(self) -> Iterator[str]:
        return iter(self._modules)

    def mask(self, module: str) -> int:
        """The releases that ship this module."""
        entry = self._modules.get(module)
        return self._masks[entry[1]] if entry is not None else 0

    def block(self, module: str) -> Block:
        known = self._blocks.get(module)
        if known is None:
            group = self._modules[module][0]
            for name, (masks, scopes) in self._load(self._groups, group).items():
                self._blocks[name] = Block(masks, scopes)
            known = self._blocks[module]
        return known

    def defined(self, name: str) -> list[str]:
        """The modules that define a top-level name in some release."""
        if not self._order:
            self._order = list(self._modules)
        return [self._order[i] for i in self._load(self._shards, shard_of(name)).get(name, ())]

    def _load(self, table: list[list[int]], number: int) -> Any:
        offset, length = table[number]
        start = self._start + offset
        engine = zlib.decompressobj(zdict=self._dictionary)
        return json.loads(engine.decompress(self._data[start : start + length]))


def write(
    path: str | os.PathLike[str],
    releases: list[str],
    modules: Mapping[str, tuple[int, Mapping[str, Versions]]],
    phantoms: Mapping[str, int],
) -> None:
    """Writes an index. `modules`: name -> (mask, {qualified name -> versions}). Same input, same bytes."""
    packed = {name: _packed(mask, names) for name, (mask, names) in sorted(modules.items())}
    groups, member_of = _grouped(packed)
    shards = [_dumps(shard) for shard in _shards(modules)]
    dictionary = _dictionary(packed)
    blob = bytearray(dictionary)
    masks = Counter(mask for mask, _ in modules.values())
    order = {mask: i for i, (mask, _) in enumerate(sorted(masks.items(), key=lambda m: (-m[1], m[0])))}

    def add(text: bytes) -> list[int]:
        engine = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, dictionary)
        compressed = engine.compress(text) + engine.flush()
        blob.extend(compressed)
        return [len(blob) - len(compressed), len(compressed)]

    directory = {
        "releases": releases,
        "phantoms": dict(sorted(phantoms.items())),
        "masks": list(order),
        "modules": {name: [member_of[name], order[modules[name][0]]] for name in packed},
        "groups": [add(text) for text in groups],
        "shards": [add(text) for text in shards],
        "dictionary": len(dictionary),
    }
    head = zlib.compress(_dumps(directory), 9)
    temporary = f"{os.fspath(path)}.new"
    with open(temporary, "wb") as file:
        file.write(MAGIC + b"%08x\n" % len(head) + head + blob)
    os.replace(temporary, path)


def _dumps(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _packed(mask: int, names: Mapping[str, Versions]) -> list[Any]:
    """[masks, {scope: [mask number, {record: "name name"}, ...]}]. A record that ends in "." goes on with the name."""
    scopes: dict[str, dict[int, dict[str, list[str]]]] = {}
    for name, versions in names.items():
        scope, _, last = name.rpartition(".")
        for record, having in versions.items():
            if record[0] in "!?=" and record.endswith(f".{last}") and last:
                record = record[: -len(last)]
            scopes.setdefault(scope, {}).setdefault(having, {}).setdefault(record, []).append(last)
    table = {mask: 0}
    result: dict[str, list[Any]] = {}
    for scope, by_mask in sorted(scopes.items()):
        entries: list[Any] = []
        result[scope] = entries
        for having, records in sorted(by_mask.items(), key=lambda m: (m[0] != mask, m[0] & -m[0], m[0])):
            entries.append(table.setdefault(having, len(table)))
            entries.append({record: " ".join(sorted(found)) for record, found in sorted(records.items())})
    return [list(table), result]


def _grouped(packed: Mapping[str, list[Any]]) -> tuple[list[bytes], dict[str, int]]:
    """Neighbouring modules share a block up to a size: they compress better together, and are asked for together."""
    groups: list[dict[str, list[Any]]] = [{}]
    member_of: dict[str, int] = {}
    size, folder = 0, ""
    for name, content in packed.items():
        length = len(_dumps(content))
        leaf = name.startswith(_LEAVES)
        if size + length > (_LEAF_BYTES if leaf else _GROUP_BYTES) or leaf != folder.startswith(_LEAVES):
            groups.append({})
            size = 0
        groups[-1][name] = content
        member_of[name] = len(groups) - 1
        size, folder = size + length, name
    return [_dumps(group) for group in groups], member_of


def _shards(modules: Mapping[str, tuple[int, Mapping[str, Versions]]]) -> list[dict[str, list[int]]]:
    """Definitions by last name: name -> numbers of modules, in the directory's order."""
    shards: list[dict[str, list[int]]] = [{} for _ in range(SHARDS)]
    for number, (_, (_, names)) in enumerate(sorted(modules.items())):
        for name, versions in names.items():
            defines = any(record.lstrip("?!")[:1] in DEFINITIONS for record in versions)
            if defines and name and "." not in name and name not in _EVERYWHERE and not name.startswith("__"):
                shards[shard_of(name)].setdefault(name, []).append(number)
    return [dict(sorted(shard.items())) for shard in shards]


def _dictionary(packed: Mapping[str, list[Any]]) -> bytes:
    """The pieces that most blocks share, the commonest last, where deflate reaches them cheapest."""
    counts: Counter[str] = Counter()
    for _, scopes in packed.values():
        counts.update({_dumps(pair)[1:-1].decode() for e in scopes.values() for r in e[1::2] for pair in _pairs(r)})
    worth = [(len(item) * (n - 1), item) for item, n in counts.items() if n > 2]
    chosen: list[str] = []
    size = 0
    for _, item in sorted(worth, reverse=True):
        size += len(item.encode()) + 1
        if size > _WINDOW:
            break
        chosen.append(item)
    return ",".join(reversed(chosen)).encode()


def _pairs(records: Mapping[str, str]) -> Iterator[dict[str, str]]:
    return ({record: names} for record, names in records.items())
