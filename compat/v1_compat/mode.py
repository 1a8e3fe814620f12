"""What the shim does when a legacy name is used: the four values of V1_COMPAT."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum

VARIABLE = "V1_COMPAT"


class Mode(StrEnum):
    """How a use of a legacy name is answered."""

    OFF = "off"  # not at all: as if the shim were not there
    WARN = "warn"  # it works, and warns once per place
    ERROR = "error"  # what would be a warning is raised
    REPORT = "report"  # it works in silence, and is written down


def parse(text: str, origin: str = VARIABLE) -> Mode:
    """The mode a text names. Raises ValueError."""
    try:
        return Mode(text.strip().lower())
    except ValueError:
        choices = ", ".join(Mode)
        raise ValueError(f"{origin}={text!r} is no mode of v1_compat; write one of {choices}") from None


def from_environment(environment: Mapping[str, str] = os.environ) -> Mode | None:
    """The mode that V1_COMPAT asks for; None when it is not set or empty. Raises ValueError."""
    text = environment.get(VARIABLE, "")
    return parse(text) if text.strip() else None
