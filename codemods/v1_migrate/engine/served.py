"""Does an edited call still mean the same on an older release that is to be served, too?"""

from __future__ import annotations

from ..names.index import Param
from ..rules.dropped_values import MEANT_ON_V0
from .call_check import Diagnosis, parameter_names
from .callees import is_v0, signature


def needed_on(found: Diagnosis, release: str) -> tuple[str, ...]:
    """Arguments that the edit of a call drops or names, and that the release needs as they stand.

    A release that does not have the callee, under its older name or the target's, needs nothing.
    """
    params = _on(found, release)
    if params is None:
        return ()
    required = {param.name for param in params if not param.default}
    dropped = [name for name in found.dropped if name in required or (is_v0(release) and _meant(found, name))]
    return (*dropped, *(name for name in found.named if name not in parameter_names(params)))


def _on(found: Diagnosis, release: str) -> tuple[Param, ...] | None:
    callee = found.callee
    names = (callee.old, callee.new, *(old for old, _ in callee.others))
    every = (signature(callee.index, name, release, callee.through) for name in names)
    return next((params for params in every if params is not None), None)


def _meant(found: Diagnosis, name: str) -> bool:
    value = found.given.value(name)
    return getattr(value, "value", None) in MEANT_ON_V0.get(name, ())
