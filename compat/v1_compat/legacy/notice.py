"""How a legacy call says that V1 does something else than V0 did."""

from __future__ import annotations

import warnings


def say(rule_id: str, text: str, stacklevel: int = 1) -> None:
    """Warn under the id of the rule that explains the difference; `stacklevel` 1 is the caller of `say`."""
    warnings.warn(f"{rule_id}: {text}", FutureWarning, stacklevel=stacklevel + 1)
