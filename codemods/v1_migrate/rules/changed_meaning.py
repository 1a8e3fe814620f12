"""A member that kept its name, and holds something else on the target.

## What it does
Follows objects of vLLM's classes as far as one file tells, as V1M102 does, and looks at what is done with a member
whose value changed its type: an index into what was a list and is a tensor, a loop over what was a list and is a
dictionary, a member of an enumeration put into a text.

## Why
The name is there, and so is the operation: `[0]` takes a part of a tensor as readily as an element of a list. Nothing
fails, and an import that was moved says nothing about it.

## Example
```python
from vllm.model_executor.layers.attention.attention import Attention

def cache_of(layer: Attention):
    return layer.kv_cache[0]
```
is, from vLLM 0.19.0 on, the first part of the cache.

## Safety
*manual*. The line does not tell whether it was written for the older form or for today's. An index that only a tensor
takes (`[:, 0]`) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine.callshape import own_name
from ..engine.chains import asked_for_its_class, chain_nodes, owner_of
from ..engine.instances import instances_of
from ..engine.overrides import vllm_bases
from ..engine.references import Reference
from ..engine.release_tests import version_guard
from ..engine.scopes import Node, Use, class_around
from ..findings import Finding, Severity
from ..names.index import sort_key
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


@dataclass(frozen=True, slots=True)
class Meaning:
    """A member whose value is of another type from a release on, and what is done with it by who does not know."""

    owner: str  # the class, by its oldest name
    member: str
    since: str
    stale: Callable[[Use], bool]  # this is done with the older type
    now: str
    advice: str


def _an_element(use: Use) -> bool:
    """`x.member[0]`, `x.member[index]`; not with an index that a list does not take, nor a slice."""
    parent = use.path[0] if use.path is not None else None
    return isinstance(parent, ast.Subscript) and not isinstance(parent.slice, ast.Slice | ast.Tuple)


def _an_element_or_list(use: Use) -> bool:
    """The same, or `x.member = [value]`."""
    parent = use.path[0] if use.path is not None else None
    return _an_element(use) or (isinstance(parent, ast.Assign) and isinstance(parent.value, ast.List))


def _each(use: Use) -> bool:
    """`for x in y.member`, `y.member[0]`, `y.member.append(x)`."""
    parent, arm = (use.path[0], use.path[1]) if use.path is not None else (None, "")
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.slice, ast.Constant) and isinstance(parent.slice.value, int)
    return arm == "iter" and isinstance(parent, ast.For | ast.AsyncFor | ast.comprehension)


_MEANINGS = (
    Meaning(
        "vllm.attention.layer.Attention",
        "kv_cache",
        "0.19.0",
        _an_element_or_list,
        "is the cache itself, one tensor; until 0.18 it was a list with a cache for each virtual engine",
        "Take or assign the tensor itself, without the index; one that was meant for the tensor stays.",
    ),
    Meaning(
        "vllm.entrypoints.openai.serving_models.OpenAIServingModels",
        "lora_requests",
        "0.10.0",
        _each,
        "is a dictionary by name; until 0.9 it was a list",
        "Go through `.values()`.",
    ),
)
_ATTENTION_TYPE, _AN_ENUM_SINCE = "vllm.attention.AttentionType", "0.14.0"


class ChangedMeaning(Rule):
    id = "V1M116"
    slug = "changed-meaning"
    summary = "member that kept its name and holds something else"
    severity = Severity.WARNING
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy or file.tree.is_vllm:
            return
        for meaning in _MEANINGS:
            if _reached(file, meaning.since) and meaning.member in file.source.text:
                yield from self._members(file, meaning)
        if _reached(file, _AN_ENUM_SINCE):
            yield from self._texts(file)

    def _members(self, file: PythonFile, meaning: Meaning) -> Iterator[Finding]:
        for use in file.model.uses:
            if not use.attributes or use.attributes[-1] != meaning.member or not meaning.stale(use):
                continue
            guarded = version_guard(file, use.path, use.node) or asked_for_its_class(use)
            if not guarded and any(_is_a(file, dotted, meaning.owner) for dotted in _owners(file, use)):
                _, end = file.span(use.node)
                text = f"`{meaning.member}` of `{_there(file, meaning.owner)}` {meaning.now}"
                yield file.finding(
                    self.id, end - len(meaning.member), end, text, Severity.WARNING, advice=meaning.advice,
                    name=meaning.owner,
                )  # fmt: skip

    def _texts(self, file: PythonFile) -> Iterator[Finding]:
        for reference in file.references.uses:
            owner, _, member = reference.dotted.rpartition(".")
            if not owner.endswith("AttentionType") or not _into_text(reference):
                continue
            if _is_a(file, owner, _ATTENTION_TYPE) and not version_guard(file, reference.use.path, reference.node):
                start, end = file.span(reference.node)
                text = (
                    f"`AttentionType.{member}` is its own name in a text from vLLM {_AN_ENUM_SINCE} on, not its value"
                )
                advice = f"Write `AttentionType.{member}.value`, or compare instead: `==` with the text still holds."
                yield file.finding(self.id, start, end, text, Severity.WARNING, advice=advice, name=reference.dotted)


def _reached(file: PythonFile, since: str) -> bool:
    return sort_key(file.judge.target) >= sort_key(since)


def _owners(file: PythonFile, use: Use) -> Iterator[str]:
    """The classes of vLLM that the object before the last attribute is of."""
    instances = instances_of(file)
    instance, rest = owner_of(use, instances)
    for attribute in rest[:-1]:
        instance = instances.member(instance, attribute) if instance is not None else None
    if instance is not None and rest:
        yield instance.dotted
    around = class_around(use.scope) if use.name == "self" and len(chain_nodes(use)) == 1 else None
    for found in file.model.every(ast.ClassDef) if around is not None else ():
        if around is not None and found.node is around.node:
            yield from vllm_bases(file, Node(found.node, found.path, found.scope))


def _there(file: PythonFile, dotted: str) -> str:
    verdict = file.judge.judge(dotted)
    return dotted if verdict.status == "present" else verdict.new


def _is_a(file: PythonFile, dotted: str, owner: str) -> bool:
    """On the target, the class is that of `owner` or derives from it."""
    index, target = file.judge.index, file.judge.target
    wanted = index.resolve(_there(file, owner), target).canonical
    names = [index.resolve(_there(file, dotted), target).canonical]
    for name in names:  # grows while it is walked
        names += [base for base in index.bases(name, target) if base not in names]
    return bool(wanted) and wanted in (index.resolve(name, target).canonical for name in names if name)


def _into_text(reference: Reference) -> bool:
    """`f"{X}"`, `str(X)`, `"...".format(X)`, `"%s" % X`."""
    path = reference.use.path
    parent, arm = (path[0], path[1]) if path is not None else (None, "")
    if isinstance(parent, ast.FormattedValue):
        return parent.conversion != ord("r")
    if isinstance(parent, ast.Call):
        return arm == "args" and own_name(parent.func) in ("str", "format")
    if isinstance(parent, ast.BinOp):
        return isinstance(parent.op, ast.Mod) and arm == "right"
    return False
