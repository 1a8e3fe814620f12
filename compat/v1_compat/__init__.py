"""v1_compat: legacy vLLM V0 imports and calls go on working, each with a warning that names the rewrite.

    import v1_compat; v1_compat.install()        or        V1_COMPAT=warn python app.py

Importing this package imports neither torch nor vllm; nothing changes before `install()`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .mode import Mode, from_environment, parse

if TYPE_CHECKING:
    from .notices import LegacyContractError, LegacyMemberError, LegacyUseError, LegacyWarning
    from .shim import Shim

_NOTICES = ("LegacyContractError", "LegacyMemberError", "LegacyUseError", "LegacyWarning")
__all__ = [
    "LegacyContractError",
    "LegacyMemberError",
    "LegacyUseError",
    "LegacyWarning",
    "Mode",
    "install",
    "mode",
    "uninstall",
]

_lock = threading.RLock()
_shim: Shim | None = None
_activated = False


def install(mode: Mode | str | None = None) -> None:
    """Serve legacy names from now on, in this process and in its children.

    The mode is V1_COMPAT's if it is set, else `mode`, else "warn": so whoever runs a program can switch it, or switch
    it off, without an edit. Called again, only the mode changes; "off" then is `uninstall()`. Raises ValueError for a
    mode that does not exist.
    """
    global _shim
    wanted = parse(mode, "install(mode)") if isinstance(mode, str) and not isinstance(mode, Mode) else mode
    with _lock:
        if _shim is not None:
            if wanted is Mode.OFF:
                uninstall()
            elif wanted is not None:
                _shim.notices.mode = wanted
            return
        chosen = from_environment() or wanted or Mode.WARN
        if chosen is Mode.OFF:
            return
        from .shim import Shim

        shim = Shim(chosen)
        shim.start()
        _shim = shim


def uninstall() -> None:
    """Put everything back as it was; nothing if `install` was not called."""
    global _shim
    with _lock:
        if _shim is not None:
            _shim.stop()
            _shim = None


def mode() -> Mode:
    """What is done with legacy names at present."""
    shim = _shim
    return shim.mode if shim is not None else Mode.OFF


def current() -> Shim | None:
    """The installed shim, for the parts of this package."""
    return _shim


def activate() -> None:
    """What the .pth file calls in a process that starts with V1_COMPAT set. A bad value is said, not raised."""
    global _activated
    if _activated:  # site reads the folder under two names
        return
    _activated = True
    try:
        install()
    except ValueError as error:
        import sys

        print(f"v1_compat: {error}; legacy names are not served", file=sys.stderr)


def __getattr__(name: str) -> Any:
    if name in _NOTICES or name.startswith("RemovedIn"):
        from . import notices

        return getattr(notices, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
