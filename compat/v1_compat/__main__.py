"""`python -m v1_compat script.py ...`, `... -m module ...` and `... -c CODE ...`: run a program with the shim."""

from __future__ import annotations

import os
import runpy
import sys
from types import ModuleType

from . import install
from .mode import VARIABLE

_CALL = "python -m v1_compat"
_OPTIONS = {"-m": "MODULE", "-c": "CODE"}
USAGE = f"""\
usage: python -m v1_compat [-m MODULE | -c CODE | SCRIPT] [ARGUMENTS]

Runs a program, and its child processes, with legacy vLLM names served. {VARIABLE}=off|warn|error|report says how;
the default is warn. With the variable set, `python SCRIPT` does the same where v1-migrate is installed.
"""


def main() -> int:
    """Runs the program in this process; what it raises is its own."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    option = arguments[0] if arguments[0] in _OPTIONS else ""
    if option and len(arguments) < 2:
        print(f"v1_compat: which {_OPTIONS[option].lower()}? {_CALL} {option} {_OPTIONS[option]}", file=sys.stderr)
        return 2
    if not option and arguments[0].startswith("-"):
        print(f"v1_compat: {arguments[0]}: options of Python go before -m v1_compat\n{USAGE}", end="", file=sys.stderr)
        return 2
    if not option and not os.path.exists(arguments[0]):
        print(f"v1_compat: {arguments[0]}: no such file; for a module: {_CALL} -m MODULE", file=sys.stderr)
        return 2
    try:
        install()
    except ValueError as error:
        print(f"v1_compat: {error}", file=sys.stderr)
        return 2
    if option == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        program = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(program))
    elif option:
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        script = os.path.abspath(arguments[0])
        sys.path[0] = script if os.path.isdir(script) else os.path.dirname(script)
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
