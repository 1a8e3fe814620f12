"""CPU attention metadata built by hand for another release than the target.

## What it does
Rewrites calls of `TorchSDPAMetadata` (and `TorchSDPABackend.make_metadata`) for the fields that the class has on the
target, or in `v1_cpu` with `--attention v1_cpu`: positional arguments get the names they had in the releases the call
was written for, keywords of older releases get today's names, fields that asked for nothing go, and required fields
with only one sensible value are added. With every call of the class settled, its import moves, too.

## Why
The order of the fields changed in 0.10.0 although every name stayed, so that positional calls mean something else in
silence; two fields left in 0.11.0; from 0.11.1 on the class is another one.

## Example
```python
from vllm.attention.backends.torch_sdpa import TorchSDPAMetadata

md = TorchSDPAMetadata(
    num_prefills=1, num_prefill_tokens=8, num_decode_tokens=0, slot_mapping=slots,
    multi_modal_placeholder_index_maps=None, enable_kv_scales_calculation=False,
    prompt_lens=[8], is_prompt=True,
)
```
becomes, with `--attention v1_cpu`,
```python
from v1_cpu import TorchSDPAMetadata

md = TorchSDPAMetadata(
    num_prefills=1, num_prefill_tokens=8, num_decode_tokens=0, slot_mapping=slots,
    seq_lens=[8],
)
```

## Safety
*bridge* where arguments are only named, else *v1*. `CPUAttentionMetadata` (0.11.1 on) has no V0 fields and holds
scheduling data that only its builder can make: there the finding says how to describe the batch to the builder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..engine import guards
from ..engine.call_check import means_nothing
from ..engine.callees import Callee, callees_of, signature
from ..engine.callshape import Given, fit
from ..engine.rebuild import Rebuild, begin
from ..engine.references import Imported
from ..engine.release_tests import version_guard
from ..engine.scopes import Node
from ..engine.surgery import Surgery
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.index import Param
from .metadata_draft import draft
from .metadata_family import (
    CONSTANTS,
    FORMULAS,
    HOW_TO_BUILD,
    OTHER_SPELLINGS,
    REDUNDANT,
    V1_CPU_FIELDS,
    V1_CPU_METADATA,
    family_of,
)
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile

_MOVABLE_ROLES = frozenset({"annotation", "base", "call", "isinstance", "value", "export"})


@dataclass(frozen=True, slots=True)
class Destination:
    """The class that a metadata class becomes."""

    old: str
    new: str
    fields: tuple[Param, ...]
    moved: bool

    @property
    def keeps_v0_fields(self) -> bool:
        return any(param.name == "num_prefills" for param in self.fields)


class MetadataConstructor(Rule):
    id = "V1M101"
    slug = "metadata-constructor"
    summary = "attention metadata built for the fields of another release"
    safety = Safety.BRIDGE
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        failed: set[str] = set()
        for found in file.model.nodes.get(ast.Call, ()):
            call: ast.Call = found.node
            dotted, through = _metadata_class(file, call)
            if family_of(dotted) == "abstract":
                yield from self._abstract(file, found)
                continue
            destination = destination_of(file, dotted) if dotted else None
            if destination is None or version_guard(file, found.path, call):
                continue
            finding, settled = self._call(file, found, destination, through)
            if not settled:
                failed.add(dotted)
            if finding is not None:
                yield finding
        yield from self._untyped(file)
        yield from self._imports(file, failed)

    def _call(
        self, file: PythonFile, found: Node, destination: Destination, through: bool
    ) -> tuple[Finding | None, bool]:
        call: ast.Call = found.node
        callee = before(file, destination)
        if not destination.keeps_v0_fields and not _is_new_style(call):
            advice = f"{HOW_TO_BUILD} {draft(file, call, callee)}".strip()
            return self._say(file, call, destination, "has none of these fields", advice), False
        rebuild = begin(file, call, callee, destination.fields)
        if isinstance(rebuild, str):
            return self._say(file, call, destination, f"takes other fields; {rebuild}", _parameters(destination)), False
        adapt(rebuild, destination, file.settings.unsafe)
        if rebuild.problems:
            problems = "; ".join(rebuild.problems)
            return self._say(file, call, destination, problems, _parameters(destination)), False
        edits = rebuild.items.edits()
        if through:
            edits = (*_get_class(file, call, destination), *edits)
            rebuild.deeds.append("`make_metadata` is `get_metadata_cls()`")
        if not edits:
            return None, True
        if not file.allowed(self.id, destination.old):
            return self._say(file, call, destination, "; ".join(rebuild.deeds), ""), False
        named_only = rebuild.deeds == ["positional arguments get their names"]
        start, end = file.span(call.func)
        message = f"`{destination.new}` on {_where(file, destination)}: {'; '.join(rebuild.deeds)}"
        safety = Safety.BRIDGE if named_only else Safety.V1
        return (
            file.finding(
                self.id, start, end, message, Severity.ERROR, safety=safety, name=destination.old, edits=edits
            ),
            True,
        )

    def _say(self, file: PythonFile, call: ast.Call, destination: Destination, what: str, advice: str) -> Finding:
        start, end = file.span(call.func)
        message = f"`{destination.new}` on {_where(file, destination)}: {what}"
        return file.finding(
            self.id,
            start,
            end,
            message,
            Severity.ERROR,
            effort=Effort.HOURS,
            advice=advice,
            name=destination.old,
        )

    def _abstract(self, file: PythonFile, found: Node) -> Iterator[Finding]:
        """The base class itself, which has no fields from 0.11.0 on."""
        callee = callees_of(file).of(found)
        if callee is None or not fit(callee.params, Given.of(found.node)):
            return
        start, end = file.span(found.node.func)
        fields = ", ".join(param.name for param in callee.params) or "none"
        yield file.finding(
            self.id,
            start,
            end,
            f"`{callee.new}` does not take these fields on vLLM {file.judge.target}; its own: {fields}",
            Severity.ERROR,
            effort=Effort.HOURS,
            advice=HOW_TO_BUILD,
            name=callee.old,
        )

    def _untyped(self, file: PythonFile) -> Iterator[Finding]:
        """`self.attn_backend.make_metadata(...)`: whatever class that is, the target's backends have no such method."""
        owner = "vllm.attention.backends.abstract.AttentionBackend"
        verdict = file.judge.judge(f"{owner}.make_metadata")
        if not verdict.missing or not file.references.imports:
            return
        for found in file.model.nodes.get(ast.Call, ()):
            function = found.node.func
            if not isinstance(function, ast.Attribute) or function.attr != "make_metadata":
                continue
            name = (
                function.value.attr if isinstance(function.value, ast.Attribute) else getattr(function.value, "id", "")
            )
            if "backend" not in name.lower() or file.by_node.get(id(function)):
                continue
            start, end = file.span(function)
            yield file.finding(
                self.id,
                start,
                end,
                f"attention backends have no `make_metadata` on vLLM {file.judge.target}",
                Severity.ERROR,
                effort=Effort.HOURS,
                advice=f"V1 makes metadata in the backend's builder (get_builder_cls()). {HOW_TO_BUILD}",
                name=f"{owner}.make_metadata",
            )

    def _imports(self, file: PythonFile, failed: set[str]) -> Iterator[Finding]:
        """Imports of the class move once every call of it is settled."""
        for imported in file.references.imports:
            destination = destination_of(file, imported.dotted) if family_of(imported.dotted) == "cpu" else None
            if destination is None or not destination.moved or not destination.keeps_v0_fields:
                continue
            if destination.new.rpartition(".")[0] == file.module:
                continue  # a fork's own copy of the module that defines it
            verdict = file.judge.judge(imported.dotted)
            roles = {use.role for use in imported.uses if not use.use.attributes}
            if verdict.movable or imported.dotted in failed or not roles <= _MOVABLE_ROLES:
                continue
            edits = _import_edits(file, imported, destination)
            if not edits or not file.allowed(self.id, destination.old):
                continue
            start, end = file.span(imported.alias)
            message = f"`{imported.dotted}` is `{destination.new}` with the same fields, and every call here fits it"
            yield file.finding(
                self.id, start, end, message, Severity.ERROR, safety=Safety.V1, name=imported.dotted, edits=edits
            )


def destination_of(file: PythonFile, dotted: str) -> Destination | None:
    """What a CPU metadata class becomes on the target; None for other names, and where nothing is known."""
    if family_of(dotted) != "cpu":
        return None
    verdict = file.judge.judge(dotted)
    new = dotted if verdict.status == "present" else verdict.new
    if new == V1_CPU_METADATA:
        return Destination(dotted, new, tuple(Param(name, "pos_or_kw", True) for name in V1_CPU_FIELDS), True)
    params = signature(file.judge.index, new, file.judge.target, "name") if new.startswith("vllm.") else None
    return Destination(dotted, new, params, verdict.missing) if params is not None else None


def before(file: PythonFile, destination: Destination) -> Callee:
    """The class as the releases before the target had it."""
    return Callee(
        destination.old,
        destination.new,
        "name",
        destination.moved,
        True,
        destination.fields,
        file.judge.index,
        file.judge.target,
    )


def adapt(rebuild: Rebuild, destination: Destination, unsafe: bool = False, *, partial: bool = False) -> None:
    """Rename, drop and add keywords for the destination's fields. `partial`: nothing is required."""
    names = {param.name for param in destination.fields}
    if destination.keeps_v0_fields:
        _query_starts(rebuild, destination)
        for old, new in OTHER_SPELLINGS.items():
            if old in rebuild.positions and old not in names and new in names and new not in rebuild.positions:
                rebuild.rename(old, new)
        if not partial:
            _from_is_prompt(rebuild)
    for name in [name for name in rebuild.positions if name not in names]:
        if means_nothing(name, rebuild.values[name]) or (name == "isa" and unsafe):
            rebuild.drop(name, "it asked for nothing")
        elif name in REDUNDANT and {"num_prefills", "num_decode_tokens"} <= rebuild.values.keys():
            rebuild.drop(name, "other fields say the same")
        else:
            rebuild.problems.append(f"no field `{name}`" + (f" ({FORMULAS[name]})" if name in FORMULAS else ""))
    if partial:
        return
    for param in destination.fields:
        if not param.default and param.name not in rebuild.values:
            if param.name in CONSTANTS:
                rebuild.add(param.name, CONSTANTS[param.name])
            else:
                rebuild.problems.append(f"the required field `{param.name}` is not given")


def _query_starts(rebuild: Rebuild, destination: Destination) -> None:
    """0.8.5 gave the prefills' starts the name that 0.9.1 gave to those of all requests, which V0 left None."""
    of_v0 = not destination.old.startswith("vllm.v1.")
    given = "query_start_loc" in rebuild.positions and "prefill_query_start_loc" not in rebuild.positions
    if of_v0 and given and not means_nothing("query_start_loc", rebuild.values["query_start_loc"]):
        rebuild.rename("query_start_loc", "prefill_query_start_loc")


def _from_is_prompt(rebuild: Rebuild) -> None:
    """`is_prompt=True` of releases that counted nothing: the counts follow from the lengths."""
    flag = rebuild.values.get("is_prompt")
    counted = {"num_prefills", "num_prefill_tokens", "num_decode_tokens"} & rebuild.values.keys()
    if not isinstance(flag, ast.Constant) or not isinstance(flag.value, bool) or counted:
        return
    lengths = "seq_lens" if flag.value else "seq_lens_tensor"
    written = rebuild.simple(lengths) or _literal_list(rebuild, lengths)
    if not written:
        return
    rebuild.add("num_prefills", f"len({written})" if flag.value else "0")
    rebuild.add("num_prefill_tokens", f"sum({written})" if flag.value else "0")
    rebuild.add("num_decode_tokens", "0" if flag.value else f"len({written})")


def _literal_list(rebuild: Rebuild, name: str) -> str:
    node = rebuild.values.get(name) if name in rebuild.positions else None
    if isinstance(node, ast.List) and all(isinstance(element, ast.Constant | ast.Name) for element in node.elts):
        return rebuild.text(name)
    return ""


def _metadata_class(file: PythonFile, call: ast.Call) -> tuple[str, bool]:
    """(class, called through make_metadata) of a call that builds CPU attention metadata."""
    references = file.by_node.get(id(call.func), [])
    if len(references) != 1 or not references[0].certain:
        return "", False
    dotted = references[0].dotted
    if family_of(dotted) in ("cpu", "abstract"):
        return dotted, False
    owner, _, method = dotted.rpartition(".")
    if method == "make_metadata" and owner.endswith(".TorchSDPABackend"):
        new = file.judge.judge(owner).new or owner
        there = new.startswith("vllm.") and file.judge.index.resolve(f"{new}.{method}", file.judge.target).found
        return owner.removesuffix("Backend") + "Metadata", not there
    return "", False


def _is_new_style(call: ast.Call) -> bool:
    """The call is written for CPUAttentionMetadata."""
    return any(keyword.arg in ("num_actual_tokens", "block_table", "scheduler_metadata") for keyword in call.keywords)


def _get_class(file: PythonFile, call: ast.Call, destination: Destination) -> tuple[Edit, ...]:
    """`B.make_metadata(` to `B.get_metadata_cls()(`, which every release understands."""
    assert isinstance(call.func, ast.Attribute)
    _, end = file.span(call.func)
    start = end - len("make_metadata")
    if file.source.text[start:end] != "make_metadata":
        return ()
    return (Edit(start, end, "make_metadata", "get_metadata_cls()"),)


def _import_edits(file: PythonFile, imported: Imported, destination: Destination) -> tuple[Edit, ...]:
    if not isinstance(imported.statement, ast.ImportFrom):
        return ()
    alive = lambda dotted: file.judge.judge(dotted).status != "missing"  # noqa: E731
    if version_guard(file, imported.path, imported.statement):
        return ()
    if guards.has_living_twin(imported, file.package, alive):
        return ()
    body = getattr(imported.path[0], imported.path[1], None)
    siblings = body if isinstance(body, list) else []
    new = {id(imported.alias): destination.new}
    return Surgery(file.source).from_import(imported.statement, new, siblings, file.package)


def _where(file: PythonFile, destination: Destination) -> str:
    return "v1_cpu" if destination.new == V1_CPU_METADATA else f"vLLM {file.judge.target}"


def _parameters(destination: Destination) -> str:
    return (
        "Its fields: " + ", ".join(param.name + ("=..." if param.default else "") for param in destination.fields) + "."
    )
