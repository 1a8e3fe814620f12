"""The rules: one file each. A rule's docstring is its page; `all_rules` finds them by looking at this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from .rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by id."""
    rules: list[Rule] = []
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module(f"{__name__}.{module.name}")
        rules += [
            value()
            for value in vars(found).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == found.__name__ and value.id
        ]
    return tuple(sorted(rules, key=lambda rule: rule.id))


@cache
def slugs() -> Mapping[str, str]:
    """The slugs of all rules by their ids."""
    return {rule.id: rule.slug for rule in all_rules()}
