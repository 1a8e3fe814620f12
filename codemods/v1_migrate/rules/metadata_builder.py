"""An attention metadata builder written for another release than the target.

## What it does
Looks at classes that derive from a metadata builder of vLLM, and at calls of one. `build()` of 0.9.1, which got the
sizes of the batch one by one, is brought to the form that gets them in `common_attn_metadata`. A constructor that takes
the runner is reported with what took its place, each use of the runner with where the value comes from now.
(`prepare()` and `reorder_batch()`, which nothing calls any more, are the business of V1M111.)

## Why
The constructor changed with 0.10.0 (owner object to configuration) and 0.11.0 (`layer_names`), `build()` with 0.9.2 and
0.10.0, and `reorder_batch()` went with 0.11.1. vLLM makes the builder itself: nothing fails before the first batch.

## Example
```python
from vllm.v1.attention.backends.cpu_attn import TorchSDPAMetadataBuilderV1

class Builder(TorchSDPAMetadataBuilderV1):
    def build(self, num_reqs, num_actual_tokens, max_query_len, common_prefix_len, common_attn_metadata):
        return self.rows(num_reqs)
```
becomes, for vLLM 0.10.0,
```python
from vllm.v1.attention.backends.cpu_attn import TorchSDPAMetadataBuilderV1

class Builder(TorchSDPAMetadataBuilderV1):
    def build(self, common_prefix_len, common_attn_metadata, fast_build: bool = False):
        num_reqs = common_attn_metadata.num_reqs
        return self.rows(num_reqs)
```

## Safety
*v1* for `build()`, *bridge* for an added `fast_build`, *manual* for the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.arguments import definition_items, position_of
from ..engine.callees import callees_of
from ..engine.callshape import Given, fit, spelled
from ..engine.overrides import Override, is_a_base, made_as_a_base, overrides, own_positional, refusal
from ..engine.prologue import prologue
from ..findings import Edit, Effort, Finding, Safety, Severity
from .metadata_family import family_of
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_SIZES = ("num_reqs", "num_actual_tokens", "max_query_len")  # build() of 0.9.1 got them one by one
_RUNNER = {
    "block_size": "kv_cache_spec.block_size",
    "device": "the constructor's device",
    "dtype": "kv_cache_spec.dtype, vllm_config.model_config.dtype",
    "input_batch": "common_attn_metadata holds what the batch has",
    "max_model_len": "vllm_config.model_config.max_model_len",
    "max_num_reqs": "vllm_config.scheduler_config.max_num_seqs",
    "model_config": "vllm_config.model_config",
    "parallel_config": "vllm_config.parallel_config",
    "query_start_loc_cpu": "common_attn_metadata.query_start_loc_cpu",
    "scheduler_config": "vllm_config.scheduler_config",
    "seq_lens_np": "common_attn_metadata.seq_lens.cpu().numpy()",
    "vllm_config": "the constructor's vllm_config",
}
_HOW = (
    "vLLM makes one builder for each group of layers, builder(kv_cache_spec, vllm_config, device) in 0.10.x and "
    "builder(kv_cache_spec, layer_names, vllm_config, device) from 0.11.0 on, and calls "
    "build(common_prefix_len, common_attn_metadata, fast_build=False) for each batch. slot_mapping and "
    "block_table_tensor come in common_attn_metadata, sizes from vllm_config."
)


class MetadataBuilder(Rule):
    id = "V1M104"
    slug = "metadata-builder"
    summary = "attention metadata builder of another release"
    safety = Safety.V1
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        for override in overrides(file) if not file.for_release else ():
            if is_builder(override.base) and override.after is not None:
                if override.method.name == "__init__":
                    yield from self._constructor(file, override)
                elif override.method.name == "build":
                    yield from self._build(file, override)
        yield from self._calls(file)

    def _constructor(self, file: PythonFile, override: Override) -> Iterator[Finding]:
        assert override.after is not None
        if not refusal(override, override.after) or made_as_a_base(file, override) or is_a_base(file, override):
            return
        start, end = _name_span(file, override)
        message = f"vLLM {file.judge.target} makes this builder as `{override.owner.name}({spelled(override.after)})`"
        yield file.finding(
            self.id, start, end, message, Severity.ERROR, effort=Effort.HOURS, advice=_HOW, name=override.base
        )
        owners = {argument.arg for argument in own_positional(override.method, override.owner)} & {"runner"}
        for node in ast.walk(override.owner) if owners else ():
            if isinstance(node, ast.Attribute) and _is_runner(node.value):
                yield self._runner_use(file, override, node)

    def _runner_use(self, file: PythonFile, override: Override, node: ast.Attribute) -> Finding:
        start, end = file.span(node)
        source = _RUNNER.get(node.attr, "")
        advice = f"Take it from {source}." if source else _HOW
        message = f"the builder gets no runner on vLLM {file.judge.target}, whose `{node.attr}` it reads here"
        return file.finding(
            self.id, start, end, message, Severity.ERROR, advice=advice, name=override.base, primary=False
        )

    def _build(self, file: PythonFile, override: Override) -> Iterator[Finding]:
        assert override.after is not None
        refused = refusal(override, override.after)
        if not (refused.missing or refused.extra):
            return  # what stands behind the first two is passed by keyword
        start, end = _name_span(file, override)
        edits = self._repaired(file, override)
        called = f"`build` is called as `build({spelled(override.after)})` on vLLM {file.judge.target}"
        if edits and file.allowed(self.id, override.base):
            safety = Safety.V1 if refused.extra else Safety.BRIDGE
            yield file.finding(
                self.id, start, end, called, Severity.ERROR, safety=safety, name=override.base, edits=edits
            )
            return
        yield file.finding(
            self.id, start, end, f"{called}, which this override refuses", Severity.ERROR,
            effort=Effort.HOURS, advice=_HOW, name=override.base,
        )  # fmt: skip

    def _repaired(self, file: PythonFile, override: Override) -> tuple[Edit, ...]:
        """build(num_reqs, ..., common_prefix_len, common_attn_metadata) to today's form."""
        assert override.after is not None
        own = [argument.arg for argument in own_positional(override.method, override.owner)]
        sizes = [name for name in own if name in _SIZES]
        rest = [name for name in own if name not in _SIZES]
        wanted = [param.name for param in override.after]
        items = definition_items(file.source, override.method)
        arguments = override.method.args
        if sizes and file.tree.is_vllm:
            return ()  # a fork's own runner still passes them
        if items is None or rest != wanted[:2] or arguments.vararg or arguments.kwonlyargs or len(wanted) > 3:
            return ()
        used = {n.id for s in override.method.body for n in ast.walk(s) if isinstance(n, ast.Name)}
        head = prologue(file, override.method, [f"{name} = {rest[1]}.{name}" for name in sizes if name in used])
        if head is None:
            return ()
        by_name = {argument.arg: argument for argument in own_positional(override.method, override.owner)}
        for name in sizes:
            items.drop(position_of(items, by_name[name]))
        if "fast_build" in wanted:
            items.add("fast_build: bool = False", position_of(items, by_name[rest[1]]))
        return (*items.edits(), *head)

    def _calls(self, file: PythonFile) -> Iterator[Finding]:
        """Builders made by hand, and build() of one, where the target refuses the arguments."""
        callees = callees_of(file)
        for found in file.model.nodes.get(ast.Call, ()):
            callee = callees.of(found)
            if callee is None or not _of_builder(callee.old) or not fit(callee.params, Given.of(found.node)):
                continue
            start, end = file.span(found.node.func)
            name = callee.new.rpartition(".")[2]
            message = f"`{callee.new}` is called as `{name}({spelled(callee.params)})` on vLLM {file.judge.target}"
            yield file.finding(
                self.id, start, end, message, Severity.ERROR, effort=Effort.HOURS, advice=_HOW, name=callee.old
            )


def handled_elsewhere(dotted: str) -> bool:
    """A call of this name is the business of one of the metadata rules."""
    return family_of(dotted) is not None or _of_builder(dotted)


def _of_builder(dotted: str) -> bool:
    """A builder, or the method of one that V1 changed."""
    owner, _, method = dotted.rpartition(".")
    return is_builder(dotted) or (method in ("build", "__init__") and is_builder(owner))


def is_builder(dotted: str) -> bool:
    """An attention metadata builder of vLLM."""
    return "attention" in dotted and dotted.rpartition(".")[2].endswith(("MetadataBuilder", "MetadataBuilderV1"))


def _is_runner(node: ast.expr) -> bool:
    """`runner` or `self.runner`."""
    if isinstance(node, ast.Attribute):
        return node.attr == "runner" and isinstance(node.value, ast.Name) and node.value.id == "self"
    return isinstance(node, ast.Name) and node.id == "runner"


def _name_span(file: PythonFile, override: Override) -> tuple[int, int]:
    start = file.source.offset(override.method.lineno, override.method.col_offset)
    at = file.source.text.find(override.method.name, start)
    return start, at + len(override.method.name)
