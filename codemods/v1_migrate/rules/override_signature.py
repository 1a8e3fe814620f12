"""A subclass of a vLLM class that overrides methods V1 does not call, or calls with other arguments.

## What it does
Compares each method of a class body with the base class of the releases before the target and with the target's: a
method that the target's base does not have is never called; a method whose parameters changed fails when it is.
A parameter that the target passes and that may be ignored is added; an optional parameter that left the middle of the
list goes behind the others; `get_attn_backend_cls` is brought to the target's form, with what its body reads of the old
parameters set at its top. Where an override takes what the target began to pass and never reads it, that is said.

## Why
A worker, model-runner or attention subclass keeps importing after its base moved. What it overrides is another matter,
and nothing says so until a request is served. A parameter left in the middle of an attention constructor is worse: vLLM
passes by position, and the soft cap arrives as `blocksparse_params`.

## Example
```python
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

class Runner(CPUModelRunner):
    def load_model(self) -> None: ...
```
becomes, for vLLM 0.32.0,
```python
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

class Runner(CPUModelRunner):
    def load_model(self, load_dummy_weights: bool = False) -> None: ...
```

## Safety
*bridge* for an added parameter with a default, *v1* where a parameter moves or goes. Everything else is *manual*: the
finding names the parameters of the target. An override that writes `*args, **kwargs` is never refused, nor is a
constructor that takes what the first class of its line takes (vLLM makes executors, implementations and builders by
that). What may come by keyword alone, and what fitted no release before, is a warning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.arguments import ItemList, definition_items, position_of
from ..engine.callees import BUILT_BY_VLLM
from ..engine.callshape import spelled
from ..engine.overrides import (
    Override,
    Refusal,
    is_a_base,
    is_own_protocol,
    made_as_a_base,
    overrides,
    own_positional,
    refusal,
    unread,
)
from ..engine.prologue import prologue
from ..engine.release_tests import version_guard
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.index import Param
from .metadata_builder import is_builder
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

Params = tuple[Param, ...]

# Parameters that an override may take and ignore, as they are written into its definition.
HARMLESS = {
    "attn_type": "attn_type=None",
    "cache_dtype_str": 'cache_dtype_str: str = "auto"',
    "dcp_world_size": "dcp_world_size: int = 1",
    "eep_scale_up": "eep_scale_up: bool = False",
    "fast_build": "fast_build: bool = False",
    "has_sink": "has_sink: bool = False",
    "include_num_layers_dimension": "include_num_layers_dimension: bool = False",
    "kv_cache_spec": "kv_cache_spec=None",
    "load_dummy_weights": "load_dummy_weights: bool = False",
    "num_heads": "num_heads: int | None = None",
    "output_block_scale": "output_block_scale=None",
    "output_scale": "output_scale=None",
    "use_sparse": "use_sparse: bool = False",
}
# What the target means by a parameter that it may pass.
_MEANING = {
    "eep_scale_up": "It is true where a worker joins a running engine (elastic expert parallelism).",
    "load_dummy_weights": (
        "With load_dummy_weights=True the real weights come from another worker later: the runner loads with "
        'load_format="dummy" then.'
    ),
    "output_block_scale": "With output_block_scale the output is to be quantised by blocks; refuse it if you cannot.",
    "output_scale": "With output_scale the output is to be quantised; refuse it (NotImplementedError) if you cannot.",
}
_ADVICE = {
    "execute_model": "V1's worker and runner take a SchedulerOutput and return a ModelRunnerOutput.",
    "forward": "From 0.11.1 on query, key and value are [tokens, heads, size]; the result goes into `output`.",
    "determine_num_available_blocks": "V1 asks for bytes: determine_available_memory().",
    "initialize_cache": "V1 calls initialize_from_config(kv_cache_config).",
    "reorder_batch": "V1 sorts decodes to the front where the builder's reorder_batch_threshold is set.",
    "swap_blocks": "V1 does not swap. Delete it.",
    "copy_blocks": "V1 copies no blocks through the backend. Delete it.",
    "get_state_cls": "Delete it; builders keep their own buffers.",
    "get_metadata_cls": "Delete it, unless you call it yourself: V1 asks for the builder only.",
    "prepare_worker_input": "V1's workers take the SchedulerOutput as it is.",
}


class OverrideSignature(Rule):
    id = "V1M111"
    slug = "override-signature"
    summary = "overrides a method that the target's base class lacks or calls with other arguments"
    safety = Safety.BRIDGE
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        paths = {id(found.node): found.path for found in file.model.every(ast.FunctionDef, ast.AsyncFunctionDef)}
        for override in overrides(file):
            method = override.method
            if not self._of_interest(override) or version_guard(file, paths.get(id(method)), method):
                continue
            if override.gone:
                yield self._never_called(file, override)
            elif override.after is not None:
                yield from self._compare(file, override, override.after)

    def _of_interest(self, override: Override) -> bool:
        name = override.method.name
        if is_builder(override.base) and name in ("__init__", "build"):
            return False  # V1M104 knows more about these
        if name == "__init__":
            return BUILT_BY_VLLM.search(override.base.rpartition(".")[2]) is not None
        return not (name.startswith("__") and name.endswith("__"))

    def _never_called(self, file: PythonFile, override: Override) -> Finding:
        target, name = file.judge.target, override.method.name
        message = f"`{name}` overrides a method that `{override.new}` does not have on vLLM {target}: nothing calls it"
        return self._say(file, override, message, Severity.WARNING)

    def _compare(self, file: PythonFile, override: Override, after: Params) -> Iterator[Finding]:
        if [p.name for p in override.before] == [p.name for p in after]:
            return
        refused = refusal(override, after)
        if not refused:
            yield from self._ignoring(file, override, after, ())
            return
        if override.method.name == "__init__" and (made_as_a_base(file, override) or is_a_base(file, override)):
            return
        edits, safety, deed = self._repair(file, override, after, refused)
        name, target = override.method.name, file.judge.target
        called = f"`{name}` is called as `{name}({spelled(after)})` on vLLM {target}"
        if edits and file.allowed(self.id, override.base):
            yield self._say(file, override, f"{called}: {deed}", Severity.ERROR, edits, safety)
            yield from self._ignoring(file, override, after, refused.missing)
            return
        earlier = refusal(override, override.before)
        own = is_own_protocol(earlier, refused)
        optional = {p.name for p in after if p.kind == "kw_only" and p.default}
        perhaps = not (refused.extra or refused.shifted) and optional.issuperset(refused.missing)
        if perhaps:
            listed = ", ".join(f"`{each}`" for each in refused.missing)
            called = f"`{name}` may be called with {listed} on vLLM {target}"
        what = (
            "which this override refuses"
            if not refused.shifted or refused.missing or refused.extra
            else ("by position, where this override has " + ", ".join(f"`{p}`" for p in refused.shifted))
        )
        message = f"{called}, {what}" + ("; it differs from the older releases, too" if own else "")
        yield self._say(file, override, message, Severity.WARNING if own or perhaps else Severity.ERROR)

    def _ignoring(
        self, file: PythonFile, override: Override, after: Params, added: tuple[str, ...]
    ) -> Iterator[Finding]:
        """What the target began to pass, and the override takes without a look at it; `added`: what an edit adds."""
        names = unread(override, after, added)
        if not names:
            return
        listed = ", ".join(f"`{name}`" for name in names)
        message = f"vLLM {file.judge.target} calls `{override.method.name}` with {listed}, which this override ignores"
        meaning = " ".join(_MEANING[name] for name in names if name in _MEANING)
        advice = f"Hand it on where the method calls super(), or do what it asks for. {meaning}".strip()
        yield self._say(file, override, message, Severity.INFO, advice=advice)

    def _repair(
        self, file: PythonFile, override: Override, after: Params, refused: Refusal
    ) -> tuple[tuple[Edit, ...], Safety, str]:
        items = definition_items(file.source, override.method)
        if items is None:
            return (), Safety.MANUAL, ""
        if override.method.name == "get_attn_backend_cls" and refused.extra:
            return _backend_cls(file, override, after, items), Safety.V1, "it takes these parameters now"
        if refused.shifted and file.tree.is_vllm:
            return (), Safety.MANUAL, ""  # a fork's own layers still pass it in the middle
        if refused.extra or not set(refused.missing) <= HARMLESS.keys():
            return (), Safety.MANUAL, ""
        edits = _aligned(override, after, refused, items)
        if not edits:
            return (), Safety.MANUAL, ""
        deeds = [f"`{name}` is added" for name in refused.missing]
        deeds += [f"`{name}` leaves the middle of the list" for name in refused.shifted]
        return edits, Safety.V1 if refused.shifted else Safety.BRIDGE, "; ".join(deeds)

    def _say(
        self, file: PythonFile, override: Override, message: str, severity: Severity,
        edits: tuple[Edit, ...] = (), safety: Safety = Safety.MANUAL, advice: str = "",
    ) -> Finding:  # fmt: skip
        start = file.source.offset(override.method.lineno, override.method.col_offset)
        name = file.source.text.find(override.method.name, start)
        end = name + len(override.method.name)
        if not advice:
            advice = _ADVICE.get(override.method.name, "") + f" Compare it with `{override.new}` of the target release."
            if override.after is not None:
                advice += " An override for several releases takes `*args, **kwargs`."
        return file.finding(
            self.id, start, end, message, severity, safety=safety, effort=Effort.HOURS,
            advice="" if edits else advice.strip(), name=override.new, edits=edits,
        )  # fmt: skip


def _aligned(override: Override, after: Params, refused: Refusal, items: ItemList) -> tuple[Edit, ...]:
    """Add what is missing where the target passes it, and move what stands in the way behind it."""
    own = own_positional(override.method, override.owner)
    wanted = [p.name for p in after if p.kind in ("pos", "pos_or_kw")]
    by_keyword = [name for name in refused.missing if name not in wanted]
    kept = [argument for argument in own if argument.arg not in refused.shifted]
    common = 0
    while common < min(len(kept), len(wanted)) and wanted[common] not in refused.missing:
        common += 1
    missing = [name for name in wanted if name in refused.missing]
    if wanted[common:][: len(missing)] != missing and missing:
        return ()
    if any(argument.arg in wanted for argument in kept[common:]) or (by_keyword and override.method.args.vararg):
        return ()
    anchor = kept[common - 1] if common else None
    at = position_of(items, anchor) if anchor is not None else position_of_self(override, items)
    for name in missing:
        items.add(HARMLESS[name], at)
    for name in by_keyword:
        items.add(HARMLESS[name], position_of(items, kept[-1]) if kept else at)
    for argument in own:
        if argument.arg in refused.shifted:
            position = position_of(items, argument)
            items.add(items.text(position), position_of(items, kept[-1]) if kept else at)
            items.drop(position)
    return items.edits()


def position_of_self(override: Override, items: ItemList) -> int:
    """The item of self or cls, -1 for a static method."""
    positional = [*override.method.args.posonlyargs, *override.method.args.args]
    own = own_positional(override.method, override.owner)
    return position_of(items, positional[0]) if len(positional) > len(own) else -1


def _backend_cls(file: PythonFile, override: Override, after: Params, items: ItemList) -> tuple[Edit, ...]:
    """`get_attn_backend_cls` with the target's parameters; what the body reads of the others is set at its top.

    Until 0.10.2 it got `use_v1`, which is true from then on; from 0.13.0 on, one object instead of the properties.
    """
    index, target = file.judge.index, file.judge.target
    own = own_positional(override.method, override.owner)
    wanted = [param.name for param in after]
    arguments = override.method.args
    if not own or own[0].arg != wanted[0] or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        return ()
    sources = {"use_v1": "True"}
    if "attn_selector_config" in wanted:
        for module in ("vllm.v1.attention.selector", "vllm.attention.selector"):
            fields = index.fields(f"{module}.AttentionSelectorConfig", target)
            sources |= {name: f"attn_selector_config.{name}" for name in fields}
    used = {node.id for statement in override.method.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    dropped = [argument for argument in own if argument.arg not in wanted]
    kept = [argument for argument in own if argument.arg in wanted]
    added = [name for name in wanted if name not in {argument.arg for argument in own}]
    in_order = [argument.arg for argument in kept] + added == wanted
    if not in_order or "super" in used or any(a.arg in used and a.arg not in sources for a in dropped):
        return ()
    head = prologue(file, override.method, [f"{a.arg} = {sources[a.arg]}" for a in dropped if a.arg in used])
    if head is None:
        return ()
    for argument in dropped:
        items.drop(position_of(items, argument))
    for name in added:
        items.add(HARMLESS.get(name, name), position_of(items, kept[-1]))
    return (*items.edits(), *head)
