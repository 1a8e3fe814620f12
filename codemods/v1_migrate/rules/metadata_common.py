"""CommonAttentionMetadata built by hand for another release than the target.

## What it does
Rewrites calls of `CommonAttentionMetadata` for the fields it has on the target: fields that only changed their name are
renamed, fields that V1 computes by itself go, and required fields that follow from others are added as an expression.

## Why
The class grew with every release: five fields in 0.9.2, ten in 0.10.0; the CPU copies became private in 0.13.0 and went
in 0.30.0. Tests and plugins that build it break one TypeError after another.

## Example
```python
from vllm.v1.attention.backends.utils import CommonAttentionMetadata

common = CommonAttentionMetadata(query_start_loc=starts, seq_lens=lens, seq_lens_cpu=lens_cpu,
                                 num_computed_tokens_cpu=done, query_start_loc_cpu=starts_cpu, num_reqs=2,
                                 num_actual_tokens=9, max_query_len=8,
                                 block_table_tensor=table, slot_mapping=slots)
```
becomes, for vLLM 0.32.0,
```python
from vllm.v1.attention.backend import CommonAttentionMetadata

common = CommonAttentionMetadata(query_start_loc=starts, seq_lens=lens, seq_lens_cpu_upper_bound=lens_cpu,
                                 query_start_loc_cpu=starts_cpu, num_reqs=2,
                                 num_actual_tokens=9, max_query_len=8,
                                 block_table_tensor=table, slot_mapping=slots, max_seq_len=int(lens.max()))
```

## Safety
*v1*: the result is for the target's fields. Where a field cannot be computed from the others (the block table and the
slots, before 0.10.0 handed over on the side), the finding says what it holds and nothing is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..engine.call_check import means_nothing
from ..engine.callees import Callee, callees_of
from ..engine.rebuild import Rebuild, begin
from ..engine.scopes import Node
from ..findings import Effort, Finding, Safety, Severity
from ..names.index import Param
from .metadata_family import COMMON_DERIVED, COMMON_FORMULAS, COMMON_RECOMPUTED, COMMON_SPELLINGS, family_of
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile


class MetadataCommon(Rule):
    id = "V1M105"
    slug = "common-attention-metadata"
    summary = "CommonAttentionMetadata built for the fields of another release"
    safety = Safety.V1
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        callees = callees_of(file)
        for found in file.model.nodes.get(ast.Call, ()):
            references = file.by_node.get(id(found.node.func), [])
            if len(references) == 1 and family_of(references[0].dotted) == "common":
                callee = callees.of(found)
                if callee is not None:
                    yield from self._call(file, found, callee)

    def _call(self, file: PythonFile, found: Node, callee: Callee) -> Iterator[Finding]:
        call: ast.Call = found.node
        start, end = file.span(call.func)
        where = f"`{callee.new}` on vLLM {file.judge.target}"
        rebuild = begin(file, call, callee, callee.params)
        problems = [rebuild] if isinstance(rebuild, str) else adapt_common(rebuild, callee.params)
        if isinstance(rebuild, str) and "not written out" in rebuild:
            return  # `**fields`: nobody can tell, and most such calls copy what the target made itself
        if isinstance(rebuild, str) or problems:
            advice = "Its fields: " + ", ".join(p.name + ("=..." if p.default else "") for p in callee.params) + "."
            yield file.finding(
                self.id, start, end, f"{where}: {'; '.join(problems)}", Severity.ERROR,
                effort=Effort.HOURS, advice=advice, name=callee.old,
            )  # fmt: skip
            return
        edits = rebuild.items.edits() if file.allowed(self.id, callee.old) else ()
        if rebuild.deeds:
            message = f"{where}: {'; '.join(rebuild.deeds)}"
            yield file.finding(
                self.id, start, end, message, Severity.ERROR, safety=Safety.V1, name=callee.old, edits=edits
            )


def adapt_common(rebuild: Rebuild, params: Sequence[Param], *, partial: bool = False) -> list[str]:
    """Rename, drop and add fields for the target; returns what cannot be settled. `partial`: nothing is required."""
    names = {param.name for param in params}
    problems = []
    for name in [name for name in rebuild.positions if name not in names]:
        new = next((other for other in COMMON_SPELLINGS.get(name, ()) if other in names), "")
        if new and new not in rebuild.positions:
            rebuild.rename(name, new)
        elif name in COMMON_RECOMPUTED:
            rebuild.drop(name, "compute_num_computed_tokens() derives it")
        elif means_nothing(name, rebuild.values[name]):
            rebuild.drop(name, "it asked for nothing")
        else:
            problems.append(f"no field `{name}`")
    if partial:
        return problems
    for param in params:
        if param.default or param.name in rebuild.values:
            continue
        needs, expression = COMMON_DERIVED.get(param.name, ((), ""))
        if expression and rebuild.derive(param.name, needs, expression):
            continue
        formula = COMMON_FORMULAS.get(param.name) or expression.format(**{need: need for need in needs})
        problems.append(f"the required field `{param.name}` is not given" + (f" ({formula})" if formula else ""))
    return problems
