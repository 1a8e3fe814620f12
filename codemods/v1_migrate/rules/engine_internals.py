"""A chain into the engine's insides: `llm.llm_engine.model_executor.driver_worker.model_runner.model` and its like.

## What it does
Reports attribute chains that reach the executor, the driver worker or the model runner from outside, and attributes of
`llm_engine` that V1's engine does not have; in a file that imports from vllm, the scheduler of any `engine`, too. A
chain behind `hasattr` or in a `try` is information only. A worker that a class gives itself is its own, and what the
file says to be V1's engine core has what that class has.

## Why
V1 runs the model in another process. The objects on such a chain are not in yours: the attribute is missing, or, with
`VLLM_ENABLE_V1_MULTIPROCESSING=0`, there by accident.

## Example
```python
model = llm.llm_engine.model_executor.driver_worker.model_runner.model
model.load_weights(weights)
```
On V1, send the work to the workers instead:
```python
llm.collective_rpc("update_weights", args=(path,))  # a method of your own worker class or worker extension
llm.apply_model(lambda model: model.eval())  # with VLLM_ALLOW_INSECURE_SERIALIZATION=1
```
A method goes by its name. A function is pickled on its way to the engine's process, which vLLM refuses (a TypeError)
unless `VLLM_ALLOW_INSECURE_SERIALIZATION=1` is set; so is an argument that is neither plain data nor a tensor.

## Safety
*manual*. What to send across depends on what the code wants from the model.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from ..engine.chains import chain_nodes
from ..engine.guards import probed
from ..engine.instances import instances_of
from ..engine.scopes import class_around
from ..findings import Effort, Finding, Severity
from .rule import Rule

if TYPE_CHECKING:
    from ..engine.context import PythonFile
    from ..engine.scopes import Use

REACHED = frozenset({"driver_worker", "driver_model_runner"})  # whatever they are attributes of
_INSIDES = {"model_executor", *REACHED}
_ENGINES = {"llm_engine", "engine", "async_engine", "inference_engine"}
_OF_V0 = frozenset({"scheduler", "scheduler_contexts", "cached_scheduler_outputs"})  # whatever the engine is called
_LLM_ENGINE = "vllm.engine.llm_engine.LLMEngine"
TO_THE_WORKERS = (
    'Let the workers do it: `LLM.collective_rpc("method", args=...)` calls a method of the worker class or of your '
    "`worker_extension_cls`. `LLM.apply_model(function)` runs a function on the model in every worker, which needs "
    "VLLM_ALLOW_INSECURE_SERIALIZATION=1, since a function is pickled on its way."
)


class EngineInternals(Rule):
    id = "V1M008"
    slug = "engine-internals"
    summary = "reaches into the engine's insides, which live in another process on V1"

    def check(self, file: PythonFile) -> Iterator[Finding]:
        for use in file.model.uses:
            if len(use.attributes) < 1:
                continue
            reached = reached_insides(use, file)
            if reached:
                start, end = file.span(use.node)
                guarded = probed(use.path, use.attributes)
                yield file.finding(
                    self.id,
                    start,
                    end,
                    f"`{'.'.join(filter(None, (use.name, *use.attributes)))}` reaches {reached}",
                    Severity.INFO if guarded else Severity.ERROR,
                    effort=Effort.HOURS,
                    advice=_of_the_engine((use.name, *use.attributes), file) or TO_THE_WORKERS,
                )


def reached_insides(use: Use, file: PythonFile) -> str:
    """What of the engine's insides a chain reaches, in words; "" for none."""
    name, attributes = use.name, use.attributes
    if file.module.partition(".")[0] == "vllm" and file.tree.is_vllm:
        return ""  # vLLM's own code owns its insides
    if "vllm" not in file.source.text.lower():
        return ""  # other engines have executors and workers, too
    if name.startswith("vllm") and any(imported.local == name for imported in file.references.imports):
        return ""  # a module path, which other rules follow
    if name == "self" and _sets_it_itself(use, file):
        return ""
    for position, (before, attribute) in enumerate(zip((name, *attributes), attributes, strict=False)):
        if attribute in REACHED:
            return f"`{attribute}`, which is in another process on V1"
        if before in _ENGINES and _is_there(use, attribute, position, file):
            return ""
        if attribute == "model_executor" and before in _ENGINES:
            return "the engine's `model_executor`, which is in another process on V1"
        if before == "llm_engine" or (before in _ENGINES and attribute in _OF_V0 and file.references.imports):
            old = f"{_LLM_ENGINE}.{attribute}"
            if file.judge.known(old) and file.judge.judge(old).missing:
                return f"`{before}.{attribute}`, which V1's engine does not have"
    return ""


def _sets_it_itself(use: Use, file: PythonFile) -> bool:
    """`self.driver_worker` in a class that gives itself one: its own, in its own process."""
    owner = class_around(use.scope)
    if owner is None or use.attributes[0] not in REACHED:
        return False
    return any(
        other.name == "self"
        and other.attributes == use.attributes[:1]
        and isinstance(getattr(other.node, "ctx", None), ast.Store)
        and class_around(other.scope) is owner
        for other in file.model.uses
    )


def _is_there(use: Use, attribute: str, position: int, file: PythonFile) -> bool:
    """The engine is known to be V1's core, in whose process these things are, and its class has the attribute.

    `LLMEngine.model_executor` is there by accident: where the core runs in the same process.
    """
    node = chain_nodes(use)[position].value
    instance = instances_of(file).of_expression(node, use.scope)
    is_core = instance is not None and instance.dotted.startswith("vllm.v1.engine.core.")
    dotted = f"{instance.dotted}.{attribute}" if instance is not None else ""
    return is_core and bool(file.judge.index.resolve(dotted, file.judge.target).found)


def _of_the_engine(chain: tuple[str, ...], file: PythonFile) -> str:
    """What the table says of a member that the engine itself had; nothing where the chain goes on to the workers."""
    if not _INSIDES.isdisjoint(chain):
        return ""
    asked = [f"{_LLM_ENGINE}.{attribute}" for before, attribute in pairwise(chain) if before in _ENGINES]
    lost = (file.judge.judge(member) for member in asked if file.judge.known(member))
    return next((verdict.advice for verdict in lost if verdict.missing), "")
