"""A field or method of an object whose class lost it, or means something else by it.

## What it does
Follows objects as far as one file tells (annotated parameters and variables, `x = Class(...)`, attributes of self,
elements of `list[Class]`, what functions of the file return, an `isinstance` before the place) and through vLLM's own
annotations (`config.model_config`, what `LLM.generate` gives), and looks each attribute up on the target's class:
reads, writes, `dataclasses.replace`.
In a subclass it looks up what is read through `super()`, and the methods called on `self` and `cls` that no class of
the file has. What only changed its name, or can be computed from the object alone,
is rewritten; everything else is reported with the formula.

## Why
An import that was moved says nothing about `metadata.prefill_metadata.seq_lens_tensor` four hundred lines further down.

## Example
```python
from vllm.config import SchedulerConfig

def chunked(config: SchedulerConfig) -> bool:
    return config.chunked_prefill_enabled
```
becomes, for vLLM 0.32.0,
```python
from vllm.config import SchedulerConfig

def chunked(config: SchedulerConfig) -> bool:
    return config.enable_chunked_prefill
```

## Safety
*v1* for renames and expressions. The fields of `TorchSDPAMetadata` have no equals in `CPUAttentionMetadata`, which
describes prefills and decodes together: a finding says how each is derived. An annotated object may be of a subclass
of yours that keeps the field: such a finding is a warning. So is one about `A | B`, unless B has the field.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..engine.callees import callees_of, is_replace
from ..engine.chains import Named, asked_for_its_class, attribute_of, chain_nodes, name_span, owner_of, read_by_getattr
from ..engine.former import lost_member
from ..engine.guards import probed
from ..engine.held import a_subclass_has
from ..engine.inherited import inherited
from ..engine.instance import Instance
from ..engine.instances import Instances, instances_of
from ..engine.narrowed import narrowed
from ..engine.rebuild import begin
from ..engine.release_tests import version_guard
from ..engine.scopes import Node, Use
from ..findings import Edit, Effort, Finding, Safety, Severity
from ..names.index import Param, sort_key
from ..names.member_settings import member_setting, renamed_to
from .dropped_values import OLDER_THAN_INDEX
from .engine_internals import REACHED, reached_insides
from .metadata_common import adapt_common
from .metadata_constructor import adapt, destination_of
from .metadata_family import FORMULAS, SAME_NAME, family_of
from .rule import Phase, Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.verdicts import Judge

# Attributes of CommonAttentionMetadata that went, by what computes them from the object itself.
_COMMON_READS = {
    "num_computed_tokens_cpu": "compute_num_computed_tokens().cpu()",
    "seq_lens_cpu": "seq_lens.cpu()",
}
_SAME_OBJECT = ("prefill_metadata", "decode_metadata")  # of CPU metadata: the object itself, or None


class MetadataField(Rule):
    id = "V1M102"
    slug = "metadata-field"
    summary = "attribute that the object's class does not have on the target, or means something else by"
    safety = Safety.V1
    phase = Phase.CALLS

    def check(self, file: PythonFile) -> Iterator[Finding]:
        if file.legacy:
            return
        instances = instances_of(file)
        for use in file.model.uses:
            finding = self._use(file, use, instances) if use.attributes else None
            if finding is None or version_guard(file, use.path, use.node):
                continue
            if file.settings.selected("V1M008") and reached_insides(use, file):
                continue
            if not probed(use.path, use.attributes):
                yield finding
        yield from self._inherited(file)
        for found in file.model.nodes.get(ast.Call, ()):
            yield from self._replace(file, found, instances)
            yield from self._getattr(file, found, instances)

    def _inherited(self, file: PythonFile) -> Iterator[Finding]:
        spoken: set[tuple[str, str, bool]] = set()
        for found in inherited(file):
            use, name = found.use, found.node.attr
            if name in REACHED:
                continue  # V1M008 speaks of it
            if version_guard(file, use.path, use.node) or probed(use.path, (name,)):
                continue
            setting = member_setting("field", found.member.rpartition(".")[0], name)
            text = f"`{found.new}` has no `{name}` on vLLM {file.judge.target}"
            if not found.through_super:
                text += "; a subclass of yours may still have it"
            start, end = name_span(file, found.node)
            key = found.base, name, found.through_super
            yield file.finding(
                self.id, start, end, text, Severity.ERROR if found.through_super else Severity.WARNING,
                advice=setting.advice if setting is not None else file.judge.judge(found.member).advice,
                name=f"{found.base}.{name}", primary=key not in spoken,
            )  # fmt: skip
            spoken.add(key)

    def _use(self, file: PythonFile, use: Use, instances: Instances) -> Finding | None:
        instance, rest = owner_of(use, instances)
        if not rest:
            return None
        chain = chain_nodes(use)
        root = chain[0] if use.name == "self" else chain[0].value
        instance = narrowed(instance, instances, root, use.path, use.scope)
        if instance is None:
            return None
        for position, attribute in enumerate(rest):
            node = chain[len(chain) - len(rest) + position]
            if instance.others and (asked_for_its_class(use) or _another_has(file.judge, instance, attribute)):
                return None
            stored = position + 1 == len(rest) and isinstance(node.ctx, ast.Store)
            finding = (
                None
                if stored and _is_newer(file.judge, instance, attribute)
                else (self._attribute(file, instance, node))
            )
            if finding is not None:
                return finding
            if family_of(instance.dotted) != "cpu" or attribute not in _SAME_OBJECT:
                inner = instances.member(instance, attribute)
                if inner is None:
                    return None
                instance = inner
        return None

    def _getattr(self, file: PythonFile, found: Node, instances: Instances) -> Iterator[Finding]:
        literal = read_by_getattr(found.node)
        instance = instances.of_expression(found.node.args[0], found.scope) if literal is not None else None
        if literal is None or instance is None:
            return
        finding = self._attribute(file, instance, literal)
        guarded = version_guard(file, found.path, found.node) or probed(found.path, (attribute_of(literal),))
        if finding is not None and not guarded:
            yield finding

    def _attribute(self, file: PythonFile, instance: Instance, node: Named) -> Finding | None:
        judge, attribute = file.judge, attribute_of(node)
        owner = judge.judge(instance.dotted)
        new = instance.dotted if owner.status == "present" else owner.new
        if (
            not new.startswith("vllm.")
            or attribute.startswith("__")
            or (file.tree.is_vllm and owner.status == "present")
        ):
            return None
        there = judge.index.resolve(f"{new}.{attribute}", judge.target).found
        if there is None and judge.judge(f"{new}.{attribute}").missing:
            there = False
        family = family_of(instance.dotted)
        if (
            family == "cpu"
            and there
            and family_of(new) == "cpu"
            and instance.dotted.rpartition(".")[2] != new.rpartition(".")[2]
        ):
            return self._other_meaning(file, instance, node, new)
        if instance.held and a_subclass_has(judge, new, attribute):
            return None
        member = lost_member(judge, instance.dotted, new, attribute)
        if there is False and attribute in OLDER_THAN_INDEX.get(new.rpartition(".")[2], ()):
            member = f"{instance.dotted}.{attribute}"
        return self._gone(file, instance, member, node, new) if member else None

    def _other_meaning(self, file: PythonFile, instance: Instance, node: Named, new: str) -> Finding | None:
        attribute = attribute_of(node)
        if attribute not in SAME_NAME:
            return None
        start, end = name_span(file, node)
        return file.finding(
            self.id, start, end, f"`{attribute}` of `{new}` means something else on vLLM {file.judge.target}",
            Severity.WARNING, effort=Effort.HOURS, advice=f"There {SAME_NAME[attribute]}.", name=instance.dotted,
        )  # fmt: skip

    def _gone(self, file: PythonFile, instance: Instance, lost: str, node: Named, new: str) -> Finding:
        judge = file.judge
        start, end = name_span(file, node)
        attribute, member = attribute_of(node), judge.judge(lost)
        family = family_of(instance.dotted)
        replacement = self._replacement(file, instance, node, new)
        owner = lost.rpartition(".")[0]
        setting = member_setting("field", owner, attribute) or member_setting("keyword", new, attribute)
        advice = setting.advice if setting is not None else member.advice
        if family in ("cpu", "abstract") and attribute in FORMULAS:
            advice = f"On V1: {FORMULAS[attribute]}."
        edits: tuple[Edit, ...] = ()
        if replacement and not instance.others and file.allowed(self.id, instance.dotted):
            edits = (Edit(start, end, attribute, replacement),)
        old_name, new_name = instance.dotted.rpartition(".")[2], new.rpartition(".")[2]
        text = f"`{new}` has no `{attribute}` on vLLM {judge.target}"
        if old_name != new_name and family is None:
            text = f"`{instance.dotted}` is `{new}` on vLLM {judge.target}, which has no `{attribute}`"
        certain = (instance.built or bool(edits) or family != "abstract") and not instance.others
        if instance.others:
            text += "; the annotation allows another class, too"
        elif not certain:
            text += "; a subclass of yours may still have it"
        return file.finding(
            self.id,
            start,
            end,
            text,
            Severity.ERROR if certain else Severity.WARNING,
            safety=Safety.V1 if edits else Safety.MANUAL,
            effort=Effort.MINUTES,
            advice="" if edits else advice,
            name=instance.dotted,
            primary=judge.judge(instance.dotted).fate != "contract" or not _imported(file, instance.dotted),
            edits=edits,
        )

    def _replacement(self, file: PythonFile, instance: Instance, node: Named, new: str) -> str:
        """What to write instead of the attribute's name; "" where a person has to."""
        judge, attribute = file.judge, attribute_of(node)
        start, end = name_span(file, node)
        if file.source.text[start:end] != attribute:
            return ""
        member = judge.judge(f"{instance.dotted}.{attribute}")
        setting = member_setting("field", instance.dotted, attribute)
        new_name = renamed_to(setting, judge.target) if setting is not None else ""
        if new_name and judge.index.resolve(f"{new}.{new_name}", judge.target).found:
            return new_name
        owner, _, renamed = member.new.rpartition(".")
        if member.fate == "moved" and owner and _same(judge, owner, new):
            return renamed
        expression = _COMMON_READS.get(attribute, "") if family_of(instance.dotted) == "common" else ""
        first = expression.partition(".")[0].partition("(")[0]
        loads = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        if expression and loads and judge.index.resolve(f"{new}.{first}", judge.target).found:
            return expression
        return ""

    # dataclasses.replace

    def _replace(self, file: PythonFile, found: Node, instances: Instances) -> Iterator[Finding]:
        call: ast.Call = found.node
        if len(call.args) != 1 or not call.keywords or not is_replace(call, found):
            return
        instance = instances.of_expression(call.args[0], found.scope)
        family = family_of(instance.dotted) if instance is not None else None
        if instance is None or family not in ("cpu", "common"):
            return
        params = _fields(file, instance.dotted)
        rebuild = begin(file, call, None, params, skip=1)
        if isinstance(rebuild, str) or not params:
            return
        if family == "cpu":
            destination = destination_of(file, instance.dotted)
            if destination is not None:
                adapt(rebuild, destination, partial=True)
            problems = rebuild.problems
        else:
            problems = adapt_common(rebuild, params, partial=True)
        start, end = file.span(call.func)
        edits = rebuild.items.edits() if not problems and file.allowed(self.id, instance.dotted) else ()
        if problems or rebuild.deeds:
            yield file.finding(
                self.id, start, end, f"`replace` of a `{instance.dotted}`: {'; '.join(problems or rebuild.deeds)}",
                Severity.ERROR, safety=Safety.V1 if edits else Safety.MANUAL, effort=Effort.HOURS,
                name=instance.dotted, edits=edits,
            )  # fmt: skip


def _imported(file: PythonFile, dotted: str) -> bool:
    """The file names the class itself, so that a finding on the import speaks of it."""
    return any(imported.dotted == dotted for imported in file.references.imports)


def _is_newer(judge: Judge, instance: Instance, attribute: str) -> bool:
    """No release before the target had the member: what sets it there makes it."""
    dotted = f"{instance.dotted}.{attribute}"
    first = next((release for release in judge.index.releases if judge.index.resolve(dotted, release).found), "")
    return bool(first) and sort_key(first) > sort_key(judge.target)


def _another_has(judge: Judge, instance: Instance, attribute: str) -> bool:
    """Another class of vLLM's that the annotation allows has the attribute."""
    others = (judge.judge(name).new or name for name in instance.others if name)
    return any(judge.index.resolve(f"{other}.{attribute}", judge.target).found is not False for other in others)


def _same(judge: Judge, one: str, other: str) -> bool:
    """Two names of the target mean one class."""
    first, second = judge.index.resolve(one, judge.target), judge.index.resolve(other, judge.target)
    return bool(first.found) and first.canonical == second.canonical


def _fields(file: PythonFile, dotted: str) -> tuple[Param, ...]:
    """The constructor's parameters of what a metadata class becomes; empty where they cannot be told."""
    if family_of(dotted) == "cpu":
        destination = destination_of(file, dotted)
        return destination.fields if destination is not None else ()
    callee = callees_of(file).named(dotted, "name")
    return callee.params if callee is not None else ()
