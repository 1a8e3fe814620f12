"""`metadata.prefill_metadata.prefill_metadata`: the second hop leads where the first one did.

## What it does
Removes a second `.prefill_metadata` (or `.decode_metadata`) behind a first one of CPU attention metadata, also where
the first hop was kept in a variable (`prefill = md.prefill_metadata`, `if prefill := md.prefill_metadata:`).

## Why
`TorchSDPAMetadata.prefill_metadata` is the object itself, or None when nothing is prefilled. Where it is None the
second hop fails, where it is not it changes nothing. Code that moves to V1 should not carry the hop along.

## Example
```python
from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata

def chunked(md: TorchSDPAMetadata) -> bool:
    return md.prefill_metadata.prefill_metadata.chunked_prefill
```
becomes
```python
from v1_cpu import TorchSDPAMetadata

def chunked(md: TorchSDPAMetadata) -> bool:
    return md.prefill_metadata.chunked_prefill
```

## Safety
*bridge*: true of every release that has the class. Metadata of other backends makes a new object at each hop and is
left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.chains import chain_nodes, owner_of
from ..engine.instance import Instance
from ..engine.instances import Instances, instances_of
from ..engine.scopes import Use
from ..findings import Edit, Finding, Safety, Severity
from .metadata_family import family_of
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_HOPS = ("prefill_metadata", "decode_metadata")


class MetadataHop(Rule):
    id = "V1M103"
    slug = "metadata-hop"
    summary = "redundant second hop to the same metadata object"
    severity = Severity.INFO
    safety = Safety.BRIDGE
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy or "_metadata" not in file.source.text:
            return
        instances = instances_of(file)
        for use in file.model.uses:
            if any(attribute in _HOPS for attribute in use.attributes):
                yield from self._use(file, use, instances)

    def _use(self, file: PythonFile, use: Use, instances: Instances) -> Iterator[Finding]:
        instance, rest = owner_of(use, instances)
        first = ""
        kept, hop = _kept_hop(use, instances) if use.name and use.name != "self" else (None, "")
        if kept is not None:
            instance, first, rest = kept, hop, use.attributes
        if instance is None or instance.others or family_of(instance.dotted) != "cpu":
            return
        if isinstance(use.node, ast.Attribute) and isinstance(use.node.ctx, ast.Store):
            return
        nodes = chain_nodes(use)[-len(rest) :] if rest else []
        for node in nodes:
            if node.attr not in _HOPS:
                return
            if node.attr == first:
                yield self._redundant(file, node)
            first = node.attr

    def _redundant(self, file: PythonFile, node: ast.Attribute) -> Finding:
        start = file.span(node.value)[1]
        end = file.span(node)[1]
        text = file.source.text[start:end]
        edits: tuple[Edit, ...] = ()
        if text == f".{node.attr}" and file.allowed(self.id, node.attr):
            edits = (Edit(start, end, text, ""),)
        return file.finding(
            self.id, start, end, f"the second `.{node.attr}` leads to the object that the first one did",
            Severity.INFO, safety=Safety.BRIDGE, advice="Leave it out.", name=node.attr, edits=edits,
        )  # fmt: skip


def _kept_hop(use: Use, instances: Instances) -> tuple[Instance | None, str]:
    """The object behind a variable that holds `md.prefill_metadata`, and which hop that was."""
    found = use.scope.lookup(use.name)
    if found is None or len(found[1]) != 1:
        return None, ""
    binding = found[1][0]
    value: ast.expr | None = None
    if isinstance(binding.node, ast.NamedExpr):
        value = binding.node.value
    elif binding.kind == "alias" and binding.value is not None:
        value = binding.value.node
    if not isinstance(value, ast.Attribute) or value.attr not in _HOPS:
        return None, ""
    return instances.of_expression(value.value, binding.scope), value.attr
