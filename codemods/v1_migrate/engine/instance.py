"""An object of vLLM's: the class that it is of, as far as one file and vLLM's own annotations tell."""

from __future__ import annotations

from dataclasses import dataclass

from ..names.member_types import Typed


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of the class `dotted`; `built` when the file makes it, `held` when vLLM's own annotations say so.

    `others`: what else of a union it may be, vLLM's classes by name, "" for those of others.
    """

    dotted: str
    built: bool = False
    others: tuple[str, ...] = ()
    held: bool = False


def agreed(found: list[Instance | None]) -> Instance | None:
    """The class that all of these are of; None where they differ or one is unknown."""
    classes = {instance.dotted if instance else "" for instance in found}
    if len(classes) != 1 or not found or found[0] is None:
        return None
    sure = [instance for instance in found if instance is not None]
    others = tuple(dict.fromkeys(name for instance in sure for name in instance.others))
    built, held = all(instance.built for instance in sure), any(instance.held for instance in sure)
    return Instance(found[0].dotted, built, others, held)


def of_type(typed: Typed) -> Instance | None:
    """The object that vLLM's own annotations speak of, or one of what they hold."""
    first = next((name for name in typed.alternatives if name), "")
    others = tuple(name for name in typed.alternatives if name != first)
    return Instance(first, others=others, held=True) if first else None
