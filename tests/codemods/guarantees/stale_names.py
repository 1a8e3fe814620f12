"""The names an old release has and the target lacks: what mutants plant."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass, replace
from functools import cache

from guarantees.namespace import Binding
from guarantees.release import Has, Release

SORTS = ("module", "name", "reexport", "member")
FAVOURED = tuple(
    f"vllm.{part}"
    for part in (
        "worker",
        "attention",
        "core",
        "engine",
        "executor",
        "spec_decode",
        "sequence",
        "inputs",
        "envs",
        "config",
    )
)


@dataclass(frozen=True, slots=True)
class Stale:
    """A name of the old release that the target does not have."""

    module: str
    name: str
    member: str = ""  # of the class `name`
    sibling: str = ""  # another public name of the same module
    sort: str = "name"  # what is gone: its module, the name, the re-export, the member
    is_class: bool = False

    @property
    def dotted(self) -> str:
        return ".".join(part for part in (self.module, self.name, self.member) if part)


class Catalogue:
    """Stale names of a pair of releases, drawn from some modules only: to read them all takes minutes."""

    def __init__(self, old: Release, target: Release, rng: random.Random, pool: int = 60) -> None:
        self.old, self.target = old, target
        modules = [name for name in old.modules() if old.module_kind(name) in {"module", "package"}]
        favoured = [name for name in modules if name.startswith(FAVOURED)] or modules
        self.modules = [*rng.sample(modules, min(pool, len(modules))), *rng.sample(favoured, min(pool, len(favoured)))]
        self.stale_of = cache(self._stale_of)

    def pick(self, rng: random.Random, tries: int = 3000) -> Stale:
        """One stale name of a random sort. Raises LookupError where the target lacks nothing that `old` has."""
        sort = rng.choice(SORTS)
        for attempt in range(tries):
            found = self.stale_of(rng.choice(self.modules))
            fitting = [stale for stale in found if stale.sort == sort or attempt > tries // 2]
            if fitting:
                return rng.choice(fitting)
        raise LookupError("the target has every name of the old release")

    def _stale_of(self, module: str) -> list[Stale]:
        space = self.old.namespace(module)
        public = sorted(name for name, made in space.bindings.items() if _is_public(name, made))
        gone = not self.target.module_kind(module)
        found = []
        for place, name in enumerate(public):
            sibling = public[place - 1] if len(public) > 1 else ""
            binding = space.bindings[name][0]
            full = f"{module}.{name}"
            if self.old.has(full) is not Has.YES:
                continue
            if self.target.has(full, True) is Has.NO:
                sort = "module" if gone else "reexport" if binding.kind == "import" else "name"
                found.append(Stale(module, name, "", sibling, sort, binding.kind == "class"))
            elif binding.node is not None:
                found += self._members(binding.node, Stale(module, name, "", sibling, "member", True))
        return found

    def _members(self, node: ast.ClassDef, owner: Stale) -> list[Stale]:
        methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
        return [
            replace(owner, member=method)
            for method in methods
            if not method.startswith("__") and self.target.has(f"{owner.dotted}.{method}", True) is Has.NO
        ]


def _is_public(name: str, made: list[Binding]) -> bool:
    first = made[0]
    ours = first.kind != "import" or (first.module.split(".")[0] == "vllm" and bool(first.target))
    return not name.startswith("_") and ours and not any(binding.typing_only for binding in made)
